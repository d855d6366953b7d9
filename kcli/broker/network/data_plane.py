"""Data-plane threads: each answers the plain Produce requests of the connections that the event loop has lent to it.

A connection whose requests have all been plain for a while is lent to a thread (`DataPlane.lend`). The thread waits for
its socket, receives, appends, and answers in compiled code (ProduceLanes.serve), which lets other threads run while it
checks and writes batches. As soon as the client sends anything else, the socket does not take a response, or a write
fails, the thread gives the connection back to the event loop, with the bytes that are not answered. The event loop
takes a connection back before it closes it (`recall`).

A thread touches nothing of the event loop's but what ProduceLanes and `LogState.hold` guard: what a partition has to be
told is told by the event loop (`Lane.tell`), in the order of the appends and before the connection comes back.

There are as many threads as num.network.threads says, but two less than this process has processors at most: the event
loop keeps one of them busy, and what the threads gain is lost where they have to share the last one with the clients.
"""

from __future__ import annotations

import os
import select
from collections.abc import Callable
from threading import Lock, Thread
from time import monotonic, monotonic_ns
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from formats.kernels.wire import room
from kcli.broker.process.unattended import report

if TYPE_CHECKING:
    import asyncio

    from formats.kernels.produce import Lane, ProduceLanes
    from kcli.broker.config import BrokerConfig
    from kcli.broker.network.connection import Connection
    from kcli.broker.network.server import Requests

HAS_EPOLL: Final = hasattr(select, "epoll")
SIZE_BYTES: Final = 4
SCRATCH_BYTES: Final = 2 << 20
"""The size, in bytes, of a thread's buffer. A connection with a longer request goes back to the event loop, which
counts the bytes of requests that are not whole."""
KEPT_PROCESSORS: Final = 2
"""How many processors no thread is made for."""
TURN_NS: Final = 2_000_000
"""How long, in ns, a thread receives from one connection while others wait."""
UNLIMITED_NS: Final = 1 << 62
"""All requests that are received at once are answered at once."""


class Returned(NamedTuple):
    """What a thread gives back with a connection. rest: the received bytes that are not answered. unsent: the bytes of
    responses that the socket has not taken. is_ended: whether the client has closed its end. error: that of the socket,
    or the reason for closing the connection; None if there is none."""

    rest: bytearray
    unsent: bytes = b""
    is_ended: bool = False
    error: Exception | None = None


class _Lent:
    """A connection that a thread has. kept: the first bytes of a request, the rest of which has not arrived."""

    __slots__ = ("connection", "fd", "kept")

    def __init__(self, connection: Connection, fd: int) -> None:
        self.connection, self.fd = connection, fd
        self.kept = bytearray()


class DataPlane:
    """The threads of one server. Its methods are called by the event loop's thread."""

    def __init__(self, config: BrokerConfig, loop: asyncio.AbstractEventLoop, requests: Requests) -> None:
        self._config, self._loop, self._requests = config, loop, requests
        self._threads: list[_Worker] = []
        self._lent: dict[Connection, _Worker] = {}

    def threads_max(self, listener: str) -> int:
        """Return how many threads there may be for the listener's connections; 0 if none is to be lent.
        queued.max.request.bytes is counted by the event loop alone."""
        if not HAS_EPOLL or self._config.queued_max_request_bytes > 0:
            return 0
        return min(self._config.network_threads_of(listener), processors() - KEPT_PROCESSORS)

    def lend(self, connection: Connection, fd: int) -> bool:
        """Let a thread answer the client's requests, until it gives the connection back (`Connection.returned`). The
        event loop must not read from the socket meanwhile. Return False, and do nothing, if there are no threads."""
        count = self.threads_max(connection.listener)
        if count < 1:
            return False
        if len(self._threads) < count:
            self._threads.append(_Worker(self._config, self._loop, self._requests, self._came_back))
        worker = min(self._threads[:count], key=lambda each: each.load)
        self._lent[connection] = worker
        worker.take(connection, fd)
        return True

    def recall(self, connection: Connection) -> Returned | None:
        """Take a connection back at once, once its thread has answered the requests that it is answering. Return None
        if the thread has no such connection (any more): then it is about to come back."""
        worker = self._lent.pop(connection, None)
        return None if worker is None else worker.recall(connection)

    def _came_back(self, connection: Connection, returned: Returned) -> None:
        self._lent.pop(connection, None)
        connection.returned(returned)

    def close(self) -> None:
        """Stop the threads. No connection may be lent any more."""
        for worker in self._threads:
            worker.stop()
        self._threads.clear()


