"""Logs that Hypothesis makes: batches of every magic, codec and kind, well framed, with odd values."""

from hypothesis import strategies as st

from formats import compression, legacy
from formats.legacy import Message
from formats.record_batch import BatchHeader, Record, RecordBatch, RecordHeader, build_batch

INT16, INT32, INT64 = (st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (16, 32, 64))
TEXT = st.text(max_size=12).map(str.encode)
ODD_TEXT = st.sampled_from(
    [
        b"null",
        b"0x41",
        b'"',
        b" a",
        b"a ",
        b"\\\x08",
        b"\x0c\x08",
        b"\x7f",
        "\x9b31m".encode(),
        "\u202e\u2028\u061c\u200f\u2066\u2030\u2065\u00a0".encode(),
        b"\xed\xa0\x80",
        b"\xf0\x90\x80",
        b"\xc2",
    ]
)
DATA = st.one_of(TEXT, st.binary(max_size=40), ODD_TEXT)
FIELD = st.one_of(st.none(), DATA)
HEADERS = st.lists(st.builds(RecordHeader, DATA, FIELD), max_size=3).map(tuple)
MARKERS = st.tuples(
    st.sampled_from([b"\0\0\0\0", b"\0\0\0\1", b"\0\0\0\2", b"\0\1\0\1"]),
    st.binary(max_size=8) | st.just(b"\0\0\0\0\0\7"),
)
TIMES = st.one_of(st.integers(-1, 2**41), INT64)


@st.composite
def record_batches(draw: st.DrawFn) -> bytes:
    """Batches of magic 2: mostly as a producer sends them, sometimes with any values that the fields can hold."""
    control = draw(st.integers(0, 4)) == 0
    wild = draw(st.booleans())
    deltas = draw(st.lists(INT32, max_size=5)) if wild else sorted(draw(st.sets(st.integers(0, 300), max_size=5)))
    records = []
    for delta in deltas:
        key, value = draw(MARKERS if control else st.tuples(FIELD, FIELD))
        time = draw(INT64 if wild else st.integers(0, 10**6))
        records.append(Record(0, time, delta, key, value, draw(HEADERS)))
    base = draw(TIMES)
    header = BatchHeader(
        base_offset=draw(INT64 if wild else st.integers(0, 2**50)),
        batch_length=0,
        partition_leader_epoch=draw(INT32),
        magic=2,
        crc=0,
        attributes=draw(st.integers(0, 4)) | 32 * control | draw(st.sampled_from([0, 8, 16, 64, 80, 24, 0xFF80])),
        last_offset_delta=draw(INT32) if wild else max(deltas, default=0),
        base_timestamp=base,
        max_timestamp=draw(TIMES) if wild else max((base + each.timestamp_delta for each in records), default=-1),
        producer_id=draw(st.just(-1) | st.integers(0, 2**40) | INT64),
        producer_epoch=draw(INT16),
        base_sequence=draw(st.just(-1) | st.integers(0, 9) | st.just(2**31 - 1) | INT32),
        record_count=0,
    )
    if not -(2**63) <= header.max_timestamp < 2**63:
        header = header._replace(max_timestamp=7)
    return build_batch(RecordBatch(header, tuple(records)))


@st.composite
def messages(draw: st.DrawFn) -> bytes:
    """A message of magic 0 or 1, or a wrapper around some."""
    magic = draw(st.integers(0, 1))
    codec = draw(st.sampled_from([compression.NONE, compression.GZIP, compression.SNAPPY, compression.LZ4]))
    attributes = draw(st.sampled_from([0, legacy.LOG_APPEND_TIME])) if magic else 0
    offsets = sorted(draw(st.sets(st.integers(0, 2**40), min_size=1, max_size=4 if codec else 1)))
    made = [
        Message(offset, magic, attributes, draw(st.integers(-1, 2**62)) if magic else -1, draw(FIELD), draw(FIELD))
        for offset in offsets
    ]
    if codec:
        return legacy.build_message(legacy.wrap(made, codec))
    return legacy.build_message(made[0])


LOGS = st.lists(record_batches() | messages(), max_size=3).map(b"".join)
