"""The partitions that a fetcher follows at one leader, and the next Fetch to that leader.

    added       fetched from the log end offset on, with the epoch of the last batch; a log without leader epochs is
                truncated at its high watermark first
    changed     included in the next Fetch of the session, as its offset, log start offset or leader epoch has changed
    held        left out of Fetches while its state is read from tiered storage
    delayed     left out of Fetches for a while after an error; the time doubles with each error
    forgotten   to be removed from the session by the next Fetch

    session       request                               response
    none          all partitions, session epoch 0       a session, or none if the leader's cache is full
    epoch n       changed and forgotten partitions      the next epoch is n + 1; after a session error it is 0
    no response   all partitions, session epoch 0       a new session in place of the old one

This module does no I/O and reads no clock. Source: AbstractFetcherThread, FetchSessionHandler; KIP-227, KIP-595
(truncation on fetch).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from kcli.protocol.error_code import ErrorCode
from kcli.protocol.topic_partition import TopicIdPartition

if TYPE_CHECKING:
    from kcli.broker.partition.partitions import Partition

NO_SESSION = NO_EPOCH = 0
INT_MAX = 2**31 - 1
UNKNOWN = -1
FIRST_DELAY_MS = 20


@dataclass(slots=True, eq=False)
class Followed:
    """A partition that this broker follows. offset: the next offset to fetch. last_epoch: the leader epoch of the last
    batch, -1 for none. log_start: this replica's log start offset. failures: the number of errors in a row. sent: the
    fields for the partition in the last Fetch, None before the first."""

    partition: Partition
    leader_epoch: int
    offset: int
    last_epoch: int
    log_start: int
    failures: int = 0
    sent: Wish | None = None

    @property
    def key(self) -> TopicIdPartition:
        """Topic id and partition number."""
        return self.partition.topic_id, self.partition.number

    @property
    def wish(self) -> Wish:
        """The fields to send for the partition in the next Fetch."""
        return Wish(self.offset, self.leader_epoch, self.last_epoch, self.log_start)


class Wish(NamedTuple):
    """The fields of one partition in a Fetch request: the fetch offset, the current leader epoch, the last fetched
    epoch (-1 for none) and the follower's log start offset."""

    offset: int
    leader_epoch: int
    last_epoch: int
    log_start: int


class Request(NamedTuple):
    """The next Fetch. wishes: topic id -> pairs of a partition number and the fields to send for that partition.
    forgotten: topic id -> numbers of the partitions to remove from the session."""

    session_id: int
    session_epoch: int
    wishes: dict[UUID, list[tuple[int, Wish]]]
    forgotten: dict[UUID, list[int]]


