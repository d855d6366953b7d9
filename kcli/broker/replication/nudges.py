"""What followers have open with this leader: fetches that wait, to be answered early; sessions, to be forgotten."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING
from weakref import WeakSet

if TYPE_CHECKING:
    from kcli.broker.replication.serving import Tracker

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


class Trackers:
    """The sessions, by follower. One of an earlier life of its broker watches for nobody."""

    def __init__(self) -> None:
        self._by_replica: dict[int, WeakSet[Tracker]] = {}

    def add(self, replica_id: int, tracker: Tracker) -> None:
        """A new session."""
        known = self._by_replica.setdefault(replica_id, WeakSet())
        for each in list(known):
            if each.broker_epoch < tracker.broker_epoch:
                each.close()
                known.discard(each)
        known.add(tracker)
