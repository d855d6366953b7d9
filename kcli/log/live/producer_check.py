"""The checks of idempotence and transactions that a leader makes before it appends a producer's batch.

    duplicate   a batch with the sequences of one of the producer's last five batches is not appended: the producer gets
                the offsets of that earlier batch
    epoch       is not below the producer's latest; with transaction.version 2 each marker bumps it
    sequence    is one above the producer's last sequence; 0 in a new epoch
    transaction while it is open, all of the producer's batches belong to it; the coordinator epoch of its marker is not
                below that of the producer's last marker

A follower makes none of these checks: it appends what its leader has appended. Source: ProducerAppendInfo, UnifiedLog;
KIP-98, KIP-890.
"""

from __future__ import annotations

from typing import NamedTuple

from formats.kernels.columns import BatchRow
from formats.kernels.producers import RECOVERY_MORE, ProducerTable, producer_entry
from formats.producer_snapshot import ProducerEntry
from kcli.log.live.validator import AppendRefused, Origin
from kcli.log.live.verification import Verification
from kcli.log.producer_state import read_control
from kcli.protocol.error_code import ErrorCode

SEQUENCE_MAX = 2**31 - 1
SHORT_MAX = 2**15 - 1
NO_PRODUCER = ProducerEntry(-1, -1, -1, -1, 0, -1, -1, -1)


class Duplicate(NamedTuple):
    """The batch in the log that a batch repeats: its offsets, and its largest timestamp (ms)."""

    first_offset: int
    last_offset: int
    timestamp: int


def check_producer(
    producers: ProducerTable,
    row: BatchRow,
    data: bytearray,
    origin: Origin,
    transaction_version: int,
    verification: Verification | None = None,
) -> Duplicate | None:
    """Check a batch that has a producer id. Returns the batch in the log that it repeats; None if it repeats none.

    row, data: the batch's header and bytes. origin: only a client's batch can be a duplicate, and only its sequence is
    checked. transaction_version: for a marker, the version of the transaction that it ends. verification: the record of
    the producer's attempts to append while the coordinator verifies the transaction; None if no verification is under
    way.

    Raises AppendRefused with INVALID_PRODUCER_EPOCH (below the latest epoch), OUT_OF_ORDER_SEQUENCE_NUMBER,
    INVALID_TXN_STATE (a batch outside of the open transaction), and for a marker TRANSACTION_COORDINATOR_FENCED or
    INVALID_RECORD.
    """
    if origin is Origin.CLIENT and (duplicate := _duplicate(producers, row)):
        return duplicate
    entry = ProducerEntry._make(producer_entry(producers, row.producer_id) or NO_PRODUCER)
    if row.is_control:
        _check_marker(entry, row, bytes(data), transaction_version)
        return None
    _check_epoch(entry, row)
    if origin is Origin.CLIENT:
        _check_verification(entry, row, verification)
        _check_sequence(entry, row)
    if entry.current_txn_first_offset >= 0 and not row.is_transactional:
        reason = f"producer {row.producer_id} has an open transaction, the batch is not part of one"
        raise AppendRefused(ErrorCode.INVALID_TXN_STATE, reason)
    return None


def _duplicate(producers: ProducerTable, row: BatchRow) -> Duplicate | None:
    entry = producer_entry(producers, row.producer_id)
    if entry is None or entry[1] != row.producer_epoch:
        return None
    span = row.last_offset - row.base_offset
    last_sequence = _add(row.base_sequence, span) if row.base_sequence != -1 else -1
    for sequence, last_offset, delta, timestamp in producers.last_batches(row.producer_id):
        first_sequence = _add(sequence, -delta) if sequence != -1 else -1
        if (first_sequence, sequence) == (row.base_sequence, last_sequence):
            return Duplicate(last_offset - delta, last_offset, timestamp)
    return None


def _add(sequence: int, more: int) -> int:
    """Return the sequence that is `more` above `sequence`; 0 follows 2^31 - 1."""
    return (sequence + more) % (SEQUENCE_MAX + 1)


def _check_epoch(entry: ProducerEntry, row: BatchRow) -> None:
    if row.producer_epoch < entry.producer_epoch:
        raise _fenced(entry, row, "below")


def _fenced(entry: ProducerEntry, row: BatchRow, how: str) -> AppendRefused:
    reason = (
        f"epoch {row.producer_epoch} of producer {row.producer_id} at offset {row.base_offset} is {how} "
        f"its latest, {entry.producer_epoch}"
    )
    return AppendRefused(ErrorCode.INVALID_PRODUCER_EPOCH, reason)


def _check_verification(entry: ProducerEntry, row: BatchRow, verification: Verification | None) -> None:
    """Refuse a batch while a batch of a lower sequence, which the producer tried to append before, is not in the log. A
    batch whose sequence follows the last one in the log is valid here, as all lower sequences have been appended; Kafka
    refuses even that batch. entry: the producer's state. verification: as in `check_producer`."""
    follows = entry.producer_epoch == row.producer_epoch and row.base_sequence == _add(entry.last_sequence, 1)
    if verification is None or (follows and entry.last_sequence >= 0):
        return
    if verification.begins_at_0 and row.base_sequence and entry.last_sequence == NO_PRODUCER.last_sequence:
        expected = 0
    elif row.base_sequence > verification.lowest_sequence:
        expected = verification.lowest_sequence
    else:
        return
    reason = (
        f"producer {row.producer_id} epoch {row.producer_epoch} at offset {row.base_offset} begins with sequence "
        f"{row.base_sequence}, not {expected}"
    )
    raise AppendRefused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, reason)


def _check_sequence(entry: ProducerEntry, row: BatchRow) -> None:
    if entry.producer_epoch == -1:
        return
    expected = 0 if row.producer_epoch != entry.producer_epoch else _add(entry.last_sequence, 1)
    if row.base_sequence != expected:
        reason = (
            f"producer {row.producer_id} epoch {row.producer_epoch} at offset {row.base_offset}: sequence "
            f"{row.base_sequence}, {expected} comes next"
        )
        raise AppendRefused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, reason)


def _check_marker(entry: ProducerEntry, row: BatchRow, data: bytes, transaction_version: int) -> None:
    how, kind, coordinator_epoch, _, reason = read_control(data)
    if how != RECOVERY_MORE:
        raise AppendRefused(ErrorCode.INVALID_RECORD, reason or "no end marker")
    if row.is_transactional:
        _check_epoch(entry, row)
    if kind < 0:
        return
    if transaction_version >= 2:
        ended = entry.current_txn_first_offset < 0 or row.producer_epoch == SHORT_MAX
        again = row.producer_epoch == entry.producer_epoch and ended
        if row.producer_epoch <= entry.producer_epoch and not again:
            raise _fenced(entry, row, "not above")
    else:
        _check_epoch(entry, row)
    if coordinator_epoch < entry.coordinator_epoch:
        reason = (
            f"a marker for producer {row.producer_id} at offset {row.base_offset} from coordinator epoch "
            f"{coordinator_epoch}, the latest is {entry.coordinator_epoch}"
        )
        raise AppendRefused(ErrorCode.TRANSACTION_COORDINATOR_FENCED, reason)
