"""The image from metadata logs with and without snapshots, and from records one by one."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import pytest

from kcli.inspector.cluster_metadata import read_image
from kcli.metadata.image import InconsistentRecord, MetadataImage
from kcli.metadata.partition import MIGRATING, from_uuid
from tests.conftest import GOLDEN

TOPIC, BROKER, OTHER = 2, 4, 32
A, B = UUID(int=10), UUID(int=11)
ID_A, ID_B = from_uuid(A), from_uuid(B)


def replayed(*records: tuple[str, dict[str, Any]]) -> MetadataImage:
    image = MetadataImage()
    for offset, (name, value) in enumerate(records):
        image.apply(name, value, offset)
    return image


def config(kind: int, name: str, key: str, value: str | None) -> tuple[str, dict[str, Any]]:
    return "ConfigRecord", {"resourceType": kind, "resourceName": name, "name": key, "value": value}


def topic(name: str, topic_id: str) -> tuple[str, dict[str, Any]]:
    return "TopicRecord", {"name": name, "topicId": topic_id}


def partition(topic_id: str, number: int, **fields: Any) -> tuple[str, dict[str, Any]]:
    value = {"topicId": topic_id, "partitionId": number, "replicas": [1, 2], "isr": [1, 2], "leader": 1}
    return "PartitionRecord", {**value, "leaderEpoch": 0, "partitionEpoch": 0, **fields}


def test_compact_topics_are_configured_as_they_were_created() -> None:
    params = json.loads((GOLDEN / "compact/expected/params.json").read_text())
    found = read_image(GOLDEN / "compact/after2")
    assert found is not None
    assert {name for name in found.topics if name.startswith("c-")} == set(params["topics"])
    assert set(found.topics["c-plain"].partitions) == {0, 1}
    for name, configs in params["topics"].items():
        expected = {key: str(value) for key, value in configs.items()}
        if name == "c-null-keys":
            expected["cleanup.policy"] = "compact"  # changed after it was filled
        if name == "c-to-zstd":
            expected["compression.type"] = "zstd"
        assert found.topic_configs(name) == expected, name


NODES = [*(f"broker-{i}" for i in (1, 2, 3)), *(f"controller-{i}" for i in (100, 101, 102))]


@pytest.mark.parametrize("node", NODES)
def test_topics_of_a_cluster_with_snapshots(node: str) -> None:
    """topics.json is the response to Kafka's Admin; the log of every node gives the same."""
    described = json.loads((GOLDEN / "kraft/expected/topics.json").read_text())
    found = read_image(GOLDEN / "kraft" / node)
    assert found is not None
    assert {name: (len(topic.partitions), from_uuid(topic.id)) for name, topic in found.topics.items()} == {
        name: (len(topic["partitions"]), topic["topic_id"]) for name, topic in described.items()
    }
    assert found.topics_by_id == {topic.id: topic for topic in found.topics.values()}


def test_no_metadata_log_here() -> None:
    assert read_image(GOLDEN / "legacy/data/v1-none-0") is None


def test_a_brokers_own_configuration_is_stronger() -> None:
    image = replayed(
        config(BROKER, "", "log.retention.ms", "1"),
        config(BROKER, "", "log.segment.bytes", "2"),
        config(BROKER, "3", "log.retention.ms", "4"),
        config(OTHER, "3", "x", "y"),
    )
    assert image.broker_configs(3) == {"log.retention.ms": "4", "log.segment.bytes": "2"}
    assert image.broker_configs(None) == {"log.retention.ms": "1", "log.segment.bytes": "2"}
    image.apply(*config(BROKER, "3", "log.retention.ms", None), 9)
    assert image.broker_configs(3)["log.retention.ms"] == "1"
    assert set(image.configured) == {(BROKER, ""), (OTHER, "3")}
    assert image.take_changes().configs == {(BROKER, ""), (BROKER, "3"), (OTHER, "3")}


def test_a_configuration_that_no_topic_has_is_passed_over() -> None:
    image = replayed(topic("a", ID_A), config(TOPIC, "a", "message.format.version", "2.8"))
    assert image.topic_configs("a") == {}


