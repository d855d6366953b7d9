"""Reads from objects of a bucket, ahead of consumers that read in order.

A consumer sends its next Fetch when it has the answer to the one before, and each read from a bucket takes some
milliseconds, whatever its size. So if a read of an object begins where an earlier read of it ended, threads of this
module read the object from there on in windows, before the consumer asks for them.

    memory   at most STREAMS consumers have windows, each of up to AHEAD_BYTES and one window more; a further consumer
             takes the place of the one whose last read was longest ago; one that does not read for IDLE_S loses them
    errors   a window that cannot be read is forgotten, and the read that needs its bytes reads them itself; `forget`
             removes the windows of an object whose bytes turned out to be wrong

Reads from a directory are passed on: the operating system reads ahead there.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future
from contextlib import suppress
from queue import SimpleQueue
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from kcli.tier.store import Store

WINDOW_BYTES: Final = 2 << 20
AHEAD_BYTES: Final = 4 << 20
STREAMS: Final = 8
THREADS: Final = 2
IDLE_S: Final = 10.0


class _Window(NamedTuple):
    """Bytes [start, stop) of an object, perhaps not read yet."""

    start: int
    stop: int
    data: Future[memoryview]


class _Stream:
    """An object that a client reads in order. start, stop: the last read. windows: in order, without gaps."""

    def __init__(self, name: str, start: int, stop: int) -> None:
        self.name, self.start, self.stop = name, start, stop
        self.windows: list[_Window] = []
        self.used_s = time.monotonic()


class ReadAhead:
    """Reads from one store, in any thread."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._streams: list[_Stream] = []  # the one that has read last at the end
        self._lock = threading.Lock()
        self._waiting: SimpleQueue[tuple[str, _Window] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []

    def read(self, name: str, start: int, stop: int, size: int) -> memoryview:
        """Return the bytes [start, stop) of an object, fewer at its end. size: the object's size by its metadata, up to
        which is read ahead. Raises what the store's `read` raises."""
        if not self._store.is_remote:
            return self._store.read(name, start, stop)
        with self._lock:
            windows = self._windows(name, start, stop, size)
        return self._joined(name, start, stop, windows)

    def forget(self, name: str) -> None:
        """Remove all windows of an object."""
        with self._lock:
            for stream in [each for each in self._streams if each.name == name]:
                self._drop(stream)

    def close(self) -> None:
        """End the threads as soon as they have nothing to do. A read that hangs ends with the process."""
        with self._lock:
            self._streams.clear()
            for _ in self._threads:
                self._waiting.put(None)

    def _windows(self, name: str, start: int, stop: int, size: int) -> list[_Window]:
        """Return the windows of the object `name` that overlap bytes [start, stop), some of which are still being read,
        and queue the windows that follow for the threads. Return none for a read that continues no earlier read of the
        object."""
        now = time.monotonic()
        for idle in [each for each in self._streams if now - each.used_s > IDLE_S]:
            self._drop(idle)
        stream = next((each for each in self._streams if each.name == name and each.start <= start <= each.stop), None)
        if stream is None:
            self._streams.append(_Stream(name, start, stop))
            if len(self._streams) > STREAMS:
                self._drop(self._streams[0])
            return []
        self._streams.remove(stream)
        self._streams.append(stream)
        stream.start, stream.stop, stream.used_s = start, stop, now
        stream.windows = [each for each in stream.windows if each.stop > start]
        begin = stream.windows[-1].stop if stream.windows else start
        while begin < min(stop + AHEAD_BYTES, size):
            window = _Window(begin, min(begin + WINDOW_BYTES, size), Future())
            stream.windows.append(window)
            self._begin(name, window)
            begin = window.stop
        return [each for each in stream.windows if each.start < stop]

    def _joined(self, name: str, start: int, stop: int, windows: list[_Window]) -> memoryview:
        """Return the bytes [start, stop), those that no window has from the store."""
        pieces: list[memoryview] = []
        for window in windows:
            data = self._data(name, window)
            if data is None:
                break
            pieces.append(data[start - window.start : stop - window.start])
            start += len(pieces[-1])
            if len(data) < window.stop - window.start:
                return _one(pieces)  # the object ends here
        if start < stop:
            pieces.append(self._store.read(name, start, stop))
        return _one(pieces)

    def _data(self, name: str, window: _Window) -> memoryview | None:
        """Return the bytes of a window, None if they could not be read."""
        with suppress(Exception):  # the read that follows meets the error again, if it lasts
            return window.data.result()
        self.forget(name)
        return None

    def _drop(self, stream: _Stream) -> None:
        self._streams.remove(stream)
        for window in stream.windows:
            window.data.cancel()

    def _begin(self, name: str, window: _Window) -> None:
        if len(self._threads) < THREADS:
            number = len(self._threads) + 1
            self._threads.append(threading.Thread(target=self._work, name=f"remote-log-ahead-{number}", daemon=True))
            self._threads[-1].start()
        self._waiting.put((name, window))

    def _work(self) -> None:
        while (task := self._waiting.get()) is not None:
            name, window = task
            if window.data.set_running_or_notify_cancel():
                try:
                    window.data.set_result(self._store.read(name, window.start, window.stop))
                except BaseException as error:  # noqa: BLE001  (it is raised where the bytes are needed)
                    window.data.set_exception(error)
            del task, window  # the memory of a read must not stay until the next one


def _one(pieces: list[memoryview]) -> memoryview:
    """Return the pieces as one, without a copy of a single one."""
    return pieces[0] if len(pieces) == 1 else memoryview(b"".join(pieces))
