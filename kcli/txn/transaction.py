"""A transactional id: its producer id and epoch, and the state of its transaction.

    from             to                                by
    Empty            Empty                             InitProducerId: a new epoch, or a new producer id
    Empty, Complete  Ongoing                           the first partition is added
    Ongoing          Ongoing                           more partitions are added
    Ongoing          PrepareCommit, PrepareAbort       EndTxn; PrepareAbort also by a timeout, or by InitProducerId
    Empty, Complete  PrepareAbort                      EndTxn of a transaction without partitions (version 2)
    PrepareCommit    CompleteCommit                    all markers are written
    PrepareAbort     CompleteAbort                     all markers are written
    Complete         Empty                             InitProducerId
    Empty, Complete  (removed)                         transactional.id.expiration.ms

Each transition appends a record to __transaction_state. Transaction version 2 (KIP-890) bumps the producer epoch at the
end of each transaction. When the epochs of a producer id are used up, a new producer id replaces it, which is
`next_producer_id` until the markers are written. Source: TransactionMetadata, TransactionState.
"""

from __future__ import annotations

from enum import IntEnum
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, NamedTuple

from kcli.protocol.topic_partition import TopicPartition

NONE: Final = -1
EPOCH_MAX: Final = 2**15 - 1
EPOCHS_END: Final = EPOCH_MAX - 1
"""The largest epoch that a producer gets; only fencing uses the epoch above it."""
INT_MAX: Final = 2**31 - 1
EPOCH_BUMP_VERSION: Final = 2


class State(IntEnum):
    """The states of a transaction, by their numbers in records. No record has DEAD or PREPARE_EPOCH_FENCE."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def label(self) -> str:
        """The state's name in answers to clients, such as PrepareCommit."""
        return "".join(word.capitalize() for word in self.name.split("_"))

    @property
    def is_prepared(self) -> bool:
        """Whether the decision to commit or abort is written, and not all markers are."""
        return self in (State.PREPARE_COMMIT, State.PREPARE_ABORT)

    @property
    def is_open(self) -> bool:
        """Whether the transactional id has an open transaction, which the coordinator ends."""
        return self is State.ONGOING or self.is_prepared

    @property
    def is_over(self) -> bool:
        """Whether the transactional id has no open transaction, so that it may expire."""
        return self in (State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT)


PREVIOUS: Final = {
    State.EMPTY: {State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT},
    State.ONGOING: {State.ONGOING, State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT},
    State.PREPARE_COMMIT: {State.ONGOING},
    State.PREPARE_ABORT: {State.ONGOING, State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT},
    State.COMPLETE_COMMIT: {State.PREPARE_COMMIT},
    State.COMPLETE_ABORT: {State.PREPARE_ABORT},
}
BY_LABEL: Final = {state.label: state for state in State}


def bumps_epoch(version: int) -> bool:
    """Return whether transactions of this transaction version bump the producer epoch at their end."""
    return version >= EPOCH_BUMP_VERSION


