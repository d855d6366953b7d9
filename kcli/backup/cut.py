"""Where a restored partition ends, so that no partition is ahead of the transaction coordinator.

A run reads the ends of `__transaction_state` at one moment, and those of the other partitions later. The batches that
were appended to a partition in between may belong to transactions of which the coordinator's records say less: to one
that is Ongoing there, although the partition has its marker, or to one that they do not have at all. Kafka would abort
a transaction that one partition has as committed, or never end it. A partition therefore ends before the first of

    a marker of a transaction whose outcome those records have not decided
    the first batch of a transaction that is open at the partition's end, but does not have it in those records

The outcome is decided if the producer's last record has a higher epoch than the marker; or if its state is Complete or
Empty, and the marker is not later than that record; PrepareCommit or PrepareAbort; or Ongoing, and the marker is older
than this transaction. The times compared are those at which brokers appended marker and record: the last update in a
Complete record is older than the markers. After the restore, Kafka writes the missing markers, and aborts Ongoing
transactions at their timeout. Source: TransactionMetadata, ProducerStateManager; KIP-98, KIP-890.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from formats.errors import FormatError
from kcli.protocol.topic_partition import TopicPartition
from kcli.txn.records import parse
from kcli.txn.transaction import EPOCH_BUMP_VERSION, State, Transaction


class Batch(Protocol):
    """The attributes of BatchRow that `end_of` uses."""

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
    """Return the last state of each transactional id by its producer id; its last_update_ms is the timestamp of the
    record. records: keys, values and timestamps of the records of `__transaction_state`, in the order of offsets in
    each partition. Records that cannot be parsed are ignored."""
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
    """Return the end offset (exclusive) of a partition in the restore; None if it keeps all batches.

    batches: those that may have been appended after the coordinator's records were read. states: the last state of each
    transactional id, by its producer id.
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
    """Whether a marker ends the transaction that `state` has as PrepareCommit or PrepareAbort. Later batches of its
    producer then belong to the next transaction."""
    if state is None or not state.state.is_prepared or marker.producer_epoch != state.producer_epoch:
        return False
    return marker.max_timestamp > state.start_ms or state.client_version >= EPOCH_BUMP_VERSION


def _is_open(partition: TopicPartition, state: Transaction | None) -> bool:
    """Whether the transaction in `state` is open and has this partition, so that the coordinator will end it there."""
    return state is not None and state.state.is_open and partition in state.partitions
