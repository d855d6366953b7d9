"""Inputs that a kernel must not trust: names, indexes, counts, tables of other buffers, programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from formats.batch_writer import write_batch
from formats.kernels import log_check
from formats.kernels.append import LogState, accept_plain, check_plain_records
from formats.kernels.arrow.builder import BatchBuilder
from formats.kernels.batches import BatchTable, odd_offsets
from formats.kernels.buffer import TextBuffer
from formats.kernels.cleaner.batch_filter import BatchFilter
from formats.kernels.cleaner.key_map import KeyHashes, KeyMap
from formats.kernels.cleaner.transactions import CLEAN_MARKER, CleanedTransactions
from formats.kernels.indexes import AppendIndexer, SegmentIndexes
from formats.kernels.log_check import LogCheck
from formats.kernels.payload import avro, json, payloads, protobuf, variant
from formats.kernels.payload import columns as kinds
from formats.kernels.producers import RECOVERY_MORE, RECOVERY_OVERFLOW, ProducerTable, follow_producers
from formats.kernels.records import RecordTable
from formats.kernels.recovery import SegmentRecovery
from formats.kernels.scan import batches_within, scan
from formats.kernels.text.json_lines import JsonPrinter
from formats.kernels.text.kafka_lines import KafkaPrinter
from formats.kernels.text.table_lines import TablePrinter
from formats.kernels.wire import check
from formats.kernels.write import write_records
from kcli.log.producer_state import check_control, read_control
from tests.formats.kernels.test_build import SCHEMA
from tests.runways import bare_runway

LAST = 2**63 - 1
TIME_MS = 1_700_000_000_000
FLAGS = bytes(100)


def batch(base: int, keys: int = 3, **fields: Any) -> bytes:
    return bytes(write_batch([(b"key%d" % i, b"value") for i in range(keys)], TIME_MS, base_offset=base, **fields))


def scanned(data: bytes) -> BatchTable:
    table = BatchTable()
    scan(data, 0, len(data), 0, table)
    return table


def filled(offset_map: KeyMap, data: bytes) -> None:
    keys, table = KeyHashes(), scanned(data)
    assert keys.run(offset_map, data, table, bytes(table.count), 0, table.count, 0) == table.count
    keys.finish(table, 0)
    assert not offset_map.put(keys)


def new_map() -> KeyMap:
    return KeyMap(1 << 20, 0.9, bytes(16))


# the cleaner's map


def test_bits_end_where_a_segment_s_name_says_though_keys_lie_behind() -> None:
    """The next segment's base offset is below offsets in the map: the memory for bits ends at that base offset."""
    data = b"".join(batch(base) for base in range(0, 600_000, 3))
    offset_map = new_map()
    filled(offset_map, data)
    offset_map.reach = 9_998
    assert offset_map.mark(0)
    assert offset_map.all_superseded(0, 9_998)  # by keys behind the base offset, which are in the map
    assert not offset_map.all_superseded(0, 9_999)
    kept = BatchFilter(offset_map, now_ms=TIME_MS, delete_retention_ms=0)
    table = scanned(data)
    assert kept.run(data, table, bytes(table.count), 0) == table.count
    assert kept.records_kept == 600_000 - 9_999


def test_a_batch_that_ends_before_it_begins_is_not_judged_by_bits() -> None:
    data = bytearray(batch(10))
    data[23:27] = (-4).to_bytes(4, signed=True)
    offset_map = new_map()
    filled(offset_map, b"".join(batch(base) for base in (0, 3, 6, 9)))
    assert offset_map.mark(0)
    kept = BatchFilter(offset_map, now_ms=0, delete_retention_ms=0)
    kept.run(data, scanned(bytes(data)), FLAGS, 0)
    assert kept.records_kept == 3


def test_the_largest_offset_is_a_key_s_offset() -> None:
    offset_map = new_map()
    filled(offset_map, batch(LAST, 1))
    assert offset_map.get(b"key0") == LAST
    assert offset_map.reach == LAST


@pytest.mark.parametrize("arguments", [(-1, 0.9), (240, -0.1), (240, float("nan"))])
def test_a_map_of_no_size(arguments: tuple[int, float]) -> None:
    with pytest.raises(ValueError, match=str(arguments[0])):
        KeyMap(*arguments, bytes(16))


def test_keys_below_offset_0_are_refused() -> None:
    data = batch(0)
    with pytest.raises(ValueError, match="-1"):
        KeyHashes().run(new_map(), data, scanned(data), FLAGS, 0, 1, -1)


