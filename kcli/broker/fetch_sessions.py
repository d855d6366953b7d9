"""Fetch sessions (KIP-227): a consumer names its partitions once, then only what changes; so does the broker.

    session id, epoch    what a request means
    any, -1              no session; one that there is ends
    any, 0               all partitions; a new session, if there is room, in place of one that there is
    id, n > 0            what changed: partitions to add or change, and to forget; n counts the requests

A session keeps its partitions in the order in which they are read: those that had records go to the end, so that none
starves where a response is full. Source: FetchSession, FetchSessionCacheShard.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import UUID

if TYPE_CHECKING:
    from kcli.broker.replication.serving import Tracker

FINAL_EPOCH, INITIAL_EPOCH = -1, 0
NO_SESSION = 0
INT_MAX = 2**31 - 1
UNKNOWN = -1

TopicKey = str | UUID
Key = tuple[TopicKey, int]


@dataclass(slots=True)
class Wanted:
    """A partition of a fetch, and, within a session, what the client was last told of it."""

    topic: TopicKey
    index: int
    offset: int
    max_bytes: int
    leader_epoch: int = UNKNOWN
    last_fetched_epoch: int = UNKNOWN
    log_start: int = UNKNOWN  # of a follower's log
    told_high_watermark: int = UNKNOWN
    told_log_start: int = UNKNOWN

    def ask(self, partition: Any) -> None:
        """Take over what a request says of the partition."""
        self.offset = partition.fetch_offset
        self.max_bytes = partition.partition_max_bytes
        self.leader_epoch = getattr(partition, "current_leader_epoch", UNKNOWN)
        self.last_fetched_epoch = getattr(partition, "last_fetched_epoch", UNKNOWN)
        self.log_start = getattr(partition, "log_start_offset", UNKNOWN)

    def is_news(self, error_code: int, high_watermark: int, log_start_offset: int, *, has_records: bool) -> bool:
        """Must the client be told, or does it know? It knows what is told it now."""
        news = (
            has_records
            or error_code != 0
            or high_watermark != self.told_high_watermark
            or log_start_offset != self.told_log_start
        )
        self.told_log_start = log_start_offset
        self.told_high_watermark = UNKNOWN if error_code else high_watermark
        return news


@dataclass(slots=True)
class Session:
    """What one client wants; epoch: that of the next request. tracker: of a follower's, where there are news."""

    id: int
    created_ms: int
    used_ms: int
    with_ids: bool
    epoch: int = 1
    partitions: dict[Key, Wanted] = field(default_factory=dict)
    tracker: Tracker | None = None

    def ask(self, topics: Iterable[Any]) -> None:
        """Add the partitions of a request, or change them."""
        for topic in topics:
            name = topic_key(topic)
            for partition in topic.partitions:
                key = name, partition.partition
                wanted = self.partitions.get(key)
                if wanted is None:
                    wanted = self.partitions[key] = Wanted(name, partition.partition, 0, 0)
                wanted.ask(partition)

    def forget(self, topics: Iterable[Any]) -> None:
        """Take partitions out."""
        for topic in topics:
            name = topic_key(topic)
            for index in topic.partitions:
                self.partitions.pop((name, index), None)

    def to_end(self, wanted: Wanted) -> None:
        """It had records: others come first next time."""
        key = wanted.topic, wanted.index
        if self.partitions.pop(key, None) is not None:
            self.partitions[key] = wanted


def topic_key(topic: Any) -> TopicKey:
    """A topic of a request: its id from version 13 on, else its name. The zero id is kio's None."""
    if hasattr(topic, "topic_id"):
        return UUID(int=0) if topic.topic_id is None else topic.topic_id
    name: str = topic.topic
    return name


class FetchSessions:
    """The sessions of all clients: at most `slots` (max.incremental.fetch.session.cache.slots).

    One makes room after eviction_ms (min.incremental.fetch.session.eviction.ms) without a request, or once that old
    for one with more partitions.
    """

    def __init__(self, slots: int, eviction_ms: int) -> None:
        self._slots = slots
        self._eviction_ms = eviction_ms
        self._sessions: dict[int, Session] = {}  # the least recently used first
        self._random = random.SystemRandom()

    def __len__(self) -> int:
        return len(self._sessions)

    def find(self, session_id: int) -> Session | None:
        """The session of that id."""
        return self._sessions.get(session_id)

    def end(self, session_id: int) -> None:
        """Forget a session, if there is one."""
        ended = self._sessions.pop(session_id, None)
        if ended is not None and ended.tracker is not None:
            ended.tracker.close()

    def begin(self, partitions: dict[Key, Wanted], now_ms: int, *, with_ids: bool) -> Session | None:
        """A new session of these partitions; None where there is no room."""
        if not self._make_room(len(partitions), now_ms):
            return None
        while True:
            session_id = self._random.randint(1, INT_MAX)
            if session_id not in self._sessions:
                break
        session = Session(session_id, now_ms, now_ms, with_ids, partitions=partitions)
        self._sessions[session_id] = session
        return session

    def used(self, session: Session, now_ms: int) -> None:
        """The session has had its next request."""
        session.used_ms = now_ms
        session.epoch = 1 if session.epoch == INT_MAX else session.epoch + 1
        if self._sessions.pop(session.id, None) is not None:
            self._sessions[session.id] = session

    def _make_room(self, size: int, now_ms: int) -> bool:
        if len(self._sessions) < self._slots:
            return True
        if not self._sessions:
            return False
        least_used = next(iter(self._sessions.values()))
        if now_ms - least_used.used_ms > self._eviction_ms:
            self.end(least_used.id)
            return True
        old = [each for each in self._sessions.values() if now_ms - each.created_ms > self._eviction_ms]
        smallest = min(old, key=lambda each: len(each.partitions), default=None)
        if smallest is None or len(smallest.partitions) >= size:
            return False
        self.end(smallest.id)
        return True
