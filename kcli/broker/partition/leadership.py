"""What a leader knows of its followers. From this follow the high watermark and the changes of the in-sync replicas
(ISR).

    follower        the log end offset and log start offset of its last Fetch; the time when it was last caught up
    ISR             the in-sync replicas that the controller has committed
    pending         a change of the ISR that was sent to the controller; at most one at a time
    maximal ISR     the ISR and the follower that a pending change adds: the high watermark waits for all of these,
                    which is safe whether or not the controller makes the change (KIP-497)
    high watermark  the smallest log end offset of the maximal ISR and of the followers about to join it; it does not
                    move while the ISR is smaller than min.insync.replicas (KIP-966)

    change          condition                                                  in effect from
    expansion       a follower outside the ISR has reached the high            the request to the controller
                    watermark and the first offset of this leader's epoch
    shrinking       a follower in the ISR was last caught up                   the controller's commit
                    more than replica.lag.time.max.ms ago

This module does no I/O and reads no clock. Source: Partition, Replica, PartitionState; KIP-497, KIP-903 (broker
epochs), KIP-966.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from kcli.protocol.error_code import ErrorCode

if TYPE_CHECKING:
    from kcli.metadata.partition import Partition as PartitionState

UNKNOWN = -1
UNKNOWN_BROKER_EPOCH = -1
REVERTING = (ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA)
"""Errors of AlterPartition after which the change is dropped, because the controller has not made it: the committed ISR
is still valid."""
WAITING = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.INVALID_UPDATE_VERSION,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.NEW_LEADER_ELECTED,
)
"""Errors of AlterPartition after which the change stays pending until the metadata log has a newer state of the
partition."""

Eligible = Callable[[int, int | None], bool]
"""(broker id, broker epoch of the broker's last Fetch, None before the first) -> whether that broker may join the ISR.
It may not while it is fenced or in controlled shutdown."""


class Clock(Protocol):
    """The part of a fetch session that a Follower keeps while it is caught up (see Follower.rest). fetched_ms: the
    time, in ms since 1970, of the session's last Fetch."""

    fetched_ms: int


class Follower:
    """What the leader knows of one follower. Offsets are -1 before its first Fetch. broker_epoch: the broker epoch in
    its last Fetch, -1 if the Fetch had none, None before the first Fetch."""

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
        """Begin a leader epoch. leader_end: the leader's log end offset. in_sync: whether the follower is in the ISR;
        if so, it counts as caught up at now_ms, and has replica.lag.time.max.ms to catch up. is_new_leader: whether
        this broker did not lead the partition in the epoch before; if so, what is known of the follower's Fetches is
        reset."""
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
        """Note a Fetch at `offset`, which acknowledges everything below `offset`. start: the follower's log start
        offset. leader_end: the leader's current log end offset."""
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
        """Note that the follower is caught up. From now until `rouse`, each Fetch of its session counts as a Fetch that
        is caught up, even if the Fetch does not name the partition. clock: the part of the follower's fetch session
        that has the time of its last Fetch."""
        self._resting = clock

    def rouse(self) -> None:
        """Note that the leader's log grows. A follower that rests (see `rest`) counts as last caught up at the time of
        its session's last Fetch, and rests no longer."""
        if self._resting is not None:
            self.last_fetch_ms = max(self.last_fetch_ms, self._resting.fetched_ms)
            self.last_caught_up_ms = max(self.last_caught_up_ms, self._resting.fetched_ms)
            self._resting = None

    def is_caught_up(self, leader_end: int, now_ms: int, lag_max_ms: int) -> bool:
        """Whether the follower's log end offset is leader_end, the leader's log end offset, or the follower was last
        caught up at most lag_max_ms ago. now_ms: the time in ms since 1970."""
        return leader_end == self.log_end_offset or now_ms - self.last_caught_up_ms <= lag_max_ms


@dataclass(frozen=True, slots=True)
class IsrChange:
    """A change of the ISR, as AlterPartition contains it. isr: (broker id, broker epoch) pairs, -1 for an unknown
    epoch. added: the broker that an expansion adds, else None."""

    isr: tuple[tuple[int, int], ...]
    leader_epoch: int
    partition_epoch: int
    leader_recovery_state: int
    added: int | None = None

    @property
    def ids(self) -> tuple[int, ...]:
        """The broker ids of the ISR that the change proposes."""
        return tuple(broker_id for broker_id, _ in self.isr)


class Leadership:
    """The followers, the ISR and the pending change of one partition that this broker leads.

    is_alone: whether this broker is the only member of the maximal ISR, so that records are committed once they are
    appended.
    """

    def __init__(self, node_id: int, lag_max_ms: Callable[[], int], eligible: Eligible) -> None:
        self.node_id = node_id
        self.followers: dict[int, Follower] = {}
        self.isr: tuple[int, ...] = ()
        self.maximal_isr: tuple[int, ...] = ()
        self.pending: IsrChange | None = None
        self.leader_epoch = self.partition_epoch = UNKNOWN
        self.epoch_start_offset = 0
        self.is_alone = False
        self._recovery_state = 0
        self._lag_max_ms = lag_max_ms
        self._eligible = eligible

    def update(self, state: PartitionState, log_end: int, now_ms: int) -> bool:
        """Set the leader epoch, the replicas and the ISR to those in the metadata, and drop the pending change. Return
        False, and change nothing, if `state` is older than the controller's last response to AlterPartition. log_end:
        the leader's log end offset."""
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
        """Note that the leader's log has grown: followers that were caught up are so no longer (Follower.rouse)."""
        for follower in self.followers.values():
            follower.rouse()

    def min_isr(self, configured: int) -> int:
        """Return the size of the ISR that writes with acks=all need: min.insync.replicas (`configured`), but at most
        the number of replicas."""
        return min(configured, len(self.followers) + 1)

    def lacks_replicas(self, configured: int) -> bool:
        """Whether the committed ISR is smaller than `min_isr(configured)`."""
        return len(self.isr) < self.min_isr(configured)

    def high_watermark(self, log_end: int, configured: int, now_ms: int) -> int | None:
        """Return the high watermark: the smallest log end offset of the maximal ISR and of the followers about to join
        it (those that are caught up and may join). Return None while the ISR is too small for the high watermark to
        move.

        log_end: the leader's log end offset. configured: min.insync.replicas.
        """
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
        """Return the change that adds the follower to the ISR; it is the pending change from now on. Return None if the
        follower is in the ISR already, has not caught up or may not join, or if another change is pending. own_epoch:
        this broker's broker epoch."""
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
        """Return the change that removes the lagging followers from the ISR; it is the pending change from now on.
        Return None if no follower lags, or if another change is pending. own_epoch: this broker's broker epoch."""
        if self.pending is not None:
            return None
        kept = tuple(each for each in self.isr if each == self.node_id or not self._lags(each, log_end, now_ms))
        return self._change(sorted(kept), own_epoch) if kept != self.isr else None

    def _lags(self, broker_id: int, log_end: int, now_ms: int) -> bool:
        follower = self.followers.get(broker_id)
        return follower is None or not follower.is_caught_up(log_end, now_ms, self._lag_max_ms())

    def _change(self, isr: Iterable[int], own_epoch: int, added: int | None = None) -> IsrChange:
        """Return the change whose new ISR is `isr`; it is the pending change from now on. isr: broker ids in ascending
        order, in which Kafka sends them, too; the metadata log stores the ISR in this order, and Kafka's tools show it
        so. added: the broker that the change adds, None if it adds none."""
        brokers = tuple((each, own_epoch if each == self.node_id else self._broker_epoch(each)) for each in isr)
        self.pending = IsrChange(brokers, self.leader_epoch, self.partition_epoch, self._recovery_state, added)
        return self.pending

    def _broker_epoch(self, broker_id: int) -> int:
        """Return the broker epoch of a replica's last Fetch; -1 if the replica has not fetched from this leader. If the
        broker has registered again since that Fetch, the controller refuses the change."""
        follower = self.followers.get(broker_id)
        epoch = None if follower is None else follower.broker_epoch
        return UNKNOWN_BROKER_EPOCH if epoch is None else epoch

    def accepted(self, change: IsrChange, leader_epoch: int, partition_epoch: int, isr: tuple[int, ...]) -> bool:
        """Set the ISR to `isr`, which the controller has committed as a result of `change`, and return True. Return
        False, and change nothing, if the change is no longer pending, or if the response belongs to another leader
        epoch or an older partition epoch."""
        if change is not self.pending or leader_epoch != self.leader_epoch or partition_epoch < self.partition_epoch:
            return False
        self.partition_epoch = partition_epoch
        self._commit(isr)
        return True

    def refused(self, change: IsrChange, code: ErrorCode) -> bool:
        """Note that the controller has answered `change` with the error `code`. Drop the change after an error in
        REVERTING; keep it pending after any other error. Return True if the change is to be sent again: it is still
        pending, and the error is not in WAITING."""
        if change is not self.pending:
            return False
        if code in REVERTING:
            self._commit(self.isr)
            return False
        return code not in WAITING
