"""Logs with everything that the cleaner treats specially, made from a seed and built by the Construct twins."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from formats.control_record import ControlRecord, ControlType
from formats.control_record import build as build_control
from formats.file_name import FileKind, FileName, build
from formats.legacy import Message, build_message, wrap
from formats.record_batch import BatchHeader, Record, RecordBatch, RecordHeader, build_batch
from formats.txn_index import AbortedTxn
from formats.txn_index import build as build_txn_index

BASE_TIME_MS = 1_700_000_000_000
LOG_APPEND, TRANSACTIONAL, CONTROL, HORIZON = 8, 16, 32, 64
TRANSACTIONAL_IDS, IDEMPOTENT_IDS = (11, 12, 13), (21, 22)


@dataclass
class SegmentData:
    """One segment: its base offset, its batches, the aborted transactions that end in it."""

    base_offset: int
    batches: list[bytes] = field(default_factory=list)
    aborted: list[AbortedTxn] = field(default_factory=list)


class RandomLog:
    """A log: its segments in order. `now_ms` is a little later than its last record."""

    def __init__(self, seed: int, *, batches: int = 60, legacy: bool = False) -> None:
        self.random = Random(seed)
        self.offset = self.random.choice((0, 0, 1000))
        self.time_ms = BASE_TIME_MS
        self.segments = [SegmentData(self.offset)]
        self.open: dict[int, int] = {}
        self.epochs = dict.fromkeys((*TRANSACTIONAL_IDS, *IDEMPOTENT_IDS), 0)
        self.sequences = dict.fromkeys(self.epochs, 0)
        for i in range(batches):
            if self.segments[-1].batches and self.random.random() < 0.15:
                self.segments.append(SegmentData(self.offset))
            if legacy and i < batches // 3:
                self._append(self._legacy())
            else:
                self._next()
            if self.random.random() < 0.2:
                self.offset += self.random.randrange(1, 5)  # what compaction left out before
        if self.random.random() < 0.8:
            for producer in list(self.open):
                self._marker(producer)
        self.segments.append(SegmentData(self.offset))
        self._append(self._batch(-1))
        self.now_ms = self.time_ms + self.random.randrange(10_000)

    def write_to(self, directory: Path) -> None:
        """Write logs and transaction indexes; offset and time indexes are empty."""
        directory.mkdir()
        for segment in self.segments:
            for kind in (FileKind.LOG, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX):
                path = directory / build(FileName(kind, segment.base_offset))
                path.write_bytes(b"".join(segment.batches) if kind is FileKind.LOG else b"")
            if segment.aborted:
                path = directory / build(FileName(FileKind.TXN_INDEX, segment.base_offset))
                path.write_bytes(build_txn_index(tuple(segment.aborted)))

    def _append(self, batch: bytes) -> None:
        self.segments[-1].batches.append(batch)

    def _next(self) -> None:
        kind = self.random.random()
        if kind < 0.45:
            self._append(self._batch(-1))
        elif kind < 0.6:
            self._append(self._batch(self.random.choice(IDEMPOTENT_IDS)))
        elif kind < 0.85:
            producer = self.random.choice(TRANSACTIONAL_IDS)
            self.open.setdefault(producer, self.offset)
            self._append(self._batch(producer))
        else:
            self._marker(self.random.choice(TRANSACTIONAL_IDS))

    def _record(self, timestamp_delta: int, offset_delta: int) -> Record:
        random = self.random
        key = None if random.random() < 0.08 else random.choice((b"", b"k%d" % random.randrange(12), bytes(40)))
        value = None if random.random() < 0.2 else random.randbytes(random.randrange(30))
        headers = tuple(RecordHeader(b"h", random.choice((None, b"", b"v"))) for _ in range(random.choice((0, 0, 2))))
        return Record(0, timestamp_delta, offset_delta, key, value, headers)

    def _batch(self, producer: int) -> bytes:
        random = self.random
        self.time_ms += random.randrange(2000)
        deltas = sorted(random.sample(range(8), random.randrange(1, 5)))
        codec = random.choice((0, 0, 0, 1, 2, 3, 4))
        base_time = self.time_ms
        attributes = codec | (LOG_APPEND if random.random() < 0.1 else 0)
        if random.random() < 0.2:
            attributes |= HORIZON
            base_time = self.time_ms + random.choice((-100_000, 3_600_000))
        if producer in TRANSACTIONAL_IDS:
            attributes |= TRANSACTIONAL
        records = tuple(self._record(self.time_ms - base_time + random.randrange(-50, 50), each) for each in deltas)
        times = [base_time + record.timestamp_delta for record in records]
        last = deltas[-1] + (random.randrange(3) if random.random() < 0.2 else 0)
        built = self._build(attributes, last, base_time, max(times), producer, records)
        if producer >= 0:
            self.sequences[producer] += last + 1
        return built

    def _build(
        self, attributes: int, last: int, base_time: int, max_time: int, producer: int, records: tuple[Record, ...]
    ) -> bytes:
        sequence = -1 if producer < 0 or attributes & CONTROL else self.sequences[producer]
        epoch = self.epochs.get(producer, -1)
        header = BatchHeader(
            self.offset, 0, 7, 2, 0, attributes, last, base_time, max_time, producer, epoch, sequence, 0
        )
        self.offset += last + 1
        return build_batch(RecordBatch(header, records))

    def _marker(self, producer: int) -> None:
        """Append the marker that ends the producer's transaction, even where compaction has removed all its records."""
        self.time_ms += self.random.randrange(1000)
        kind = self.random.choice((ControlType.ABORT, ControlType.COMMIT))
        first = self.open.pop(producer, None)
        if first is not None and kind is ControlType.ABORT:
            stable = min(self.open.values(), default=self.offset + 1)
            self.segments[-1].aborted.append(AbortedTxn(0, producer, first, self.offset, stable))
        key, value = build_control(ControlRecord(kind, 0, {"coordinatorEpoch": 3}))
        horizon = self.time_ms + self.random.choice((-100_000, 3_600_000)) if self.random.random() < 0.3 else None
        base = self.time_ms if horizon is None else horizon
        attributes = TRANSACTIONAL | CONTROL | (0 if horizon is None else HORIZON)
        record = Record(0, self.time_ms - base, 0, key, value, ())
        self._append(self._build(attributes, 0, base, self.time_ms, producer, (record,)))

    def _legacy(self) -> bytes:
        """Return a message of magic 0 or 1, or a compressed wrapper around several."""
        random = self.random
        magic = random.choice((0, 1))
        codec = random.choice((0, 0, 1, 2, 3))
        attributes = LOG_APPEND if magic and random.random() < 0.2 else 0
        messages = []
        for _ in range(1 if codec == 0 else random.randrange(1, 4)):
            self.time_ms += random.randrange(2000)
            record = self._record(0, 0)
            messages.append(
                Message(self.offset, magic, attributes, self.time_ms if magic else -1, record.key, record.value)
            )
            self.offset += random.choice((1, 1, 2))
        return build_message(messages[0] if codec == 0 else wrap(messages, codec))
