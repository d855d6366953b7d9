"""The memory of the requests of all connections (queued.max.request.bytes).

    take   reserves the size of a request whose first bytes have arrived, if any byte is free; the last such request may
           take more than is free, so that the largest request is not refused for ever
    give   frees the size again when the response is sent, or the connection is closed
    wait   for a connection whose request got no memory: calls the connection once memory is free, those that have
           waited longer first

A request that arrives whole with one read reserves nothing, as no more is read until its response is sent. Without a
limit (-1, the default) memory grows with the bytes that have arrived, not with the lengths that are announced. Clients
that have not logged in share a separate memory, which bounds what they occupy together; Kafka has no such bound.
Source: SimpleMemoryPool, not strict; KIP-72.
"""

from __future__ import annotations

from collections.abc import Callable


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

    def forget(self, freed: Callable[[], None]) -> None:
        """Undo `wait`: do not call `freed`."""
        self._waiting.pop(freed, None)
