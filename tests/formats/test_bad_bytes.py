"""Damaged bytes, cut anywhere, changed anywhere, or random, give typed errors only."""

import random
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formats import compression, control_record, legacy, properties, quorum_state, record_batch
from formats.errors import FormatError, Truncated
from formats.file_name import FileKind
from formats.fixed import FixedLayout
from tests.conftest import GOLDEN
from tests.formats.rebuild import LAYOUTS, REBUILD

KRAFT = "kraft/controller-100/__cluster_metadata-0"
SAMPLES = {
    FileKind.LOG: "corrupt/cases/control-intact/00000000000000000000.log",
    FileKind.OFFSET_INDEX: "corrupt/cases/index-intact/00000000000000000000.index",
    FileKind.TIME_INDEX: "corrupt/cases/index-intact/00000000000000000000.timeindex",
    FileKind.TXN_INDEX: "corrupt/cases/txnindex-missing-entry/00000000000000000004.txnindex",
    FileKind.PRODUCER_SNAPSHOT: "corrupt/cases/snapshot-intact/00000000000000000072.snapshot",
    FileKind.LEADER_EPOCHS: "codecs/data/java-gzip-0/leader-epoch-checkpoint",
    FileKind.RECOVERY_POINTS: "codecs/data/recovery-point-offset-checkpoint",
    FileKind.META_PROPERTIES: "codecs/data/meta.properties",
    FileKind.PARTITION_METADATA: "codecs/data/java-gzip-0/partition.metadata",
    FileKind.QUORUM_STATE: f"{KRAFT}/quorum-state",
}


def sample(kind: FileKind) -> bytes:
    return (GOLDEN / SAMPLES[kind]).read_bytes()[:2000]


def batch(codec: int) -> bytes:
    header = record_batch.BatchHeader(7, 0, 0, 2, 0, codec, 2, 1000, 1002, -1, -1, -1, 3)
    records = tuple(
        record_batch.Record(0, at, at, b"key", b"value " * 9, (record_batch.RecordHeader(b"h", None),))
        for at in range(3)
    )
    return record_batch.build_batch(record_batch.RecordBatch(header, records))


def message_set(magic: int, codec: int) -> bytes:
    messages = [legacy.Message(at, magic, 0, 5 * magic - 1 + magic, b"key", b"value " * 9) for at in range(4)]
    return legacy.build_message(legacy.wrap(messages, codec))


def unwrapped(data: bytes) -> None:
    for each in legacy.parse_messages(data):
        legacy.unwrap(each)


PARSERS: dict[str, tuple[Callable[[bytes], object], bytes]] = {
    **{kind.name: (REBUILD[kind], sample(kind)) for kind in SAMPLES},
    **{f"batch-{name}": (record_batch.parse_batch, batch(codec)) for codec, name in enumerate(compression.CODEC_NAMES)},
    **{
        f"magic-{magic}-{compression.CODEC_NAMES[codec]}": (unwrapped, message_set(magic, codec))
        for magic in (0, 1)
        for codec in (compression.GZIP, compression.SNAPPY, compression.LZ4)
    },
    **{
        f"decompress-{name}": (partial(compression.decompress, codec), compression.compress(codec, b"abcde" * 99))
        for codec, name in enumerate(compression.CODEC_NAMES)
    },
    "control-key": (control_record.parse_key, b"\0\0\0\1"),
    "control-value": (partial(control_record.parse, b"\0\0\0\1"), b"\0\0\0\0\0\7"),
    "voters": (partial(control_record.parse, b"\0\0\0\6"), bytes(range(60))),
}


def only_typed_errors(parse: Callable[[bytes], object], data: bytes) -> FormatError | None:
    try:
        parse(data)
    except FormatError as raised:
        error = raised
    else:
        return None
    assert error.reason
    assert error.position is None or 0 <= error.position <= len(data), error
    return error


@pytest.mark.parametrize("name", PARSERS)
def test_cut_at_every_byte(name: str) -> None:
    parse, data = PARSERS[name]
    errors = [only_typed_errors(parse, data[:size]) for size in range(len(data))]
    if name.startswith(("batch", "magic")):
        assert all(isinstance(error, Truncated) for error in errors[1:])
    if name.startswith("decompress") and not name.endswith("none"):
        assert errors.count(None) == (name == "decompress-snappy")  # a xerial header alone is an empty stream


@pytest.mark.parametrize("name", PARSERS)
def test_every_byte_changed(name: str) -> None:
    parse, data = PARSERS[name]
    rng = random.Random(name)
    for position in range(len(data)):
        for byte in (0x00, 0x7F, 0x80, 0xFF, data[position] ^ 1 << rng.randrange(8)):
            only_typed_errors(parse, data[:position] + bytes([byte]) + data[position + 1 :])


@pytest.mark.parametrize("name", PARSERS)
def test_random_bytes_behind_a_sound_beginning(name: str) -> None:
    parse, data = PARSERS[name]
    rng = random.Random(name)
    for _ in range(200):
        kept = rng.randrange(len(data) + 1)
        only_typed_errors(parse, data[:kept] + rng.randbytes(rng.randrange(80)))


@given(st.binary(max_size=200), st.integers(0, 40))
def test_records_whose_checksum_nothing_guards(data: bytes, count: int) -> None:
    only_typed_errors(partial(record_batch.parse_records, count=count), data)


@given(st.text(alphabet="\\u0041tnrf=: #!\r\n\t\f", max_size=60))
def test_properties_of_any_text(text: str) -> None:
    only_typed_errors(properties.parse, text.encode())


def test_json_nested_without_end() -> None:
    assert only_typed_errors(quorum_state.parse, b"[" * 200_000)


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
def test_fixed_layouts_say_what_is_missing(layout: FixedLayout[Any]) -> None:
    with pytest.raises(Truncated) as caught:
        layout.unpack(bytes(layout.size), 1)
    assert caught.value.position == 1


@given(st.data())
def test_fixed_layouts_are_their_constructs(data: st.DataObject) -> None:
    layout = data.draw(st.sampled_from(LAYOUTS))
    raw = data.draw(st.binary(min_size=layout.size, max_size=layout.size))
    value = layout.unpack(raw)
    names = [field.name for field in layout.fields]
    assert layout.pack(value) == raw
    assert {name: getattr(value, name) for name in names} == {
        name: each for name, each in layout.construct.parse(raw).items() if name in names
    }
    assert layout.construct.build(dict(zip(names, value, strict=True))) == raw
