"""Protobuf: the kernel decodes every payload as protobuf's own runtime does."""

from __future__ import annotations

import datetime as dt
import pickle
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pool, message_factory
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from kcli.export.decoding import Decoder, SchemaError, make_decoder
from kcli.export.decoding import protobuf as protobuf_language
from kcli.export.decoding.by_schema import SchemaDecoder
from kcli.schema_client.sources import SchemaSource

PROTO3 = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";

enum State { NEW = 0; PAID = 1; SHIPPED = -2; }

message All {
  int32 i32 = 1;       int64 i64 = 2;        uint32 u32 = 3;       uint64 u64 = 4;
  sint32 s32 = 5;      sint64 s64 = 6;       fixed32 f32 = 7;      fixed64 f64 = 8;
  sfixed32 sf32 = 9;   sfixed64 sf64 = 10;   float single = 11;    double real = 12;
  bool flag = 13;      string text = 14;     bytes raw = 15;       State state = 16;
  optional int32 maybe = 17;
  repeated sint64 numbers = 18;
  repeated int32 loose = 19 [packed = false];
  repeated State states = 20;
  repeated string words = 21;
  map<string, Part> parts = 22;
  map<int32, bool> flags = 23;
  Part part = 24;
  repeated Part list = 25;
  oneof choice { string name = 26; int64 number = 27; Part inner = 28; }
  google.protobuf.Timestamp placed = 29;
  google.protobuf.Int64Value boxed = 30;
  All again = 1000;
  Nothing nothing = 2000;
}
message Part { string label = 1; repeated double weights = 2; Part2 deeper = 3; }
message Part2 { bool yes = 1; }
message Nothing {}
"""

PROTO2 = """
syntax = "proto2";
package old;
message Old {
  optional int32 id = 1 [default = 7];
  required string name = 2;
  repeated int32 packed = 3 [packed = true];
  optional group Data = 4 { optional string text = 5; repeated group Item = 6 { optional int32 n = 1; } }
}
"""


def prepared(text: str, message: str) -> SchemaSource:
    return protobuf_language.prepare(SchemaSource(text, message=message))


@pytest.fixture(scope="module")
def sources() -> dict[str, SchemaSource]:
    return {"All": prepared(PROTO3, "All"), "Old": prepared(PROTO2, "old.Old")}


def message_class(source: SchemaSource) -> Any:
    return message_factory.GetMessageClass(protobuf_language.message_of(source))


def decode(source: SchemaSource, payloads: list[bytes | None]) -> tuple[pa.Array, list[str | None]]:
    decoder: Decoder = pickle.loads(pickle.dumps(SchemaDecoder(protobuf_language, source)))
    values, reasons = decoder.decode(pa.array(payloads, pa.binary()))
    values.validate(full=True)
    assert values.type == decoder.type
    return values, reasons.to_pylist()


INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
UINT32 = st.integers(0, 2**32 - 1)
UINT64 = st.integers(0, 2**64 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
PART2 = st.fixed_dictionaries({}, optional={"yes": st.booleans()})
PART = st.fixed_dictionaries(
    {}, optional={"label": TEXT, "weights": st.lists(st.floats(allow_nan=False), max_size=3), "deeper": PART2}
)
STATE = st.sampled_from([0, 1, -2, 5])
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "i32": INT32, "i64": INT64, "u32": UINT32, "u64": UINT64, "s32": INT32, "s64": INT64, "f32": UINT32, "f64": UINT64,
    "sf32": INT32, "sf64": INT64, "single": st.floats(width=32, allow_nan=False), "real": st.floats(allow_nan=False),
    "flag": st.booleans(), "text": TEXT, "raw": st.binary(max_size=8), "state": STATE, "maybe": INT32,
    "numbers": st.lists(INT64, max_size=4), "loose": st.lists(INT32, max_size=4), "states": st.lists(STATE, max_size=3),
    "words": st.lists(TEXT, max_size=3), "parts": st.dictionaries(TEXT, PART, max_size=3),
    "flags": st.dictionaries(INT32, st.booleans(), max_size=3), "part": PART, "list": st.lists(PART, max_size=3),
    "name": TEXT, "number": INT64, "inner": PART, "again": st.fixed_dictionaries({"i32": INT32}),
    "nothing": st.just({}),
    "placed": st.fixed_dictionaries({"seconds": st.integers(-(10**9), 10**10), "nanos": st.integers(0, 10**9 - 1)}),
    "boxed": st.fixed_dictionaries({}, optional={"value": INT64}),
}  # fmt: skip
ALL = st.fixed_dictionaries({}, optional=FIELDS)


def shown(message: Any, names: tuple[str, ...]) -> dict[str, Any]:
    """Return what protobuf's runtime read in the form of the columns."""
    return {name: shown_field(message, message.DESCRIPTOR.fields_by_name[name]) for name in names}


