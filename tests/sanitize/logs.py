"""A window of a log through every kernel that takes logs, as their callers use them and in ways they do not."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa

from formats.compression import compress
from formats.errors import FormatError
from formats.kernels.append import (
    LogState,
    RefusedRecords,
    accept_plain,
    check_append,
    check_plain_records,
    survey_batches,
)
from formats.kernels.arrow.builder import (
    BUILD_COLUMNS,
    BUILD_COMPRESS,
    BUILD_FAULT,
    BUILD_FULL,
    BUILD_ROWS_DONE,
    BUILD_UNKNOWN_TIMESTAMP,
    BatchBuilder,
)
from formats.kernels.arrow.rows import ARROW_COLUMNS, ArrowRows
from formats.kernels.batches import BatchTable, drop_batches, has_transactions, odd_offsets
from formats.kernels.buffer import TextBuffer
from formats.kernels.cleaner.batch_filter import BatchFilter
from formats.kernels.cleaner.key_map import KeyHashes, KeyMap
from formats.kernels.cleaner.transactions import CleanedTransactions
from formats.kernels.columns import BatchRow, RecordRow
from formats.kernels.indexes import AppendIndexer, SegmentIndexes
from formats.kernels.log_check import LogCheck
from formats.kernels.producers import ProducerTable, expire_producers, follow_producers, producer_entry
from formats.kernels.records import RecordTable, drop_invalid, drop_offsets, payload_bounds
from formats.kernels.recovery import SegmentRecovery
from formats.kernels.scan import batches_within, find_batch, scan
from formats.kernels.summary import LogSummary
from formats.kernels.text.java import java_text
from formats.kernels.text.json_lines import JsonPrinter
from formats.kernels.text.kafka_lines import KafkaPrinter
from formats.kernels.text.table_lines import TablePrinter, iso_time
from formats.kernels.write import write_records
from kcli.errors import KcliError
from kcli.log.batch_records import decode, faults_of
from kcli.log.cleaner.offset_map import Judged, hash_keys, payload_of
from kcli.log.cleaner.partition import StoredSegment
from kcli.log.cleaner.rewrite import filter_window
from kcli.log.producer_state import check_control, read_control
from kcli.log.segment_reader import Window
from tests.damage import extreme
from tests.runways import bare_runway

LIMIT_BYTES = 1 << 20
INT64 = (1 << 63) - 1
ITEM = pa.struct([("key", pa.large_binary()), ("value", pa.large_binary())])
BUILD_TYPES = {"key": pa.large_binary(), "value": pa.large_binary(), "headers": pa.large_list(ITEM)}
BUILD_SCHEMA = pa.schema([(name, BUILD_TYPES.get(name, pa.int64())) for name in BUILD_COLUMNS])


def tight(data: bytes | bytearray) -> memoryview:
    """Copy the bytes to memory of exactly their size, so that the sanitizer sees a read behind them."""
    return np.frombuffer(data, dtype=np.uint8).copy().data if data else memoryview(b"")


def int64(random: Random, near: int = 0) -> int:
    """Return any number that a kernel accepts as an offset, a time or a position."""
    return max(-INT64 - 1, min(INT64, extreme(random, near)))


def offset(random: Random, near: int = 0) -> int:
    """What a file's name can say."""
    return abs(int64(random, near)) % (INT64 + 1) if random.random() < 0.5 else max(0, near)


class LogInput:
    """The bytes of one input, and the tables of the steps below: a new one for each step, since steps change them."""

    def __init__(self, data: bytes, random: Random) -> None:
        self.random = random
        self.data = tight(data)
        self.size = len(data)
        self.position = random.choice((0, 0, 0, 1, 2**31 - 5, 2**40))

    def table(self) -> BatchTable:
        """All batches that are framed."""
        table = BatchTable()
        scan(self.data, 0, self.size, self.position, table)
        return table

    def window(self) -> Window:
        """The same with their bytes."""
        table = self.table()
        stop = sum(BatchRow._make(table.row(table.count - 1))[1:3]) if table.count else 0
        return Window(self.data, table, self.position, stop)  # type: ignore[arg-type]

    def near(self, table: BatchTable) -> int:
        """An offset that is in the log."""
        return table.field(self.random.randrange(table.count), 3) if table.count else 0

    def other(self) -> memoryview:
        """Return the bytes, or sometimes fewer: a table of another window must not lead out of this one."""
        if self.random.random() < 0.1:
            return tight(bytes(self.data[: self.random.randrange(self.size + 1)]))
        return self.data


