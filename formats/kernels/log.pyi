"""Types of the compiled module log.pyx, which documents them."""

from collections.abc import Callable, Iterable
from typing import Final

from typing_extensions import Buffer

BATCH_COLUMNS: Final[tuple[str, ...]]
RECORD_COLUMNS: Final[tuple[str, ...]]
FAULT_REASONS: Final[tuple[str, ...]]
EVENT_NAMES: Final[tuple[str, ...]]

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
FAULT_NEGATIVE_COUNT: Final[int]
FAULT_CONTROL_KEY: Final[int]
FAULT_BAD_INNER: Final[int]
FAULT_BAD_MAGIC: Final[int]

SCAN_END: Final[int]
SCAN_INCOMPLETE: Final[int]
SCAN_BAD_LENGTH: Final[int]
SCAN_STOPPED: Final[int]

class _Table(Buffer):
    @property
    def count(self) -> int: ...
    def __len__(self) -> int: ...
    def row(self, i: int) -> tuple[int, ...]: ...

class BatchTable(_Table):
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

class RecordTable(_Table):
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

class LogCheck:
    complete: Final[bool]
    cleaned: Final[bool]
    breaks: Final[int]
    sound_batches: Final[int]
    sound_bytes: Final[int]
    batch_count: Final[int]
    max_timestamp: Final[int]
    def __init__(self, control: Callable[[bytes], tuple[int, int, str | None]], sequences: bool = ...) -> None: ...
    def begin(self, base: int, next_base: int = ..., offset_index: Buffer = ..., time_index: Buffer = ...) -> None: ...
    @property
    def last_position(self) -> int: ...
    @property
    def next_offset(self) -> int: ...
    def events(self) -> list[tuple[str, int, int, int, int | None, int | str, int, int]]: ...
    def aborted(self) -> list[tuple[int, int, int, int, bool, bool]]: ...
    @property
    def offset_index_events(self) -> list[tuple[int, str, int]]: ...
    @property
    def time_index_events(self) -> list[tuple[int, str, int]]: ...
    @property
    def more_index_events(self) -> tuple[int, int]: ...
    @property
    def producer_count(self) -> int: ...
    def batches(self, table: BatchTable, data: Buffer, first: int = 0, until_offset: int | None = None) -> int: ...
    def damage(self, position: int, length: int) -> None: ...
    def end(self) -> None: ...
    def producer(self, producer_id: int) -> tuple[int, int, int, int, int, int, int, bool] | None: ...

class TextBuffer(Buffer):
    size: Final[int]
    def __len__(self) -> int: ...
    def clear(self) -> None: ...
    def write(self, data: Buffer) -> None: ...

class KafkaPrinter:
    gaps: Final[list[tuple[int, int]]]
    gap_count: Final[int]
    first_offset: Final[int]
    last_offset: Final[int]
    def __init__(
        self,
        *,
        contents: bool = False,
        metadata: bool = True,
        sparse: bool = False,
        control_text: Callable[[bytes | None, bytes | None], str] | None = None,
        decode: Callable[[int, bytes | None, bytes | None], tuple[str | None, str | None]] | None = None,
    ) -> None: ...
    def batches(self, table: BatchTable, first: int, last: int, out: TextBuffer) -> None: ...
    def begin(self, first: int) -> None: ...
    def records(self, records: RecordTable, out: TextBuffer) -> None: ...

class JsonPrinter:
    def __init__(
        self,
        lead: bytes,
        decode: Callable[[int, bytes | None, bytes | None, bool], str | None] | None = None,
    ) -> None: ...
    def records(self, records: RecordTable, out: TextBuffer) -> None: ...

def scan(
    buf: Buffer,
    start: int,
    stop: int,
    file_position: int,
    table: BatchTable,
    *,
    check_crc: bool = True,
    stop_at_bad_crc: bool = False,
) -> tuple[int, int, int]: ...
def find_batch(buf: Buffer, start: int, stop: int, file_left: int, work: int = 0) -> tuple[int, bool, int]: ...
def payload_bounds(buf: Buffer, batches: BatchTable, i: int) -> tuple[int, int]: ...
def crc32c(data: Buffer, value: int = 0) -> int: ...
def crc32(data: Buffer, value: int = 0) -> int: ...
def java_text(data: Buffer) -> bytes: ...
def iso_time(ms: int) -> str: ...

