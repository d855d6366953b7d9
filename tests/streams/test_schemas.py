"""Serdes with the schemas of a registry: in a program's input, stores and output, and bytes that they do not take."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from typing import Any

import pytest

from kcli.errors import KcliError
from kcli.streams import STRING, ProcessingError, Serde, StreamsBuilder, TopologyTestDriver
from kcli.streams.schemas import SchemaRegistry
from kcli.testing.kafka import Kafka

AVRO = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [{"name": "item", "type": "string"}, {"name": "note", "type": ["null", "string"], "default": None}],
    }
)
PROTO = 'syntax = "proto3"; message Other { int32 x = 1; } message Order { string item = 1; string note = 2; }'
JSON_SCHEMA = json.dumps({"type": "object", "properties": {"item": {"type": "string"}}, "required": ["item"]})
ORDER = {"item": "tea", "note": "hot"}


@pytest.fixture
def registry(kafka: Kafka) -> SchemaRegistry:
    return SchemaRegistry(kafka.registry.url)


def serde_of(registry: SchemaRegistry, language: str, subject: str) -> Serde[Any]:
    match language:
        case "avro":
            return registry.avro(subject, AVRO)
        case "protobuf":
            return registry.protobuf(subject, PROTO, message="Order")
    return registry.json_schema(subject, JSON_SCHEMA)


@pytest.mark.parametrize(
    ("language", "found", "says"),
    [
        ("avro", {"item": "tea", "note": {"string": "hot"}}, r"\$.item: 5 "),
        ("protobuf", ORDER, "5"),
        ("json_schema", ORDER, "5"),
    ],
)
def test_values_of_a_program(registry: SchemaRegistry, language: str, found: Any, says: str) -> None:
    orders = pickle.loads(pickle.dumps(serde_of(registry, language, "orders-value")))
    builder = StreamsBuilder(key_serde=STRING, value_serde=orders)
    table = builder.table("orders", store_name="orders")
    table.to_stream().to("out", value_serde=serde_of(registry, language, "out-value"))
    with TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic("orders", STRING, orders).pipe_input("k", ORDER)
        assert driver.get_key_value_store("orders").get("k").value == found  # type: ignore[union-attr]
        (sent,) = driver.outputs("out")
        assert sent.value is not None
        assert registry.of_subject("out-value", message="Order").from_bytes(sent.value) == found
        again = registry.of_subject("out-value", message="Order" if language == "protobuf" else None)
        assert again.to_bytes(found) == sent.value
        with pytest.raises(KcliError, match=says):
            orders.to_bytes({"item": 5})
        for data, error in ((b"tea", "no schema's id"), (b"\0\0\0\0\x63x", "has no schema 99")):
            with pytest.raises(ProcessingError, match=f"the record's value cannot be read: .* {error}"):
                driver.pipe("orders", b"k", data, 1)


def test_an_incompatible_schema_and_no_registry(registry: SchemaRegistry, kafka: Kafka) -> None:
    registry.avro("s", AVRO).to_bytes(ORDER)
    with pytest.raises(KcliError, match="incompatible"):
        registry.avro("s", AVRO.replace("Order", "Purchase")).to_bytes(ORDER)
    kafka.stop()
    program = SchemaRegistry("http://127.0.0.1:1")
    serde = program.avro("s", AVRO)
    with pytest.raises(KcliError, match=r"127\.0\.0\.1:1"):
        serde.to_bytes(ORDER)


def test_a_store_is_shown_by_its_schemas(registry: SchemaRegistry, kafka: Kafka) -> None:
    serde = registry.avro("orders-value", AVRO)
    kafka.seed({"app-orders-changelog": 1})
    kafka.produce("app-orders-changelog", {"key": b"k", "value": serde.to_bytes(ORDER)})
    arguments = ["store", "app", "orders", "-b", kafka.bootstrap_servers, "--schemas", kafka.registry.url]
    command = [sys.executable, "-m", "kcli", "streams", *arguments, "--format", "jsonl"]
    row = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert (row["key"], row["value"]) == ("k", {"item": "tea", "note": {"string": "hot"}})