def scanning(given: LogInput) -> None:
    """Scan frames, check CRCs, search for the next batch, and read all columns of the tables."""
    random, size = given.random, given.size
    table = BatchTable()
    start = random.choice((0, 0, random.randrange(size + 1)))
    scan(
        given.data,
        start,
        random.choice((size, random.randrange(start, size + 1))),
        int64(random),
        table,
        check_crc=random.random() < 0.5,
        stop_at_bad_crc=random.random() < 0.5,
    )
    find_batch(given.data, start, size, random.choice((size - start, INT64, 0)), random.choice((0, 1 << 28, -INT64)))
    for i in range(table.count):
        table.run(i)
        table.header_size(i)
        with suppress(ValueError):
            payload_bounds(given.other(), table, i)
    odd_offsets(table, int64(random), int64(random), int64(random))
    has_transactions(table)
    survey_batches(table, random.choice((0, -1, 2**31 - 1)))
    table.select(from_offset=int64(random), to_offset=int64(random), from_time=int64(random), to_time=int64(random))
    table = given.table()
    drop_batches(table, faults=random.getrandbits(15), control=random.random() < 0.5, aborted=ranges(random, table))
    java_text(given.data[:200])
    iso_time(int64(random))
    with suppress(ValueError):
        batches_within(given.data, int64(random), int64(random))


def ranges(random: Random, table: BatchTable) -> memoryview | None:
    """Return aborted transactions: producer, first and last offset, sorted."""
    if random.random() < 0.3:
        return None
    rows = [BatchRow._make(table.row(i)) for i in range(table.count)]
    found = sorted((row.producer_id, row.base_offset, int64(random, row.last_offset)) for row in rows)
    return np.array(found, dtype=np.int64).reshape(-1)[: random.choice((3 * len(found), 2))].data


def printing(given: LogInput) -> None:
    """Print the records in every text format, with sums."""
    random = given.random
    window = given.window()
    records = RecordTable(random.choice((1, 2, 7, 1000)))
    out, summary = TextBuffer(), LogSummary()
    fold = random.choice((-1, 0, 1, 3))
    styles = random.choice((None, [(b"<", b">")] * 6))
    kafka = KafkaPrinter(contents=True, sparse=random.random() < 0.3, control_text=lambda *_: "control")
    table = TablePrinter(styles=styles, fold=fold, sparse=random.random() < 0.3, control_text=lambda *_: "control")
    json = JsonPrinter(b'{"partition":0,')
    kafka.begin(0)
    table.begin(0)
    selects = random.random() < 0.4
    for _ in decode(window, records, limit_bytes=LIMIT_BYTES):
        if selects:
            low, key = int64(random), random.choice((None, b"", b"key"))
            records.select(from_offset=low, to_time=int64(random), key=key, limit=random.choice((1, 10**6)))
        if random.random() < 0.3:
            drop_invalid(records)
            wanted = np.array(sorted([int64(random), given.near(window.batches)]))
            drop_offsets(records, random.getrandbits(15), wanted.data)
        for each in (kafka, table, json):
            each.records(records, out)
        summary.add_records(records)
        memoryview(records).tobytes()
        out.clear()
    summary.add_batches(window.batches)
    summary.merge(summary)
    kafka.batches(window.batches, 0, window.batches.count, out)
    for i in range(min(window.batches.count, 20)):
        faults_of(window, i, limit_bytes=LIMIT_BYTES)