class Transaction(NamedTuple):
    """The state of one transactional id. Times are milliseconds since 1970, -1 for none.

    last_producer_epoch: the epoch before the current one, by which a repeated request is recognized; records do not
    have it, so it is -1 after a restart. client_version: the transaction version of the client's most recent request.
    """

    producer_id: int
    timeout_ms: int
    previous_producer_id: int = NONE
    next_producer_id: int = NONE
    producer_epoch: int = NONE
    last_producer_epoch: int = NONE
    state: State = State.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    start_ms: int = NONE
    last_update_ms: int = NONE
    client_version: int = 0

    @property
    def epochs_are_used_up(self) -> bool:
        """Whether the producer id has no epoch left to give to a producer."""
        return self.producer_epoch >= EPOCHS_END

    @property
    def by_topic(self) -> list[tuple[str, list[int]]]:
        """The partitions as records list them: topics with their partition numbers, both sorted."""
        topics = groupby(sorted(self.partitions), key=itemgetter(0))
        return [(topic, [number for _, number in each]) for topic, each in topics]

    @property
    def never_times_out(self) -> bool:
        """Whether the transaction has no timeout, as with two-phase commit."""
        return self.timeout_ms == INT_MAX

    def _to(self, state: State, now_ms: int, **changes: Any) -> Transaction:
        assert self.state in PREVIOUS[state], f"{self.state.label} -> {state.label}"
        return self._replace(state=state, previous_producer_id=self.producer_id, last_update_ms=now_ms, **changes)

    def with_epoch(self, epoch: int, last_epoch: int, timeout_ms: int, now_ms: int) -> Transaction:
        """Return the state after InitProducerId: Empty, with this epoch. last_epoch: the new `last_producer_epoch`."""
        return self._to(
            State.EMPTY,
            now_ms,
            producer_epoch=epoch,
            last_producer_epoch=last_epoch,
            timeout_ms=timeout_ms,
            partitions=frozenset(),
            start_ms=NONE,
        )

    def with_producer_id(self, producer_id: int, last_epoch: int, timeout_ms: int, now_ms: int) -> Transaction:
        """Return the state after InitProducerId if the epochs are used up: Empty, with a new producer id and epoch
        0. last_epoch: as for `with_epoch`."""
        return self.with_epoch(0, last_epoch, timeout_ms, now_ms)._replace(producer_id=producer_id)

    def with_partitions(self, partitions: frozenset[TopicPartition], version: int, now_ms: int) -> Transaction:
        """Return the state after partitions are added: Ongoing. version: the client's transaction version."""
        return self._to(
            State.ONGOING,
            now_ms,
            partitions=self.partitions | partitions,
            start_ms=now_ms if self.state.is_over else self.start_ms,
            client_version=version,
        )

    def prepared(self, state: State, version: int, next_producer_id: int, now_ms: int) -> Transaction:
        """Return the state after the decision to commit or abort. state: PREPARE_COMMIT or PREPARE_ABORT. version: the
        client's transaction version; version 2 bumps the epoch. next_producer_id: the producer id of the next
        transaction if the epochs are used up, otherwise NONE."""
        epoch, last_epoch = self.producer_epoch, self.last_producer_epoch
        if bumps_epoch(version):
            epoch, last_epoch = min(epoch + 1, EPOCH_MAX), epoch
        return self._to(
            state,
            now_ms,
            producer_epoch=epoch,
            last_producer_epoch=last_epoch,
            next_producer_id=next_producer_id,
            start_ms=now_ms if self.state.is_over else self.start_ms,
            client_version=version,
        )

    def completed(self, now_ms: int) -> Transaction:
        """Return the state after all markers are written: CompleteCommit or CompleteAbort, without partitions."""
        state = State.COMPLETE_COMMIT if self.state is State.PREPARE_COMMIT else State.COMPLETE_ABORT
        producer_id, epoch = self.producer_id, self.producer_epoch
        if bumps_epoch(self.client_version) and self.next_producer_id != NONE:
            producer_id, epoch = self.next_producer_id, 0
        return self._to(
            state,
            now_ms,
            producer_id=producer_id,
            producer_epoch=epoch,
            next_producer_id=NONE,
            partitions=frozenset(),
        )

    def with_last_epoch(self, last_epoch: int) -> Transaction:
        """Return the same state with this `last_producer_epoch`, which records do not have; unchanged if `last_epoch`
        is NONE."""
        return self if last_epoch == NONE else self._replace(last_producer_epoch=last_epoch)

    def fenced(self) -> Transaction:
        """Return the same state with the next epoch, which fences the producer before the coordinator aborts its
        transaction (transaction versions 0 and 1)."""
        epoch = min(self.producer_epoch + 1, EPOCH_MAX)
        return self._replace(producer_epoch=epoch, last_producer_epoch=NONE)
