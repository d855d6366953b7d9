"""Kafka's cleaner once more, record by record with the Construct twins: slow and simple."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from formats.control_record import ControlType, parse_key
from formats.legacy import Message, parse_message, unwrap
from formats.record_batch import BatchHeader, Record, RecordBatch, build_batch, parse_batch
from formats.txn_index import AbortedTxn
from tests.log.cleaner.random_log import CONTROL, HORIZON, LOG_APPEND, TRANSACTIONAL, SegmentData

KEEP_ATTRIBUTES = 7 | LOG_APPEND | TRANSACTIONAL | CONTROL


@dataclass
class Transactions:
    """CleanedTransactionMetadata."""

    waiting: list[AbortedTxn] = field(default_factory=list)
    aborted: dict[int, tuple[AbortedTxn, bool]] = field(default_factory=dict)
    committed: set[int] = field(default_factory=set)
    index: list[AbortedTxn] = field(default_factory=list)

    def _consume(self, offset: int) -> None:
        for entry in sorted(self.waiting, key=lambda each: each.first_offset):
            if entry.first_offset <= offset:
                self.aborted.setdefault(entry.producer_id, (entry, False))
                self.waiting.remove(entry)

    def on_data(self, header: BatchHeader) -> bool:
        self._consume(header.last_offset)
        if not header.is_transactional:
            return False
        if header.producer_id in self.aborted:
            self.aborted[header.producer_id] = (self.aborted[header.producer_id][0], True)
            return True
        self.committed.add(header.producer_id)
        return False

    def on_marker(self, batch: RecordBatch) -> bool:
        producer = batch.header.producer_id
        self._consume(batch.header.last_offset)
        if not batch.records:
            return True
        if parse_key(batch.records[0].key).type == ControlType.ABORT:
            entry, seen = self.aborted.pop(producer, (None, False))
            if entry is not None and seen:
                self.index.append(entry)
                return False
            return True
        known = producer in self.committed
        self.committed.discard(producer)
        return not known


@dataclass(frozen=True)
class Plain:
    """A record with its offset and time."""

    offset: int
    timestamp: int
    record: Record


def entries(data: bytes) -> list[Plain]:
    """The records of a batch of any magic."""
    if data[16] < 2:
        message = parse_message(data)
        inside: Sequence[Message] = unwrap(message) if message.codec else (message,)
        return [Plain(each.offset, each.timestamp, Record(0, 0, 0, each.key, each.value)) for each in inside]
    batch = parse_batch(data)
    return [Plain(batch.offset(record), batch.timestamp_ms(record), record) for record in batch.records]


class ReferenceCleaner:
    """One pass over all segments except for the last, or up to `end_offset`."""

    def __init__(
        self,
        *,
        now_ms: int,
        retention_ms: int,
        end_offset: int,
        producers: dict[int, tuple[int, int]],
        aborted: Sequence[AbortedTxn],
    ) -> None:
        self.now_ms = now_ms
        self.retention_ms = retention_ms
        self.end_offset = end_offset
        self.producers = producers
        self.aborted = [entry for entry in aborted if entry.first_offset < end_offset]
        self.latest: dict[bytes, int] = {}

    def fill(self, segments: Sequence[SegmentData]) -> None:
        transactions = Transactions(list(self.aborted))
        for data in (batch for segment in segments for batch in segment.batches):
            if data[16] >= 2:
                batch = parse_batch(data)
                if batch.header.is_control:
                    transactions.on_marker(batch)
                    continue
                if transactions.on_data(batch.header):
                    continue
            for each in entries(data):
                if each.record.key is not None:
                    self.latest[each.record.key] = each.offset

    def clean(self, segments: Sequence[SegmentData]) -> list[bytes]:
        transactions = Transactions(list(self.aborted))
        cleaned = [self._clean(data, transactions) for segment in segments for data in segment.batches]
        self.index = transactions.index
        return [batch for batch in cleaned if batch is not None]

    def _clean(self, data: bytes, transactions: Transactions) -> bytes | None:
        if data[16] < 2:
            kept = [each for each in entries(data) if self._stays(each, keep_deletes=True)]
            return self._from_legacy(parse_message(data), kept) if kept else None
        batch = parse_batch(data)
        header = batch.header
        horizon = header.delete_horizon_ms
        idle = discard = False
        if header.is_control:
            idle = transactions.on_marker(batch)
            discard = idle and horizon is not None and horizon <= self.now_ms
        else:
            discard = transactions.on_data(header)
        keep_empty = header.last_offset + 1 == self.end_offset
        if header.producer_id in self.producers:
            last, epoch = self.producers[header.producer_id]
            keep_empty |= (
                header.last_offset == last if last >= 0 else header.is_control and header.producer_epoch == epoch
            )
        keep_deletes = horizon is None or self.now_ms < horizon
        kept = [
            each
            for each in entries(data)
            if not discard and (header.is_control or self._stays(each, keep_deletes=keep_deletes))
        ]
        if not kept:
            return self._empty(header) if keep_empty else None
        sets = horizon is None and (idle or any(each.record.value is None for each in kept))
        if len(kept) == header.record_count and not sets:
            return data
        return self._rebuild(header, kept, self.now_ms + self.retention_ms if sets else horizon)

    def _stays(self, each: Plain, *, keep_deletes: bool) -> bool:
        if each.record.key is None or each.offset < self.latest.get(each.record.key, -1):
            return False
        return each.record.value is not None or keep_deletes

    @staticmethod
    def _empty(header: BatchHeader) -> bytes:
        attributes = header.attributes & (LOG_APPEND | TRANSACTIONAL | CONTROL)
        return build_batch(RecordBatch(header._replace(attributes=attributes, base_timestamp=-1), ()))

    @staticmethod
    def _rebuild(header: BatchHeader, kept: list[Plain], horizon: int | None) -> bytes:
        base = kept[0].timestamp if horizon is None else horizon
        records = tuple(
            Record(
                0, each.timestamp - base, each.offset - header.base_offset, each.record.key, each.record.value,
                each.record.headers,
            )
            for each in kept
        )  # fmt: skip
        header = header._replace(
            attributes=header.attributes & KEEP_ATTRIBUTES | (0 if horizon is None else HORIZON),
            base_timestamp=base,
            max_timestamp=header.max_timestamp if header.is_log_append_time else max(each.timestamp for each in kept),
        )
        return build_batch(RecordBatch(header, records))

    def _from_legacy(self, message: Message, kept: list[Plain]) -> bytes:
        horizon = self.now_ms + self.retention_ms if any(each.record.value is None for each in kept) else None
        last = kept[-1].offset - kept[0].offset
        attributes = message.codec | (LOG_APPEND if message.is_log_append_time else 0)
        header = BatchHeader(kept[0].offset, 0, -1, 2, 0, attributes, last, 0, message.timestamp, -1, -1, -1, 0)
        return self._rebuild(header, kept, horizon)
