"""Stores the waiting Fetches of a broker's followers, so that their responses can be sent early, and the trackers of
the followers' fetch sessions. A tracker watches the partitions of one session, and collects those that have changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING
from weakref import WeakSet

if TYPE_CHECKING:
    from kcli.broker.fetching.tracker import FollowerTracker

Watcher = Callable[[], object]


class Waiting:
    """The waiting Fetches of followers, by the follower's broker id. Each Fetch is represented by the callback that
    sends its response."""

    def __init__(self) -> None:
        self._by_replica: dict[int, dict[Watcher, None]] = {}

    def add(self, replica_id: int, nudge: Watcher) -> None:
        """Add a waiting Fetch. nudge: a callback that sends the response at once."""
        self._by_replica.setdefault(replica_id, {})[nudge] = None

    def discard(self, replica_id: int, nudge: Watcher) -> None:
        """Remove a Fetch that waits no longer. nudge: the callback that was passed to `add`."""
        self._by_replica.get(replica_id, {}).pop(nudge, None)

    def nudge(self, replica_id: int) -> None:
        """Send the responses to the waiting Fetches of one follower now."""
        for each in list(self._by_replica.get(replica_id, ())):
            each()


class Trackers:
    """The trackers of followers' fetch sessions, by the follower's broker id. A tracker with an older broker epoch is
    closed when the follower begins a session with a newer epoch."""

    def __init__(self) -> None:
        self._by_replica: dict[int, WeakSet[FollowerTracker]] = {}

    def add(self, replica_id: int, tracker: FollowerTracker) -> None:
        """Add the tracker of a new session, and close the trackers of the follower's older broker epochs."""
        known = self._by_replica.setdefault(replica_id, WeakSet())
        for each in list(known):
            if each.broker_epoch < tracker.broker_epoch:
                each.close()
                known.discard(each)
        known.add(tracker)
