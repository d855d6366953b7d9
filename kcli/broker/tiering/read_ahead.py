"""Reads from objects of a bucket, ahead of consumers that read in order.

A consumer sends its next Fetch after the response to the one before, and each read from a bucket takes some
milliseconds, whatever its size. So if a read of an object continues an earlier read of that object, threads read the
bytes that follow, in windows, before the consumer asks for them.

    memory   at most STREAMS consumers have windows, each of up to AHEAD_BYTES and one window more. A further consumer
             takes the place of the one whose last read was longest ago; the windows of a consumer that has not read for
             IDLE_S are dropped
    errors   if a window cannot be read, all windows of the object are dropped, and the consumer's read goes to the
             store; `forget` drops the windows of an object whose bytes turned out to be wrong

Reads from a directory go to the store unchanged, as the operating system reads ahead there.
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
    """The bytes [start, stop) of an object. data: done once they are read."""

    start: int
    stop: int
    data: Future[memoryview]


class _Stream:
    """An object that a consumer reads in order. start, stop: the bytes of its last read. windows: in order, without
    gaps. used_s: the time of the last read, by the monotonic clock."""

    def __init__(self, name: str, start: int, stop: int) -> None:
        self.name, self.start, self.stop = name, start, stop
        self.windows: list[_Window] = []
        self.used_s = time.monotonic()


class ReadAhead:
    """Reads the objects of one store, and reads ahead; used in any thread."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._streams: list[_Stream] = []  # in the order of their last reads
        self._lock = threading.Lock()
        self._waiting: SimpleQueue[tuple[str, _Window] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []

    def read(self, name: str, start: int, stop: int, size: int) -> memoryview:
        """Return the bytes [start, stop) of an object, fewer if it ends before. size: the object's size by its
        metadata, beyond which nothing is read ahead. Raises what the store's `read` raises."""
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
        and queue the windows that follow for the threads. Return no windows for a read that does not continue an
        earlier read of the object."""
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
        """Return the bytes [start, stop): those in the windows, and the rest from the store."""
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
        """Wait for the bytes of a window, and return them; None, without the object's windows, if they could not be
        read."""
        with suppress(Exception):  # the read from the store that follows raises a lasting error
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
            del task, window  # do not keep the bytes of a read until the next window


def _one(pieces: list[memoryview]) -> memoryview:
    """Return the pieces joined to one; a single piece is not copied."""
    return pieces[0] if len(pieces) == 1 else memoryview(b"".join(pieces))
