"""Values of records through formats.kernels.payload: Avro, Protobuf, JSON, VARIANT; sound ones, mutated, and noise."""

from __future__ import annotations

import json
from functools import cache
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

from formats.kernels.payload.columns import BINARY, PLAIN, STRUCT, Shape
from formats.kernels.payload.payloads import NO_HEADER, SCHEMA_ID, SCHEMA_MESSAGE, Payloads
from formats.kernels.payload.variant import VariantDecoding
from kcli.export.decoding import DecoderSpec, avro, make_decoder, protobuf, survey
from kcli.export.decoding.by_schema import SchemaDecoder
from kcli.export.decoding.programs import Program
from kcli.schema_client.sources import SchemaSource
from tests.damage import extreme, varint
from tests.export.decoding.orders import SCHEMA, encoded, orders
from tests.sanitize.logs import tight

AVRO = {
    "type": "record",
    "name": "All",
    "fields": [
        {"name": "order", "type": SCHEMA},
        {"name": "flags", "type": {"type": "map", "values": {"type": "array", "items": "boolean"}}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 9}},
        {"name": "id", "type": {"type": "fixed", "name": "Id", "size": 16, "logicalType": "uuid"}},
        {"name": "any", "type": ["null", "int", "float", {"type": "array", "items": ["null", "string"]}]},
        {"name": "nothing", "type": {"type": "array", "items": "null"}},
        {"name": "next", "type": ["null", "All"], "default": None},
    ],
}
PROTO = """
syntax = "proto3";
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
enum State { NEW = 0; PAID = 1; SHIPPED = -5; }
message Tree { string name = 1; repeated Tree children = 2; }
message Address { string street = 1; sint32 zip = 2; fixed64 code = 3; }
message Order {
  int64 id = 1; string customer = 2; double total = 3; optional string note = 4; State state = 5;
  repeated string tags = 6; Address address = 7; google.protobuf.Timestamp placed = 8; map<string, Address> places = 9;
  oneof way { uint64 mail = 10; bytes parcel = 11; Address by = 12; } repeated sint64 numbers = 13;
  repeated Address more = 14; google.protobuf.StringValue text = 15; Tree tree = 16; map<int32, bool> set = 17;
  repeated float weights = 18; repeated State states = 19;
}
"""
TEXTS = (
    '{"id": 1, "name": "\\u00e9\\ud83d\\ude00x", "list": [1, 2.5, -3e400, "x"], "map": {"a": {"b": null}}, "ok": true}',
    '{"id": 123456789012345678901234567890.123, "name": "plain", "list": [], "map": {}, "ok": false}',
    '{"id": -0, "when": "2024-02-29", "at": "2024-02-29T23:59:59.999999+14:00", "raw": "AAEC/w==", "small": -128}',
    '[[[[{"deep": [1, {"a": "b", "a": "c"}]}]]], "\\n\\t\\"", 1e-400, 0.1, 99999999999999999999]',
    '"text"',
    "-170141183460469231731687303715884105728.5e-37",
)
COLUMN_TYPE = (
    "struct<id: decimal(38,9), name: string, list: array<double>, map: map<string, struct<b: int>>, ok: boolean, "
    "when: date, at: timestamp, raw: binary, small: tinyint>"
)
TROUBLE = (b"[" * 200, b'{"a":' * 140, b"\\u", b"\\ud800\\u0", b"\xff" * 12, b"\x80" * 9, b"1" * 50, b'"', b"e", b"=")


@cache
def programs() -> list[tuple[Program | None, list[bytes]]]:
    """Programs (None: JSON as VARIANT, which is made for each run) with payloads that they decode."""
    plain = SchemaDecoder(avro, SchemaSource(json.dumps(SCHEMA)))
    whole = SchemaDecoder(avro, SchemaSource(json.dumps(AVRO)))
    rows = orders(12)
    values: list[Any] = [
        {
            "order": row,
            "flags": {"a": [True, False], "b": []},
            "price": b"\x7f" * 8,
            "id": bytes(range(16)),
            "any": ["x", None],
            "nothing": [None] * 3,
            "next": None,
        }
        for row in rows
    ]
    texts = [each.encode() for each in TEXTS]
    from_texts = pa.array(texts, pa.binary())
    spec = DecoderSpec.parse("json")
    inferred: Any = make_decoder(spec, survey(spec, from_texts))
    typed: Any = make_decoder(DecoderSpec.parse(f"json:{COLUMN_TYPE}"))
    proto = SchemaDecoder(protobuf, SchemaSource(PROTO, message="Order"))
    written = encoded(SCHEMA, rows).to_pylist()
    return [
        (plain.program, written),
        (whole.program, [avro_bytes(AVRO, value) for value in values]),
        (proto.program, proto_payloads()),
        (inferred.program, texts),
        (typed.program, texts),
        (None, texts),
    ]