def checking(given: LogInput) -> None:
    """Run verify's checks across batches, with indexes of any content."""
    random = given.random
    window = given.window()
    for _ in decode(window, RecordTable(64), limit_bytes=LIMIT_BYTES):
        pass
    check = LogCheck(check_control, random.random() < 0.7)
    for _ in range(random.choice((1, 1, 2))):
        near = given.near(window.batches)
        check.begin(
            offset(random, near), random.choice((INT64, offset(random, near))), index(random, 8), index(random, 12)
        )
        until = random.choice((INT64, int64(random, near)))
        reached = check.batches(window.batches, given.data, 0, until)
        str((check.producer(near), check.least(near), check.open_transactions(), check.later_producers(near, near)))
        check.batches(window.batches, given.other(), reached)
        if random.random() < 0.3:
            check.damage(int64(random), random.choice((0, 1, 2**31, INT64)))
        for i in range(min(window.batches.count, 3)):
            check.producer(window.batches.field(i, 12))
        check.end()
        str((check.events(), check.aborted(), check.offset_index_events, check.time_index_events))
        str((check.more_index_events, check.last_position, check.next_offset, check.producer_count))


def index(random: Random, width: int) -> memoryview:
    """Return entries of an index file, sorted or not, cut or not."""
    entries = sorted(random.getrandbits(random.choice((12, 32))) for _ in range(random.randrange(9)))
    if random.random() < 0.3:
        random.shuffle(entries)
    data = b"".join((each << random.choice((0, 1, 32))).to_bytes(12)[12 - width :] for each in entries)
    return tight(data[: random.choice((len(data), random.randrange(len(data) + 1)))])


def recovering(given: LogInput) -> None:
    """Recover producers, transactions, index entries and leader epochs of a segment."""
    random = given.random
    table = given.table()
    producers = ProducerTable(read_control)
    for _ in range(random.choice((0, 0, 3, 70))):
        many = random.getrandbits(20)
        sizes = (64, 16, 32, 64, 32, 64, 32, 64)
        entry = tuple(signed(random.choice((many, extreme(random))), bits) for bits in sizes)
        producers.load(entry)  # type: ignore[arg-type]
    near = given.near(table)
    recovery = SegmentRecovery(
        producers,
        offset(random, near),
        random.choice((-1, 0, 2**31 - 1)),
        index_interval_bytes=random.choice((0, 1, 100, 4096)),
        max_index_bytes=random.choice((0, 8, 12, 30, 10_485_760)),
    )
    recovery.batches(table, given.other())
    recovery.end()
    str((bytes(recovery.offset_index), bytes(recovery.time_index), recovery.aborted, recovery.epochs))
    str((recovery.next_offset, recovery.map_end, recovery.max_timestamp, recovery.reason))
    producers.batches(table, given.other())
    follow_producers(producers, table, given.other())
    for i in range(min(table.count, 3)):
        producer = table.field(i, 12)
        producers.last_batches(producer)
        producers.recall(producer, table)
        producer_entry(producers, producer)
    producers.entries()
    producers.ongoing()
    expire_producers(producers, int64(random, table.field(0, 11) if table.count else 0))
    producers.entries()
    producers.clear()


def signed(value: int, bits: int) -> int:
    """Return the low bits of a number as Java's casts do."""
    return (value + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)