def shown_field(message: Any, field: Any) -> Any:
    value = getattr(message, field.name)
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        inner = field.message_type.fields_by_name["value"]
        return [(key, shown_value(item, inner)) for key, item in value.items()]
    if field.is_repeated:
        return [shown_value(item, field) for item in value]
    if field.has_presence and not message.HasField(field.name):
        return None
    return shown_value(value, field)


def shown_value(value: Any, field: Any) -> Any:
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return known.name if known else str(value)
    if field.type in {field.TYPE_UINT64, field.TYPE_FIXED64}:
        return Decimal(value)
    if field.message_type is None:
        return value
    name = field.message_type.full_name
    if name == "google.protobuf.Timestamp":
        return dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(
            seconds=value.seconds, microseconds=value.nanos // 1000
        )
    if name == "google.protobuf.Int64Value":
        return value.value
    if name in {"shop.All", "shop.Nothing"}:
        return value.SerializeToString()
    return shown(value, tuple(field.name for field in field.message_type.fields))


def sort_maps(value: dict[str, Any] | None) -> dict[str, Any] | None:
    if value is not None:
        for name in ("parts", "flags"):
            value[name] = sorted(value[name], key=lambda entry: entry[0])
    return value


@given(st.data())
def test_the_kernel_reads_what_protobuf_reads(sources: dict[str, SchemaSource], data: st.DataObject) -> None:
    source = sources["All"]
    made = message_class(source)
    messages = [made(**fields) for fields in data.draw(st.lists(ALL, min_size=1, max_size=4))]
    payloads = [message.SerializeToString() for message in messages]
    values, reasons = decode(source, [*payloads, None])
    assert reasons == [None] * (len(messages) + 1)
    names = tuple(values.type.names)
    assert [sort_maps(value) for value in values.to_pylist()] == [
        *(sort_maps(shown(message, names)) for message in messages),
        None,
    ]


@given(st.data())
def test_messages_one_behind_the_other_are_merged(sources: dict[str, SchemaSource], data: st.DataObject) -> None:
    """Fields come in any order and in parts: the last number counts, lists are continued, messages are merged, oneofs
    change."""
    source = sources["All"]
    made = message_class(source)
    small = {
        name: FIELDS[name] for name in ("i32", "part", "list", "numbers", "loose", "name", "inner", "number", "boxed")
    }
    parts = data.draw(st.lists(st.fixed_dictionaries({}, optional=small), min_size=2, max_size=4))
    payload = b"".join(made(**fields).SerializeToString() for fields in parts)
    values, reasons = decode(source, [payload])
    assert reasons == [None]
    assert values.to_pylist() == [shown(made.FromString(payload), tuple(values.type.names))]


