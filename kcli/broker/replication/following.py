"""The partitions that this broker follows with one leader, and what it asks of that leader next.

    added       from the log's end on, in the epoch of the last batch; a log without epochs is cut at its high watermark
    changed     the next request of the session names it: its offset, its log start or its leader's epoch is another
    delayed     after an error: not asked for until its time has come, longer each time
    forgotten   the session is to drop it

    session     request                                    answer
    none        all partitions, epoch 0                    a session, or none where the leader has no room
    n           what changed, what is forgotten            epoch n + 1; an error of the session: all again
    lost        all partitions, epoch 0, ends the old one

No I/O and no clock. Source: AbstractFetcherThread, FetchSessionHandler; KIP-227, KIP-595 (truncation on fetch).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from kcli.broker.network.messages import ErrorCode

if TYPE_CHECKING:
    from kcli.broker.logs.partitions import Partition

Key = tuple[UUID, int]
"""Topic id and partition."""
NO_SESSION = NO_EPOCH = 0
INT_MAX = 2**31 - 1
UNKNOWN = -1
FIRST_DELAY_MS = 20


@dataclass(slots=True, eq=False)
class Followed:
    """One partition. offset: what is asked for next; sent: what the leader was last asked for, None where it is to be
    asked anew."""

    partition: Partition
    leader_epoch: int
    offset: int
    last_epoch: int
    log_start: int
    failures: int = 0
    sent: Wish | None = None

    @property
    def key(self) -> Key:
        """What names it in requests."""
        return self.partition.topic_id, self.partition.number

    @property
    def wish(self) -> Wish:
        """What to ask for."""
        return Wish(self.offset, self.leader_epoch, self.last_epoch, self.log_start)


class Wish(NamedTuple):
    """What a request says of one partition."""

    offset: int
    leader_epoch: int
    last_epoch: int
    log_start: int


class Request(NamedTuple):
    """The next request: by topic id, partitions to ask for and to forget."""

    session_id: int
    session_epoch: int
    wishes: dict[UUID, list[tuple[int, Wish]]]
    forgotten: dict[UUID, list[int]]


@dataclass(slots=True)
class FetchPlan:
    """See above. delay_max_ms: replica.fetch.backoff.ms. held: not to be asked for now, for a quota."""

    delay_max_ms: int
    held: Callable[[Followed], bool] = lambda _: False
    partitions: dict[Key, Followed] = field(default_factory=dict)
    _session_id: int = NO_SESSION
    _epoch: int = NO_EPOCH
    _changed: dict[Key, None] = field(default_factory=dict)
    _in_session: set[Key] = field(default_factory=set)
    _forgotten: dict[Key, None] = field(default_factory=dict)
    _delayed: dict[Key, int] = field(default_factory=dict)

    def add(self, followed: Followed) -> None:
        """Begin to follow, or in a new epoch of the leader."""
        key = followed.key
        self.partitions[key] = followed
        self._delayed.pop(key, None)
        self._changed[key] = None

    def remove(self, key: Key) -> None:
        """Follow no more."""
        if self.partitions.pop(key, None) is not None:
            self._delayed.pop(key, None)
            self._leave_out(key)

    def _leave_out(self, key: Key) -> None:
        self._changed.pop(key, None)
        if key in self._in_session:
            self._forgotten[key] = None

    def moved(self, followed: Followed, offset: int, last_epoch: int, log_start: int) -> None:
        """Its log has grown, or was cut."""
        followed.offset, followed.last_epoch, followed.log_start = offset, last_epoch, log_start
        followed.failures = 0
        if followed.wish != followed.sent:
            self._changed[followed.key] = None

    def delay(self, followed: Followed, now_ms: int) -> None:
        """It cannot be asked for now."""
        delay_ms = min(FIRST_DELAY_MS << min(followed.failures, 10), self.delay_max_ms)
        followed.failures += 1
        self._delayed[followed.key] = now_ms + delay_ms
        self._leave_out(followed.key)

    def next_due_ms(self) -> int | None:
        """When the first of those that are delayed is to be asked for again."""
        return min(self._delayed.values(), default=None)

    def is_current(self, followed: Followed) -> bool:
        """Is it still followed, as it was when the request went out?"""
        return self.partitions.get(followed.key) is followed and followed.sent == followed.wish

    # requests and answers

    def request(self, now_ms: int) -> Request | None:
        """What to ask for now; None where there is nothing."""
        for key in [key for key, due_ms in self._delayed.items() if due_ms <= now_ms]:
            del self._delayed[key]
            self._changed[key] = None
        if self._epoch == NO_EPOCH:
            asked = [key for key in self.partitions if key not in self._delayed]
        else:
            asked = [key for key in self._changed if key in self.partitions]
        for key in [key for key in asked if self.held(self.partitions[key])]:
            self.delay(self.partitions[key], now_ms)
            self.partitions[key].failures = 0
            asked.remove(key)
        wishes: dict[UUID, list[tuple[int, Wish]]] = {}
        for key in asked:
            followed = self.partitions[key]
            followed.sent = followed.wish
            wishes.setdefault(key[0], []).append((key[1], followed.sent))
        forgotten: dict[UUID, list[int]] = {}
        if self._epoch == NO_EPOCH:
            self._in_session.clear()
        else:
            for key in self._forgotten.keys() - set(asked):
                forgotten.setdefault(key[0], []).append(key[1])
                self._in_session.discard(key)
        self._in_session.update(asked)
        self._changed.clear()
        self._forgotten.clear()
        return Request(self._session_id, self._epoch, wishes, forgotten) if self._in_session or forgotten else None

    def answered(self, code: ErrorCode, session_id: int) -> bool:
        """An answer has come. Returns whether it tells of partitions; else all is asked for again."""
        if code is not ErrorCode.none:
            if code is ErrorCode.fetch_session_id_not_found:
                self._session_id = NO_SESSION
            self._epoch = NO_EPOCH
            return False
        if self._epoch == NO_EPOCH:
            self._session_id = session_id
            self._epoch = NO_EPOCH if session_id == NO_SESSION else 1
        elif session_id == NO_SESSION:  # the leader has ended it
            self._session_id, self._epoch = NO_SESSION, NO_EPOCH
        else:
            self._epoch = 1 if self._epoch == INT_MAX else self._epoch + 1
        return True

    def lost(self) -> None:
        """No answer: who knows what the leader has heard."""
        self._epoch = NO_EPOCH


def truncation(leader: tuple[int, int], own: tuple[int, int], log_end: int) -> int:
    """Where to cut a log that has left its leader's. leader: the last epoch that the leader has of those up to the
    follower's, and its end there; own: the same of the follower's log for that epoch, -1 where it knows none.

    Where the follower has not that epoch, it cuts off what is later, and the next fetch finds the rest (KIP-279).
    """
    leader_epoch, leader_end = leader
    own_epoch, own_end = own
    if own_end == UNKNOWN:
        return min(leader_end, log_end)
    if own_epoch != leader_epoch:
        return min(own_end, log_end)
    return min(own_end, leader_end, log_end)
