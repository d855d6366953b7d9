"""The entries of a segment's indexes, as Kafka reads them: search, the last entry, cutting to whole entries.

    .index       8 bytes an entry    relative offset, position       the offset is the key (Kafka's IndexSearchType)
    .timeindex  12                   timestamp, relative offset      the timestamp is the key, the offset the value

Kafka counts all whole entries of a file that it opens, including preallocated zeros. It only opens indexes that a clean
shutdown has trimmed or that recovery has rebuilt. Source: AbstractIndex, OffsetIndex, TimeIndex. Indexes are rebuilt
from batches by SegmentRecovery, in compiled code.
"""

from __future__ import annotations

from formats.offset_index import ENTRY as OFFSET_ENTRY
from formats.txn_index import ENTRY as TXN_ENTRY

DEFAULT_INTERVAL_BYTES = 4096
DEFAULT_MAX_INDEX_BYTES = 10 * 1024 * 1024
TIME_ENTRY_BYTES = 12
OFFSET_ENTRY_BYTES = OFFSET_ENTRY.size
TXN_ENTRY_BYTES = TXN_ENTRY.size
WARM_BYTES = 8192


def whole_entries(data: bytes, entry_bytes: int) -> bytes:
    """Return the whole entries of an index file, without a partial one at the end. Kafka cuts an index file to these
    when it closes the file."""
    return data[: len(data) // entry_bytes * entry_bytes]


class OffsetIndexReader:
    """The entries of a `.index` file, in which preallocated zeros count as entries."""

    def __init__(self, data: bytes, base_offset: int) -> None:
        self._data = data
        self._base = base_offset
        self.count = len(data) // OFFSET_ENTRY_BYTES

    def entry(self, i: int) -> tuple[int, int]:
        """Return the absolute offset and the position (byte) of entry i."""
        relative, position = OFFSET_ENTRY.unpack(self._data, i * OFFSET_ENTRY_BYTES)
        return self._base + relative, position

    @property
    def last_offset(self) -> int:
        """The offset of the last entry; the base offset if there is none."""
        return self.entry(self.count - 1)[0] if self.count else self._base

    def position_of(self, offset: int) -> int:
        """Return the byte of the .log file from which Kafka scans for `offset`: the position in the last entry whose
        offset is at most `offset`; 0 if there is no such entry.

        The binary search is Kafka's, warm section first. So in an index whose entries are out of order, it also ends at
        the entry that Kafka finds, whichever that is.
        """
        if not self.count:
            return 0
        first_warm = max(0, self.count - 1 - WARM_BYTES // OFFSET_ENTRY_BYTES)
        if self.entry(first_warm)[0] < offset:
            low, high = first_warm, self.count - 1
        elif self.entry(0)[0] > offset:
            return 0
        else:
            low, high = 0, first_warm
        while low < high:
            middle = (low + high + 1) >> 1
            found = self.entry(middle)[0]
            if found > offset:
                high = middle - 1
            elif found < offset:
                low = middle
            else:
                return self.entry(middle)[1]
        return self.entry(low)[1]
