"""The records of one partition, gathered from decoded windows into Arrow record batches of some MB."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from formats.compression import CODEC_NAMES
from formats.kernels.arrow.rows import ArrowRows
from formats.kernels.batches import BatchTable
from formats.kernels.columns import ATTRIBUTES, MAGIC, RecordRow
from formats.kernels.records import RecordTable
from kcli.export.columns import COLUMNS, arrow_schema
from kcli.inspector.decoded import decoded_json, decoder_of
from kcli.log.read_only.survey import CONTROL
from kcli.protocol.topic_partition import TopicPartition

BATCH_BYTES = 4 << 20
BATCH_RECORDS = 1 << 16
KNOWN_MAGIC = 2
CODEC_LABELS = [*CODEC_NAMES, "5", "6", "7"]


class RecordBatches:
    """Gathers records into record batches with the columns that a query reads."""

    def __init__(
        self,
        partition: TopicPartition,
        columns: Sequence[str],
        *,
        segment: str | None = None,
        include_control: bool = False,
    ) -> None:
        """columns: names of kcli.export.columns.COLUMNS. segment: the name of the segment's file; None where a broker
        sends the batches: columns `segment` and `batchPosition` are null then."""
        self._constants: dict[str, object] = {"topic": partition.topic, "partition": partition.partition}
        self._constants |= {"segment": segment} | ({"batchPosition": None} if segment is None else {})
        self._columns = columns
        self._schema = arrow_schema(columns)
        self._from_kernel = {name for name in columns if COLUMNS[name].kernel and name not in self._constants}
        self._rows = ArrowRows(
            [COLUMNS[name].kernel for name in columns if name in self._from_kernel], BATCH_BYTES, BATCH_RECORDS
        )
        self._repeated: dict[str, pa.Array] = {}
        self._topic_decoded = decoder_of(partition.topic) is not None
        is_decoded = "decoded" in columns and (include_control or self._topic_decoded)
        self._decoder = decoded_json(partition.topic) if is_decoded else None
        self._decoded: list[str | None] = []
        self._batches: BatchTable | None = None
        self._window_decoded = False

    def begin(self, batches: BatchTable) -> None:
        """Begin a window. batches: those of which records will be added."""
        self._batches = batches
        self._window_decoded = self._decoder is not None and (self._topic_decoded or _has_control(batches))

    def add(self, records: RecordTable, buffer: memoryview) -> Iterator[pa.RecordBatch]:
        """Add a slice of the window's records; yield each record batch that is full. buffer: as `decode` of
        kcli.log.batch_records yields it."""
        at, rows = 0, self._rows
        while at < records.count:
            first, at = at, rows.add(records, at)
            if self._decoder is not None:
                self._decoded += (
                    [self._decode(records.row(i), buffer) for i in range(first, at)]
                    if self._window_decoded
                    else [None] * (at - first)
                )
            if rows.is_full:
                yield self._take()

    def rest(self) -> Iterator[pa.RecordBatch]:
        """Yield the records that are in no record batch yet, as one, if there are any."""
        if self._rows.count:
            yield self._take()

    def _decode(self, row: tuple[int, ...], buffer: memoryview) -> str | None:
        assert self._decoder is not None, "the column is read"
        assert self._batches is not None, "a window has begun"
        record = RecordRow._make(row)
        is_control = bool(self._batches.field(record.batch, ATTRIBUTES) & CONTROL) and (
            self._batches.field(record.batch, MAGIC) >= KNOWN_MAGIC
        )
        if not (is_control or self._topic_decoded):
            return None
        return self._decoder(record.offset, record.key(buffer), record.value(buffer), is_control)

    def _take(self) -> pa.RecordBatch:
        count = self._rows.count
        buffers = iter(self._rows.take())
        arrays = [
            _array(name, count, next(buffers)) if name in self._from_kernel else self._other(name, count)
            for name in self._columns
        ]
        self._decoded.clear()
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _other(self, name: str, count: int) -> pa.Array:
        """Return a column that formats.kernels.arrow does not fill: `decoded`, or a column with the same value in all
        rows."""
        if self._decoder is not None and name == "decoded":
            return pa.array(self._decoded, pa.string())
        known = self._repeated.get(name)
        if known is None or len(known) < count:
            known = pa.repeat(pa.scalar(self._constants.get(name), COLUMNS[name].arrow), count)
            self._repeated[name] = known
        return known[:count]


def _has_control(batches: BatchTable) -> bool:
    """Whether one of the batches is a control batch."""
    return any(
        batches.field(i, ATTRIBUTES) & CONTROL and batches.field(i, MAGIC) >= KNOWN_MAGIC for i in range(batches.count)
    )


def _array(name: str, count: int, buffers: tuple[object, ...]) -> pa.Array:
    """Return a column of `count` rows, made of the buffers that formats.kernels.arrow has filled (validity, offsets and
    data, as far as the column's type needs them)."""
    kind = COLUMNS[name].arrow
    made = [None if buffer is None else pa.py_buffer(buffer) for buffer in buffers]
    if name == "headers":
        keys = pa.Array.from_buffers(pa.string(), _values(made[3]), made[2:5])
        values = pa.Array.from_buffers(pa.binary(), _values(made[6]), made[5:8])
        pairs = pa.StructArray.from_arrays([keys, values], fields=list(kind.value_type))
        return pa.Array.from_buffers(kind, count, made[:2], children=[pairs])
    if name == "codec":
        return pa.array(CODEC_LABELS).take(pa.Array.from_buffers(pa.int8(), count, [None, *made]))
    if name == "isControl":
        return pa.Array.from_buffers(pa.uint8(), count, [None, *made]).cast(pa.bool_())
    return pa.Array.from_buffers(kind, count, made if len(made) > 1 else [None, *made])


def _values(offsets: pa.Buffer | None) -> int:
    assert offsets is not None, "only validity may be absent"
    return int(offsets.size) // 4 - 1