def avro_bytes(schema: Any, value: Any) -> bytes:
    """One value in Avro."""
    import io

    import fastavro

    out = io.BytesIO()
    raw = {**schema, "fields": [without_logic(field) for field in schema["fields"]]}
    fastavro.schemaless_writer(out, fastavro.parse_schema(raw), value)
    return out.getvalue()


def without_logic(field: Any) -> Any:
    """A field whose bytes are returned as they are."""
    kind = field["type"]
    if isinstance(kind, dict) and "logicalType" in kind:
        return {**field, "type": {key: value for key, value in kind.items() if key != "logicalType"}}
    return field


def proto_payloads() -> list[bytes]:
    """Return Protobuf payloads, made field by field of numbers and wire types."""

    def raw(value: int) -> bytes:
        out = bytearray()
        while value >= 0x80:
            out.append(value & 0x7F | 0x80)
            value >>= 7
        return bytes([*out, value])

    def sized(number: int, data: bytes) -> bytes:
        return raw(number << 3 | 2) + raw(len(data)) + data

    def number(field: int, value: int) -> bytes:
        return raw(field << 3) + raw(value)

    address = sized(1, b"Main Street") + number(2, 9) + raw(3 << 3 | 1) + bytes(8)
    stamp = number(1, 1_700_000_000) + number(2, 999_999_999)
    entry = sized(1, b"home") + sized(2, address)
    tree = sized(1, b"root") + sized(2, sized(1, b"leaf") + sized(2, b""))
    whole = (
        number(1, 2**63)
        + sized(2, b"me")
        + raw(3 << 3 | 1)
        + bytes(8)
        + number(5, 2**64 - 5)
        + sized(6, b"a")
        + sized(6, b"b")
        + sized(7, address)
        + sized(7, number(2, 1))
        + sized(8, stamp)
        + sized(9, entry)
        + sized(9, entry[:-1] + b"x")
        + number(10, 2**64 - 1)
        + sized(11, b"p")
        + sized(12, address)
        + sized(13, raw(1) + raw(2**64 - 1))
        + number(13, 4)
        + sized(14, address)
        + sized(14, b"")
        + sized(15, b"")
        + sized(16, tree)
        + sized(17, number(1, 1) + number(2, 1))
        + sized(18, bytes(8))
        + sized(19, raw(1) + raw(9))
    )
    return [whole, address, sized(9, entry) * 20, raw(99 << 3 | 3) + number(1, 1) + raw(99 << 3 | 4), b""]


def mutated(data: bytes, random: Random) -> bytes:
    """A payload with one to four changes."""
    out = bytearray(data)
    for _ in range(random.choice((0, 1, 2, 4))):
        how = random.random()
        at = random.randrange(len(out) + 1)
        if how < 0.3 and out:
            out[min(at, len(out) - 1)] ^= 1 << random.randrange(8)
        elif how < 0.5:
            value = varint(extreme(random))
            out[at : at + random.choice((0, len(value)))] = value
        elif how < 0.65:
            del out[at : at + random.choice((1, 4, 10**6))]
        elif how < 0.8:
            piece = out[random.randrange(len(out) + 1) :][: random.choice((1, 20, 200))]
            out[at:at] = piece * random.choice((1, 1, 150))
        else:
            out[at:at] = random.choice(TROUBLE)
    return bytes(out[:20_000])


def run(random: Random) -> None:
    """Decode a column of payloads, mostly mutated ones, with one program. A kernel may raise ValueError."""
    program, sound = random.choice(programs())
    values = [mutated(random.choice(sound), random) for _ in range(random.choice((1, 3, 8)))]
    valid = bytes(random.random() < 0.9 for _ in values)
    ends = [0]
    for value in values:
        ends.append(ends[-1] + len(value))
    if random.random() < 0.05:
        ends[random.randrange(len(ends))] = max(-(2**31), min(2**31 - 1, extreme(random)))
    offsets = np.array(ends, dtype=np.int32).data
    try:
        payloads = Payloads(offsets, tight(b"".join(values)), tight(valid))
    except ValueError:
        return
    for header in (NO_HEADER, SCHEMA_ID, SCHEMA_MESSAGE):
        payloads.headers(header)
    if program is None:
        row = (BINARY, PLAIN, 0, 0, 0)
        shape = Shape([(STRUCT, PLAIN, 2, 0, 0), row, row])
        VariantDecoding(shape, random.getrandbits(64)).decode(payloads)
    else:
        program.decode(payloads)
