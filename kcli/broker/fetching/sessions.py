"""Fetch sessions (KIP-227): requests and responses name only the partitions that have changed since the previous
request or response.

    session id, epoch    meaning of the request
    any, -1              all partitions, without session; the session of that id ends
    any, 0               all partitions; a new session, if the cache has room, in place of the session of that id
    id, n > 0            partitions to add, to change and to forget in the session; n counts its requests

A response has the session's partitions that have changed, which are the `dirty` partitions of its tracker. A partition
that had records moves to the end of the dirty ones, so that every partition gets its turn even if each response is
full.

All sessions and waiting Fetches together have at most PARTITIONS_MAX partitions. If more partitions would exceed this
limit, a new session is not begun, a growing session ends, and the response to a Fetch is sent without waiting. A client
that gets no session sends Fetches without session, as it does if all session slots of a Kafka broker are in use.
Source: FetchSession, FetchSessionCacheShard.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from uuid import UUID

from kcli.broker.fetching.tracker import Key, TopicKey, Tracker
from kcli.broker.process.turns import LONG_ITEMS, Parts

if TYPE_CHECKING:
    from kcli.broker.wire.fetch_layout import PartitionAnswer
    from kcli.broker.wire.types.fetch import FetchPartition, FetchTopic, ForgottenTopic

FINAL_EPOCH, INITIAL_EPOCH = -1, 0
NO_SESSION = 0
INT_MAX = 2**31 - 1
UNKNOWN = -1
PARTITIONS_MAX: Final = 200_000
"""The greatest number of partitions in all sessions and waiting Fetches together, at some 500 bytes each."""
FULL_MAX: Final = 500
"""The greatest number of partitions with records in a response. Further partitions with records follow in later
responses."""
RETIRED_AT_ONCE: Final = 1000


@dataclass(slots=True)
class FetchedPartition:
    """A partition of a Fetch. topic: its topic, by id or by name as in the request. sent_high_watermark,
    sent_log_start: within a session, the high watermark and the log start offset in the last response, -1 before the
    first."""

    topic: TopicKey
    index: int
    offset: int
    max_bytes: int
    key: Key
    leader_epoch: int = UNKNOWN
    last_fetched_epoch: int = UNKNOWN
    log_start: int = UNKNOWN  # the log start offset of a follower's log
    sent_high_watermark: int = UNKNOWN
    sent_log_start: int = UNKNOWN

    def update(self, partition: FetchPartition) -> None:
        """Set the partition's fields to those in a Fetch request."""
        self.place(
            partition.fetch_offset,
            partition.partition_max_bytes,
            getattr(partition, "current_leader_epoch", UNKNOWN),
            getattr(partition, "last_fetched_epoch", UNKNOWN),
            getattr(partition, "log_start_offset", UNKNOWN),
        )

    def place(self, offset: int, max_bytes: int, leader_epoch: int, last_fetched_epoch: int, log_start: int) -> None:
        """Set the partition's fields to these values, read from a Fetch request."""
        self.offset, self.max_bytes, self.leader_epoch = offset, max_bytes, leader_epoch
        self.last_fetched_epoch, self.log_start = last_fetched_epoch, log_start

    def is_news(self, answer: PartitionAnswer) -> bool:
        """Whether the partition belongs in an incremental response: `answer` has records, an error, a diverging epoch,
        a preferred read replica, or another high watermark or log start offset than the last response."""
        return (
            answer.region is not None
            or answer.error_code != 0
            or answer.diverging is not None
            or answer.preferred_replica != UNKNOWN
            or answer.high_watermark != self.sent_high_watermark
            or answer.log_start_offset != self.sent_log_start
        )

    def note_sent(self, answer: PartitionAnswer) -> None:
        """Note the offsets in the response that is about to be sent. `is_news` compares the offsets in later responses
        with these."""
        self.sent_log_start = answer.log_start_offset
        self.sent_high_watermark = UNKNOWN if answer.error_code else answer.high_watermark


@dataclass(slots=True)
class Session:
    """One client's fetch session. epoch: the session epoch of the next request. with_ids: whether its requests name
    topics by id. tracker: notes which partitions change, None before the first read. terms: isolation level, rack,
    version and Authorization.terms of the last request; if a request changes any of these, all partitions are read
    again. held: how many partitions the session has added to the count FetchSessions.held."""

    id: int
    created_ms: int
    used_ms: int
    with_ids: bool
    epoch: int = 1
    partitions: dict[Key, FetchedPartition] = field(default_factory=dict)
    tracker: Tracker | None = None
    terms: Hashable = None
    held: int = 0

    def change(self, topics: Iterable[FetchTopic], forgotten: Iterable[ForgottenTopic]) -> Parts[None]:
        """Add the partitions of a request to the session, or change them if they are in it; then remove the forgotten
        partitions."""
        count = 0
        for number, topic in enumerate(topics, 1):
            name = topic_key(topic)
            in_key = topic_in_key(name)
            if not number % LONG_ITEMS:
                yield
            for partition in topic.partitions:
                count += 1
                if not count % LONG_ITEMS:
                    yield
                key = in_key, partition.partition
                fetched = self.partitions.get(key)
                if fetched is None:
                    fetched = self.partitions[key] = FetchedPartition(name, partition.partition, 0, 0, key)
                fetched.update(partition)
                if self.tracker is not None:
                    self.tracker.dirty[key] = None
        for number, removed in enumerate(forgotten, 1):
            in_key = topic_in_key(topic_key(removed))
            if not number % LONG_ITEMS:
                yield
            for index in removed.partitions:
                count += 1
                if not count % LONG_ITEMS:
                    yield
                self.partitions.pop((in_key, index), None)
                if self.tracker is not None:
                    self.tracker.forget((in_key, index))