class TablePrinter:
    def __init__(
        self,
        *,
        styles: list[tuple[bytes, bytes]] | None = None,
        fold: int = -1,
        raw_time: bool = False,
        batches_only: bool = False,
        sparse: bool = False,
        control_text: Callable[[bytes | None, bytes | None], str] | None = None,
        decode: Callable[[int, bytes | None, bytes | None], tuple[str | None, str | None]] | None = None,
        explain: Callable[[int], list[str]] | None = None,
    ) -> None: ...
    def begin(self, first: int) -> None: ...
    def records(self, records: RecordTable, out: TextBuffer) -> None: ...

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

APPEND_NO_KEY: Final[int]
APPEND_TIMESTAMP_OUT_OF_RANGE: Final[int]
APPEND_TIMESTAMP_TYPE: Final[int]

def check_append(
    records: RecordTable, first_index: int, *, keyed: bool, create_time: bool, earliest: int, latest: int
) -> tuple[list[tuple[int, int]], bool]: ...
def write_records(
    records: RecordTable, out: TextBuffer, first_delta: int, base_timestamp: int, *, keep_timestamps: bool = True
) -> None: ...

RECOVERY_MORE: Final[int]
RECOVERY_INVALID: Final[int]
RECOVERY_OVERFLOW: Final[int]
RECOVERY_ORDER: Final[int]
RECOVERY_REFUSED: Final[int]
PRODUCER_BATCHES_KEPT: Final[int]

class ProducerTable:
    reason: Final[str | None]
    def __init__(self, control: Callable[[bytes], tuple[int, int, int, int, str | None]]) -> None: ...
    def __len__(self) -> int: ...
    def clear(self) -> None: ...
    def load(self, entry: tuple[int, int, int, int, int, int, int, int]) -> None: ...
    def entries(self) -> list[tuple[int, int, int, int, int, int, int, int]]: ...
    def last_batches(self, producer_id: int) -> list[tuple[int, int, int, int]]: ...
    def recall(self, producer_id: int, table: BatchTable) -> int: ...
    def ongoing(self) -> list[tuple[int, int]]: ...
    def batches(self, table: BatchTable, data: Buffer) -> int: ...

class SegmentRecovery:
    valid_bytes: Final[int]
    batch_count: Final[int]
    next_offset: Final[int]
    map_end: Final[int]
    max_timestamp: Final[int]
    fault_position: Final[int]
    reason: Final[str | None]
    aborted: Final[list[tuple[int, int, int, int]]]
    epochs: Final[list[tuple[int, int]]]
    offset_index: Final[TextBuffer]
    time_index: Final[TextBuffer]
    def __init__(
        self,
        producers: ProducerTable,
        base: int,
        latest_epoch: int = -1,
        *,
        index_interval_bytes: int = 4096,
        max_index_bytes: int = 10485760,
    ) -> None: ...
    def batches(self, table: BatchTable, data: Buffer) -> int: ...
    def end(self) -> int: ...

OFFSET_MAP_ENTRY_BYTES: Final[int]
CLEAN_DISCARD: Final[int]
CLEAN_RETAIN_EMPTY: Final[int]
CLEAN_EMPTY_TXN: Final[int]
CLEAN_MARKER: Final[int]
CLEAN_REASONS: Final[tuple[str, ...]]
FILTER_FAULTS: Final[tuple[str, ...]]

class KeyMap:
    slots: Final[int]
    limit: Final[int]
    count: Final[int]
    reach: int
    def __init__(self, memory_bytes: int, load_factor: float, secret: Buffer) -> None: ...
    def __len__(self) -> int: ...
    @property
    def memory_bytes(self) -> int: ...
    def put(self, keys: KeyHashes) -> bool: ...
    def mark(self, first_offset: int) -> bool: ...
    def all_superseded(self, first: int, last: int) -> bool: ...
    def get(self, key: Buffer) -> int: ...

