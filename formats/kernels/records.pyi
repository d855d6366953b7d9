from typing import Final

from typing_extensions import Buffer

from formats.kernels.batches import BatchTable, RowTable

RECORD_COLUMNS: Final[tuple[str, ...]]
FAULT_REASONS: Final[tuple[str, ...]]
LENGTH_VARINT: Final[str]

class RecordTable(RowTable):
    fault_reason: Final[int]
    fault_position: Final[int]
    fault_batch: Final[int]
    limit: Final[int]
    done: Final[int]
    is_payload: Final[bool]
    run_start: Final[int]
    max_timestamp: Final[int]
    def __init__(self, capacity: int = 65536) -> None: ...
    def start(self, buf: Buffer, batches: BatchTable, first: int, last: int, *, payload: bool = False) -> None: ...
    def next(self) -> bool: ...
    def select(
        self,
        *,
        from_offset: int = ...,
        to_offset: int = ...,
        from_time: int = ...,
        to_time: int = ...,
        key: Buffer | None = None,
        limit: int = ...,
    ) -> None: ...
    def explain(self) -> tuple[str, int]: ...

def payload_bounds(buf: Buffer, batches: BatchTable, i: int) -> tuple[int, int]: ...
def drop_offsets(records: RecordTable, mark: int, offsets: Buffer) -> None: ...
def drop_invalid(records: RecordTable) -> None: ...
