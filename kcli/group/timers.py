"""Timers, each with a key, a deadline and an action: scheduling a key again replaces the deadline and the action.

Deadlines are postponed far more often than they expire (each heartbeat postpones one). So a postponed deadline leaves
its entry in the heap unchanged; when that entry reaches the top of the heap too early, the key is pushed again with its
current deadline.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Generic, TypeVar

K = TypeVar("K")
A = TypeVar("A")


class Timers(Generic[K, A]):
    """Actions by key, each with its deadline in milliseconds since 1970."""

    def __init__(self) -> None:
        self._due: dict[K, tuple[int, A]] = {}
        self._heaped: dict[K, int] = {}
        self._heap: list[tuple[int, int, K]] = []
        self._count = 0

    def schedule(self, key: K, deadline_ms: int, action: A) -> None:
        """Set the key's deadline and action, in place of those that it had."""
        self._due[key] = deadline_ms, action
        heaped_ms = self._heaped.get(key)
        if heaped_ms is None or heaped_ms > deadline_ms:
            self._push(key, deadline_ms)

    def cancel(self, key: K) -> None:
        """Remove the key's timer, if there is one."""
        self._due.pop(key, None)

    def is_scheduled(self, key: K) -> bool:
        """Whether a timer is set under the key."""
        return key in self._due

    def deadline_ms(self) -> int | None:
        """Return the earliest deadline, in ms since 1970; None if no timer is set."""
        while self._heap:
            heaped_ms, _, key = self._heap[0]
            due = self._due.get(key)
            if due is not None and self._heaped.get(key) == heaped_ms == due[0]:
                return heaped_ms
            self._pop()
            if due is not None and key not in self._heaped:
                self._push(key, due[0])
        return None

    def take(self, now_ms: int) -> tuple[K, A] | None:
        """Remove the timer with the earliest deadline, if that deadline has come, and return the timer's key and
        action; None if no deadline has come."""
        deadline_ms = self.deadline_ms()
        if deadline_ms is None or deadline_ms > now_ms:
            return None
        key = self._pop()
        _, action = self._due.pop(key)
        return key, action

    def _push(self, key: K, deadline_ms: int) -> None:
        self._heaped[key] = deadline_ms
        self._count += 1
        heappush(self._heap, (deadline_ms, self._count, key))

    def _pop(self) -> K:
        heaped_ms, _, key = heappop(self._heap)
        if self._heaped.get(key) == heaped_ms:
            del self._heaped[key]
        return key
