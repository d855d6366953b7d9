"""The steps of a registry's clients (../README.md) with confluent-kafka: its registry client, serializers and
deserializers."""

from __future__ import annotations

import json
import sys
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import confluent_kafka
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.message_factory import GetMessageClass
from grpc_tools import protoc

with warnings.catch_warnings():  # authlib's, about its own imports
    warnings.simplefilter("ignore")
    from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
    from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
    from confluent_kafka.schema_registry.error import SchemaRegistryError
    from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
    from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer

from tests.interop.clients.python.script import TIMEOUT_S, Deadline
from tests.interop.clients.registry import AVRO, PROTOBUF, Json

LOOK_UP = {"auto.register.schemas": False}
Write = Callable[[Json, SerializationContext], bytes]
Read = Callable[[bytes, SerializationContext], Any]


class Serdes(NamedTuple):
    """Serializers of the three schemas with values, and deserializers of the two topics."""

    first: Write
    evolved: Write
    sale: Write
    orders: Read
    sales: Read


def registered(client: SchemaRegistryClient, todo: Json) -> Json:
    """Register the schemas, read them back, and return that part of the report."""
    subject, sales = f"{todo['topic']}-value", f"{todo['topic']}-sales-value"
    first, evolved = (client.register_schema(subject, _schema(todo, each)) for each in ("first", "evolved"))
    again = client.register_schema(subject, _schema(todo, "first"))
    try:
        client.register_schema(subject, _schema(todo, "incompatible"))
        refused = 0
    except SchemaRegistryError as error:
        refused = error.http_status_code
    customer = client.register_schema(todo["reference"], _schema(todo, "customer"))
    ids = [first, evolved, customer, client.register_schema(sales, _schema(todo, "sale"))]
    client.clear_caches()  # type: ignore[no-untyped-call]
    versions = [client.get_version(subject, each) for each in client.get_versions(subject)]
    read = client.get_version(sales, 1)
    return {
        "ids": ids,
        "again": again,
        "refused": refused,
        "by_id": [client.get_schema(each).schema_str for each in ids],
        "by_version": [[each.schema_id, each.schema.schema_str] for each in versions],
        "latest": client.get_latest_version(subject).version,
        "looked_up": client.lookup_schema(subject, _schema(todo, "first")).schema_id,
        "references": [[each.name, each.subject, each.version] for each in read.schema.references or ()],
        "sale": read.schema_id,
    }


def _schema(todo: Json, name: str) -> Schema:
    references = [SchemaReference(todo["reference"], todo["reference"], 1)] if name == "sale" else []
    return Schema(todo[name], todo["type"], references)


def serdes(writer: SchemaRegistryClient, reader: SchemaRegistryClient, todo: Json) -> Serdes:
    """Return the serializers and deserializers of a format, which know no ids yet."""
    if todo["type"] == AVRO:
        first, evolved, sale = (
            AvroSerializer(writer, _schema(todo, each), conf=LOOK_UP) for each in ("first", "evolved", "sale")
        )
        return Serdes(first, evolved, sale, AvroDeserializer(reader, todo["evolved"]), AvroDeserializer(reader))
    if todo["type"] == PROTOBUF:
        customer = {todo["reference"]: todo["customer"]}
        classes = [
            _message(todo["first"], {}),
            _message(todo["evolved"], {}),
            _message(todo["sale"], customer),
        ]
        first, evolved, sale = (_protobuf_writer(each, writer) for each in classes)
        orders, sales = (_protobuf_reader(each, reader) for each in classes[1:])
        return Serdes(first, evolved, sale, orders, sales)
    first, evolved, sale = (
        JSONSerializer(_schema(todo, each), writer, conf=LOOK_UP) for each in ("first", "evolved", "sale")
    )
    read = JSONDeserializer(None, schema_registry_client=reader)
    return Serdes(first, evolved, sale, read, read)


def _protobuf_writer(message: Any, client: SchemaRegistryClient) -> Write:
    serializer = ProtobufSerializer(message, client, LOOK_UP)
    return lambda value, context: serializer(ParseDict(value, message()), context)


def _protobuf_reader(message: Any, client: SchemaRegistryClient) -> Read:
    deserializer = ProtobufDeserializer(message, schema_registry_client=client)
    return lambda data, context: MessageToDict(deserializer(data, context))


def _message(text: str, imports: Mapping[str, str]) -> Any:
    """Return the class of a file's only message, as protoc makes it for Python: without the names of fields in JSON."""
    with tempfile.TemporaryDirectory() as folder:
        for name, content in {**imports, "schema.proto": text}.items():
            (Path(folder) / name).write_text(content, encoding="utf-8")
        out = Path(folder) / "set"
        status = protoc.main(
            ["protoc", f"-I{folder}", "--include_imports", f"--descriptor_set_out={out}", "schema.proto"]
        )
        assert status == 0, text
        files = FileDescriptorSet.FromString(out.read_bytes()).file
    pool = DescriptorPool()
    for each in files:
        for field in each.message_type[0].field:
            field.ClearField("json_name")
        pool.Add(each)
    found = pool.FindFileByName("schema.proto").message_types_by_name.values()
    return GetMessageClass(next(iter(found)))


def produce(bootstrap: str, topic: str, write: Write, values: Sequence[Json]) -> None:
    """Write values to a topic."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
    for each in values:
        producer.produce(topic, write(each, SerializationContext(topic, MessageField.VALUE)))
    assert producer.flush(TIMEOUT_S) == 0, "all are delivered"


def consume(bootstrap: str, topic: str, read: Read, count: int) -> list[Any]:
    """Read that many values from the beginning of a topic."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[Any] = []
    deadline = Deadline()
    while len(found) < count:
        deadline.check()
        for each in consumer.consume(count - len(found), 0.1):
            assert each.error() is None, each.error()
            value = each.value()
            assert value is not None
            found.append(read(value, SerializationContext(topic, MessageField.VALUE)))
    consumer.close()
    return found


def main(bootstrap: str, url: str, path: str) -> None:
    """Take the steps, and print the report."""
    job = json.loads(Path(path).read_text(encoding="utf-8"))
    formats = {}
    for todo in job["formats"]:
        topic, sales = todo["topic"], f"{todo['topic']}-sales"
        # a reader of its own, which has to ask for the schemas of the ids that it finds
        with SchemaRegistryClient({"url": url}) as client, SchemaRegistryClient({"url": url}) as reader:
            report = registered(client, todo)
            made = serdes(client, reader, todo)
            produce(bootstrap, topic, made.first, job["orders"])
            produce(bootstrap, topic, made.evolved, job["noted"])
            produce(bootstrap, sales, made.sale, job["sales"])
            report["orders"] = consume(bootstrap, topic, made.orders, len(job["orders"] + job["noted"]))
            report["sales"] = consume(bootstrap, sales, made.sales, len(job["sales"]))
        formats[todo["type"]] = report
    print(json.dumps({"client": f"confluent-kafka {confluent_kafka.version()}", "formats": formats}))


if __name__ == "__main__":
    main(*sys.argv[1:])
