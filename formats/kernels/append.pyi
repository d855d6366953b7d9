from collections.abc import Callable, Mapping
from typing import Final, Protocol

from typing_extensions import Buffer

from formats.kernels.batches import BatchTable
from formats.kernels.buffer import TextBuffer
from formats.kernels.indexes import AppendIndexer, IndexTail
from formats.kernels.producers import ProducerTable
from formats.kernels.records import RecordTable

APPEND_NO_KEY: Final[int]
APPEND_TIMESTAMP_OUT_OF_RANGE: Final[int]
APPEND_TIMESTAMP_TYPE: Final[int]

class RefusedRecords:
    total: Final[int]
    earliest: Final[int]
    latest: Final[int]
    keys_only: Final[bool]
    no_key: str
    def __init__(self, limit: int, *, no_key: str, earliest: int, latest: int) -> None: ...
    def __len__(self) -> int: ...
    def reason(self, i: int) -> str: ...
    def index(self, i: int) -> int: ...
    def encode(self, most: int, *, flexible: bool) -> TextBuffer: ...

def check_append(
    records: RecordTable, first_index: int, refused: RefusedRecords, *, keyed: bool, create_time: bool
) -> bool: ...

class _File(Protocol):
    @property
    def path(self) -> object: ...
    @property
    def fd(self) -> int: ...
    @property
    def writes_directly(self) -> bool: ...
    @property
    def write(self) -> Callable[[tuple[memoryview], int], object]: ...

class LogState:
    log_start_offset: int
    high_watermark: int
    log_end_offset: int
    runway: Runway | None
    def hold(self) -> None: ...
    def let_go(self) -> None: ...

class SegmentState:
    size: int

class Runway:
    leader_epoch: Final[int]
    def __init__(
        self,
        log: LogState,
        segment: SegmentState,
        file: _File,
        indexes: tuple[IndexTail, IndexTail, AppendIndexer],
        producers: ProducerTable,
        failed: Callable[[OSError], object],
        leader_epoch: int,
        *,
        size_max: int,
        offset_max: int,
        timestamp_max: int,
        keyed: bool,
        codec: int,
        before_max_ms: int,
        after_max_ms: int,
        max_message_bytes: int,
        verifications: Mapping[int, object],
    ) -> None: ...
    def append(self, batch: bytearray | memoryview, now_ms: int) -> tuple[int, int, int] | None: ...
    def follow(self, batches: bytes | bytearray | memoryview, leader_epoch_max: int) -> tuple[int, int, int] | None: ...

def survey_batches(table: BatchTable, leader_epoch_max: int) -> tuple[int, int, bool, int, list[tuple[int, int]]]: ...
def accept_plain(
    data: bytearray,
    table: BatchTable,
    next_offset: int,
    leader_epoch: int,
    *,
    keyed: bool,
    earliest: int,
    latest: int,
    max_bytes: int,
) -> bool: ...
def check_plain_records(
    data: Buffer, table: BatchTable, *, keyed: bool, create_time: bool, earliest: int, latest: int
) -> tuple[int, bool, int] | None: ...
