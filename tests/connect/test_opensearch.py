"""The sinks for OpenSearch and Elasticsearch: on a real node of OpenSearch, and on a server that fails as told."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Producer

from kcli.connect.builtin import built_in
from kcli.connect.connectors.opensearch.documents import index_of
from kcli.connect.connectors.opensearch.sink import ElasticsearchSink, OpensearchSink
from kcli.connect.data.builder import array_schema, map_schema, struct_schema
from kcli.connect.data.errors import ConnectError, DataError, RetriableError
from kcli.connect.data.logical import DATE, TIMESTAMP, decimal_schema
from kcli.connect.data.records import Header, SinkRecord
from kcli.connect.data.schema import BOOLEAN, FLOAT64, INT32, INT64, OPTIONAL_STRING, STRING, Schema
from kcli.connect.data.struct import Struct
from kcli.connect.data.values import Date
from kcli.connect.engine.tasks import SinkContext
from kcli.connect.worker.validation import Defaults, validate
from kcli.protocol.topic_partition import TopicPartition
from kcli.testing.kafka import Kafka
from tests.connect.search_server import Answer, Stub, accepted, ask, documents, items, node
from tests.connect.turns import turn
from tests.interop.kit import KafkaUnavailableError

ORDER = struct_schema([("id", INT64), ("what", OPTIONAL_STRING)], name="order")
FREE = {"schema.ignore": "true"}


def order(number: int, what: str | None = None) -> Struct:
    return Struct(ORDER).put("id", number).put("what", what)


@pytest.fixture(scope="module")
def search(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    try:
        with node(tmp_path_factory.mktemp("opensearch")) as url:
            yield url
    except KafkaUnavailableError as error:
        pytest.skip(str(error))


@pytest.fixture
def stub() -> Iterator[Stub]:
    found = Stub()
    yield found
    found.close()


@pytest.fixture
def topic() -> str:
    """A topic whose index no other test has."""
    return f"Orders-{uuid4()}"


class Task:
    """A task that is given records as the engine gives them."""

    def __init__(self, url: str, topic: str = "orders", kind: Any = ElasticsearchSink, **more: str) -> None:
        self.topic, self.offset, self.task = topic, 0, kind.TASK()
        self.context = SinkContext("out")
        options = {name.replace("_", "."): text for name, text in more.items()}
        patient = {"connection.url": url, "read.timeout.ms": "60000", "behavior.on.null.values": "delete"}
        self.task.start({**patient, **options}, self.context)

    def record(self, key: Any, value: Any, offset: int, **more: Any) -> SinkRecord:
        schema = value.schema if isinstance(value, Struct) else None
        about = {"key_schema": INT64 if isinstance(key, int) else STRING, "value_schema": schema, **more}
        return SinkRecord(topic=self.topic, partition=0, key=key, value=value, offset=offset, **about)

    def put(self, *pairs: tuple[Any, Any], first: int = 0, **more: Any) -> None:
        self.task.put([self.record(key, value, first + number, **more) for number, (key, value) in enumerate(pairs)])


def test_names_of_indexes() -> None:
    names = ("Orders", "-a", "_B", ".", "..", "x" * 300)
    assert [*map(index_of, names)] == ["orders", "a", "b", "dot", "dotdot", "x" * 255]


def test_the_last_record_of_a_key_is_left(search: str, topic: str) -> None:
    """Whatever comes again, and from wherever: a document's version is the offset of its record."""
    pairs = [(1, order(1, "a")), (2, order(2)), (1, order(1, "b")), (2, None), (3, order(3)), (4, None)]
    Task(search, topic).put(*pairs)
    expected = {"1": (2, {"id": 1, "what": "b"}), "3": (4, {"id": 3, "what": None})}
    assert documents(search, topic.lower()) == expected
    for first in (0, 2, 5):
        Task(search, topic).put(*pairs[first:], first=first)
        assert documents(search, topic.lower()) == expected


def test_ids_of_places(search: str, topic: str) -> None:
    for _ in range(2):
        Task(search, topic, key_ignore="true").put((None, order(1)), ("k", order(2)), first=7)
    found = documents(search, topic.lower())
    assert {name: source["id"] for name, (_, source) in found.items()} == {f"{topic}+0+7": 1, f"{topic}+0+8": 2}


