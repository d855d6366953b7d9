from typing import Final

from typing_extensions import Buffer

from formats.kernels.batches import BatchTable
from formats.kernels.buffer import TextBuffer

class SegmentIndexes:
    offsets: Final[TextBuffer]
    times: Final[TextBuffer]
    position: Final[int]
    max_timestamp: Final[int]
    overflow: Final[bool]
    def __init__(self, base_offset: int, interval_bytes: int) -> None: ...
    def add(self, batches: Buffer) -> None: ...
    def finish(self) -> None: ...

class AppendIndexer:
    max_timestamp: Final[int]
    max_timestamp_offset: Final[int]
    def __init__(
        self, base: int, interval_bytes: int, indexed_timestamp: int, max_timestamp: int, max_timestamp_offset: int
    ) -> None: ...
    def append(self, table: BatchTable, position: int, offset_slots: int, time_slots: int) -> tuple[bytes, bytes]: ...
    def last_time_entry(self) -> bytes: ...

class IndexTail:
    count: int
    slots: int
    entry_bytes: int
    waiting_bytes: Final[int]
    def append(self, entries: Buffer) -> None: ...
    def waiting(self) -> bytes: ...
    def written(self) -> None: ...

def entries_up_to(entries: Buffer, count: int, value: int, *, of_positions: bool) -> int:
    """How many of the first `count` entries of an offset index come before or at a value, by binary search.

    of_positions: compare the entries' positions, else their relative offsets. Raises ValueError where the bytes hold
    fewer entries."""