@given(st.data())
def test_any_bytes_are_values_or_reasons(sources: dict[str, SchemaSource], data: st.DataObject) -> None:
    source = sources[data.draw(st.sampled_from(["All", "Old"]))]
    made = message_class(source)
    sound = message_class(sources["All"])(**data.draw(ALL)).SerializeToString()
    noise = data.draw(st.lists(st.binary(max_size=20), max_size=10))
    payloads = [*(sound[:length] for length in range(0, len(sound), 1 + len(sound) // 30)), *noise]
    _, reasons = decode(source, list(payloads))
    for payload, reason in zip(payloads, reasons, strict=True):
        if reason is None:
            continue
        if reason.startswith(("text that is not UTF-8", "a key or a field is there twice", "a number does not fit")):
            # stricter than the runtime: old text may be any bytes, of equal keys the last counts, times may be any
            continue
        with pytest.raises(DecodeError):
            made.FromString(payload)


def test_proto2_has_groups_and_no_defaults(sources: dict[str, SchemaSource]) -> None:
    made = message_class(sources["Old"])
    message = made(name="n", packed=[1, 2], data={"text": "t", "item": [{"n": 1}, {}]})
    values, reasons = decode(sources["Old"], [message.SerializeToString(), b"", b"\x23\x2a\x01x", b"\x23\x24\x24"])
    assert values.to_pylist()[:2] == [
        {"id": None, "name": "n", "packed": [1, 2], "data": {"text": "t", "item": [{"n": 1}, {"n": None}]}},
        {"id": None, "name": None, "packed": [], "data": None},
    ]
    assert reasons == [None, None, "a group does not end (byte 4)", "a field's tag cannot be (byte 3)"]


def test_hostile_payloads(sources: dict[str, SchemaSource]) -> None:
    deep = b"\xfb\x3f" * 100_000  # groups of an unknown field within each other
    _, reasons = decode(
        sources["All"],
        [
            deep,
            b"\x00",
            b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
            b"\x72\x05abc",
            b"\x08" + b"\xff" * 11,
            b"\x72\x01\xff",
        ],
    )
    assert [str(reason).split(" (")[0] for reason in reasons] == [
        "nested too deep",
        "a field's tag cannot be",
        "the payload ends inside a value",
        "the payload ends inside a value",
        "a varint is longer than its type allows",
        "text that is not UTF-8",
    ]


def test_a_file_and_what_it_imports(tmp_path: Path) -> None:
    (tmp_path / "money.proto").write_text('syntax = "proto3"; message Money { int64 cents = 1; }')
    (tmp_path / "order.proto").write_text(
        'syntax = "proto3"; package shop; import "money.proto";'
        "message Order { Money total = 1; } message Other { int32 x = 1; }"
    )
    with pytest.raises(SchemaError, match="Order, Other"):
        make_decoder(f"protobuf:{tmp_path}/order.proto")
    for name in ("Order", "shop.Order"):
        decoder = make_decoder(f"protobuf:{tmp_path}/order.proto#{name}")
        values, _ = decoder.decode(pa.array([b"\x0a\x02\x08\x2a"], pa.binary()))
        assert values.to_pylist() == [{"total": {"cents": 42}}]
    with pytest.raises(SchemaError, match="no message 'Missing'"):
        make_decoder(f"protobuf:{tmp_path}/order.proto#Missing")


def test_what_confluent_knows_needs_no_reference() -> None:
    source = prepared(
        'syntax = "proto3"; import "confluent/meta.proto"; import "confluent/type/decimal.proto";'
        'message Priced { confluent.type.Decimal price = 1 [(confluent.field_meta).doc = "in euros"]; }',
        "Priced",
    )
    values, _ = decode(source, [b"\x0a\x05\x0a\x01\x05\x10\x03"])
    assert values.to_pylist() == [{"price": {"value": b"\x05", "precision": 3, "scale": 0}}]


def test_a_set_of_descriptors(tmp_path: Path, sources: dict[str, SchemaSource]) -> None:
    path = tmp_path / "all.desc"
    compiled = sources["Old"].compiled
    assert compiled is not None
    path.write_bytes(compiled)
    decoder = make_decoder(f"protobuf:{path}#Old")
    assert decoder.type.names == ["id", "name", "packed", "data"]
    path.write_bytes(b"\x0a\x05abc")
    with pytest.raises(SchemaError, match="descriptors"):
        make_decoder(f"protobuf:{path}#Old")


def test_a_schema_that_is_none(tmp_path: Path) -> None:
    path = tmp_path / "bad.proto"
    for text in ("message A {", 'syntax = "proto3"; message A { B b = 1; }', 'import "../x"; message A {}'):
        path.write_text(text)
        with pytest.raises(SchemaError, match="not a Protobuf schema"):
            make_decoder(f"protobuf:{path}")


def test_the_default_pool_is_left_alone(sources: dict[str, SchemaSource]) -> None:
    with pytest.raises(KeyError):
        descriptor_pool.Default().FindMessageTypeByName("shop.All")
