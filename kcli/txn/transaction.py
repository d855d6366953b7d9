"""A transactional id: who its producer is, and how far its transaction has come.

    from             to                                by
    Empty            Empty                             InitProducerId: a new epoch, or a new producer id
    Empty, Complete  Ongoing                           the first partition is added
    Ongoing          Ongoing                           more partitions are
    Ongoing          PrepareCommit, PrepareAbort       EndTxn, or a time-out, or InitProducerId while it is open
    Empty, Complete  PrepareAbort                      EndTxn of a transaction without partitions (version 2)
    PrepareCommit    CompleteCommit                    all markers are written
    PrepareAbort     CompleteAbort                     likewise
    Complete         Empty                             InitProducerId
    Empty, Complete  (forgotten)                       transactional.id.expiration.ms

Each is a record of __transaction_state. Version 2 (KIP-890) bumps the epoch with each transaction, at its end; when the
epochs of a producer id are used up, the next id takes over (next_producer_id until the markers are written). Source:
TransactionMetadata, TransactionState.
"""

from __future__ import annotations

from enum import IntEnum
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, NamedTuple

NONE: Final = -1
EPOCH_MAX: Final = 2**15 - 1
EPOCHS_END: Final = EPOCH_MAX - 1
"""The last epoch that a producer is given; the one above it fences."""
INT_MAX: Final = 2**31 - 1
EPOCH_BUMP_VERSION: Final = 2

Partition = tuple[str, int]
"""Topic and number."""


class State(IntEnum):
    """By the number that records have. DEAD and PREPARE_EPOCH_FENCE are in no record."""

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
        """What clients are told."""
        return "".join(word.capitalize() for word in self.name.split("_"))

    @property
    def is_prepared(self) -> bool:
        """Decided, markers not all written."""
        return self in (State.PREPARE_COMMIT, State.PREPARE_ABORT)

    @property
    def is_over(self) -> bool:
        """No transaction: what may be forgotten in time."""
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
    """Does a transaction of that version end with a new epoch?"""
    return version >= EPOCH_BUMP_VERSION


class Transaction(NamedTuple):
    """One transactional id. Times are milliseconds since 1970, -1 for none.

    last_producer_epoch: the one before, to know a repeated request by; in no record, so -1 after a restart.
    client_version: the transaction version that the client spoke last.
    """

    producer_id: int
    timeout_ms: int
    previous_producer_id: int = NONE
    next_producer_id: int = NONE
    producer_epoch: int = NONE
    last_producer_epoch: int = NONE
    state: State = State.EMPTY
    partitions: frozenset[Partition] = frozenset()
    start_ms: int = NONE
    last_update_ms: int = NONE
    client_version: int = 0

    @property
    def epochs_are_used_up(self) -> bool:
        """The producer id has no epoch left to be given."""
        return self.producer_epoch >= EPOCHS_END

    @property
    def by_topic(self) -> list[tuple[str, list[int]]]:
        """The partitions as records have them: each topic with its numbers, in order."""
        topics = groupby(sorted(self.partitions), key=itemgetter(0))
        return [(topic, [number for _, number in each]) for topic, each in topics]

    @property
    def never_times_out(self) -> bool:
        """Two-phase commit: somebody else decides when it ends."""
        return self.timeout_ms == INT_MAX

    def _to(self, state: State, now_ms: int, **changes: Any) -> Transaction:
        assert self.state in PREVIOUS[state], f"{self.state.label} -> {state.label}"
        return self._replace(state=state, previous_producer_id=self.producer_id, last_update_ms=now_ms, **changes)

    def with_epoch(self, epoch: int, last_epoch: int, timeout_ms: int, now_ms: int) -> Transaction:
        """InitProducerId: the producer begins anew."""
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
        """InitProducerId, where the producer id's epochs are used up."""
        return self.with_epoch(0, last_epoch, timeout_ms, now_ms)._replace(producer_id=producer_id)

    def with_partitions(self, partitions: frozenset[Partition], version: int, now_ms: int) -> Transaction:
        """More partitions, perhaps the first ones."""
        return self._to(
            State.ONGOING,
            now_ms,
            partitions=self.partitions | partitions,
            start_ms=now_ms if self.state.is_over else self.start_ms,
            client_version=version,
        )

    def prepared(self, state: State, version: int, next_producer_id: int, now_ms: int) -> Transaction:
        """It is decided how the transaction ends."""
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
        """All markers are written."""
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
        """The same, with what its record does not hold."""
        return self if last_epoch == NONE else self._replace(last_producer_epoch=last_epoch)

    def fenced(self) -> Transaction:
        """Its producer's epoch is taken from it, before transactions of versions 0 and 1 are aborted."""
        epoch = min(self.producer_epoch + 1, EPOCH_MAX)
        return self._replace(producer_epoch=epoch, last_producer_epoch=NONE)
