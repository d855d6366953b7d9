"""What a leader knows of its followers, and what it decides by that: high watermark and in-sync replicas.

    follower        log end offset and start as of its last fetch; when it last had all that the leader had
    in-sync (ISR)   as the controller has committed it
    pending         a change of the ISR on its way to the controller; one at a time
    maximal ISR     the ISR with whom a pending change adds: to count one too many is safe, one too few is not (KIP-497)
    high watermark  the smallest log end of the maximal ISR, and of those just about to join it; not while the ISR is
                    smaller than min.insync.replicas (KIP-966)

    change          asked for when                                             counts from when on
    expansion       a follower outside has reached the high watermark and      it is asked for
                    the first offset of this leader's epoch
    shrinking       a follower in it has not had all that the leader has for   the controller has committed it
                    replica.lag.time.max.ms

No I/O and no clock. Source: Partition, Replica, PartitionState; KIP-497, KIP-903 (broker epochs), KIP-966.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from kcli.broker.network.messages import ErrorCode

if TYPE_CHECKING:
    from kcli.metadata.partition import Partition as PartitionState

UNKNOWN = -1
UNKNOWN_BROKER_EPOCH = -1
REVERTING = (ErrorCode.operation_not_attempted, ErrorCode.ineligible_replica)
"""The controller knows that it did not do it: the last committed ISR is still good."""
WAITING = (
    ErrorCode.unknown_topic_or_partition,
    ErrorCode.unknown_topic_id,
    ErrorCode.fenced_leader_epoch,
    ErrorCode.invalid_update_version,
    ErrorCode.invalid_request,
    ErrorCode.new_leader_elected,
)
"""What is so will be in the metadata; till then the change stays pending."""

Eligible = Callable[[int, int | None], bool]
"""May a broker, that last fetched under that epoch (None: never), be in sync? Not while it is fenced or going down."""


class Clock(Protocol):
    """When a follower's session last asked; see Follower.rest."""

    fetched_ms: int


class Follower:
    """One other replica, as the leader knows it. broker_epoch: of its last fetch, -1 where it did not say."""

    __slots__ = (
        "_resting",
        "broker_epoch",
        "broker_id",
        "last_caught_up_ms",
        "last_fetch_leader_end",
        "last_fetch_ms",
        "log_end_offset",
        "log_start_offset",
    )

    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id
        self._resting: Clock | None = None
        self.reset(0, UNKNOWN, is_new_leader=True, in_sync=False)

    def reset(self, now_ms: int, leader_end: int, *, is_new_leader: bool, in_sync: bool) -> None:
        """An epoch of the leader begins. Who is in sync has the time that any follower has to show it."""
        self.rouse()
        self.last_caught_up_ms = now_ms if in_sync else 0
        if is_new_leader:
            self.log_end_offset = self.log_start_offset = self.last_fetch_leader_end = UNKNOWN
            self.last_fetch_ms = 0
            self.broker_epoch: int | None = None
        else:
            self.last_fetch_leader_end = leader_end
            self.last_fetch_ms = self.last_caught_up_ms

    def fetched(self, offset: int, start: int, now_ms: int, leader_end: int, broker_epoch: int) -> None:
        """It asks for what lies from `offset` on: it has all before. leader_end: the leader's log end now."""
        self._resting = None
        if offset >= leader_end:
            self.last_caught_up_ms = max(self.last_caught_up_ms, now_ms)
        elif offset >= self.last_fetch_leader_end:
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        self.log_end_offset, self.log_start_offset = offset, start
        self.last_fetch_leader_end = max(leader_end, self.last_fetch_leader_end)
        self.last_fetch_ms = now_ms
        self.broker_epoch = broker_epoch

    def rest(self, clock: Clock) -> None:
        """It has all, and says so with every fetch of its session without naming the partition."""
        self._resting = clock

    def rouse(self) -> None:
        """There is more for it from now on; up to its session's last fetch it had all."""
        if self._resting is not None:
            self.last_fetch_ms = max(self.last_fetch_ms, self._resting.fetched_ms)
            self.last_caught_up_ms = max(self.last_caught_up_ms, self._resting.fetched_ms)
            self._resting = None

    def is_caught_up(self, leader_end: int, now_ms: int, lag_max_ms: int) -> bool:
        """Has it all, or had it all a moment ago?"""
        return leader_end == self.log_end_offset or now_ms - self.last_caught_up_ms <= lag_max_ms


@dataclass(frozen=True, slots=True)
class IsrChange:
    """What the controller is asked for. isr: with the epoch of each broker; added: who joins."""

    isr: tuple[tuple[int, int], ...]
    leader_epoch: int
    partition_epoch: int
    leader_recovery_state: int
    added: int | None = None

    @property
    def ids(self) -> tuple[int, ...]:
        """The brokers."""
        return tuple(broker_id for broker_id, _ in self.isr)


