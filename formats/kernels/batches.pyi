from typing import Final

from typing_extensions import Buffer

BATCH_COLUMNS: Final[tuple[str, ...]]
FAULT_SHORT_HEADER: Final[int]
FAULT_BAD_CODEC: Final[int]
FAULT_BAD_PAYLOAD: Final[int]
FAULT_BAD_RECORD: Final[int]
FAULT_COUNT_TOO_HIGH: Final[int]
FAULT_COUNT_TOO_LOW: Final[int]
FAULT_BAD_CRC: Final[int]
FAULT_OFFSETS_NOT_INCREASING: Final[int]
FAULT_OFFSET_OUT_OF_RANGE: Final[int]
FAULT_MAX_TIMESTAMP: Final[int]
FAULT_HEADER_NOT_UTF8: Final[int]
FAULT_NEGATIVE_LENGTH: Final[int]
FAULT_NEGATIVE_COUNT: Final[int]
FAULT_CONTROL_KEY: Final[int]
FAULT_BAD_INNER: Final[int]
FAULT_BAD_MAGIC: Final[int]

class RowTable(Buffer):
    @property
    def count(self) -> int: ...
    def __len__(self) -> int: ...
    def row(self, i: int) -> tuple[int, ...]: ...

class BatchTable(RowTable):
    def clear(self) -> None: ...
    def drop_last(self) -> None: ...
    def field(self, i: int, column: int) -> int: ...
    def header_size(self, i: int) -> int: ...
    def run(self, i: int) -> tuple[int, int]: ...
    def add_fault(self, i: int, bits: int) -> None: ...
    def first_fault(self, i: int = 0) -> int: ...
    def select(
        self,
        *,
        from_offset: int = ...,
        to_offset: int = ...,
        from_time: int = ...,
        to_time: int = ...,
        producer_id: int | None = None,
        codec: int = -1,
    ) -> None: ...

def drop_batches(
    table: BatchTable, *, faults: int = 0, control: bool = False, aborted: Buffer | None = None
) -> None: ...
def odd_offsets(table: BatchTable, last: int, low: int, high: int, first: int = 0) -> tuple[int, int]: ...
def has_transactions(table: BatchTable) -> bool: ...