def topic_key(topic: FetchTopic | ForgottenTopic) -> TopicKey:
    """Return the topic as the request refers to it: by id from version 13 on, else by name. kio decodes the zero id as
    None."""
    if hasattr(topic, "topic_id"):
        return UUID(int=0) if topic.topic_id is None else topic.topic_id
    name: str = topic.topic
    return name


def topic_in_key(topic: TopicKey) -> str | bytes:
    """Return the topic's part of a Key: the topic's name, or the bytes of its id."""
    return topic.bytes if isinstance(topic, UUID) else topic


class FetchSessions:
    """The sessions of all clients: at most `slots` (max.incremental.fetch.session.cache.slots).

    A new session needs a free slot, and must not raise `held` above PARTITIONS_MAX. If either fails, one session is
    evicted; if that does not suffice, or if no session may be evicted, the new session is not begun:

        1  the least recently used session, if it had no request for more than eviction_ms (in Kafka two minutes)
        2  else, if all slots are in use, the smallest of the sessions begun more than eviction_ms ago, provided that it
           has fewer partitions than the new session

    In step 2 Kafka evicts sessions of consumers before sessions of followers; this class does not.

    held: the number of partitions of all sessions and waiting Fetches.
    """

    def __init__(self, slots: int, eviction_ms: int) -> None:
        self._slots = slots
        self._eviction_ms = eviction_ms
        self._sessions: dict[int, Session] = {}  # in order of use, the least recently used first
        self._random = random.SystemRandom()
        self._retired: deque[Tracker] = deque()
        self.held = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def find(self, session_id: int) -> Session | None:
        """Return the session with that id, None if there is none."""
        return self._sessions.get(session_id)

    def end(self, session_id: int) -> None:
        """End the session of that id, if there is one."""
        ended = self._sessions.pop(session_id, None)
        if ended is not None:
            self.held -= ended.held
            if ended.tracker is not None:
                self.retire(ended.tracker)

    def begin(self, partitions: dict[Key, FetchedPartition], now_ms: int, *, with_ids: bool) -> Session | None:
        """Return a new session of these partitions; None if there is no room for it."""
        if not self._make_room(len(partitions), now_ms):
            return None
        while True:
            session_id = self._random.randint(1, INT_MAX)
            if session_id not in self._sessions:
                break
        session = Session(session_id, now_ms, now_ms, with_ids, partitions=partitions, held=len(partitions))
        self._sessions[session_id] = session
        self.held += session.held
        return session

    def used(self, session: Session, now_ms: int) -> None:
        """Count a request of the session: increase the session epoch, and make the session the most recently used."""
        session.used_ms = now_ms
        session.epoch = 1 if session.epoch == INT_MAX else session.epoch + 1
        if self._sessions.pop(session.id, None) is not None:
            self._sessions[session.id] = session

    def recount(self, session: Session) -> bool:
        """Count the partitions of a session again after a change. Return False if the session has ended: this method
        ends it if all sessions and waiting Fetches together have more than PARTITIONS_MAX partitions."""
        if session.id not in self._sessions:
            return False
        self.held += len(session.partitions) - session.held
        session.held = len(session.partitions)
        if self.held > PARTITIONS_MAX:
            self.end(session.id)
            return False
        return True

    def _make_room(self, size: int, now_ms: int) -> bool:
        if self._has_room(size):
            return True
        if not self._sessions:
            return False
        least_used = next(iter(self._sessions.values()))
        if now_ms - least_used.used_ms > self._eviction_ms:
            self.end(least_used.id)
            return self._has_room(size)
        old = [each for each in self._sessions.values() if now_ms - each.created_ms > self._eviction_ms]
        smallest = min(old, key=lambda each: len(each.partitions), default=None)
        if smallest is None or len(smallest.partitions) >= size or len(self._sessions) < self._slots:
            return False
        self.end(smallest.id)
        return self._has_room(size)

    def _has_room(self, size: int) -> bool:
        return len(self._sessions) < self._slots and self.held + size <= PARTITIONS_MAX

    # Fetches that wait without a session

    def hold(self, count: int) -> bool:
        """Count the partitions of a waiting Fetch until `release`. Return False, and count nothing, if there would be
        more than PARTITIONS_MAX partitions."""
        if self.held + count > PARTITIONS_MAX:
            return False
        self.held += count
        return True

    def release(self, count: int, tracker: Tracker) -> None:
        """Subtract the `count` partitions of a Fetch from `held`, and close the Fetch's tracker, because the Fetch no
        longer waits: its response was sent, or its client has gone."""
        self.held -= count
        self.retire(tracker)

    def retire(self, tracker: Tracker) -> None:
        """Close a tracker in parts: in each iteration of the event loop, RETIRED_AT_ONCE partitions of all trackers
        that are being closed."""
        tracker.wake = None
        if tracker.close_some(0):
            return
        if not self._retired:
            asyncio.get_running_loop().call_soon(self._retire_some)
        self._retired.append(tracker)

    def _retire_some(self) -> None:
        if self._retired[0].close_some(RETIRED_AT_ONCE):
            self._retired.popleft()
        if self._retired:
            asyncio.get_running_loop().call_soon(self._retire_some)