@pytest.mark.parametrize("data", [b"x", bytes(60), bytes(61), batch(0)[:-1], batch(0) + b"x"])
def test_what_is_appended_are_whole_batches(data: bytes) -> None:
    with pytest.raises(ValueError, match="no whole batch at byte"):
        SegmentIndexes(0, 4096).add(data)
    with pytest.raises(ValueError, match="no whole batch at byte"):
        batches_within(data, 10**6, LAST)


def test_offsets_that_no_index_of_the_segment_holds() -> None:
    for base, offset in ((0, 2**31), (10, 5), (0, LAST), (LAST, 0)):
        indexes = SegmentIndexes(base, 0)
        indexes.add(batch(offset, 1))
        assert indexes.overflow


# tables of other buffers

DATA = batch(0) + batch(3, producer_id=1, producer_epoch=0, base_sequence=0)
SHORT = DATA[:-1]


def test_rows_of_another_buffer() -> None:
    table = scanned(DATA)
    producers = ProducerTable(read_control)
    offset_map = new_map()
    uses: list[Callable[[], object]] = [
        lambda: RecordTable().start(SHORT, table, 0, 2),
        lambda: LogCheck(check_control).batches(table, SHORT),
        lambda: SegmentRecovery(producers, 0).batches(table, SHORT),
        lambda: producers.batches(table, SHORT),
        lambda: follow_producers(producers, table, SHORT),
        lambda: KeyHashes().run(offset_map, SHORT, table, FLAGS, 0, 2, 0),
        lambda: CleanedTransactions().judge(SHORT, table, lambda _: b""),
        lambda: BatchFilter(offset_map, now_ms=0, delete_retention_ms=0).run(SHORT, table, FLAGS, 0),
        lambda: BatchFilter(offset_map, now_ms=0, delete_retention_ms=0).payload(SHORT, table, 1, 0, b""),
    ]
    for use in uses:
        with pytest.raises(ValueError, match="the batches are not of this buffer"):
            use()


def test_a_table_that_changes_under_the_records() -> None:
    table = scanned(DATA)
    records = RecordTable()
    records.start(DATA, table, 0, 2)
    table.clear()
    with pytest.raises(ValueError, match="taken out of the table"):
        records.next()
    larger = batch(0) + batch(3, 900)
    scan(larger, 0, len(larger), 0, table)
    with pytest.raises(ValueError, match="not of this buffer"):
        records.next()


def test_records_of_another_batch() -> None:
    table = scanned(DATA)
    records = RecordTable()
    kept = BatchFilter(new_map(), now_ms=0, delete_retention_ms=0)
    records.start(DATA, table, 0, 1)
    records.next()
    for i in (-1, 0, 1, 2):
        with pytest.raises(ValueError, match="not those of row"):
            kept.wrapped(records, i, CLEAN_MARKER)


def test_a_table_without_records_is_none() -> None:
    """No batch was started, so there is no table of batches to read."""
    records, out = RecordTable(), TextBuffer()
    for printer in (KafkaPrinter(), TablePrinter(), JsonPrinter(b"{")):
        printer.records(records, out)
    KeyHashes().add(new_map(), records, b"", 0)
    write_records(records, out, 0, 0)
    assert not bytes(out)


def test_header_bytes_that_change_after_they_were_decoded() -> None:
    """Lengths of headers are read again: whatever they have become, they must not lead out of the buffer."""
    record = bytes([0, 0, 0, 1, 1, 2]) + bytes([6]) + b"abc" + bytes([6]) + b"xyz"
    data = bytearray(batch(0, 1))[:61] + bytes([len(record) << 1]) + record
    data[8:12] = (len(data) - 12).to_bytes(4)
    table, records, out = scanned(bytes(data)), RecordTable(), TextBuffer()
    records.start(data, table, 0, 1)
    records.next()
    data[68] = 0x7F
    for printer in (KafkaPrinter(contents=True), TablePrinter(), JsonPrinter(b"{")):
        printer.records(records, out)
    write_records(records, out, 0, 0)
    assert b"xyz" not in bytes(out)


# counts and positions


def test_negative_rows() -> None:
    for printer in (KafkaPrinter(), TablePrinter()):
        with pytest.raises(IndexError):
            printer.begin(-1)
    with pytest.raises(IndexError):
        odd_offsets(scanned(DATA), 0, 0, LAST, -1)


def test_tables_of_no_size() -> None:
    with pytest.raises(MemoryError):
        RecordTable(2**62)
    with pytest.raises(ValueError, match="0 batches, not one"):
        check_plain_records(DATA, BatchTable(), keyed=False, create_time=True, earliest=0, latest=1)
    with pytest.raises(ValueError, match="5 styles"):
        TablePrinter(styles=[(b"", b"")] * 5)
    with pytest.raises(ValueError, match="0"):
        log_check.IndexCursor(b"", 0)  # type: ignore[attr-defined]