def test_upserts(search: str, topic: str) -> None:
    task = Task(search, topic, write_method="UPSERT", schema_ignore="true")
    task.put(("k", {"a": 1, "b": {"c": 1}}), ("k", {"b": {"d": 2}}), ("gone", {"a": 1}), ("gone", None))
    assert {name: source for name, (_, source) in documents(search, topic.lower()).items()} == {
        "k": {"a": 1, "b": {"c": 1, "d": 2}}
    }


WIDE = struct_schema(
    [
        ("price", decimal_schema(2)),
        ("day", DATE),
        ("at", TIMESTAMP),
        ("flag", BOOLEAN),
        ("real", FLOAT64),
        ("tags", array_schema(STRING)),
        ("by", map_schema(STRING, INT32)),
        ("numbers", map_schema(INT32, STRING)),
        ("order", ORDER),
        ("text", Schema(STRING.type, default="d")),
    ],
    name="wide",
)


def wide() -> Struct:
    value = Struct(WIDE).put("price", Decimal("1.50")).put("day", Date(86_400_000)).put("at", Date(5)).put("flag", True)  # noqa: FBT003
    value.put("real", 0.5).put("tags", ["a"]).put("by", {"k": 2}).put("numbers", {1: "x"})
    return value.put("order", order(3, "y"))


def test_the_mapping_of_a_schema(search: str, topic: str) -> None:
    Task(search, topic).put((1, wide()))
    ((_, source),) = documents(search, topic.lower()).values()
    assert source == {
        "price": 1.5,
        "day": 1,
        "at": 5,
        "flag": True,
        "real": 0.5,
        "tags": ["a"],
        "by": {"k": 2},
        "numbers": [{"key": 1, "value": "x"}],
        "order": {"id": 3, "what": "y"},
        "text": "d",
    }
    found = ask(f"{search}/{topic.lower()}/_mapping")[topic.lower()]["mappings"]["properties"]
    kinds = {name: each.get("type") for name, each in found.items()}
    assert kinds | {"by": None} == {
        "price": "double",
        "day": "date",
        "at": "date",
        "flag": "boolean",
        "real": "double",
        "tags": "text",
        "by": None,
        "numbers": None,
        "order": None,
        "text": "text",
    }
    assert found["text"]["fields"]["keyword"] == {"type": "keyword", "ignore_above": 256}
    assert found["numbers"]["properties"]["key"] == {"type": "integer"}
    ask(f"{search}/bare-{topic.lower()}", "PUT")
    Task(search, f"bare-{topic}").put((1, order(1)))
    assert "id" in ask(f"{search}/bare-{topic.lower()}/_mapping")[f"bare-{topic.lower()}"]["mappings"]["properties"]


@pytest.mark.parametrize("value", ["text", {"id": "no number"}])
def test_a_document_that_is_refused(search: str, topic: str, value: Any) -> None:
    Task(search, topic, schema_ignore="true").put((1, {"id": 1}))
    with pytest.raises(ConnectError, match=r"Indexing record failed: Orders-.*-0, offset 1: \w+_exception: "):
        Task(search, topic, schema_ignore="true").put((2, value), first=1)
    task = Task(search, topic, schema_ignore="true", behavior_on_malformed_documents="IGNORE")
    task.put((2, value), (3, {"id": 3}), first=1)
    assert sorted(documents(search, topic.lower())) == ["1", "3"]


def test_turns(search: str, kafka: Kafka) -> None:
    """A turn whose outcome is lost is done again, with what has come since."""
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})

    def produce(first: int, end: int) -> None:
        for number in range(first, end):
            producer.produce("orders", json.dumps({"n": number}), key=str(number % 50))
        producer.flush()

    config = {"name": "out", "connector.class": "OpensearchSinkConnector", "topics": "orders", "connection.url": search}
    config |= {"connector.class": OpensearchSink.CLASS, **FREE, "read.timeout.ms": "60000"}
    config["value.converter"] = "org.apache.kafka.connect.json.JsonConverter"
    config["value.converter.schemas.enable"] = "false"
    produce(0, 100)
    assert turn(kafka, config).positions == {TopicPartition("orders", 0): 100}
    produce(100, 150)
    found = turn(kafka, config)
    assert (found.trace, found.records) == (None, 150)
    assert {name: each["n"] for name, (_, each) in documents(search, "orders").items()} == {
        str(number % 50): number for number in range(100, 150)
    }