@dataclass(slots=True)
class FetchPlan:
    """The partitions of one fetcher, and its fetch session. delay_max_ms: replica.fetch.backoff.ms. held(followed):
    whether the replication quota forbids fetching the partition now."""

    delay_max_ms: int
    held: Callable[[Followed], bool] = lambda _: False
    partitions: dict[TopicIdPartition, Followed] = field(default_factory=dict)
    _session_id: int = NO_SESSION
    _epoch: int = NO_EPOCH
    _changed: dict[TopicIdPartition, None] = field(default_factory=dict)
    _in_session: set[TopicIdPartition] = field(default_factory=set)
    _forgotten: dict[TopicIdPartition, None] = field(default_factory=dict)
    _delayed: dict[TopicIdPartition, int] = field(default_factory=dict)
    _on_hold: set[TopicIdPartition] = field(default_factory=set)

    def add(self, followed: Followed) -> None:
        """Include a partition in the next Fetch: one that this fetcher has not followed yet, or one with a new leader
        epoch."""
        key = followed.key
        self.partitions[key] = followed
        self._delayed.pop(key, None)
        self._on_hold.discard(key)
        self._changed[key] = None

    def remove(self, key: TopicIdPartition) -> None:
        """Stop following a partition."""
        if self.partitions.pop(key, None) is not None:
            self._delayed.pop(key, None)
            self._on_hold.discard(key)
            self._leave_out(key)

    def _leave_out(self, key: TopicIdPartition) -> None:
        self._changed.pop(key, None)
        if key in self._in_session:
            self._forgotten[key] = None

    def moved(self, followed: Followed, offset: int, last_epoch: int, log_start: int) -> None:
        """Set the offsets and the last epoch for the next Fetch, as the replica's log has grown or was truncated.
        offset: the log end offset."""
        followed.offset, followed.last_epoch, followed.log_start = offset, last_epoch, log_start
        followed.failures = 0
        if followed.wish != followed.sent:
            self._changed[followed.key] = None

    def delay(self, followed: Followed, now_ms: int) -> None:
        """Leave the partition out of Fetches for 20 ms, doubled with each failure in a row, up to delay_max_ms."""
        delay_ms = min(FIRST_DELAY_MS << min(followed.failures, 10), self.delay_max_ms)
        followed.failures += 1
        self._delayed[followed.key] = now_ms + delay_ms
        self._leave_out(followed.key)

    def hold(self, followed: Followed) -> None:
        """Leave the partition out of Fetches until `release`."""
        self._on_hold.add(followed.key)
        self._leave_out(followed.key)

    def release(self, followed: Followed) -> bool:
        """Include a held partition in Fetches again. Return False, and do nothing, if the partition is no longer
        followed, or if a newer Followed has taken the place of `followed`."""
        key = followed.key
        if self.partitions.get(key) is not followed:
            return False
        self._on_hold.discard(key)
        followed.sent = None
        self._changed[key] = None
        return True

    def next_due_ms(self) -> int | None:
        """Return the time, in ms, when the first delayed partition is fetched again; None without delayed
        partitions."""
        return min(self._delayed.values(), default=None)

    def is_current(self, followed: Followed) -> bool:
        """Whether `followed` is still followed, and the fields of its next Fetch are those of its last Fetch: otherwise
        a response to the last Fetch is outdated."""
        return self.partitions.get(followed.key) is followed and followed.sent == followed.wish

    # requests and responses

    def request(self, now_ms: int) -> Request | None:
        """Return the next Fetch. Within a session it names only the partitions that have changed or are to be
        forgotten, so it may name none. Return None if there are no partitions to fetch or to forget."""
        for key in [key for key, due_ms in self._delayed.items() if due_ms <= now_ms]:
            del self._delayed[key]
            self._changed[key] = None
        if self._epoch == NO_EPOCH:
            to_fetch = [key for key in self.partitions if key not in self._delayed and key not in self._on_hold]
        else:
            to_fetch = [key for key in self._changed if key in self.partitions]
        for key in [key for key in to_fetch if self.held(self.partitions[key])]:
            self.delay(self.partitions[key], now_ms)
            self.partitions[key].failures = 0
            to_fetch.remove(key)
        wishes: dict[UUID, list[tuple[int, Wish]]] = {}
        for key in to_fetch:
            followed = self.partitions[key]
            followed.sent = followed.wish
            wishes.setdefault(key[0], []).append((key[1], followed.sent))
        forgotten: dict[UUID, list[int]] = {}
        if self._epoch == NO_EPOCH:
            self._in_session.clear()
        else:
            for key in self._forgotten.keys() - set(to_fetch):
                forgotten.setdefault(key[0], []).append(key[1])
                self._in_session.discard(key)
        self._in_session.update(to_fetch)
        self._changed.clear()
        self._forgotten.clear()
        return Request(self._session_id, self._epoch, wishes, forgotten) if self._in_session or forgotten else None

    def answered(self, code: ErrorCode, session_id: int) -> bool:
        """Set the session id and the next session epoch by a response. code: the response's top-level error.
        session_id: the session id in the response. Return True if `code` is NONE. Return False for an error: the next
        Fetch then begins a new session with all partitions."""
        if code != ErrorCode.NONE:
            if code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
                self._session_id = NO_SESSION
            self._epoch = NO_EPOCH
            return False
        if self._epoch == NO_EPOCH:
            self._session_id = session_id
            self._epoch = NO_EPOCH if session_id == NO_SESSION else 1
        elif session_id == NO_SESSION:  # the leader has ended the session
            self._session_id, self._epoch = NO_SESSION, NO_EPOCH
        else:
            self._epoch = 1 if self._epoch == INT_MAX else self._epoch + 1
        return True

    def lost(self) -> None:
        """Note that a Fetch got no response: the next Fetch begins a new session, as it is unknown whether the leader
        has received the lost one."""
        self._epoch = NO_EPOCH