def processors() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Worker:
    """One thread, and the connections that it has. load: their number."""

    def __init__(
        self,
        config: BrokerConfig,
        loop: asyncio.AbstractEventLoop,
        requests: Requests,
        came_back: Callable[[Connection, Returned], None],
    ) -> None:
        """came_back: called in the event loop's thread, with each connection that this thread gives back."""
        self._config, self._loop, self._requests, self._came_back = config, loop, requests, came_back
        self._lanes: ProduceLanes[Any] = requests.lanes_beside()
        self._scratch = memoryview(room(SCRATCH_BYTES))
        self._lent: dict[int, _Lent] = {}
        self._turn = Lock()  # held while a connection's requests are answered
        self._epoll = select.epoll()
        self._stopping = os.eventfd(0, os.EFD_NONBLOCK)
        self._epoll.register(self._stopping, select.EPOLLIN)
        self._thread = Thread(target=self._run, name="kcli-data-plane", daemon=True)
        self._thread.start()

    @property
    def load(self) -> int:
        return len(self._lent)

    def take(self, connection: Connection, fd: int) -> None:
        """Begin to answer a connection's requests."""
        self._lent[fd] = _Lent(connection, fd)
        self._epoll.register(fd, select.EPOLLIN)

    def recall(self, connection: Connection) -> Returned | None:
        """Answer no further request of a connection; see DataPlane.recall."""
        with self._turn:
            lent = next((each for each in self._lent.values() if each.connection is connection), None)
            if lent is None:
                return None
            self._forget(lent)
            return Returned(lent.kept)

    def stop(self) -> None:
        """End the thread, and wait for its end."""
        os.eventfd_write(self._stopping, 1)
        self._thread.join()
        self._epoll.close()
        os.close(self._stopping)

    def _forget(self, lent: _Lent) -> None:
        del self._lent[lent.fd]
        self._epoll.unregister(lent.fd)

    def _run(self) -> None:
        while True:
            for fd, _ in self._epoll.poll():
                if fd == self._stopping:
                    return
                with self._turn:
                    lent = self._lent.get(fd)
                    if lent is not None:
                        self._answer(lent)

    def _answer(self, lent: _Lent) -> None:
        """Receive from a connection, and answer its plain requests; give it back if it has sent anything else."""
        try:
            returned = self._serve(lent)
        except Exception as error:  # noqa: BLE001  (the event loop closes the connection with it)
            returned = Returned(bytearray(), error=error)
        lanes = self._lanes
        if lanes.told or lanes.failures:
            self._call(_tell, lanes.told.copy(), lanes.failures.copy())
            lanes.told.clear()
            lanes.failures.clear()
        if returned is not None:
            self._forget(lent)
            self._call(self._came_back, lent.connection, returned)

    def _call(self, function: Callable[..., None], *arguments: object) -> None:
        try:
            self._loop.call_soon_threadsafe(function, *arguments)
        except RuntimeError as error:  # the event loop is closed: nobody waits for what this thread has done
            report("the event loop is gone", error)

    def _serve(self, lent: _Lent) -> Returned | None:
        """Answer requests until the socket has no more, or the turn is over. Return what the connection goes back with;
        None if it stays. Raises HangUp, OSError."""
        scratch, connection = self._scratch, lent.connection
        request_max_bytes = self._config.socket_request_max_bytes
        size = len(lent.kept)
        scratch[:size] = lent.kept
        until = monotonic_ns() + TURN_NS
        while True:
            try:
                served = self._requests.serve(
                    lent.fd, scratch, size, connection, request_max_bytes, UNLIMITED_NS, lanes=self._lanes
                )
            except (BlockingIOError, InterruptedError):
                break
            if served is None:
                return Returned(bytearray(scratch[:size]))
            received, answered, unsent = served
            rest = scratch[answered : size + received]
            size = len(rest)
            if not received or unsent or not _is_begun(rest):
                return Returned(bytearray(rest), unsent, is_ended=not received)
            scratch[:size] = rest
            if monotonic_ns() > until:
                break
        connection.last_active = monotonic()
        lent.kept = bytearray(scratch[:size])
        return None


def _is_begun(data: memoryview) -> bool:
    """Whether these bytes are none, or the first ones of a request that the buffer has room for."""
    if len(data) < SIZE_BYTES:
        return True
    return len(data) < SIZE_BYTES + int.from_bytes(data[:SIZE_BYTES], signed=True) <= SCRATCH_BYTES


def _tell(told: list[Lane], failures: list[tuple[Any, Exception]]) -> None:
    for lane in told:
        lane.tell()
    for partition, error in failures:
        partition.failed(error)
