"""The changed partitions of a Fetch. Each change of a partition is noted when it happens, so that an idle session of
thousands of partitions costs its broker nothing.

Tracker           of a consumer's Fetch: notes changes that let a consumer read more
FollowerTracker   of a follower's Fetch: notes changes that concern a follower
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any
from uuid import UUID

from kcli.broker.partition.partitions import Partition, Watcher

UNKNOWN_EPOCH = -1

TopicKey = str | UUID
"""A topic as a Fetch refers to it: by name, or from version 13 on by id."""
Key = tuple[str | bytes, int]
"""Topic and partition number. The topic is its name, or the bytes of its id, which are hashed in a tenth of the time of
a UUID."""


class Tracker:
    """The changed partitions of one fetch session, or of one waiting Fetch without session.

    dirty: the partitions to read for the next response. wake: called when a partition changes while a Fetch waits.
    """

    def __init__(self, dirty: Iterable[Key] = ()) -> None:
        self.dirty: dict[Key, None] = dict.fromkeys(dirty)
        self.wake: Watcher | None = None
        self._watched: dict[Key, tuple[Partition, Any]] = {}

    def watch(self, key: Key, partition: Partition) -> None:
        """Register a partition: from now on a change of the partition adds it to `dirty`."""
        known = self._watched.get(key)
        if known is not None and known[0] is partition:
            return
        self.unwatch(key)
        self._watched[key] = partition, self._begin(key, partition)

    def unwatch(self, key: Key) -> None:
        """Undo `watch`: a change of the partition no longer adds it to `dirty`."""
        known = self._watched.pop(key, None)
        if known is not None:
            self._end(*known)

    def forget(self, key: Key) -> None:
        """Undo `watch`, and remove the partition from `dirty`."""
        self.unwatch(key)
        self.dirty.pop(key, None)

    def close(self) -> None:
        """Undo `watch` for all partitions, and call `wake` no more."""
        self.wake = None
        self.close_some(len(self._watched))

    def close_some(self, most: int) -> bool:
        """Undo `watch` for up to `most` partitions. Return whether no partition is registered any longer."""
        for _ in range(min(most, len(self._watched))):
            self._end(*self._watched.popitem()[1])
        return not self._watched

    def _begin(self, key: Key, partition: Partition) -> Any:
        watcher = partial(self._may_read, key)
        partition.watch(watcher)
        return watcher

    def _end(self, partition: Partition, watcher: Any) -> None:
        partition.unwatch(watcher)

    def _may_read(self, key: Key) -> None:
        self.dirty[key] = None
        if self.wake is not None:
            self.wake()


class FollowerTracker(Tracker):
    """The changed partitions of one follower's fetch session. broker_epoch: the follower's broker epoch. fetched_ms:
    the time of the session's last Fetch, in ms since 1970."""

    def __init__(self, broker_epoch: int = UNKNOWN_EPOCH, dirty: Iterable[Key] = ()) -> None:
        super().__init__(dirty)
        self.broker_epoch = broker_epoch
        self.fetched_ms = 0

    def _begin(self, key: Key, partition: Partition) -> Any:
        watcher = partial(self._changed, key)
        partition.watch_end(watcher)
        return watcher

    def _end(self, partition: Partition, watcher: Any) -> None:
        partition.unwatch_end(watcher)

    def _changed(self, key: Key, is_urgent: bool) -> None:
        self.dirty[key] = None
        if is_urgent and self.wake is not None:
            self.wake()
