"""A split's records as Arrow record batches of some MB, window by window: memory is flat whatever the file's size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from formats.compression import CODEC_NAMES
from formats.errors import FormatError
from formats.kernels.log import (
    FAULT_BAD_CRC,
    FAULT_BAD_INNER,
    FAULT_BAD_MAGIC,
    FAULT_NEGATIVE_COUNT,
    FAULT_SHORT_HEADER,
    ArrowRows,
    RecordTable,
    drop_batches,
)
from kcli.errors import KcliError
from kcli.export.columns import COLUMNS, arrow_schema
from kcli.export.files import name_of, open_source
from kcli.export.options import OnCorruption
from kcli.export.splits import Split
from kcli.log.batch_records import UNREADABLE, decode, faults_of
from kcli.log.segment_reader import Damage, Window, read_segment

BATCH_BYTES = 4 << 20
BATCH_RECORDS = 1 << 16
SLICE_RECORDS = 1 << 14
UNSOUND = FAULT_BAD_CRC | FAULT_BAD_MAGIC | FAULT_SHORT_HEADER
"""No client takes anything from such a batch."""
CORRUPT = UNSOUND | UNREADABLE | FAULT_NEGATIVE_COUNT | FAULT_BAD_INNER


class CorruptLog(KcliError):
    """Bytes that are no sound batch, met with onCorruption=fail."""

    def __init__(self, segment: str, error: FormatError) -> None:
        where = "" if error.position is None else f", byte {error.position:,}"
        super().__init__(f"{segment}{where}: {error.reason}; onCorruption=skip or report reads on behind it")
        self.segment = segment
        self.error = error

    def __reduce__(self) -> tuple[type[CorruptLog], tuple[str, FormatError]]:
        return CorruptLog, (self.segment, self.error)


def read(
    split: Split,
    columns: Sequence[str],
    *,
    on_corruption: OnCorruption = OnCorruption.FAIL,
    include_control: bool = False,
) -> Iterator[pa.RecordBatch]:
    """The records of the split as record batches with these columns, in the order of the file.

    Raises UnreadableInput, and CorruptLog with onCorruption=fail.
    """
    yield from _Reader(split, columns, on_corruption, include_control).batches()


class _Reader:
    def __init__(
        self, split: Split, columns: Sequence[str], on_corruption: OnCorruption, include_control: bool
    ) -> None:
        self._split = split
        self._columns = columns
        self._schema = arrow_schema(columns)
        self._fails = on_corruption is OnCorruption.FAIL
        self._include_control = include_control
        self._rows = ArrowRows(
            [COLUMNS[name].kernel for name in columns if COLUMNS[name].kernel], BATCH_BYTES, BATCH_RECORDS
        )
        self._constants: dict[str, pa.Array] = {}

    def batches(self) -> Iterator[pa.RecordBatch]:
        split = self._split
        source = open_source(split.segment)
        records = RecordTable(SLICE_RECORDS)
        try:
            for part in read_segment(source, start=split.start, stop=split.stop):
                if isinstance(part, Damage):
                    self._damage([part.error])
                else:
                    yield from self._window(part, records)
        finally:
            source.close()
        if self._rows.count:
            yield self._take()

    def _window(self, window: Window, records: RecordTable) -> Iterator[pa.RecordBatch]:
        split, batches, rows = self._split, window.batches, self._rows
        batches.select(from_offset=split.from_offset, to_offset=split.to_offset)
        self._faults(window, UNSOUND)
        drop_batches(batches, faults=UNSOUND, control=not self._include_control)
        for _ in decode(window, records):
            records.select(from_offset=split.from_offset, to_offset=split.to_offset)
            at = 0
            while at < records.count:
                at = rows.add(records, at)
                if rows.is_full:
                    yield self._take()
        self._faults(window, CORRUPT)
        window.release()

    def _faults(self, window: Window, bits: int) -> None:
        i = window.batches.first_fault()
        while i >= 0:
            if window.batches.row(i)[-1] & bits:
                self._damage(faults_of(window, i))
            i = window.batches.first_fault(i + 1)

    def _damage(self, errors: Sequence[FormatError]) -> None:
        if self._fails:
            raise CorruptLog(self._split.segment, errors[0])

    def _take(self) -> pa.RecordBatch:
        count = self._rows.count
        buffers = iter(self._rows.take())
        arrays = [
            _array(name, count, next(buffers)) if COLUMNS[name].kernel else self._constant(name, count)
            for name in self._columns
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _constant(self, name: str, count: int) -> pa.Array:
        known = self._constants.get(name)
        if known is None or len(known) < count:
            split = self._split
            value = {"topic": split.topic, "partition": split.partition, "segment": name_of(split.segment)}.get(name)
            known = self._constants[name] = pa.repeat(pa.scalar(value, COLUMNS[name].arrow), count)
        return known[:count]


def _array(name: str, count: int, buffers: tuple[Any, ...]) -> pa.Array:
    """A column from the buffers that ArrowRows gathered."""
    kind = COLUMNS[name].arrow
    made = [None if buffer is None else pa.py_buffer(buffer if memoryview(buffer).nbytes else b"") for buffer in buffers]
    if name == "headers":
        keys = pa.Array.from_buffers(pa.string(), _values(made[3]), made[2:5])
        values = pa.Array.from_buffers(pa.binary(), _values(made[6]), made[5:8])
        pairs = pa.StructArray.from_arrays([keys, values], fields=list(kind.value_type))
        return pa.Array.from_buffers(kind, count, made[:2], children=[pairs])
    if name == "codec":
        return pa.array(CODEC_NAMES).take(pa.Array.from_buffers(pa.int8(), count, [None, *made]))
    if name == "isControl":
        return pa.Array.from_buffers(pa.uint8(), count, [None, *made]).cast(pa.bool_())
    return pa.Array.from_buffers(kind, count, made if len(made) > 1 else [None, *made])


def _values(offsets: pa.Buffer | None) -> int:
    assert offsets is not None, "only validity may be absent"
    return int(offsets.size) // 4 - 1