class KeyHashes(_Table):
    plain_records: Final[int]
    plain_bytes: Final[int]
    def run(
        self,
        offset_map: KeyMap,
        buf: Buffer,
        batches: BatchTable,
        discarded: Buffer,
        first: int,
        last: int,
        from_offset: int,
    ) -> int: ...
    def add(self, offset_map: KeyMap, records: RecordTable, discarded: Buffer, from_offset: int) -> None: ...
    def finish(self, batches: BatchTable, from_offset: int) -> None: ...

class CleanedTransactions:
    cleaned_index: list[tuple[int, ...]]
    def __init__(self) -> None: ...
    def add_aborted(self, transactions: Iterable[tuple[int, ...]]) -> None: ...
    def judge(
        self,
        buf: Buffer,
        batches: BatchTable,
        payload: Callable[[int], bytes],
        *,
        producers: dict[int, tuple[int, int]] | None = None,
        end_offset: int = -1,
        now_ms: int = 0,
    ) -> bytearray: ...

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

class Runway:
    leader_epoch: Final[int]
    def __init__(
        self,
        producers: ProducerTable,
        indexer: AppendIndexer,
        leader_epoch: int,
        *,
        position: int,
        size_max: int,
        offset_max: int,
        timestamp_max: int,
        offset_slots: int,
        time_slots: int,
        keyed: bool,
        before_max_ms: int,
        after_max_ms: int,
        max_message_bytes: int,
    ) -> None: ...
    def append(
        self,
        batch: bytearray | memoryview,
        write: Callable[[tuple[bytearray | memoryview, ...], int], object],
        next_offset: int,
        now_ms: int,
    ) -> tuple[int, int, bytes, bytes] | None: ...

def survey_batches(table: BatchTable, leader_epoch_max: int) -> tuple[int, int, bool, int, list[tuple[int, int]]]: ...
def follow_producers(
    producers: ProducerTable, table: BatchTable, data: Buffer
) -> tuple[int, list[tuple[int, int, int, int, bool]]]: ...
def producer_entry(
    producers: ProducerTable, producer_id: int
) -> tuple[int, int, int, int, int, int, int, int] | None: ...
def expire_producers(producers: ProducerTable, before_ms: int) -> int: ...
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

ARROW_COLUMNS: Final[tuple[str, ...]]

class ArrowRows:
    count: Final[int]
    size: Final[int]
    def __init__(self, names: Iterable[str], byte_limit: int, row_limit: int = ...) -> None: ...
    @property
    def is_full(self) -> bool: ...
    def add(self, records: RecordTable, at: int = 0) -> int: ...
    def take(self) -> list[tuple[TextBuffer | None, ...]]: ...

def drop_batches(
    table: BatchTable, *, faults: int = 0, control: bool = False, aborted: Buffer | None = None
) -> None: ...
def odd_offsets(table: BatchTable, last: int, low: int, high: int, first: int = 0) -> tuple[int, int]: ...
def drop_offsets(records: RecordTable, mark: int, offsets: Buffer) -> None: ...
def drop_invalid(records: RecordTable) -> None: ...
def has_transactions(table: BatchTable) -> bool: ...

BUILD_COLUMNS: Final[tuple[str, ...]]
BUILD_UNKNOWN_TIMESTAMP: Final[int]
BUILD_ROWS_DONE: Final[int]
BUILD_COMPRESS: Final[int]
BUILD_FULL: Final[int]
BUILD_FAULT: Final[int]
BUILD_FAULTS: Final[tuple[str, ...]]

class BatchBuilder:
    out: Final[TextBuffer]
    records: Final[TextBuffer]
    fault: Final[int]
    row: Final[int]
    batches: Final[int]
    control_records: Final[int]
    def __init__(self, *, codec: int = -1, batch_bytes: int = 65536, full_bytes: int = 4194304) -> None: ...
    @property
    def codec(self) -> int: ...
    def start(self, schema: object, array: object) -> None: ...
    def run(self) -> int: ...
    def end(self) -> bool: ...
    def compressed(self, data: Buffer) -> None: ...

def batches_within(batches: Buffer, room: int, last_offset_max: int) -> int: ...
def write_batch(
    records: Iterable[tuple[bytes | None, bytes | None]],
    timestamp_ms: int,
    *,
    base_offset: int = 0,
    leader_epoch: int = -1,
    attributes: int = 0,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
) -> bytearray: ...