def test_requests(stub: Stub) -> None:
    """Requests have batch.size records, and bulk.size.bytes."""
    more = {"connection.username": "u", "connection.password": "p:w"}
    task = Task(stub.url, batch_size="2", bulk_size_bytes="250", **more, **FREE)
    task.put(*((number, {"n": number}) for number in range(3)), (9, {"text": "x" * 200}), (9, None))
    assert [len(each) for each in stub.bulks] == [4, 2, 2, 1]
    assert stub.bulks[0][:2] == [
        {"index": {"_index": "orders", "_id": "0", "version": 0, "version_type": "external"}},
        {"n": 0},
    ]
    assert stub.bulks[3] == [{"delete": {"_index": "orders", "_id": "9", "version": 4, "version_type": "external"}}]
    assert stub.seen[0][:2] == ("GET", "/orders/_mapping")
    assert stub.headers[1]["authorization"] == "Basic " + b64encode(b"u:p:w").decode()
    assert stub.headers[1]["content-type"] == "application/x-ndjson"


def test_ids_and_versions(stub: Stub) -> None:
    def head(kind: Any, key: Any, **more: str) -> Any:
        headers = (Header("v", "12"),)
        Task(stub.url, kind=kind, **more, **FREE).put((key, {"n": 1}), first=5, headers=headers)
        return next(iter(stub.bulks[-1][0].values()))

    version = {"version": 5, "version_type": "external"}
    aiven, confluent = OpensearchSink, ElasticsearchSink
    assert head(aiven, "k") == {"_index": "orders", "_id": "k", **version}
    assert head(aiven, "k", topic_key_ignore="orders") == {"_index": "orders", "_id": "orders+0+5"}
    none = {"key_ignore": "true", "key_ignore_id_strategy": "none"}
    assert head(aiven, "k", **none) == {"_index": "orders"}
    record = {"key_ignore": "true", "key_ignore_id_strategy": "record.key"}
    assert head(aiven, "k", **record) == {"_index": "orders", "_id": "k"}
    assert head(aiven, "k", index_write_method="upsert") == {"_index": "orders", "_id": "k", "retry_on_conflict": 5}
    assert head(confluent, "k", external_version_header="v") == {
        "_index": "orders",
        "_id": "k",
        **version,
        "version": 12,
    }
    assert head(confluent, None, use_autogenerated_ids="true") == {"_index": "orders"}
    with pytest.raises(DataError, match="orders-0, offset 5: the header w is no version: there is none"):
        head(confluent, "k", external_version_header="w")


def test_records_that_are_no_documents(stub: Stub) -> None:
    task = Task(stub.url, **FREE)
    for key, reason in ((None, "can not be null"), ("", "can not be empty"), (b"x", "BYTES is not supported")):
        with pytest.raises(DataError, match=f"orders-0, offset 0: .*{reason}"):
            task.put((key, {}), key_schema=None)
    with pytest.raises(DataError, match="offset 0: Cannot infer mapping without schema"):
        Task(stub.url).put((1, {"n": 1}))
    with pytest.raises(DataError, match=r"offset 1: the record has no value, and behavior\.on\.null.values is fail"):
        Task(stub.url, behavior_on_null_values="fail", **FREE).put((1, {}), (1, None))
    dropping = Task(stub.url, drop_invalid_message="true", **FREE)
    dropping.put((None, {}), (2, {"n": 2}))
    assert [each["_id"] for each in (next(iter(line.values())) for line in stub.bulks[-1][::2])] == ["2"]
    task.put((None, None))
    Task(stub.url, behavior_on_null_values="ignore", **FREE).put((1, None))
    assert len(stub.bulks) == 1


@pytest.mark.parametrize("status", [429, 503])
def test_a_server_that_is_busy(stub: Stub, status: int) -> None:
    """The same records are sent again, each time after twice the time, max.retries times."""
    stub.answer = lambda *_: (status, b'{"error":{"type":"busy_exception","reason":"later"}}')
    task = Task(stub.url, max_retries="2", retry_backoff_ms="50", **FREE)
    for wait_s in (0.05, 0.1):
        with pytest.raises(RetriableError, match=rf"HTTP {status}: busy_exception: later"):
            task.put((1, {}))
        assert task.context.retry_s == wait_s
    with pytest.raises(ConnectError, match=r"busy_exception: later \(after 2 retries\)"):
        task.put((1, {}))
    stub.answer = accepted
    task.put((1, {}))
    assert len(stub.bulks[-1]) == 2


