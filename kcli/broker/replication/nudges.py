"""The fetches of followers that wait for news, to be answered early."""

from __future__ import annotations

from collections.abc import Callable

Watcher = Callable[[], object]


class Waiting:
    """By follower."""

    def __init__(self) -> None:
        self._by_replica: dict[int, dict[Watcher, None]] = {}

    def add(self, replica_id: int, nudge: Watcher) -> None:
        """One more."""
        self._by_replica.setdefault(replica_id, {})[nudge] = None

    def discard(self, replica_id: int, nudge: Watcher) -> None:
        """One less."""
        self._by_replica.get(replica_id, {}).pop(nudge, None)

    def nudge(self, replica_id: int) -> None:
        """Answer those of a follower now."""
        for each in list(self._by_replica.get(replica_id, ())):
            each()
