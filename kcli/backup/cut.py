"""Where a partition of a run ends, so that none is ahead of the transaction coordinator.

A run reads the ends of `__transaction_state` at one moment, and those of the partitions before and after it. What was
appended to a partition in between may belong to a transaction that the coordinator's records do not have so far: a
marker of a transaction that they have as Ongoing, or batches of one that they do not have at all. Kafka would abort a
transaction that one partition has as committed, or never end it. A partition therefore ends

    before the first marker whose transaction those records have not decided
    before the first batch of a transaction, open at the end, in which those records do not have the partition

What is decided: a producer's last state is Complete or Empty, and the marker is not later than that record; it is
PrepareCommit or PrepareAbort; it is Ongoing, and the marker is older than this transaction; or it has a higher epoch.
Times of markers and records are the brokers' own: those at which they were appended, while the last update in a
Complete record is older than the markers. Kafka writes the markers that are missing, and aborts what is Ongoing, by its
timeout. Source: TransactionMetadata, ProducerStateManager; KIP-98, KIP-890.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from formats.errors import FormatError
from kcli.protocol.topic_partition import TopicPartition
from kcli.txn.records import parse
from kcli.txn.transaction import EPOCH_BUMP_VERSION, State, Transaction


class Batch(Protocol):
    """The fields of a batch that matter here, as BatchRow has them."""

    @property
    def base_offset(self) -> int: ...
    @property
    def producer_id(self) -> int: ...
    @property
    def producer_epoch(self) -> int: ...
    @property
    def max_timestamp(self) -> int: ...
    @property
    def is_transactional(self) -> bool: ...
    @property
    def is_control(self) -> bool: ...


def transactions(records: Iterable[tuple[bytes | None, bytes | None, int]]) -> dict[int, Transaction]:
    """Return the last state of each transactional id by its producer id; last_update_ms is that of its record. records:
    keys, values and timestamps of the records of `__transaction_state`, each partition's in order; those that cannot be
    read are passed over."""
    found: dict[str, Transaction | None] = {}
    for key, value, timestamp_ms in records:
        try:
            parsed = parse((key, value))
        except FormatError:
            continue
        if parsed is not None:
            state = parsed.transaction
            found[parsed.transactional_id] = None if state is None else state._replace(last_update_ms=timestamp_ms)
    return {each.producer_id: each for each in found.values() if each is not None}


def end_of(
    partition: TopicPartition,
    batches: Iterable[Batch],
    states: Mapping[int, Transaction],
) -> int | None:
    """Return the offset before which a partition ends; None if it keeps all batches.

    batches: those that may have been appended after the coordinator's records were read. states: by producer id.
    """
    begun: dict[int, int] = {}
    ended: set[int] = set()
    cut = None
    for batch in batches:
        if not batch.is_transactional:
            continue
        state = states.get(batch.producer_id)
        if not batch.is_control:
            begun.setdefault(batch.producer_id, batch.base_offset)
        elif batch.producer_id in ended or not _is_decided(batch, state):
            cut = batch.base_offset
            break
        else:
            begun.pop(batch.producer_id, None)
            if _is_of_prepared(batch, state):
                ended.add(batch.producer_id)
    strangers = [
        first
        for producer_id, first in begun.items()
        if producer_id in ended or not _is_open(partition, states.get(producer_id))
    ]
    return min([*strangers, *([] if cut is None else [cut])], default=None)


def _is_decided(marker: Batch, state: Transaction | None) -> bool:
    if state is None:
        return False
    if marker.producer_epoch != state.producer_epoch:
        return marker.producer_epoch < state.producer_epoch
    if state.state is State.ONGOING:
        return marker.max_timestamp <= state.start_ms or state.client_version >= EPOCH_BUMP_VERSION
    return state.state.is_prepared or marker.max_timestamp <= state.last_update_ms


def _is_of_prepared(marker: Batch, state: Transaction | None) -> bool:
    """Whether a marker ends the transaction that is PrepareCommit or PrepareAbort: what follows of its producer belongs
    to the next one."""
    if state is None or not state.state.is_prepared or marker.producer_epoch != state.producer_epoch:
        return False
    return marker.max_timestamp > state.start_ms or state.client_version >= EPOCH_BUMP_VERSION


def _is_open(partition: TopicPartition, state: Transaction | None) -> bool:
    """Whether the coordinator will end the transaction in this partition."""
    return state is not None and state.state.is_open and partition in state.partitions
