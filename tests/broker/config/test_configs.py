"""Requests about configurations are answered as Kafka answered them, byte for byte of every message."""

import asyncio
import json
import logging
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from kcli.broker.authorization import Authorization
from kcli.broker.config import BrokerConfig
from kcli.broker.config.describe import describe, effective_topic_configs
from kcli.broker.controller.channel import ControllerChannel
from kcli.broker.controller.config_admin import ConfigAdmin
from kcli.broker.dispatch.handlers import handler
from kcli.broker.metadata.log import MetadataLog
from kcli.broker.process.turns import Turns
from kcli.broker.wire.call import Call
from kcli.broker.wire.messages import RequestHeader, messages
from kcli.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE, MetadataImage, Record
from kcli.metadata.partition import from_uuid
from tests.broker.config.oracle import (
    ANSWERS,
    DELETE,
    KEYS,
    LOGGER,
    SET,
    TOPICS,
    Case,
    Plain,
    entity,
    in_order,
    one,
    plain,
)
from tests.broker.config.oracle import describe as describe_case
from tests.conftest import read_jsonl

NODE = 1


@dataclass
class Node:
    """A broker with an image, a configuration, and a metadata log that has the records of this image."""

    config: BrokerConfig
    image: MetadataImage = field(default_factory=MetadataImage)
    node_id: int = NODE
    records: list[Record] = field(default_factory=list)
    is_alone: bool = True
    turns: Turns = field(default_factory=Turns)
    authorizer: None = None
    access: Authorization = field(default_factory=lambda: Authorization(None))

    @property
    def metadata(self) -> "Node":
        return self

    @property
    def draft(self) -> MetadataImage:
        return self.image

    async def append(self, records: list[Record]) -> None:
        self.records += records
        for name, _, value in records:
            self.image.apply(name, value, self.image.offset + 1)
        own = self.image.configs(BROKER_RESOURCE, str(NODE))
        assert self.config.update(self.image.configs(BROKER_RESOURCE, ""), own) == []

    @property
    def config_admin(self) -> ConfigAdmin:
        metadata, nowhere = cast("MetadataLog", self), cast("ControllerChannel", None)
        return ConfigAdmin(self.config, metadata, nowhere, self.access, is_alone=self.is_alone)

    def answer(self, case: Case) -> Plain:
        kind = messages(KEYS[case.api], case.version)
        request = entity(kind.request_type, case.request)
        call = Call(kind, RequestHeader(kind.api_key, case.version, 1, "", 0), request, 0)
        response: Any = handler(kind.api_key)(cast("Any", self), call)
        if asyncio.iscoroutine(response):
            response = asyncio.run(response)
        assert kind.encode(1, response)
        found: Plain = plain(response)
        return in_order(case, found)


def node(properties: dict[str, str]) -> Node:
    """A freshly formatted node with two topics, as Kafka's was before the first request."""
    found = Node(BrokerConfig(properties))
    started: list[Record] = [
        ("FeatureLevelRecord", 0, {"name": "metadata.version", "featureLevel": 30}),
        ("FeatureLevelRecord", 0, {"name": "eligible.leader.replicas.version", "featureLevel": 1}),
        ("ConfigRecord", 0, config_record(BROKER_RESOURCE, "", "min.insync.replicas", "1")),
        *(
            ("TopicRecord", 0, {"name": name, "topicId": from_uuid(UUID(int=number + 100))})
            for number, name in enumerate(TOPICS)
        ),
    ]
    asyncio.run(found.append(started))
    found.image.brokers[NODE] = cast("Any", SimpleNamespace(id=NODE, fenced=False))
    found.records.clear()
    return found


def config_record(kind: int, resource: str, name: str, value: str | None) -> Plain:
    return {"resourceType": kind, "resourceName": resource, "name": name, "value": value}


def properties_of_kafka() -> dict[str, str]:
    found: dict[str, str] = next(read_jsonl(ANSWERS))["properties"]
    return found


def test_every_answer_is_kafkas() -> None:
    lines = read_jsonl(ANSWERS)
    asked = node(next(lines)["properties"])
    count = 0
    for number, line in enumerate(lines):
        case = Case(line["api"], line["request"], line["version"])
        assert asked.answer(case) == line["answer"], (number, json.dumps(line["request"])[:500])
        count += 1
    assert count > 300


def test_topics_are_created_with_what_counts() -> None:
    """CreateTopics returns the configurations that apply to the topic, each with its text and its source."""
    asked = node(properties_of_kafka())
    effective = {each.name: each for each in effective_topic_configs(asked.config, {"flush.ms": "5"})}
    described = {each.name: each for each in describe(asked.config, asked.image, TOPIC_RESOURCE, "orders")}
    assert effective.keys() == described.keys()
    assert (effective["flush.ms"].value, effective["flush.ms"].source) == ("5", 1)
    assert (effective["cleanup.policy"].value, effective["cleanup.policy"].source) == ("compact, delete", 4)
    assert (effective["min.cleanable.dirty.ratio"].value, described["min.cleanable.dirty.ratio"].value) == (
        "0.30",
        "0.3",
    )
    assert (effective["segment.ms"].value, effective["segment.ms"].source) == ("86400000", 4)
    assert (effective["min.insync.replicas"].value, effective["min.insync.replicas"].source) == ("1", 3)


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_documentation_is_there_for_every_configuration(version: int) -> None:
    asked = node(properties_of_kafka())
    resources = [(2, "orders"), (4, "1"), (16, "sub"), (32, "g")]
    request: Plain = {
        "resources": [
            {"resource_type": kind, "resource_name": name, "configuration_keys": None} for kind, name in resources
        ],
        "include_synonyms": False,
    }
    if version >= 3:
        request["include_documentation"] = True
    for result in asked.answer(Case("describe_configs", request, version))["results"]:
        for config in result["configs"]:
            unknown = config["name"] in ("unknown.thing", "listener.name.plaintext.max.connections")
            assert bool(config.get("documentation")) is (version >= 3 and not unknown), config["name"]


def test_loggers_are_shown_and_changed() -> None:
    name = "kcli.test.configs"
    logger = logging.getLogger(name)
    asked = node(properties_of_kafka())

    def level() -> tuple[str, int]:
        (result,) = asked.answer(describe_case((LOGGER, "1", [name])))["results"]
        (config,) = result["configs"]
        return config["value"], config["config_source"]

    def change(
        operation: int, value: str | None, logger_name: str = name, *, validate_only: bool = False
    ) -> tuple[int, str | None]:
        (found,) = asked.answer(one(LOGGER, "1", logger_name, operation, value, validate_only))["responses"]
        return found["error_code"], found["error_message"]

    try:
        for text, number in (("TRACE", 5), ("DEBUG", 10), ("INFO", 20), ("WARN", 30), ("ERROR", 40), ("FATAL", 50)):
            assert change(SET, text) == (0, None)
            assert (level(), logger.level) == ((text, 6), number)
        assert change(SET, "INFO", validate_only=True) == (0, None)
        assert logger.level == logging.CRITICAL
        levels = "DEBUG, ERROR, FATAL, INFO, TRACE, WARN"
        reason = f"{name} to LOUD as it is not a supported log level. Valid log levels are {levels}"
        assert change(SET, "LOUD") == (40, f"Cannot set the log level of {reason}")
        assert change(DELETE, None, "root") == (42, "Removing the log level of the root logger is not allowed")
        assert change(9, "x")[1] == "Unknown operation type 9 is not allowed for the BROKER_LOGGER resource"
    finally:
        assert change(DELETE, None) == (0, None)
    assert logger.level == logging.NOTSET
