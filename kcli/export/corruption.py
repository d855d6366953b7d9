"""Damage in segments: CorruptLog with onCorruption=fail, rows of a damage table with onCorruption=report.

    topic partition segment   the segment with the damage
    position length           the damaged bytes of the segment, from the first wrong byte on
    firstOffset lastOffset    offsets from the batch's header; null if no header can be read
    kind reason               the fault, in the same words as `kcli verify`
    readFrom                  directory of the replica that had these offsets; null if no replica has them

Each split writes a Parquet file named after the split, so that a task that Spark runs twice leaves one file.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from formats.errors import FormatError
from formats.kernels.columns import BatchRow
from kcli.errors import KcliError
from kcli.export.files import join, name_of, shown, write_file
from kcli.export.options import OnCorruption
from kcli.export.splits import Split

SCHEMA = pa.schema(
    [
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("segment", pa.string(), nullable=False),
        pa.field("position", pa.int64(), nullable=False),
        pa.field("length", pa.int64(), nullable=False),
        pa.field("firstOffset", pa.int64()),
        pa.field("lastOffset", pa.int64()),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
        pa.field("readFrom", pa.string()),
    ]
)


class CorruptLog(KcliError):
    """Bytes of a segment are not a valid batch, with onCorruption=fail."""

    def __init__(self, segment: str, error: FormatError) -> None:
        where = "" if error.position is None else f", byte {error.position:,}"
        super().__init__(f"{segment}{where}: {error.reason}; onCorruption=skip or report reads on behind it")
        self.segment = segment
        self.error = error

    def __reduce__(self) -> tuple[type[CorruptLog], tuple[str, FormatError]]:
        return CorruptLog, (self.segment, self.error)


class Findings:
    """The damage found in one split. Damage that `add` has added is pending until `settle` says whether a replica has
    the damaged offsets."""

    def __init__(self, split: Split, on_corruption: OnCorruption) -> None:
        self._split = split
        self._fails = on_corruption is OnCorruption.FAIL
        self._rows: list[dict[str, Any]] = []
        self._pending: list[tuple[int, FormatError]] = []

    def add(self, error: FormatError, position: int, length: int, batch: BatchRow | None = None) -> None:
        """Add damage of the bytes [position, position + length), which is pending until `settle`. batch: the damaged
        batch, None if its header cannot be read.
        """
        self._pending.append((len(self._rows), error))
        self._rows.append(
            {
                "topic": self._split.topic,
                "partition": self._split.partition,
                "segment": shown(self._split.segment),
                "position": position,
                "length": length,
                "firstOffset": None if batch is None else batch.base_offset,
                "lastOffset": None if batch is None else batch.last_offset,
                "kind": type(error).__name__,
                "reason": error.reason,
                "readFrom": None,
            }
        )

    @property
    def is_settled(self) -> bool:
        """Whether no damage is pending."""
        return not self._pending

    def settle(self, *, read_from: str | None = None, is_missed: bool = True) -> None:
        """Settle all pending damage.

        read_from: directory of the replica from which the damaged offsets are read, None if no replica has them.
        is_missed: whether the damage contains offsets that the split must read. Raises CorruptLog with
        onCorruption=fail if is_missed is True and read_from is None.
        """
        for row, error in self._pending:
            self._rows[row]["readFrom"] = read_from
            if self._fails and read_from is None and is_missed:
                raise CorruptLog(shown(self._split.segment), error)
        self._pending.clear()

    def write(self) -> None:
        """Write the split's file of the damage table, if there is damage and onCorruption=report. Raises
        UnreadableInput."""
        split = self._split
        if split.corruption_report is None or not self._rows:
            return
        from pyarrow import parquet

        sink = pa.BufferOutputStream()
        parquet.write_table(pa.Table.from_pylist(self._rows, SCHEMA), sink)
        name = f"{split.topic}-{split.partition}-{name_of(split.segment).partition('.')[0]}-{split.start:010}"
        write_file(join(split.corruption_report, f"{name}.parquet"), sink.getvalue().to_pybytes())
