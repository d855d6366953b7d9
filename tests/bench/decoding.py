"""Payloads to columns, on one core, beside the libraries' own readers with pyarrow: python -m tests.bench.decoding.

The record: long, string, double, nullable string, enum, array of strings, nested record, timestamp in milliseconds.
Rates are of CPU time; the best of the runs counts, on both sides.
"""

from __future__ import annotations

import io
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
from google.protobuf import message_factory

from kcli.export.decoding import DecoderSpec, make_decoder, survey
from kcli.export.decoding import avro as avro_language
from kcli.export.decoding import protobuf as protobuf_language
from kcli.export.decoding.by_schema import SchemaDecoder
from kcli.export.decoding.decoder import Decoder
from kcli.schema_client.sources import SchemaSource
from tests.bench.report import ServeFigure, machine, serve_table
from tests.export.decoding.orders import SCHEMA, encoded, orders

RESULTS = Path(__file__).with_name("DECODING.md")
COUNT = 200_000
COUNT_OTHER = 20_000
RUNS = 5
PROTO = """
syntax = "proto3";
import "google/protobuf/timestamp.proto";
enum State { NEW = 0; PAID = 1; SHIPPED = 2; }
message Address { string street = 1; int32 zip = 2; }
message Order {
  int64 id = 1; string customer = 2; double total = 3; optional string note = 4; State state = 5;
  repeated string tags = 6; Address address = 7; google.protobuf.Timestamp placed = 8;
}
"""


def rate(count: int, work: Callable[[], object]) -> float:
    """Records a second of CPU."""
    best = 0.0
    for _ in range(RUNS):
        began = time.process_time()
        work()
        best = max(best, count / (time.process_time() - began))
    return best


def figure(name: str, decoder: Decoder, payloads: pa.BinaryArray, read: Callable[[bytes], Any]) -> ServeFigure:
    """Measure one format. read: decodes one payload with the format's own library."""
    assert decoder.decode(payloads)[1].null_count == len(payloads)
    some = payloads.slice(0, COUNT_OTHER)
    own = rate(len(payloads), lambda: decoder.decode(payloads))
    other = rate(len(some), lambda: pa.array([read(payload) for payload in some.to_pylist()]))
    return ServeFigure(name, own, other, "records/s", least=300_000)


def figures() -> list[ServeFigure]:
    """All formats."""
    rows = orders(COUNT)
    parsed = fastavro.parse_schema(SCHEMA)
    avro = SchemaDecoder(avro_language, SchemaSource(json.dumps(SCHEMA)))
    found = [
        figure(
            "Avro, beside fastavro",
            avro,
            encoded(SCHEMA, rows),
            lambda payload: fastavro.schemaless_reader(io.BytesIO(payload), parsed, None),
        )
    ]
    proto = SchemaDecoder(protobuf_language, SchemaSource(PROTO, message="Order"))
    made = message_factory.GetMessageClass(protobuf_language.message_of(proto.source))
    names = [field.name for field in made.DESCRIPTOR.fields if field.message_type is None]

    def read_proto(payload: bytes) -> dict[str, Any]:
        message = made.FromString(payload)
        plain = {name: getattr(message, name) for name in names}
        plain["tags"] = list(plain["tags"])
        return {
            **plain,
            "address": {"street": message.address.street, "zip": message.address.zip},
            "placed": message.placed.seconds * 1_000_000 + message.placed.nanos // 1000,
        }

    payloads = [made(**{**row, "placed": timestamp(row["placed"])}).SerializeToString() for row in rows]
    found.append(figure("Protobuf, beside protobuf", proto, pa.array(payloads, pa.binary()), read_proto))
    texts = pa.array([json.dumps(row).encode() for row in rows], pa.binary())
    spec = DecoderSpec.parse("json")
    inferred = make_decoder(spec, survey(spec, texts.slice(0, 1000)))
    found.append(figure("JSON, beside json", inferred, texts, json.loads))
    variant = rate(COUNT, lambda: make_decoder("json:variant").decode(texts))
    found.append(ServeFigure("JSON as VARIANT", variant, None, "records/s", least=300_000))
    looked_at = rate(COUNT_OTHER, lambda: survey(spec, texts.slice(0, COUNT_OTHER)))
    return [*found, ServeFigure("JSON, inferring the type", looked_at, None, "records/s")]


def timestamp(time_ms: int) -> dict[str, int]:
    """As google.protobuf.Timestamp takes it."""
    return {"seconds": time_ms // 1000, "nanos": time_ms % 1000 * 1_000_000}


def main() -> int:
    """Measure, print, write."""
    rows = figures()
    text = serve_table(rows, "the library and pyarrow")
    print(text)
    RESULTS.write_text(f"# Payloads to columns, on one core\n\nBest of {RUNS} runs. {machine()}.\n\n{text}\n")
    return 1 if any(row.reached is False for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
