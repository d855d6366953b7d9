"""The memory of the requests of all connections (queued.max.request.bytes).

    take   a request whose first bytes have come takes its size, if any byte is free: the last one may take more than is
           free, so that the largest request is not refused for ever
    give   once it is answered, or its connection is closed, its size is free again
    wait   a connection whose request got no memory is called once some is free, in the order of waiting

A request that comes whole with one read takes nothing: no more is read until it is answered. Without a limit (-1, the
default) memory grows with the bytes that have come, not with the sizes that are announced. Clients that have not logged
in share a separate memory, whose size bounds what they take up together; Kafka has no such bound. Source:
SimpleMemoryPool, not strict; KIP-72.
"""

from __future__ import annotations

from collections.abc import Callable


class RequestMemory:
    """The memory of requests. free_bytes: may be negative; None without a limit."""

    def __init__(self, size_bytes: int) -> None:
        """size_bytes: the limit, 0 or less for none."""
        self.free_bytes: int | None = size_bytes if size_bytes > 0 else None
        self._waiting: dict[Callable[[], None], None] = {}

    def take(self, count: int) -> bool:
        """Take `count` bytes if any byte is free. Return whether they were taken."""
        if self.free_bytes is None:
            return True
        if self.free_bytes <= 0:
            return False
        self.free_bytes -= count
        return True

    def give(self, count: int) -> None:
        """Give back bytes that were taken, and call connections that wait while there are free ones."""
        if self.free_bytes is None:
            return
        self.free_bytes += count
        while self._waiting and self.free_bytes > 0:
            freed = next(iter(self._waiting))
            del self._waiting[freed]
            freed()

    def wait(self, freed: Callable[[], None]) -> None:
        """Call `freed` once bytes are free."""
        self._waiting[freed] = None

    def forget(self, freed: Callable[[], None]) -> None:
        """Do not call `freed` any more: its connection waits no longer."""
        self._waiting.pop(freed, None)
