"""Handlers answer what real Kafka answered: tests/metadata/answers.jsonl.gz, made by record_answers.py.

Compared are all fields, but for what no two runs have alike: ids, ports, offsets and times; and the order of lists that
Kafka keeps in hash tables.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from kcli.testing.wire import plain
from tests.conftest import read_jsonl
from tests.metadata.answer_cases import cases
from tests.metadata.node import answer, call, node, started
from tests.metadata.record_answers import learn_ids, resolved

ANSWERS = list(read_jsonl(Path(__file__).with_name("answers.jsonl.gz")))

# the configurations of the recorded broker's server.properties that matter here
PROPERTIES = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.voters": "1@127.0.0.1:9093",
    "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "5",
    "log.index.size.max.bytes": "10485760",
    "log.retention.ms": "604800000",
    "log.message.timestamp.after.max.ms": "9223372036854775807",
}

DIFFERENT = (
    "cluster_id",
    "port",
    "high_watermark",
    "log_end_offset",
    "last_fetch_timestamp",
    "last_caught_up_timestamp",
)
UNORDERED = ("topics", "responses", "results", "replica_election_results", "configs")


def comparable(value: Any, ids: dict[str, str], field: str = "") -> Any:
    """Return a response without what differs from run to run."""
    names = {topic_id: name for name, topic_id in ids.items()}
    match value:
        case dict():
            return {key: comparable(each, ids, key) for key, each in value.items()}
        case list():
            found = [comparable(each, ids) for each in value]
            return sorted(found, key=json.dumps) if field in UNORDERED else found
        case str() | int() if field in DIFFERENT:
            return "..."
        case str() if field == "topic_id":
            return f"${names[value]}" if value in names else value
    return value


@pytest.fixture(scope="module")
def ours() -> list[tuple[Any, dict[str, str]]]:
    """Return kcli's responses to all cases, in order, with the ids of the topics known at each."""

    async def ask() -> list[tuple[Any, dict[str, str]]]:
        broker = node(PROPERTIES, started())
        ids: dict[str, str] = {}
        found = []
        for api_key, version, body in cases():
            broker.config.update(broker.image.configs(4, ""), broker.image.configs(4, "1"))
            asked = call(api_key, version, resolved(body, ids))
            entity = await answer(broker, asked)
            assert asked.messages.encode(1, entity)
            response = plain(entity)
            learn_ids(response, ids)
            found.append((response, dict(ids)))
        return found

    return asyncio.run(ask())


def test_the_recorded_questions_are_the_cases() -> None:
    assert [(each["api_key"], each["version"], each["request"]) for each in ANSWERS] == list(cases())


@pytest.mark.parametrize("number", range(len(ANSWERS)))
def test_the_answer_is_kafkas(number: int, ours: list[tuple[Any, dict[str, str]]]) -> None:
    theirs: dict[str, str] = {}
    for each in ANSWERS[: number + 1]:
        learn_ids(each["answer"], theirs)
    found, ids = ours[number]
    assert comparable(found, ids) == comparable(ANSWERS[number]["answer"], theirs)