def test_a_removed_topic_loses_its_configuration() -> None:
    image = replayed(topic("a", ID_A), partition(ID_A, 1), config(TOPIC, "a", "cleanup.policy", "compact"))
    assert set(image.topics["a"].partitions) == {1}
    created = image.take_changes()
    assert (set(created.topics_created), created.partitions) == ({A}, {(A, 1)})
    image.apply("RemoveTopicRecord", {"topicId": ID_A}, 3)
    assert (image.topics, image.topics_by_id, image.configured) == ({}, {}, {})
    gone = image.take_changes()
    assert (set(gone.topics_deleted), gone.partitions, gone.configs) == ({A}, set(), {(TOPIC, "a")})


def test_what_came_and_went_between_two_looks_never_was() -> None:
    image = replayed(topic("a", ID_A), partition(ID_A, 0), ("RemoveTopicRecord", {"topicId": ID_A}), topic("a", ID_B))
    changes = image.take_changes()
    assert (set(changes.topics_created), set(changes.topics_deleted), changes.partitions) == ({B}, set(), set())


def test_a_transaction_comes_whole_or_not_at_all() -> None:
    image = replayed(topic("a", ID_A), ("BeginTransactionRecord", {"name": None}), topic("b", ID_B))
    assert image.in_transaction
    assert set(image.topics) == {"a"}
    image.apply("AbortTransactionRecord", {"reason": None}, 3)
    assert (set(image.topics), image.in_transaction) == ({"a"}, False)
    image.apply("BeginTransactionRecord", {"name": None}, 4)
    image.apply(*topic("c", ID_B), 5)
    image.apply("EndTransactionRecord", {}, 6)
    assert (set(image.topics), image.offset) == ({"a", "c"}, 6)


def test_a_partition_changes() -> None:
    image = replayed(topic("a", ID_A), partition(ID_A, 0))
    first = image.partition(A, 0)
    assert first is not None
    assert first.directories == (MIGRATING, MIGRATING)
    directories = [ID_B, ID_A]
    change = {"topicId": ID_A, "partitionId": 0, "leader": 2, "isr": [2], "directories": directories}
    image.apply("PartitionChangeRecord", {**change, "eligibleLeaderReplicas": [1]}, 2)
    second = image.partition(A, 0)
    assert second is not None
    assert (second.leader, second.leader_epoch, second.partition_epoch, second.isr, second.elr) == (2, 1, 1, (2,), (1,))
    assert (second.directory(1), second.directory(2)) == (B, A)
    assert (first.leader, first.leader_epoch) == (1, 0)
    image.apply("PartitionChangeRecord", {"topicId": ID_A, "partitionId": 0, "isr": [2, 1]}, 3)
    third = image.partition(A, 0)
    assert third is not None
    assert (third.leader, third.leader_epoch, third.partition_epoch, third.isr) == (2, 1, 2, (2, 1))
    image.apply("ClearElrRecord", {"topicName": ""}, 4)
    fourth = image.partition(A, 0)
    assert fourth is not None
    assert (fourth.elr, fourth.partition_epoch) == ((), 3)


def test_the_version_tells_of_changes() -> None:
    image = replayed(topic("a", ID_A), ("NoOpRecord", {}))
    assert (image.version, image.offset) == (1, 1)


CONTRADICTIONS = [
    ("RemoveTopicRecord", {"topicId": ID_A}),
    partition(ID_A, 0),
    ("PartitionChangeRecord", {"topicId": ID_A, "partitionId": 0}),
    ("ClearElrRecord", {"topicName": "a"}),
    ("FenceBrokerRecord", {"id": 1, "epoch": 2}),
    ("UnfenceBrokerRecord", {"id": 1, "epoch": 2}),
    ("BrokerRegistrationChangeRecord", {"brokerId": 1, "brokerEpoch": 2}),
    ("RemoveAccessControlEntryRecord", {"id": ID_A}),
    ("EndTransactionRecord", {}),
    ("AbortTransactionRecord", {"reason": None}),
]


@pytest.mark.parametrize(("name", "value"), CONTRADICTIONS)
def test_records_that_contradict_those_before_them(name: str, value: dict[str, Any]) -> None:
    with pytest.raises(InconsistentRecord):
        MetadataImage().apply(name, value, 0)
    lenient = MetadataImage(lenient=True)
    lenient.apply(name, value, 0)
    assert (lenient.topics, lenient.brokers, lenient.offset) == ({}, {}, 0)


def test_no_record_of_this_log() -> None:
    with pytest.raises(InconsistentRecord, match="OffsetCommitKey"):
        MetadataImage(lenient=True).apply("OffsetCommitKey", {}, 0)
