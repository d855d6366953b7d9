from typing import Final

from typing_extensions import Buffer

from formats.kernels.batches import BatchTable
from formats.kernels.buffer import TextBuffer
from formats.kernels.cleaner.key_map import KeyMap
from formats.kernels.records import RecordTable

CLEAN_REASONS: Final[tuple[str, ...]]
FILTER_FAULTS: Final[tuple[str, ...]]

class BatchFilter:
    out: Final[TextBuffer]
    records: Final[TextBuffer]
    records_read: Final[int]
    records_kept: Final[int]
    batches_read: Final[int]
    batches_kept: Final[int]
    batches_emptied: Final[int]
    horizons_set: Final[int]
    fault: Final[int]
    fault_batch: Final[int]
    def __init__(
        self, offset_map: KeyMap, *, now_ms: int, delete_retention_ms: int, keep_legacy_deletes: bool = True
    ) -> None: ...
    @property
    def reasons(self) -> list[tuple[int, int]]: ...
    def run(self, buf: Buffer, batches: BatchTable, flags: Buffer, first: int) -> int: ...
    def payload(self, buf: Buffer, batches: BatchTable, i: int, flags: int, payload: Buffer) -> bool: ...
    def wrapped(self, records: RecordTable, i: int, flags: int) -> bool: ...
    def finish(self, compressed: Buffer) -> None: ...
