"""Values of the three formats to JSON and back."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcli.schema_client import avro, json_schema, protobuf
from kcli.schema_client.codec import BadPayload, BadValue, Codec
from kcli.schema_client.errors import SchemaError
from kcli.schema_client.sources import SchemaSource

ORDER: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "who", "type": ["null", "string"], "default": None},
        {"name": "paid", "type": ["null", "shop.Money", {"type": "fixed", "name": "Hash", "size": 2}], "default": None},
        {"name": "tags", "type": {"type": "array", "items": "string"}, "default": []},
        {"name": "counts", "type": {"type": "map", "values": "int"}, "default": {}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["NEW", "OLD"]}, "default": "NEW"},
        {"name": "raw", "type": "bytes", "default": "\u00ff"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}, "default": 0},
        {"name": "rate", "type": "double", "default": 0.5},
        {"name": "next", "type": ["null", "Order"], "default": None},
    ],
}
MONEY = '{"type": "record", "name": "Money", "namespace": "shop", "fields": [{"name": "cents", "type": "long"}]}'
FULL = {
    "id": 1,
    "who": {"string": "ann"},
    "paid": {"shop.Money": {"cents": 4190}},
    "tags": ["a", "b"],
    "counts": {"x": -3},
    "kind": "OLD",
    "raw": "\u0000\u00ff",
    "at": 1700000000000,
    "rate": "NaN",
    "next": None,
}


def avro_codec(schema: Any, *imports: str) -> Codec:
    text = schema if isinstance(schema, str) else json.dumps(schema)
    return avro.codec(SchemaSource(text, tuple((str(i), each) for i, each in enumerate(imports))))


def order() -> Codec:
    return avro_codec(ORDER, MONEY)


def test_avro_as_the_specification_writes_json() -> None:
    codec = order()
    assert codec.decode(codec.encode(FULL)) == FULL
    nested = {**FULL, "next": {"shop.Order": FULL}}
    assert codec.decode(codec.encode(nested)) == nested


def test_avro_takes_branches_without_names_and_defaults() -> None:
    codec = order()
    assert codec.decode(codec.encode({"id": 7, "who": "bob", "paid": {"cents": 5}, "next": {"id": 8}})) == {
        **codec.decode(codec.encode({"id": 7})),
        "who": {"string": "bob"},
        "paid": {"shop.Money": {"cents": 5}},
        "next": {"shop.Order": codec.decode(codec.encode({"id": 8}))},
    }


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({}, "$: the field 'id' is missing, and has no default"),
        ({"id": "1"}, '$.id: "1" is no long'),
        ({"id": 2**63}, "$.id: 9223372036854775808 is no long"),
        ({"id": True}, "$.id: true is no long"),
        ({"id": 1, "extra": 1}, "$: shop.Order has no field 'extra'"),
        ({"id": 1, "who": 5}, "$.who: 5 is no union of null, string"),
        ({"id": 1, "tags": ["a", 1]}, "$.tags[1]: 1 is no string"),
        ({"id": 1, "counts": {"a": 2**31}}, "$.counts.a: 2147483648 is no int"),
        ({"id": 1, "kind": "x"}, '$.kind: "x" is no symbol of shop.Kind'),
        ({"id": 1, "raw": "\u0100"}, '$.raw: "Ā" is no text of bytes, U+0000 to U+00FF'),
        ({"id": 1, "paid": {"shop.Hash": "abc"}}, '$.paid.shop.Hash: "abc" is no fixed of 2 bytes'),
        ({"id": 1, "next": {"id": "x"}}, '$.next.id: "x" is no long'),
        ({"id": 1, "rate": "x"}, '$.rate: "x" is no double'),
        ([], "$: [] is no record shop.Order"),
    ],
)
def test_avro_values_that_do_not_fit(value: Any, message: str) -> None:
    with pytest.raises(BadValue) as raised:
        order().encode(value)
    assert str(raised.value) == message


@pytest.mark.parametrize(
    ("schema", "data", "message"),
    [
        ("string", b"", "the payload ends inside a value"),
        ("string", b"\x04a", "the payload ends inside a value"),
        ("string", b"\x01", "a length is negative"),
        ("string", b"\x02\xff", "a string is not UTF-8"),
        ("boolean", b"\x02", "a boolean is 2"),
        ("long", b"\xff" * 11, "an integer has more than 10 bytes"),
        ("long", b"\x02\x02", "1 bytes follow the value"),
        (["null", "int"], b"\x04", "there is no branch of a union 2: there are 2"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\x02", "there is no symbol of an enum 1: there are 1"),
        (
            {"type": "array", "items": "null"},
            b"\xfe\xff\xff\xff\x0f\x00",
            "2,147,483,647 items of arrays and maps in 6 bytes",
        ),
    ],
)
def test_avro_bytes_that_are_none(schema: Any, data: bytes, message: str) -> None:
    with pytest.raises(BadPayload) as raised:
        avro_codec(json.dumps(schema)).decode(data)
    assert str(raised.value) == message


def test_avro_nested_without_end() -> None:
    codec = avro_codec({"type": "record", "name": "L", "fields": [{"name": "n", "type": ["null", "L"]}]})
    with pytest.raises(BadPayload, match="nested too deep"):
        codec.decode(b"\x02" * 1_000_000 + b"\x00")


SIMPLE = st.sampled_from(["null", "boolean", "int", "long", "double", "string", "bytes"])
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "double": st.floats(allow_nan=False, allow_infinity=False),
    "string": st.text(),
    "bytes": st.binary(),
}


@settings(max_examples=60, deadline=None)
@given(st.data(), st.lists(SIMPLE, min_size=1, max_size=4), st.lists(SIMPLE, min_size=1, max_size=4, unique=True))
def test_avro_is_what_fastavro_writes_and_reads(data: st.DataObject, kinds: list[str], union: list[str]) -> None:
    from fastavro import parse_schema, schemaless_reader, schemaless_writer

    fields = [{"name": f"f{i}", "type": {"type": "array", "items": kind}} for i, kind in enumerate(kinds)]
    schema = {"type": "record", "name": "R", "fields": [*fields, {"name": "u", "type": union}]}
    chosen = data.draw(st.sampled_from(union))
    values = {f"f{i}": data.draw(st.lists(VALUES[kind], max_size=3)) for i, kind in enumerate(kinds)}
    member = data.draw(VALUES[chosen])
    out = io.BytesIO()
    schemaless_writer(out, parse_schema(schema), {**values, "u": (chosen, member)})
    codec = avro_codec(schema)
    found = codec.decode(out.getvalue())
    shown = {name: [plain(each) for each in of] for name, of in values.items()}
    assert found == {**shown, "u": None if chosen == "null" else {chosen: plain(member)}}
    back = schemaless_reader(io.BytesIO(codec.encode(found)), parse_schema(schema), None)
    assert back == {**values, "u": member}


def plain(value: Any) -> Any:
    return value.decode("latin-1") if isinstance(value, bytes) else value


SALE = """syntax = "proto3"; package shop;
message First { int32 a = 1; }
message Sale { message Line { string what = 1; int64 n = 2; } repeated Line line_items = 1; map<string, int32> m = 2; }
"""


def test_protobuf() -> None:
    codec = protobuf.codec(SchemaSource(SALE), (1, 0))
    assert codec.message_indexes == b"\x04\x02\x00"
    assert codec.decode(codec.encode({"what": "x"})) == {"what": "x", "n": "0"}
    assert protobuf.codec(SchemaSource(SALE)).message_indexes == b"\x00"
    sale = protobuf.codec(SchemaSource(SALE, message="Sale"))
    assert sale.message_indexes == b"\x02\x02"
    value = {"line_items": [{"what": "x", "n": "7"}], "m": {"k": 1}}
    assert sale.decode(sale.encode(value)) == value
    assert sale.decode(sale.encode({"lineItems": [{"what": "x", "n": 7}], "m": {"k": 1}})) == value
    with pytest.raises(BadValue, match="no field named"):
        sale.encode({"x": 1})
    with pytest.raises(BadValue, match="is an object"):
        sale.encode(1)
    with pytest.raises(BadPayload):
        sale.decode(b"\xff")
    with pytest.raises(SchemaError, match="no message 5"):
        protobuf.codec(SchemaSource(SALE), (5,))
    with pytest.raises(SchemaError, match="not a Protobuf schema"):
        protobuf.codec(SchemaSource("x"))


def test_json_schema() -> None:
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {"id": {"type": "integer"}, "of": {"$ref": "tag.json"}},
        "required": ["id"],
    }
    codec = json_schema.codec(SchemaSource(json.dumps(schema), (("tag.json", '{"type": "string"}'),)))
    assert codec.decode(codec.encode({"id": 1, "of": "ä"})) == {"id": 1, "of": "ä"}
    with pytest.raises(BadValue, match=r"^\$: 'id' is a required property$"):
        codec.encode({})
    with pytest.raises(BadValue, match=r"^\$.of: 5 is not of type 'string'$"):
        codec.encode({"id": 1, "of": 5})
    with pytest.raises(BadPayload, match="not JSON"):
        codec.decode(b"{")
    with pytest.raises(BadPayload, match="NaN is no number of JSON"):
        codec.decode(b"NaN")
    for reference in ("file:///etc/passwd", "http://127.0.0.1:1/x.json", "other.json"):
        elsewhere = json_schema.codec(SchemaSource(json.dumps({"$ref": reference})))
        with pytest.raises(SchemaError, match="which is not there"):
            elsewhere.encode(1)
