"""The memory of the requests of all connections (queued.max.request.bytes).

    take   reserves the size of a request whose first bytes have arrived, if any byte is free; the last such request may
           take more than is free, so that the largest request is not refused for ever
    give   frees the size again when the response is sent, or the connection is closed
    wait   for a connection whose request got no memory: calls the connection once memory is free, those that have
           waited longer first

A request that arrives whole with one read reserves nothing, as no more is read until its response is sent. Without a
limit (-1, the default) memory grows with the bytes that have arrived, not with the lengths that are announced. Clients
that have not logged in share a separate memory, which bounds what they occupy together; Kafka has no such bound.
A long request that is handled in parts is decoded only while few others of its API are (`Reserved`): decoded, it takes
many times its bytes. Source: SimpleMemoryPool, not strict; KIP-72.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final, Self

KEPT_S: Final = 10.0


class RequestMemory:
    """The memory that requests may occupy. free_bytes: the number of free bytes, which may be negative (see `take`);
    None without a limit."""

    def __init__(self, size_bytes: int) -> None:
        """size_bytes: the limit, in bytes; 0 or less for no limit."""
        self.free_bytes: int | None = size_bytes if size_bytes > 0 else None
        self._waiting: dict[Callable[[], None], None] = {}

    def take(self, count: int) -> bool:
        """Reserve `count` bytes if at least one byte is free. Return whether the bytes were reserved."""
        if self.free_bytes is None:
            return True
        if self.free_bytes <= 0:
            return False
        self.free_bytes -= count
        return True

    def give(self, count: int) -> None:
        """Free `count` reserved bytes. Call the functions passed to `wait`, in order, as long as any byte is free."""
        if self.free_bytes is None:
            return
        self.free_bytes += count
        while self._waiting and self.free_bytes > 0:
            freed = next(iter(self._waiting))
            del self._waiting[freed]
            freed()

    def wait(self, freed: Callable[[], None]) -> None:
        """Call `freed` once when bytes are free."""
        self._waiting[freed] = None

    async def taken(self, count: int) -> None:
        """Reserve `count` bytes as soon as any byte is free."""
        while not self.take(count):
            free: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            freed = partial(_tell, free)
            self.wait(freed)
            try:
                await free
            finally:
                self.forget(freed)

    def forget(self, freed: Callable[[], None]) -> None:
        """Undo `wait`: do not call `freed`."""
        self._waiting.pop(freed, None)


class Reserved:
    """A context that has bytes of a memory reserved: until it ends, or until a task ends with which it goes on, but for
    KEPT_S at most: a task may wait as long as its client says. memory: None for a context without bytes."""

    def __init__(self, memory: RequestMemory | None, count: int) -> None:
        self._memory, self._count = memory, count
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> Self:
        if self._memory is not None:
            await self._memory.taken(self._count)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is None:
            self._give()
        elif self._memory is not None:
            self._task.add_done_callback(self._give)
            self._timer = asyncio.get_running_loop().call_later(KEPT_S, self._give)

    def goes_on_with(self, task: asyncio.Task[None] | None) -> None:
        """Keep the bytes until a task ends, if there is one."""
        self._task = task

    def _give(self, _: object = None) -> None:
        memory, self._memory = self._memory, None
        if self._timer is not None:
            self._timer.cancel()
        if memory is not None:
            memory.give(self._count)


def _tell(free: asyncio.Future[None]) -> None:
    if not free.done():
        free.set_result(None)
