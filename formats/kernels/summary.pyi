from typing import Final

from formats.kernels.batches import BatchTable
from formats.kernels.records import RecordTable

class LogSummary:
    batches: Final[int]
    records: Final[int]
    control_records: Final[int]
    bytes_stored: Final[int]
    bytes_decompressed: Final[int]
    first_offset: Final[int]
    last_offset: Final[int]
    min_timestamp: Final[int]
    max_timestamp: Final[int]
    gaps: Final[int]
    missing_offsets: Final[int]
    crc_faults: Final[int]
    faulty_batches: Final[int]
    producers: Final[set[int]]
    codecs: Final[dict[int, int]]
    def __init__(self) -> None: ...
    def add_batches(self, table: BatchTable, last: int = -1) -> None: ...
    def add_records(self, records: RecordTable) -> None: ...
    def add_payload(self, size: int) -> None: ...
    def merge(self, other: LogSummary) -> None: ...
