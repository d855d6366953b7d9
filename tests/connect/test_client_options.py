"""Options of clients, of a worker and of a connector: honoured, taken as tuning, or refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kcli.connect.builtin import built_in
from kcli.connect.config.clients import Client, refusal
from kcli.connect.connectors.file import FileStreamSink, FileStreamSource
from kcli.connect.connectors.mirror.options import PACKAGE, PATTERNS
from kcli.connect.worker.validation import Defaults, validate
from tests.connect.replaying import DOCUMENTATION

HERE = Path(__file__).parent
STRING = "org.apache.kafka.connect.storage.StringConverter"
WORKER = Defaults(
    {
        "key.converter": STRING,
        "value.converter": STRING,
        "header.converter": "org.apache.kafka.connect.storage.SimpleHeaderConverter",
    },
    "connect",
    has_exactly_once=False,
    offsets_topic="connect-offsets",
)
SOURCE = {"name": "in", "connector.class": FileStreamSource.CLASS, "file": "in", "topic": "t"}
SINK = {"name": "out", "connector.class": FileStreamSink.CLASS, "file": "out", "topics": "t"}
MIRROR = {
    "name": "m",
    "connector.class": f"{PACKAGE}.MirrorSourceConnector",
    "source.cluster.alias": "a",
    "target.cluster.alias": "b",
}


def errors(config: dict[str, str], worker: Defaults = WORKER) -> dict[str, list[str]]:
    """Return the errors of a configuration, by option."""
    found = validate(built_in(), config, worker)
    made = {value.name: value.errors for _, value in found.configs if value is not None and value.errors}
    assert found.error_count == sum(map(len, made.values()))
    return made


@pytest.mark.parametrize(
    ("client", "name", "text", "reason"),
    [
        (Client.PRODUCER, "acks", "all", None),
        (Client.PRODUCER, "acks", "1", "kcli's producer has all or -1"),
        (Client.PRODUCER, "compression.type", "LZ4", None),
        (Client.PRODUCER, "compression.type", "rar", "kcli's producer has none or gzip or snappy or lz4 or zstd"),
        (Client.PRODUCER, "partitioner.class", "x.Y", "kcli's producer does not honour it"),
        (Client.PRODUCER, "transactional.id", "mine", "kcli's producer does not honour it"),
        (Client.PRODUCER, "linger.ms", "5", None),
        (Client.PRODUCER, "transaction.timeout.ms", "-1", "it is no whole number above 0"),
        (Client.PRODUCER, "sasl.jaas.config", "x", None),
        (Client.CONSUMER, "auto.offset.reset", "none", None),
        (Client.CONSUMER, "auto.offset.reset", "by_duration:P1D", "kcli's consumer has earliest or latest or none"),
        (Client.CONSUMER, "max.poll.records", "x", "it is no whole number above 0"),
        (Client.CONSUMER, "group.id", "mine", None),
        (Client.CONSUMER, "bootstrap.servers", "h:1", None),
        (Client.CONSUMER, "enable.auto.commit", "true", "kcli's consumer has false"),
        (Client.ADMIN, "acks", "all", "kcli's admin does not honour it"),
        (Client.ADMIN, "retries", "3", None),
    ],
)
def test_what_clients_honour(client: Client, name: str, text: str, reason: str | None) -> None:
    assert refusal(client, name, text) == reason


def test_a_producer_is_idempotent_with_transactions_alone() -> None:
    for is_transactional in (True, False):
        allowed = str(is_transactional).lower()
        for text in ("true", "false"):
            reason = refusal(Client.PRODUCER, "enable.idempotence", text, is_transactional=is_transactional)
            assert (reason is None) is (text == allowed)
    enabled = WORKER._replace(has_exactly_once=True)
    assert not errors({**SOURCE, "producer.override.enable.idempotence": "true"}, enabled)
    assert errors({**SOURCE, "producer.override.enable.idempotence": "true"})


def test_overrides_that_are_not_honoured_are_errors() -> None:
    name = "producer.override.partitioner.class"
    reason = f"Invalid value x.Y for configuration {name}: kcli's producer does not honour it"
    assert errors({**SOURCE, name: "x.Y", "producer.override.linger.ms": "5"}) == {name: [reason]}
    name = "consumer.override.auto.offset.reset"
    assert list(errors({**SINK, name: "never", "consumer.override.max.poll.records": "7"})) == [name]
    assert not errors({**SINK, "producer.override.acks": "1"})  # a sink without dead letters has no producer
    queue = {"errors.deadletterqueue.topic.name": "dead", "producer.override.acks": "1"}
    assert list(errors({**SINK, **queue})) == ["producer.override.acks"]


def test_a_source_has_no_topic_of_offsets_of_its_own() -> None:
    name = "offsets.storage.topic"
    assert not errors({**SOURCE, name: "connect-offsets"})
    reason = "offsets.storage.topic mine: kcli keeps offsets in the worker's topic alone"
    assert errors({**SOURCE, name: "mine"}) == {name: [reason]}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("source.consumer.interceptor.classes", "x.Y"),
        ("target.producer.acks", "0"),
        ("consumer.auto.offset.reset", "by_duration:P1D"),
        ("source.cluster.topics", "x"),
        ("metric.reporters", "x.Y"),
        ("forwarding.admin.class", "x.Y"),
    ],
)
def test_mirror_s_clients_refuse_what_they_do_not_honour(name: str, text: str) -> None:
    taken = {"source.cluster.ssl.truststore.location": "x", "source.consumer.isolation.level": "read_committed"}
    assert not errors({**MIRROR, **taken, "target.producer.linger.ms": "5", "admin.request.timeout.ms": "9"})
    assert list(errors({**MIRROR, **taken, name: text})) == [name]


def test_mirror_without_offset_syncs() -> None:
    given = {**MIRROR, "emit.offset-syncs.enabled": "false"}
    assert not errors(given)
    reason = "MirrorSourceConnector can't setup offset-syncs feature while emit.offset-syncs.enabled set to false"
    assert errors({**given, "offset-syncs.topic.location": "target"}) == {"emit.offset-syncs.enabled": [reason]}
    checkpoint = {**given, "connector.class": f"{PACKAGE}.MirrorCheckpointConnector"}
    reason = "MirrorCheckpointConnector can't run without offset syncs"
    assert errors(checkpoint) == {"emit.offset-syncs.enabled": [reason]}
    assert not errors({**checkpoint, "enabled": "false"})


def recorded() -> list[Any]:
    """Return the validations of Mirror's connectors that were recorded from a real worker."""
    rows = map(json.loads, (HERE / "validations.jsonl").read_text().splitlines())
    return [each for each in rows if "connect.mirror." in (each["call"][2] or "")]


@pytest.mark.parametrize("call", recorded(), ids=lambda each: each["call"][2][:200])
def test_mirror_s_options_are_kafka_s(call: Any) -> None:
    """All of them, those of TLS and SASL too, in Kafka's order, with its types, defaults and errors. Kafka takes a
    pattern that is none, and the connector fails with it."""
    text = json.dumps(validate(built_in(), json.loads(call["call"][2]), WORKER).to_json(), separators=(",", ":"))
    found = json.loads(DOCUMENTATION.sub('"documentation":""', text))
    for each in found["configs"]:
        if each["value"]["name"] in PATTERNS:
            found["error_count"] -= len(each["value"]["errors"])
            each["value"]["errors"] = []
    assert found == json.loads(call["body"])
