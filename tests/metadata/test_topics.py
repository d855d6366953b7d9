"""Topics and configurations from a metadata log, its snapshots, and records one by one."""

from __future__ import annotations

import json

import pytest

from kcli.inspector.cluster_metadata import read_topics
from kcli.metadata.topics import ClusterTopics
from tests.conftest import GOLDEN

TOPIC, BROKER, OTHER = 2, 4, 32


def test_compact_topics_are_configured_as_they_were_created() -> None:
    params = json.loads((GOLDEN / "compact/expected/params.json").read_text())
    found = read_topics(GOLDEN / "compact/after2")
    assert found is not None
    names = {topic.name: topic.partitions for topic in found.topics.values()}
    assert {name for name in names if name.startswith("c-")} == set(params["topics"])
    assert names["c-plain"] == {0, 1}
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
    """topics.json is what Kafka's Admin saw; every node's log says the same."""
    described = json.loads((GOLDEN / "kraft/expected/topics.json").read_text())
    found = read_topics(GOLDEN / "kraft" / node)
    assert found is not None
    assert {topic.name: len(topic.partitions) for topic in found.topics.values()} == {
        name: len(topic["partitions"]) for name, topic in described.items()
    }
    assert {topic.name: topic_id for topic_id, topic in found.topics.items()} == {
        name: topic["topic_id"] for name, topic in described.items()
    }


def test_no_metadata_log_here() -> None:
    assert read_topics(GOLDEN / "legacy/data/v1-none-0") is None


def config(kind: int, name: str, key: str, value: str | None) -> dict[str, object]:
    return {"resourceType": kind, "resourceName": name, "name": key, "value": value}


def test_a_brokers_own_configuration_is_stronger() -> None:
    topics = ClusterTopics()
    topics.apply("ConfigRecord", config(BROKER, "", "log.retention.ms", "1"))
    topics.apply("ConfigRecord", config(BROKER, "", "log.segment.bytes", "2"))
    topics.apply("ConfigRecord", config(BROKER, "3", "log.retention.ms", "4"))
    topics.apply("ConfigRecord", config(OTHER, "3", "x", "y"))
    assert topics.broker_configs(3) == {"log.retention.ms": "4", "log.segment.bytes": "2"}
    assert topics.broker_configs(None) == {"log.retention.ms": "1", "log.segment.bytes": "2"}
    topics.apply("ConfigRecord", config(BROKER, "3", "log.retention.ms", None))
    assert topics.broker_configs(3)["log.retention.ms"] == "1"


def test_a_removed_topic_loses_its_configuration() -> None:
    topics = ClusterTopics()
    topics.apply("TopicRecord", {"name": "a", "topicId": "id-a"})
    topics.apply("PartitionRecord", {"topicId": "id-a", "partitionId": 1})
    topics.apply("ConfigRecord", config(TOPIC, "a", "cleanup.policy", "compact"))
    assert topics.topics["id-a"].partitions == {1}
    topics.apply("RemoveTopicRecord", {"topicId": "id-a"})
    topics.apply("RemoveTopicRecord", {"topicId": "id-b"})
    topics.apply("PartitionRecord", {"topicId": "id-a", "partitionId": 2})
    assert topics.topics == {}
    assert topics.topic_configs("a") == {}


def test_an_aborted_metadata_transaction_never_was() -> None:
    topics = ClusterTopics()
    topics.apply("TopicRecord", {"name": "a", "topicId": "id-a"})
    topics.apply("BeginTransactionRecord", {"name": None})
    topics.apply("TopicRecord", {"name": "b", "topicId": "id-b"})
    topics.apply("AbortTransactionRecord", {"reason": None})
    assert set(topics.topics) == {"id-a"}
    topics.apply("BeginTransactionRecord", {"name": None})
    topics.apply("TopicRecord", {"name": "c", "topicId": "id-c"})
    topics.apply("EndTransactionRecord", {})
    assert set(topics.topics) == {"id-a", "id-c"}
