"""Batches that the kernel builds from columns equal those of the Construct definitions, however the rows are cut."""

from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from formats.compression import CODEC_NAMES, compress, decompress
from formats.kernels.arrow.builder import (
    BUILD_COLUMNS,
    BUILD_COMPRESS,
    BUILD_FAULT,
    BUILD_FAULTS,
    BUILD_FULL,
    BUILD_ROWS_DONE,
    BUILD_UNKNOWN_TIMESTAMP,
    BatchBuilder,
)
from formats.kernels.scan import batches_within
from formats.record_batch import BatchHeader, Record, RecordBatch, RecordHeader, build_batch, parse_batch
from tests.conftest import examples
from tests.formats.kernels.logs import FIELD, HEADERS

ITEM = pa.struct([("key", pa.large_binary()), ("value", pa.large_binary())])
TYPES = {"key": pa.large_binary(), "value": pa.large_binary(), "headers": pa.large_list(ITEM)}
SCHEMA = pa.schema([(name, TYPES.get(name, pa.int64())) for name in BUILD_COLUMNS])
SEQUENCES = 2**31
LARGEST_DELTA = 2**31 - 1


@st.composite
def logs(draw: st.DrawFn) -> list[RecordBatch]:
    """Batches in order, with gaps between and in them, as compaction leaves them."""
    batches, offset = [], draw(st.integers(0, 2**40))
    for _ in range(draw(st.integers(1, 4))):
        control = draw(st.integers(0, 3)) == 0
        deltas = sorted(draw(st.sets(st.integers(0, 50), min_size=1, max_size=6)))
        base = draw(st.integers(0, 2**41))
        times = [draw(st.integers(-1, 2**41)) for _ in deltas]
        append_time = not control and draw(st.booleans())
        records = [
            Record(0, 0 if append_time else time - base, delta, draw(FIELD), draw(FIELD), draw(HEADERS))
            for delta, time in zip(deltas, times, strict=True)
        ]
        producer = draw(st.just(-1) | st.integers(0, 2**40))
        header = BatchHeader(
            base_offset=offset,
            batch_length=0,
            partition_leader_epoch=draw(st.integers(-1, 9)),
            magic=2,
            crc=0,
            attributes=(0 if control else draw(st.integers(0, 4)))
            | 32 * control
            | 8 * append_time
            | 64 * draw(st.booleans()),
            last_offset_delta=deltas[-1] + draw(st.integers(0, 9)),
            base_timestamp=base,
            max_timestamp=times[0] if append_time else max(times),
            producer_id=producer,
            producer_epoch=-1 if producer < 0 else draw(st.integers(0, 9)),
            base_sequence=-1 if producer < 0 or control else draw(st.integers(0, 9) | st.just(SEQUENCES - 3)),
            record_count=len(records),
        )
        batches.append(RecordBatch(header, tuple(records)))
        offset += header.last_offset_delta + 1 + draw(st.integers(0, 99))
    return batches


def rows(batches: list[RecordBatch]) -> list[dict[str, Any]]:
    """The columns of a backup."""
    found = []
    for number, batch in enumerate(batches):
        head = batch.header
        for record in batch.records:
            row = {
                "offset": batch.offset(record),
                "timestamp": batch.timestamp_ms(record),
                "key": record.key,
                "value": record.value,
                "headers": [{"key": header.key, "value": header.value} for header in record.headers] or None,
                "batch_base": head.base_offset,
                "batch_last": head.base_offset + head.last_offset_delta,
                "batch_id": number,
                "base_timestamp": head.base_timestamp,
                "leader_epoch": head.partition_leader_epoch,
                "producer_id": head.producer_id,
                "producer_epoch": head.producer_epoch,
                "sequence": -1 if head.base_sequence < 0 else (head.base_sequence + record.offset_delta) % SEQUENCES,
                "attributes": head.attributes,
            }
            found.append(row)
    return found


def built(made: list[dict[str, Any]], cuts: list[int], builder: BatchBuilder | None = None) -> bytes:
    """Return the kernel's bytes of rows that come in several tables, the later ones as slices of a larger one."""
    builder = BatchBuilder(full_bytes=100) if builder is None else builder
    out = bytearray()
    table = pa.RecordBatch.from_pylist([*made[:1], *made], SCHEMA).slice(1)
    bounds = [0, *sorted(min(cut, len(made)) for cut in cuts), len(made)]

    def finish() -> None:
        with memoryview(builder.records) as records:
            builder.compressed(compress(builder.codec, records))

    for first, stop in pairwise(bounds):
        builder.start(*table.slice(first, stop - first).__arrow_c_array__())
        while (how := builder.run()) != BUILD_ROWS_DONE:
            if how == BUILD_COMPRESS:
                finish()
            elif how == BUILD_FULL:
                out += bytes(builder.out)
                builder.out.clear()
            else:
                assert how == BUILD_FAULT
                raise ValueError(BUILD_FAULTS[builder.fault])
    if builder.end():
        finish()
    return bytes(out) + bytes(builder.out)


@examples(40, soak=5000)
@given(logs(), st.lists(st.integers(0, 20), max_size=3))
def test_a_backup_gives_the_batches_that_were(batches: list[RecordBatch], cuts: list[int]) -> None:
    assert built(rows(batches), cuts) == b"".join(map(build_batch, batches))


