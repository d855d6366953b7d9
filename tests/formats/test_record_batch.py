"""Record batches of magic 2: a round trip of any batch, and errors that name the place of each kind of damage."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formats.crc32c import crc32c
from formats.errors import BadChecksum, BadCount, BadLength, BadMagic, BadValue, BadVarint, FormatError, Truncated
from formats.primitives import Varint, Varlong, build, parse
from formats.record_batch import (
    HEADER,
    BatchHeader,
    Record,
    RecordBatch,
    RecordHeader,
    build_batch,
    build_record,
    parse_batch,
    parse_header,
    parse_record,
)
from tests.conftest import GOLDEN, read_jsonl

INT8, INT16, INT32, INT64 = (st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (8, 16, 32, 64))
BYTES = st.one_of(st.none(), st.binary(max_size=40))
RECORDS = st.lists(
    st.builds(
        Record,
        INT8,
        INT64,
        INT32,
        BYTES,
        BYTES,
        st.lists(st.builds(RecordHeader, st.binary(max_size=9), BYTES), max_size=4).map(tuple),
    ),
    max_size=6,
).map(tuple)
HEADERS = st.builds(
    BatchHeader,
    INT64,
    st.just(0),
    INT32,
    st.just(2),
    st.just(0),
    st.integers(0, 0xFFFF).filter(lambda attributes: attributes & 7 <= 4),
    INT32,
    INT64,
    INT64,
    INT64,
    INT16,
    INT32,
    st.just(0),
)
STRUCTURE = {  # what is wrong with a batch whose CRC is right or beside the point
    "crc-field-flip": BadChecksum,
    "payload-flip-none": BadChecksum,
    "payload-flip-zstd": BadChecksum,
    "length-below-minimum": BadLength,
    "length-48": BadLength,
    "length-negative": BadLength,
    "length-past-end": Truncated,
    "length-max-int": Truncated,
    "magic-3": BadMagic,
    "magic-255": BadMagic,
    "record-length-plus-1": BadLength,
    "record-length-minus-1": FormatError,
    "record-length-negative": BadLength,
    "record-length-huge": BadLength,
    "record-length-overlong-varint": BadVarint,
    "record-count-plus-1": BadCount,
    "record-count-minus-1": BadCount,
    "record-count-zero": BadCount,
    "record-count-negative": BadCount,
    "record-count-huge": BadCount,
    "record-count-plus-1-gzip": BadCount,
    "key-length-too-long": BadLength,
    "key-length-minus-2": BadLength,
    "header-count-negative": BadCount,
    "header-count-huge": BadCount,
    "header-key-null": BadLength,
    "record-trailing-bytes": BadLength,
    "payload-trailing-bytes": BadCount,
    "truncated-mid-length": Truncated,
    "truncated-mid-header": Truncated,
    "truncated-mid-batch": Truncated,
    "truncated-one-byte-short": Truncated,
    "zero-tail-4096": BadMagic,
    "zero-tail-7": Truncated,
}


@given(HEADERS, RECORDS)
def test_any_batch_there_and_back(header: BatchHeader, records: tuple[Record, ...]) -> None:
    built = build_batch(RecordBatch(header, records))
    batch = parse_batch(b"before" + built + b"behind", 6)
    assert batch.records == records
    assert batch.header.size == len(built)
    assert batch.header == header._replace(
        batch_length=len(built) - 12, crc=batch.header.crc, record_count=len(records)
    )
    assert batch.header.crc == crc32c(built[21:])
    if not header.codec:
        assert build_batch(batch) == built


@given(RECORDS)
def test_any_record_there_and_back(records: tuple[Record, ...]) -> None:
    data, position = b"".join(map(build_record, records)), 0
    for record in records:
        parsed, position = parse_record(data, position)
        assert parsed == record
    assert position == len(data)


@pytest.mark.parametrize(("varint", "bits", "length_max"), [(Varint, 32, 5), (Varlong, 64, 10)])
@given(data=st.data())
def test_varints(varint: object, bits: int, length_max: int, data: st.DataObject) -> None:
    assert varint in (Varint, Varlong)
    definition = Varint if varint is Varint else Varlong
    value = data.draw(st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1))
    built = build(definition, value)
    assert len(built) <= length_max
    assert parse(definition, built) == (value, len(built))
    padded = built[:-1] + bytes([built[-1] | 0x80]) + b"\x80" * (length_max - len(built) - 1) + b"\0"
    if len(built) < length_max:
        assert parse(definition, padded) == (value, length_max)
    for wrong in (-(2 ** (bits - 1)) - 1, 2 ** (bits - 1)):
        with pytest.raises(BadValue):
            build(definition, wrong)


def test_varint_too_long() -> None:
    with pytest.raises(BadVarint) as caught:
        parse(Varint, b"\1" + b"\xff" * 5 + b"\0", 1)
    assert caught.value.position == 1


@pytest.mark.parametrize("name", STRUCTURE)
def test_damage_is_named_where_it_is(name: str) -> None:
    case = next(case for case in read_jsonl(GOLDEN / "corrupt" / "cases.jsonl") if case["id"] == name)
    data = (GOLDEN / "corrupt" / "cases" / name / case["damaged"]["file"]).read_bytes()
    start = case["damaged"].get("batch_position", case["expect"].get("valid_bytes_before"))
    position = 0
    while position < start:
        position += parse_batch(data, position).header.size
    assert position == start
    with pytest.raises(STRUCTURE[name]) as caught:
        parse_batch(data, position)
    assert caught.value.position is not None
    assert start <= caught.value.position < len(data)


def test_properties_of_a_header() -> None:
    header = BatchHeader(100, 88, 3, 2, 0, 0x7C, 9, 1_000, 2_000, 7, 1, 0, 2)
    assert (header.size, header.last_offset, header.codec) == (100, 109, 4)
    assert header.is_log_append_time
    assert header.is_transactional
    assert header.is_control
    assert header.delete_horizon_ms == 1_000
    record = Record(0, 5, 9, None, None)
    assert RecordBatch(header, (record,)).timestamp_ms(record) == 2_000
    plain = RecordBatch(header._replace(attributes=0), (record,))
    assert (plain.timestamp_ms(record), plain.offset(record), plain.header.delete_horizon_ms) == (1_005, 109, None)


def test_header_alone_needs_no_records() -> None:
    header = BatchHeader(0, 0, 0, 2, 0, 0, 0, 0, 0, -1, -1, -1, 0)
    data = build_batch(RecordBatch(header, (Record(0, 0, 0, b"k", b"v"),)))
    assert parse_header(data[: HEADER.size]).record_count == 1


def test_crc32c_of_the_rfc() -> None:
    assert crc32c(bytes(32)) == 0x8A9136AA
    assert crc32c(b"\xff" * 32) == 0x62A8AB43
    assert crc32c(b"6789", crc32c(b"12345")) == crc32c(b"123456789") == 0xE3069283