def test_a_check_that_was_not_begun_has_no_entries() -> None:
    check = LogCheck(check_control)
    check.batches(scanned(DATA), DATA)
    check.damage(0, 5)
    check.end()
    for base, next_base in ((-1, 5), (0, -1)):
        with pytest.raises(ValueError, match="-1"):
            check.begin(base, next_base)
    with pytest.raises(ValueError, match=str(LAST)):
        check.damage(LAST, 1)


# the ends of offsets


def test_the_largest_offset_has_none_behind_it() -> None:
    data = batch(LAST - 1, 1) + batch(LAST, 1)
    check = LogCheck(check_control)
    check.begin(LAST - 10)
    assert check.batches(scanned(data), data) == 2
    check.end()
    assert check.next_offset == LAST
    assert [event[0] for event in check.events()] == ["beyond-int", "gap"]


def test_recovery_at_the_ends_of_offsets() -> None:
    """A last offset beyond 2^63 - 1 continues below 0, as in Java; with batches behind it Kafka deletes the log."""
    for keys in (2, 3):
        recovery = SegmentRecovery(ProducerTable(read_control), LAST - 1)
        data = batch(LAST - 1, keys)
        assert recovery.batches(scanned(data), data) == RECOVERY_MORE
        assert recovery.next_offset == -(2**63) + keys - 2
    for base, offset in ((LAST, 0), (5, 4), (0, 2**31)):
        data = batch(offset, 1)
        recovery = SegmentRecovery(ProducerTable(read_control), base)
        assert recovery.batches(scanned(data), data) == RECOVERY_OVERFLOW


def test_an_append_that_the_indexes_cannot_hold() -> None:
    for base, offset, position in ((0, 2**31, 0), (10, 5, 0), (0, 0, 2**31), (0, 0, -1)):
        indexer = AppendIndexer(base, 0, -1, -1, base)
        with pytest.raises(ValueError, match="not within the segment"):
            indexer.append(scanned(batch(offset, 1)), position, 10, 10)
        assert indexer.max_timestamp == -1
    with pytest.raises(ValueError, match="not within the segment"):
        AppendIndexer(0, 0, -1, 5, 2**31).last_time_entry()


def test_a_leader_at_the_end_of_offsets() -> None:
    limits: dict[str, Any] = {"keyed": False, "earliest": 0, "latest": LAST, "max_bytes": 1 << 20}
    data = bytearray(batch(0))
    assert not accept_plain(data, BatchTable(), LAST - 2, 0, **limits)
    assert data == batch(0)
    taken: list[int] = []

    def append_at(offset: int) -> object:
        log = LogState()
        log.log_end_offset = offset
        indexer = AppendIndexer(LAST - 10, 0, -1, -1, LAST - 10)
        runway = bare_runway(log, write=lambda *_: taken.append(offset), indexer=indexer)
        return runway.append(bytearray(data), TIME_MS)

    for offset in (LAST - 1, LAST, -1, -(2**63)):
        assert append_at(offset) is None
    assert append_at(LAST - 2) is not None
    assert taken == [LAST - 2]


# columns of Arrow


def columns(**changed: pa.Array) -> pa.RecordBatch:
    table = {name: pa.array([None], kind) for name, kind in zip(SCHEMA.names, SCHEMA.types, strict=True)}
    numbers = {name: pa.array([0]) for name in SCHEMA.names if SCHEMA.field(name).type == pa.int64()}
    return pa.record_batch(table | numbers | changed)


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("offset", pa.array([0], pa.int32())),
        ("offset", pa.array([None], pa.int64())),
        ("attributes", pa.array(["text"])),
        ("key", pa.array([b"small"])),
        ("value", pa.array([0])),
        ("headers", pa.array([[b"key"]], pa.large_list(pa.large_binary()))),
        ("headers", pa.array([None], pa.list_(SCHEMA.field("headers").type.value_type))),
        ("key", pa.array([b"key"], pa.large_binary()).dictionary_encode()),
    ],
)
def test_columns_of_another_type(name: str, column: pa.Array) -> None:
    BatchBuilder().start(*columns().__arrow_c_array__())
    with pytest.raises(ValueError, match=f"the column {name} is not of its type"):
        BatchBuilder().start(*columns(**{name: column}).__arrow_c_array__())


def test_a_codec_that_is_none() -> None:
    with pytest.raises(ValueError, match="5"):
        BatchBuilder(codec=5)


# programs and schemas

STRUCT = (kinds.STRUCT, kinds.PLAIN, 1, 0, 0)
LONG = (kinds.INT64, kinds.PLAIN, 0, 0, 0)
TEXT = (kinds.BINARY, kinds.TEXT, 0, 0, 0)