@examples(40, soak=5000)
@given(logs(), st.integers(1, 300), st.lists(st.integers(0, 20), max_size=3))
def test_records_alone_give_batches_of_their_own(batches: list[RecordBatch], batch_bytes: int, cuts: list[int]) -> None:
    """Without columns of batches the kernel makes batches that hold the records with their offsets and times, and no
    others."""
    made = rows([each for each in batches if not each.header.attributes & 32])
    unknown = {"batch_base": -1, "batch_last": -1, "batch_id": -1, "base_timestamp": BUILD_UNKNOWN_TIMESTAMP}
    made = [{**row, **unknown, "attributes": row["attributes"] & 15} for row in made]
    if not made:
        return
    data = built(made, cuts, BatchBuilder(batch_bytes=batch_bytes))
    at, found = 0, []
    while at < len(data):
        batch = parse_batch(data, at)
        found += [
            (batch.offset(each), batch.timestamp_ms(each), each.key, each.value, each.headers) for each in batch.records
        ]
        at += 12 + batch.header.batch_length
    wanted = [(row["offset"], row["timestamp"], row["key"], row["value"], _headers(row["headers"])) for row in made]
    assert found == wanted


def _headers(headers: list[dict[str, Any]] | None) -> tuple[RecordHeader, ...]:
    return tuple(RecordHeader(header["key"], header["value"]) for header in headers or ())


@examples(40, soak=5000)
@given(logs(), st.integers(0, 4))
def test_another_codec(batches: list[RecordBatch], codec: int) -> None:
    data = built(rows(batches), [], BatchBuilder(codec=codec))
    at = 0
    for batch in batches:
        again = parse_batch(data, at)
        assert again.records == batch.records
        control = batch.header.attributes & 32
        assert again.header.attributes == (batch.header.attributes if control else batch.header.attributes & ~7 | codec)
        at += 12 + again.header.batch_length
    assert at == len(data)
    assert decompress(codec, compress(codec, b"x")) == b"x", CODEC_NAMES[codec]


ROW: dict[str, Any] = {
    **dict.fromkeys(BUILD_COLUMNS, -1),
    "offset": 7,
    "timestamp": 1,
    "key": b"k",
    "value": None,
    "headers": None,
    "base_timestamp": BUILD_UNKNOWN_TIMESTAMP,
    "attributes": 0,
}


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        ([ROW, ROW], "its offset is not above that of the record before"),
        ([{**ROW, "offset": -1}], "its offset is negative"),
        ([{**ROW, "headers": [{"key": None, "value": b""}]}], "a header without a key"),
        ([{**ROW, "attributes": 5}], "its compression codec is none that Kafka has"),
    ],
)
def test_faults(made: list[dict[str, Any]], reason: str) -> None:
    with pytest.raises(ValueError, match=f"^{reason}$"):
        built(made, [])


def test_what_does_not_fit_one_batch() -> None:
    """A new batch begins at offsets further apart than a batch can hold, another producer, a gap in sequences, another
    append time."""
    far = [ROW, {**ROW, "offset": 7 + LARGEST_DELTA}, {**ROW, "offset": 8 + LARGEST_DELTA}]
    assert [each.header.base_offset for each in _batches(built(far, []))] == [7, 8 + LARGEST_DELTA]
    owned = {**ROW, "producer_id": 1, "producer_epoch": 0}
    mixed = [{**owned, "sequence": 0}, {**owned, "offset": 8, "sequence": 1}, {**owned, "offset": 9, "sequence": 9}]
    assert [each.header.base_sequence for each in _batches(built(mixed, []))] == [0, 9]
    times = [{**ROW, "attributes": 8}, {**ROW, "attributes": 8, "offset": 8, "timestamp": 2}]
    assert [each.header.max_timestamp for each in _batches(built(times, []))] == [1, 2]


def test_stated_offsets_that_others_have() -> None:
    """Two copies of a log have the same batch, and one lacks some records: no two built batches overlap."""
    first = {**ROW, "batch_base": 0, "batch_last": 20, "batch_id": 1}
    made = [first, {**ROW, "offset": 9, "batch_base": 0, "batch_last": 30, "batch_id": 2}, {**first, "offset": 12}]
    bounds = [
        (each.header.base_offset, each.header.base_offset + each.header.last_offset_delta)
        for each in _batches(built(made, []))
    ]
    assert bounds == [(0, 7), (9, 9), (12, 20)]


def _batches(data: bytes) -> list[RecordBatch]:
    at, found = 0, []
    while at < len(data):
        found.append(parse_batch(data, at))
        at += 12 + found[-1].header.batch_length
    return found


@examples(40, soak=5000)
@given(logs(), st.integers(0, 2000), st.integers(0, 200))
def test_batches_within(batches: list[RecordBatch], room: int, beyond: int) -> None:
    written = [build_batch(batch) for batch in batches]
    last_offset = batches[0].header.base_offset + beyond
    size = 0
    for data, batch in zip(written, batches, strict=True):
        if size + len(data) > room or batch.header.base_offset + batch.header.last_offset_delta > last_offset:
            break
        size += len(data)
    assert batches_within(b"".join(written), room, last_offset) == size


def test_wrong_use() -> None:
    builder = BatchBuilder()
    with pytest.raises(ValueError, match="no batch is to be compressed"):
        builder.compressed(b"")
    with pytest.raises(ValueError, match="the columns are those of BUILD_COLUMNS"):
        builder.start(*pa.record_batch({"offset": [1]}).__arrow_c_array__())
    assert not builder.end()
