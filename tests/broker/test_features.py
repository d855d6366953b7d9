"""Features of a running node: what clients are told, and what UpdateFeatures changes."""

from __future__ import annotations

from pathlib import Path

from tests.broker.metadata_dirs import golden_copy
from tests.broker.running import Client, running_node

SOFTWARE = {"client_software_name": "test", "client_software_version": "1"}


def features(client: Client) -> tuple[dict[str, tuple[int, int]], dict[str, int]]:
    """Those that the node supports, and the levels that are finalized."""
    answer = client.call("api_versions", 4, **SOFTWARE)
    supported = {each["name"]: (each["min_version"], each["max_version"]) for each in answer["supported_features"]}
    return supported, {each["name"]: each["max_version_level"] for each in answer["finalized_features"]}


def test_a_new_cluster_finalizes_no_feature_that_nobody_serves(tmp_path: Path) -> None:
    """Kafka's share consumer and `kafka-share-groups` then say that the cluster has no share groups."""
    with running_node(tmp_path) as node, node.client() as client:
        supported, finalized = features(client)
    assert supported["share.version"] == supported["streams.version"] == (0, 1)
    assert finalized == {
        "metadata.version": 30,
        "eligible.leader.replicas.version": 1,
        "group.version": 1,
        "transaction.version": 2,
    }


def test_a_node_that_nobody_can_join_tells_of_no_controller_address(tmp_path: Path) -> None:
    """Its controller listener is not opened."""
    with running_node(tmp_path) as node, node.client() as client:
        partitions = [{"partition_index": 0}]
        answer = client.call(
            "describe_quorum", 2, topics=[{"topic_name": "__cluster_metadata", "partitions": partitions}]
        )
    assert answer["nodes"] == [{"node_id": 1, "listeners": []}]


def test_a_directory_of_kafka_keeps_its_features(tmp_path: Path) -> None:
    with running_node(golden_copy("codecs/data", tmp_path)) as node, node.client() as client:
        _, finalized = features(client)
    assert (finalized["share.version"], finalized["streams.version"]) == (1, 1)
