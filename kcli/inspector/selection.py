"""The selection of records to show. It drops whole batches before they are decoded, then single records."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from formats.kernels.batches import BatchTable
from formats.kernels.records import RecordTable

MIN_INT64, MAX_INT64 = -(2**63), 2**63 - 1
NO_LIMIT = 2**62


@dataclass(frozen=True, slots=True)
class Selection:
    """The records to show: "from" is inclusive, "to" exclusive, times are epoch ms; None selects any key, producer,
    codec."""

    from_offset: int = MIN_INT64
    to_offset: int = MAX_INT64
    from_time_ms: int = MIN_INT64
    to_time_ms: int = MAX_INT64
    key: bytes | None = None
    producer_id: int | None = None
    codec: int | None = None
    limit: int = NO_LIMIT

    @property
    def is_all(self) -> bool:
        """Whether every record is selected."""
        return self == ALL

    def narrowed(self, **changes: Any) -> Selection:
        """Return this selection with other values for the fields that `changes` names; a value of None changes
        nothing."""
        return replace(self, **{name: value for name, value in changes.items() if value is not None})

    def batches(self, table: BatchTable) -> None:
        """Drop the batches that have no selected record, so that they are not even decompressed."""
        table.select(
            from_offset=self.from_offset,
            to_offset=self.to_offset,
            from_time=self.from_time_ms,
            to_time=self.to_time_ms,
            producer_id=self.producer_id,
            codec=-1 if self.codec is None else self.codec,
        )

    def records(self, table: RecordTable, limit: int) -> None:
        """Drop the records of a table that are not selected, and those past the first `limit`."""
        table.select(
            from_offset=self.from_offset,
            to_offset=self.to_offset,
            from_time=self.from_time_ms,
            to_time=self.to_time_ms,
            key=self.key,
            limit=limit,
        )


ALL = Selection()