def test_one_record_is_refused_for_now(stub: Stub) -> None:
    """The records from that one on are sent again, in their order."""
    busy = {"index": {"status": 429, "error": {"type": "rejected_execution_exception", "reason": "full"}}}
    stub.answer = lambda method, path, body: (
        items({"index": {"status": 201}}, busy, {"index": {"status": 201}})
        if path == "/_bulk"
        else accepted(method, path, body)
    )
    task = Task(stub.url, **FREE)
    pairs = [(number, {"n": number}) for number in range(3)]
    with pytest.raises(RetriableError, match="orders-0, offset 1: rejected_execution_exception: full"):
        task.put(*pairs)
    stub.answer = accepted
    task.put(*pairs)
    assert [line["n"] for line in stub.bulks[-1][1::2]] == [1, 2]


def test_version_conflicts(stub: Stub) -> None:
    conflict = {"status": 409, "error": {"type": "version_conflict_engine_exception", "reason": "newer"}}

    def answer(operation: str) -> None:
        stub.answer = lambda method, path, body: (
            items({operation: conflict}) if path == "/_bulk" else accepted(method, path, body)
        )

    answer("index")
    Task(stub.url, **FREE).put((1, {}))
    Task(stub.url, kind=OpensearchSink, **FREE).put((1, {}))
    with pytest.raises(ConnectError, match="version_conflict_engine_exception: newer"):
        Task(stub.url, kind=OpensearchSink, behavior_on_version_conflict="fail", **FREE).put((1, {}))
    answer("update")
    with pytest.raises(RetriableError, match="version_conflict_engine_exception: newer"):
        Task(stub.url, write_method="upsert", **FREE).put((1, {}))


def test_answers_that_are_none(stub: Stub) -> None:
    def broken(data: bytes, status: int = 200) -> None:
        def answer(method: str, path: str, body: bytes) -> Answer:
            return (status, data) if path == "/_bulk" else accepted(method, path, body)

        stub.answer = answer

    for data, status, reason in (
        (b"<html>", 200, "the answer is no JSON"),
        (b'{"items":[]}', 200, "does not tell of the 1 records"),
        (b'{"error":{"type":"security_exception","reason":"no"}}', 401, "HTTP 401: security_exception: no"),
        (b"", 413, "HTTP 413: no reason is given"),
    ):
        broken(data, status)
        with pytest.raises(ConnectError, match=reason):
            Task(stub.url, **FREE).put((1, {}))


def test_nodes_that_are_away(stub: Stub) -> None:
    """One node after another is asked; one that has answered is asked first."""
    away = "http://127.0.0.1:1"
    task = Task(f"{away},{stub.url}", **FREE)
    task.put((1, {}))
    assert len(stub.bulks) == 1
    with pytest.raises(RetriableError, match="Connect call failed"):
        Task(away, **FREE).put((1, {}))


def errors(more: Mapping[str, str], kind: Any = ElasticsearchSink) -> dict[str, list[str]]:
    base = {"name": "out", "connector.class": kind.CLASS, "topics": "orders", "connection.url": "http://localhost:9200"}
    found = validate(built_in(), {**base, **more}, Defaults()).configs
    return {value.name: list(value.errors) for _, value in found if value is not None and value.errors}


@pytest.mark.parametrize(
    ("more", "option", "reason"),
    [
        ({"connection.url": ""}, "connection.url", "There must be one URL at least"),
        ({"connection.url": "ftp://a"}, "connection.url", "A URL is http://HOST:PORT"),
        ({"connection.url": "http://u:p@a"}, "connection.url", "without a login"),
        ({"connection.url": "http://a:99999"}, "connection.url", "A URL is http://HOST:PORT"),
        ({"connection.username": "u"}, "connection.password", "go together"),
        ({"behavior.on.null.values": "keep"}, "behavior.on.null.values", "IGNORE, DELETE, FAIL"),
        ({"write.method": "merge"}, "write.method", "INSERT, UPSERT"),
        ({"write.method": "upsert", "use.autogenerated.ids": "true"}, "write.method", "upsert needs ids"),
        ({"batch.size": "0"}, "batch.size", "at least 1"),
        ({"data.stream.type": "logs"}, "data.stream.type", "kcli has no other value than the default, 'none'"),
    ],
)
def test_what_is_refused(more: dict[str, str], option: str, reason: str) -> None:
    assert errors({}) == errors({}, OpensearchSink) == {}
    assert any(reason in each for each in errors(more)[option])