class Leadership:
    """One partition's followers, while this broker leads it."""

    def __init__(self, node_id: int, lag_max_ms: Callable[[], int], eligible: Eligible) -> None:
        self.node_id = node_id
        self.followers: dict[int, Follower] = {}
        self.isr: tuple[int, ...] = ()
        self.maximal_isr: tuple[int, ...] = ()
        self.pending: IsrChange | None = None
        self.leader_epoch = self.partition_epoch = UNKNOWN
        self.epoch_start_offset = 0
        self.is_alone = False  # in sync: what is appended is committed
        self._recovery_state = 0
        self._lag_max_ms = lag_max_ms
        self._eligible = eligible

    def update(self, state: PartitionState, log_end: int, now_ms: int) -> bool:
        """What the metadata says. Returns whether it is news: an answer of the controller may have come before it."""
        if state.partition_epoch < self.partition_epoch:
            return False
        for broker_id in self.followers.keys() - set(state.replicas):
            del self.followers[broker_id]
        for broker_id in state.replicas:
            if broker_id != self.node_id and broker_id not in self.followers:
                self.followers[broker_id] = Follower(broker_id)
        if state.leader_epoch > self.leader_epoch:
            is_new = self.leader_epoch == UNKNOWN
            self.epoch_start_offset = log_end
            for follower in self.followers.values():
                in_sync = follower.broker_id in state.isr
                follower.reset(now_ms, log_end, is_new_leader=is_new, in_sync=in_sync)
        self.leader_epoch, self.partition_epoch = state.leader_epoch, state.partition_epoch
        self._commit(state.isr)
        return True

    def _commit(self, isr: tuple[int, ...]) -> None:
        self.isr, self.pending = isr, None
        self._set_maximal(isr)

    def _set_maximal(self, isr: tuple[int, ...]) -> None:
        self.maximal_isr = isr
        self.is_alone = isr == (self.node_id,)

    def appended(self) -> None:
        """The log has grown: nobody has all of it now."""
        for follower in self.followers.values():
            follower.rouse()

    def min_isr(self, configured: int) -> int:
        """Of a topic with fewer replicas than min.insync.replicas, all must be in sync."""
        return min(configured, len(self.followers) + 1)

    def lacks_replicas(self, configured: int) -> bool:
        """Are too few in sync, as far as the controller has committed it?"""
        return len(self.isr) < self.min_isr(configured)

    def high_watermark(self, log_end: int, configured: int, now_ms: int) -> int | None:
        """Up to where all that count have the log; None where it must stay what it is."""
        if self.lacks_replicas(configured):
            return None
        found = log_end
        for follower in self.followers.values():
            if follower.log_end_offset < found and (
                follower.broker_id in self.maximal_isr or self._is_joining(follower, log_end, now_ms)
            ):
                found = follower.log_end_offset
        return found

    def _is_joining(self, follower: Follower, log_end: int, now_ms: int) -> bool:
        return follower.is_caught_up(log_end, now_ms, self._lag_max_ms()) and self._is_eligible(follower)

    def _is_eligible(self, follower: Follower) -> bool:
        return self._eligible(follower.broker_id, follower.broker_epoch)

    # changes of the ISR

    def expansion(self, follower: Follower, high_watermark: int, own_epoch: int) -> IsrChange | None:
        """The change that lets a follower in, where it is time. It is pending then."""
        if (
            self.pending is not None
            or follower.broker_id in self.isr
            or follower.log_end_offset < max(high_watermark, self.epoch_start_offset)
            or not self._is_eligible(follower)
        ):
            return None
        change = self._change(sorted((*self.isr, follower.broker_id)), own_epoch, follower.broker_id)
        self._set_maximal(change.ids)
        return change

    def shrinking(self, log_end: int, now_ms: int, own_epoch: int) -> IsrChange | None:
        """The change that drops who lags, where one does. It is pending then, and counts when it is committed."""
        if self.pending is not None:
            return None
        kept = tuple(each for each in self.isr if each == self.node_id or not self._lags(each, log_end, now_ms))
        return self._change(sorted(kept), own_epoch) if kept != self.isr else None

    def _lags(self, broker_id: int, log_end: int, now_ms: int) -> bool:
        follower = self.followers.get(broker_id)
        return follower is None or not follower.is_caught_up(log_end, now_ms, self._lag_max_ms())

    def _change(self, isr: Iterable[int], own_epoch: int, added: int | None = None) -> IsrChange:
        """isr: in Kafka's order, which is that of a hash set; metadata keeps it, and tools show it."""
        brokers = tuple((each, own_epoch if each == self.node_id else self._broker_epoch(each)) for each in isr)
        self.pending = IsrChange(brokers, self.leader_epoch, self.partition_epoch, self._recovery_state, added)
        return self.pending

    def _broker_epoch(self, broker_id: int) -> int:
        """-1 for one that has not fetched from this leader: had it come back, the partition epoch would be another."""
        follower = self.followers.get(broker_id)
        epoch = None if follower is None else follower.broker_epoch
        return UNKNOWN_BROKER_EPOCH if epoch is None else epoch

    def accepted(self, change: IsrChange, leader_epoch: int, partition_epoch: int, isr: tuple[int, ...]) -> bool:
        """The controller has done it. Returns whether that is news."""
        if change is not self.pending or leader_epoch != self.leader_epoch or partition_epoch < self.partition_epoch:
            return False
        self.partition_epoch = partition_epoch
        self._commit(isr)
        return True

    def refused(self, change: IsrChange, code: ErrorCode) -> bool:
        """The controller has not done it, or nobody knows. Returns whether to ask again."""
        if change is not self.pending:
            return False
        if code in REVERTING:
            self._commit(self.isr)
            return False
        return code not in WAITING