def cleaning(given: LogInput) -> None:
    """Fill the key map and its bits, and filter the window by them."""
    random = given.random
    window = given.window()
    near = given.near(window.batches)
    transactions = CleanedTransactions()
    for _ in range(random.choice((0, 1, 3))):
        producer = window.batches.field(random.randrange(window.batches.count), 12) if window.batches.count else 1
        transactions.add_aborted([(0, producer, int64(random, near), int64(random, near), int64(random, near))])
    flags = transactions.judge(
        given.data,
        window.batches,
        lambda i: payload_of(window, i),
        producers=random.choice((None, {near: (near, 0), 7: (-1, 0)})),
        end_offset=int64(random, near),
        now_ms=int64(random),
    )
    judged = Judged(StoredSegment(Path("t-0"), 0, given.size, 0), window, flags)
    start = offset(random, near)
    offset_map = KeyMap(random.choice((0, 24, 240, 24_000)), random.choice((0.0, 0.5, 0.9, 1.0)), bytes(16))
    for _ in range(random.choice((1, 1, 2))):
        keys = KeyHashes()
        with suppress(KcliError):
            hash_keys(judged, offset_map, start, keys)
        keys.finish(window.batches, start)
        memoryview(keys).tobytes()
        offset_map.put(keys)
        if random.random() < 0.5:  # the base offset of the next segment limits the map's bits
            offset_map.reach = random.choice((offset_map.reach, offset(random, near) - 1, near))
    first = random.choice((start, int64(random, near)))
    offset_map.mark(first)
    offset_map.all_superseded(int64(random, near), int64(random, near))
    offset_map.all_superseded(near, near)
    offset_map.get(tight(random.choice((b"", b"key", b"k" * 9))))
    batches = BatchFilter(
        offset_map,
        now_ms=int64(random),
        delete_retention_ms=random.choice((0, 1, 86_400_000, INT64)),
        keep_legacy_deletes=random.random() < 0.5,
    )
    if random.random() < 0.2:
        flags = bytearray(random.getrandbits(4) for _ in flags)
    with suppress(KcliError, FormatError):
        filter_window(Judged(judged.segment, window, flags), batches)
    str(batches.reasons)
    indexes = SegmentIndexes(offset(random, near), random.choice((0, 100, 4096)))
    indexes.add(batches.out)
    indexes.add(given.other())
    indexes.finish()
    bytes(indexes.offsets), bytes(indexes.times)


def payload_cleaning(given: LogInput) -> None:
    """Filter decompressed records that do not belong to the batch."""
    random = given.random
    table = given.table()
    if not table.count:
        return
    i = random.randrange(table.count)
    payload = tight(bytes(given.data[random.randrange(given.size) :][: random.choice((0, 1, 50, 500))]))
    records = RecordTable(random.choice((1, 3, 100)))
    records.start(payload, table, i, i + 1, payload=True)
    rows = ArrowRows(ARROW_COLUMNS, 1 << 20)
    while records.next():
        for k in range(records.count):
            row = RecordRow._make(records.row(k))
            row.key(payload), row.value(payload)
        rows.add(records)
    batches = BatchFilter(KeyMap(240, 0.9, bytes(16)), now_ms=0, delete_retention_ms=0)
    batches.payload(given.data, table, i, random.getrandbits(4), payload)
    batches.finish(payload)
    records.start(payload, table, i, i + 1, payload=True)
    records.next()
    batches.wrapped(records, i, random.getrandbits(4))
    batches.finish(b"")


def arrow(given: LogInput) -> None:
    """Columns of Arrow from records."""
    random = given.random
    window = given.window()
    names = random.sample(ARROW_COLUMNS, random.choice((1, 5, len(ARROW_COLUMNS))))
    rows = ArrowRows(names, random.choice((1, 50, 1 << 20)), random.choice((1, 3, 1 << 20)))
    records = RecordTable(random.choice((1, 5, 500)))
    for _ in decode(window, records, limit_bytes=LIMIT_BYTES):
        at = 0
        while at < records.count:
            at = rows.add(records, at)
            if rows.is_full:
                read_columns(rows)
    read_columns(rows)


def read_columns(rows: ArrowRows) -> None:
    """Take the columns, and read their bytes."""
    for buffers in rows.take():
        for buffer in buffers:
            if buffer is not None:
                memoryview(buffer).tobytes()


