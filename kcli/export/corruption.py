"""What was passed over in damaged segments: an error under onCorruption=fail, else rows of a table.

    topic partition segment   where
    position length           bytes of the segment, from the first that is not as it should be
    firstOffset lastOffset    of the batch, as its header says; null where none can be read
    kind reason               what is wrong: as `kcli verify` says it
    readFrom                  the copy of the partition that had these offsets; null: nobody had

A split writes a Parquet file of its own, named for the split, so that a task that runs twice writes one.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from formats.errors import FormatError
from formats.kernels.columns import BatchRow
from kcli.errors import KcliError
from kcli.export.files import join, name_of, write_file
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
    """Bytes that are no sound batch, met with onCorruption=fail."""

    def __init__(self, segment: str, error: FormatError) -> None:
        where = "" if error.position is None else f", byte {error.position:,}"
        super().__init__(f"{segment}{where}: {error.reason}; onCorruption=skip or report reads on behind it")
        self.segment = segment
        self.error = error

    def __reduce__(self) -> tuple[type[CorruptLog], tuple[str, FormatError]]:
        return CorruptLog, (self.segment, self.error)


class Findings:
    """What is damaged in one split."""

    def __init__(self, split: Split, on_corruption: OnCorruption) -> None:
        self._split = split
        self._fails = on_corruption is OnCorruption.FAIL
        self._rows: list[dict[str, Any]] = []
        self._untold: list[tuple[int, FormatError]] = []

    def add(self, error: FormatError, position: int, length: int, batch: BatchRow | None = None) -> None:
        """Damage, for which a copy of the partition may stand in; `settle` decides."""
        self._untold.append((len(self._rows), error))
        self._rows.append(
            {
                "topic": self._split.topic,
                "partition": self._split.partition,
                "segment": self._split.segment,
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
        """Nothing is left to be decided."""
        return not self._untold

    def settle(self, *, read_from: str | None = None, is_missed: bool = True) -> None:
        """What was added since may be read from elsewhere, or not be missed. Raises CorruptLog where it is, if told."""
        for row, error in self._untold:
            self._rows[row]["readFrom"] = read_from
            if self._fails and read_from is None and is_missed:
                raise CorruptLog(self._split.segment, error)
        self._untold.clear()

    def write(self) -> None:
        """Write the split's part of the report, if there is to be one and anything to tell. Raises UnreadableInput."""
        split = self._split
        if split.corruption_report is None or not self._rows:
            return
        from pyarrow import parquet

        sink = pa.BufferOutputStream()
        parquet.write_table(pa.Table.from_pylist(self._rows, SCHEMA), sink)
        whose = f"{split.topic}-{split.partition}-{name_of(split.segment).partition('.')[0]}-{split.start:010}"
        write_file(join(split.corruption_report, f"{whose}.parquet"), sink.getvalue().to_pybytes())