@pytest.mark.parametrize("ends", [[0, 3], [-1, 2], [2, 1], [0, 1, 2]])
def test_payloads_outside_of_their_data(ends: list[int]) -> None:
    with pytest.raises(ValueError, match="do not fit"):
        payloads.Payloads(np.array(ends, dtype=np.int32).data, b"ab", b"\x01")


@pytest.mark.parametrize(
    "rows", [[(11, 0, 0, 0, 0)], [(-1, 0, 0, 0, 0)], [(7, 0, 0, 39, 0)], [STRUCT], [(9, 5, 1, 0, 0), LONG]]
)
def test_shapes_that_are_none(rows: list[Any]) -> None:
    with pytest.raises(ValueError, match="row"):
        kinds.Shape(rows)


@pytest.mark.parametrize(
    "op",
    [
        (99, 1, 1, 0, [], []),
        (avro.AVRO_LONG, 2, 1, 0, [], []),
        (avro.AVRO_LONG, 1, 0, 0, [], []),
        (avro.AVRO_STRING, 1, 1, 0, [], []),
        (avro.AVRO_ENUM, -1, 0, 1, [], []),
        (avro.AVRO_RECORD, 0, 0, 0, [7], []),
        (avro.AVRO_RECORD, 0, 0, 0, [], [9]),
        (avro.AVRO_ARRAY, -1, 0, 0, [], []),
        (avro.AVRO_MAP, 0, 0, 0, [0, 0], []),
        (avro.AVRO_MEMBER, 0, 0, 0, [0], []),
    ],
)
def test_avro_programs_that_lead_nowhere(op: Any) -> None:
    with pytest.raises(ValueError, match=r"cannot be|is none of|leads back"):
        avro.AvroProgram(kinds.Shape([STRUCT, LONG]), [op], [], {b"": 0}, payloads.NO_HEADER)


@pytest.mark.parametrize(
    "field",
    [
        (1, protobuf.PROTO_INT64, 2, protobuf.OPTIONAL, 0, -1, 0, 0),
        (1, protobuf.PROTO_STRING, 1, protobuf.OPTIONAL, 0, -1, 0, 0),
        (1, protobuf.PROTO_INT64, 1, protobuf.REPEATED, 0, -1, 0, 0),
        (1, protobuf.PROTO_INT64, 1, protobuf.OPTIONAL, 0, 0, 0, 0),
        (1, protobuf.PROTO_INT64, -1, protobuf.OPTIONAL, 0, -1, 0, 0),
        (1, protobuf.PROTO_MESSAGE, 1, protobuf.OPTIONAL, 3, -1, 0, 0),
        (1, protobuf.PROTO_MESSAGE, 0, protobuf.DEFAULT, 0, -1, 0, 0),
        (1, protobuf.PROTO_TIMESTAMP, 1, protobuf.OPTIONAL, 0, -1, 0, 0),
    ],
)
def test_protobuf_programs_that_lead_nowhere(field: Any) -> None:
    with pytest.raises(ValueError, match="message"):
        protobuf.ProtoProgram(kinds.Shape([STRUCT, LONG]), [(0, 0, [field], [])], [], {b"": 0}, payloads.NO_HEADER)


def test_roots_and_names_that_are_not_there() -> None:
    shape = kinds.Shape([STRUCT, LONG])
    with pytest.raises(ValueError, match="no program begins"):
        avro.AvroProgram(shape, [], [], {b"": 0}, payloads.NO_HEADER)
    wrong: list[list[list[bytes]]] = [[], [[], []], [[b"a", b"b"], []]]
    for names in wrong:
        with pytest.raises(ValueError, match="names"):
            json.JsonProgram(shape, names, strict=False, roots={b"": 0}, header=payloads.NO_HEADER)
    with pytest.raises(ValueError, match="two binaries"):
        variant.VariantDecoding(shape, 1)


def test_a_decoding_that_is_used_again() -> None:
    shape = kinds.Shape([(kinds.STRUCT, kinds.PLAIN, 2, 0, 0), TEXT, TEXT])
    decoding = variant.VariantDecoding(shape, 1)
    once = payloads.Payloads(np.array([0, 1], dtype=np.int32).data, b"1", b"\x01")
    assert decoding.decode(once) == decoding.decode(once)


@pytest.mark.parametrize("schema", [[], [1, 0], [1, 0, 0], [-1, 0, 0], [1, 0, 0, 2, 50, 0], [1, 0, 0, 2, 0, 0]])
def test_schemas_that_are_none(schema: list[int]) -> None:
    from array import array

    from formats.errors import Truncated

    with pytest.raises((ValueError, Truncated)):
        check(array("i", schema), bytes(8), 0, 10)
    with pytest.raises((ValueError, Truncated)):
        check(array("i", schema), b"", 0, 10)
