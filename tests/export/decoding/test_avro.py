"""Avro: the kernel decodes every payload as fastavro does."""

from __future__ import annotations

import datetime as dt
import io
import json
import pickle
from collections.abc import Iterator
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.errors import UnreadableInput
from kcli.export.decoding import Decoder, SchemaError, make_decoder
from kcli.export.decoding import avro as avro_language
from kcli.export.decoding.by_schema import SchemaDecoder
from kcli.schema_client.sources import SchemaSource
from tests.export.decoding.orders import SCHEMA, encoded, orders

UTC = dt.UTC
SIMPLE: dict[str, st.SearchStrategy[Any]] = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "bytes": st.binary(max_size=40),
    "string": st.text(max_size=20),
}
DAYS = st.dates(dt.date(1, 1, 1), dt.date(9999, 12, 31))
TIMES = st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2200, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 (hypothesis takes naive bounds beside timezones)
LOGICAL: list[tuple[Any, st.SearchStrategy[Any]]] = [
    ({"type": "int", "logicalType": "date"}, DAYS),
    ({"type": "long", "logicalType": "timestamp-micros"}, TIMES),
    (
        {"type": "long", "logicalType": "timestamp-millis"},
        TIMES.map(lambda time: time.replace(microsecond=time.microsecond // 1000 * 1000)),
    ),
    (
        {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 3},
        st.integers(-(10**12) + 1, 10**12 - 1).map(lambda number: Decimal(number).scaleb(-3)),
    ),
    ({"type": "string", "logicalType": "uuid"}, st.uuids().map(str)),
]

Pair = tuple[Any, st.SearchStrategy[Any]]


@st.composite
def pairs(draw: st.DrawFn, depth: int = 3) -> Pair:
    """A schema, and values of it."""
    kind = draw(st.sampled_from(["simple", "logical", "fixed", "enum", "array", "map", "record", "optional", "union"]))
    if depth == 0 or kind == "simple":
        name = draw(st.sampled_from(sorted(SIMPLE)))
        return name, SIMPLE[name]
    name = "N"  # `told_apart` gives each its own
    if kind == "logical":
        logical: Pair = draw(st.sampled_from(LOGICAL))
        return logical
    if kind == "fixed":
        size = draw(st.integers(1, 9))
        return {"type": "fixed", "name": name, "size": size}, st.binary(min_size=size, max_size=size)
    if kind == "enum":
        symbols = draw(st.lists(st.sampled_from("ABCDEFGH"), min_size=1, unique=True))
        return {"type": "enum", "name": name, "symbols": symbols}, st.sampled_from(symbols)
    if kind == "record":
        parts = draw(st.lists(pairs(depth - 1), min_size=1, max_size=4))
        fields = [{"name": f"f{i}", "type": schema} for i, (schema, _) in enumerate(parts)]
        values = st.fixed_dictionaries({f"f{i}": strategy for i, (_, strategy) in enumerate(parts)})
        return {"type": "record", "name": name, "fields": fields}, values
    schema, values = draw(pairs(depth - 1))
    if kind == "array":
        return {"type": "array", "items": schema}, st.lists(values, max_size=4)
    if kind == "map":
        return {"type": "map", "values": schema}, st.dictionaries(st.text(max_size=5), values, max_size=4)
    if kind == "optional" and schema != "null" and not isinstance(schema, list):
        return draw(st.permutations(["null", schema])), st.none() | values
    return ["string", "null", "long"], SIMPLE["string"] | SIMPLE["null"] | SIMPLE["long"]


def told_apart(schema: Any, numbers: Iterator[int]) -> Any:
    """Return the schema with a distinct name for each type."""
    if isinstance(schema, list):
        return [told_apart(part, numbers) for part in schema]
    if not isinstance(schema, dict):
        return schema
    made = {word: told_apart(part, numbers) if word in {"items", "values"} else part for word, part in schema.items()}
    if "name" in made:
        made["name"] = f"N{next(numbers)}"
    if "fields" in made:
        made["fields"] = [{**field, "type": told_apart(field["type"], numbers)} for field in made["fields"]]
    return made


SCHEMAS = pairs().map(lambda pair: (told_apart(pair[0], count()), pair[1]))


def shown(schema: Any, value: Any) -> Any:
    """Return what fastavro read in the form of the column."""
    if isinstance(schema, list):
        if schema == ["string", "null", "long"]:
            if value is None:
                return None
            return (
                {"member0": value, "member1": None} if isinstance(value, str) else {"member0": None, "member1": value}
            )
        other = next(part for part in schema if part != "null")
        return None if value is None else shown(other, value)
    kind = schema["type"] if isinstance(schema, dict) else schema
    if kind == "array":
        return [shown(schema["items"], item) for item in value]
    if kind == "map":
        return [(key, shown(schema["values"], item)) for key, item in value.items()]
    if kind == "record":
        return {field["name"]: shown(field["type"], value[field["name"]]) for field in schema["fields"]}
    return str(value) if isinstance(schema, dict) and schema.get("logicalType") == "uuid" else value


def decoder_for(schema: Any) -> Decoder:
    return SchemaDecoder(avro_language, SchemaSource(json.dumps(schema)))


@given(st.data())
def test_the_kernel_reads_what_fastavro_reads(data: st.DataObject) -> None:
    schema, strategy = data.draw(SCHEMAS)
    written = data.draw(st.lists(strategy, max_size=5))
    payloads = encoded(schema, written)
    parsed = fastavro.parse_schema(schema)
    read = [fastavro.schemaless_reader(io.BytesIO(payload), parsed, None) for payload in payloads.to_pylist()]
    decoder = pickle.loads(pickle.dumps(decoder_for(schema)))
    values, reasons = decoder.decode(payloads)
    values.validate(full=True)
    assert values.type == decoder.type
    assert reasons.to_pylist() == [None] * len(written)
    assert values.to_pylist() == [shown(schema, value) for value in read]


@given(st.data())
def test_any_bytes_are_values_or_reasons(data: st.DataObject) -> None:
    schema, strategy = data.draw(SCHEMAS)
    sound = encoded(schema, [data.draw(strategy)])[0].as_py()
    cut = [sound[:length] for length in range(min(len(sound), 50))]
    noise = data.draw(st.lists(st.binary(max_size=30), max_size=10))
    payloads = pa.array([sound, *cut, None, *noise, sound, sound + b"\0"], pa.binary())
    values, reasons = decoder_for(schema).decode(payloads)
    values.validate(full=True)
    assert values[0] == values[-2]
    told = reasons.to_pylist()
    assert told[0] is told[-2] is None
    assert told[-1] == f"bytes behind the end of the value (byte {len(sound)})"
    assert all(told[1 : 1 + len(cut)])
    assert not any(value.is_valid for value, reason in zip(values, told, strict=True) if reason)


def test_orders_decode(tmp_path: Path) -> None:
    path = tmp_path / "order.avsc"
    path.write_text(json.dumps(SCHEMA))
    decoder = make_decoder(f"avro:{path}")
    written = orders(500)
    values, reasons = decoder.decode(encoded(SCHEMA, written))
    assert reasons.null_count == 500
    placed = values.field("placed").cast(pa.timestamp("ms", "UTC")).cast(pa.int64()).to_pylist()
    assert [{**row, "placed": time} for row, time in zip(values.to_pylist(), placed, strict=True)] == written
    assert decoder.type.field("placed").type == pa.timestamp("us", "UTC")


def test_a_slice_decodes_as_its_rows() -> None:
    payloads = encoded("long", list(range(10)))
    mixed = pa.array([None, *payloads.to_pylist()], pa.binary())
    values, _ = decoder_for("long").decode(mixed.slice(4, 3))
    assert values.to_pylist() == [3, 4, 5]
    assert decoder_for("long").decode(mixed.slice(2, 0))[0].to_pylist() == []
    assert decoder_for("long").decode(payloads.cast(pa.large_binary()))[0].to_pylist() == list(range(10))


@pytest.mark.parametrize(
    ("schema", "payload", "reason"),
    [
        ("long", b"\x80" * 11, "a varint is longer than its type allows (byte 9)"),
        ("int", b"\xfe\xff\xff\xff\xff\x01", "a number does not fit its type (byte 6)"),
        ("string", b"\x01", "a length cannot be (byte 1)"),
        ("string", b"\x80\x80\x80\x80\x80\x01", "the payload ends inside a value (byte 6)"),
        ("string", b"\x04\xc3\x28", "text that is not UTF-8 (byte 1)"),
        ("boolean", b"\x02", "a boolean that is neither 0 nor 1 (byte 0)"),
        (["null", "int"], b"\x04", "a union has no such branch (byte 1)"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\x02", "an enum has no such symbol (byte 1)"),
        # 2^61 items without bytes: the kernel refuses them before it makes any
        ({"type": "array", "items": "null"}, b"\xfe" + b"\xff" * 8 + b"\x01\0", "more items than a payload"),
        ({"type": "map", "values": "int"}, b"\x04\x02a\x02\x02a\x04\0", "a key or a field is there twice"),
        ({"type": "long", "logicalType": "timestamp-millis"}, b"\xff" * 9 + b"\x01", "a number does not fit its type"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2}, b"\x02\x64", "a number does not fit its type"),
    ],
)
def test_what_is_wrong_is_said(schema: Any, payload: bytes, reason: str) -> None:
    values, reasons = decoder_for(schema).decode(pa.array([payload], pa.binary()))
    assert values.to_pylist() == [None]
    assert reasons[0].as_py().startswith(reason)


def test_a_record_within_itself_stops_at_its_bytes() -> None:
    schema = {
        "type": "record",
        "name": "Node",
        "fields": [{"name": "value", "type": "int"}, {"name": "next", "type": ["null", "Node"]}],
    }
    chain: Any = None
    for value in range(4):
        chain = {"value": value, "next": chain}
    decoder = decoder_for(schema)
    payloads = encoded(schema, [chain, {"value": 9, "next": None}])
    values, _ = decoder.decode(payloads)
    inner = fastavro.schemaless_reader(io.BytesIO(values[0]["next"].as_py()), fastavro.parse_schema(schema), None)
    assert (values[0]["value"].as_py(), inner) == (3, chain["next"])
    assert values[1].as_py() == {"value": 9, "next": None}
    bomb = pa.array([b"\0\x02" * 200_000 + b"\0\0"], pa.binary())
    assert decoder.decode(bomb)[1][0].as_py().startswith("nested too deep")


def test_decimals_of_any_length() -> None:
    schema = {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 2}
    numbers = [0, 1, -1, 10**38 - 1, -(10**38) + 1, 10**38]
    payloads = []
    for number in numbers:
        for size in (17, 20):
            raw = number.to_bytes(size, signed=True)
            payloads.append(bytes([2 * len(raw)]) + raw)
    payloads.append(b"\x24" + b"\x01" + bytes(17))
    values, reasons = decoder_for(schema).decode(pa.array(payloads, pa.binary()))
    assert values.to_pylist()[:10] == [Decimal(f"{number}E-2") for number in numbers[:5] for _ in range(2)]
    assert values.to_pylist()[10:] == [None] * 3
    assert reasons.null_count == 10


@pytest.mark.parametrize(
    "text", ["", "{", "[]x", '"nothing"', '{"type": "record"}', "[" * 100_000, '{"type": "array"}', "5", "null"]
)
def test_a_schema_that_is_none(tmp_path: Path, text: str) -> None:
    path = tmp_path / "bad.avsc"
    path.write_text(text)
    with pytest.raises(SchemaError):
        make_decoder(f"avro:{path}")


def test_a_schema_file_that_is_not_there() -> None:
    with pytest.raises(UnreadableInput):
        make_decoder("avro:nothing.avsc")