def appending(given: LogInput) -> None:
    """Append batches of clients and of leaders as a broker does."""
    random = given.random
    table = given.table()
    near = given.near(table)
    indexer = AppendIndexer(offset(random, near), random.choice((0, 100)), int64(random), int64(random), near)
    with suppress(ValueError):
        position = random.choice((0, 0, 2**31 - 1, 2**40))
        indexer.append(table, position, random.choice((0, 1, 100)), random.choice((0, 1, 9)))
    with suppress(ValueError):
        indexer.last_time_entry()
    bounds = {"earliest": int64(random), "latest": int64(random)}
    with suppress(ValueError):
        check_plain_records(given.other(), table, keyed=random.random() < 0.5, create_time=True, **bounds)
    records, out = RecordTable(100), TextBuffer()
    for _ in decode(given.window(), records, limit_bytes=LIMIT_BYTES):
        refused = RefusedRecords(random.choice((0, 3, 1000)), no_key="no key", **bounds)
        check_append(records, int64(random), refused, keyed=True, create_time=random.random() < 0.5)
        refused.encode(random.choice((0, 2, 1000)), flexible=random.random() < 0.5)
        write_records(records, out, int64(random), int64(random), keep_timestamps=random.random() < 0.5)
    for row in [BatchRow._make(table.row(i)) for i in range(min(table.count, 4))]:
        batch = bytearray(given.data[row.start : row.start + row.size])
        if random.random() < 0.7:
            batch[:8] = bytes(8)
        copy = bytearray(batch)
        limits = {"keyed": random.random() < 0.2, "earliest": -INT64, "latest": INT64, "max_bytes": 1 << 20}
        accept_plain(batch, BatchTable(), int64(random, near), 3, **limits)  # type: ignore[arg-type]
        log = LogState()
        log.log_end_offset = random.choice((int64(random, near), row.base_offset))
        runway = bare_runway(
            log,
            indexer=indexer,
            leader_epoch=random.choice((0, row.leader_epoch)),
            position=random.choice((0, 2**31 - 100, INT64 - 10)),
            size_max=random.choice((2**31 - 1, INT64)),
            offset_max=int64(random, near),
            timestamp_max=int64(random, row.max_timestamp),
            offset_slots=random.choice((0, 1, 100)),
            time_slots=random.choice((1, 100)),
            codec=random.choice((-1, -1, 0, 3)),
        )
        with suppress(ValueError):
            for _ in range(2):
                runway.append(copy, int64(random))
                runway.follow(given.data[row.start : row.start + row.size * random.choice((1, 1, 2, 9))], 2**31 - 1)


def building(given: LogInput) -> None:
    """Build batches from columns of any content."""
    random = given.random
    rows = []
    place = random.randrange(1000)
    for _ in range(random.choice((1, 3, 9))):
        number = {name: int64(random) for name in BUILD_COLUMNS if random.random() < 0.3}
        place += random.choice((1, 1, 1, 0, 5, 2**31))
        defaults = dict.fromkeys(BUILD_COLUMNS, 0) | {"offset": place, "batch_last": -1}
        known = defaults | {"base_timestamp": random.choice((BUILD_UNKNOWN_TIMESTAMP, 5)), "sequence": -1}
        some = bytes(given.data[: random.choice((0, 3, 40))])
        header = {"key": random.choice((some, some, some, None)), "value": random.choice((some, None))}
        headers = random.choice((None, [], [header], [header] * 3))
        rows.append(known | number | {"key": random.choice((some, None)), "value": some, "headers": headers})
    for row in rows:
        if random.random() < 0.9:
            row["attributes"] &= 0x7F  # type: ignore[operator]
    batch = pa.RecordBatch.from_pylist(rows, BUILD_SCHEMA).slice(random.choice((0, 0, 1)))
    builder = BatchBuilder(
        codec=random.choice((-1, 0, 1, 3)), batch_bytes=random.choice((1, 100)), full_bytes=random.choice((1, 10**6))
    )
    builder.start(*batch.__arrow_c_array__())
    while (how := builder.run()) != BUILD_ROWS_DONE:
        if how == BUILD_COMPRESS:
            compress_records(builder)
        elif how == BUILD_FULL:
            builder.out.clear()
        elif how == BUILD_FAULT:
            return
    if builder.end():
        compress_records(builder)
    batches_within(bytes(builder.out), int64(random), int64(random))


def compress_records(builder: BatchBuilder) -> None:
    """Set the compressed records of the current batch."""
    with memoryview(builder.records) as records:
        builder.compressed(compress(builder.codec, records))


STEPS: tuple[Callable[[LogInput], None], ...] = (
    *(scanning, printing, checking, recovering, cleaning, cleaning, payload_cleaning, arrow, appending, building),
)


def run(data: bytes, random: Random, steps: int = 3) -> None:
    """Run some of the steps on one window. A kernel may raise FormatError, KcliError and ValueError."""
    for step in random.sample(STEPS, steps):
        with suppress(FormatError, KcliError, ValueError):
            step(LogInput(data, random))
