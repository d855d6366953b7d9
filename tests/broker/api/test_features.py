"""Features of a running node: the features that clients see, and the changes that UpdateFeatures makes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from formats.control_record import ControlType
from kcli.log.log_directory import read_meta_properties
from kcli.protocol.error_code import ErrorCode
from tests.broker.metadata_dirs import batches, golden_copy
from tests.broker.running import Client, RunningNode, running_node

SOFTWARE = {"client_software_name": "test", "client_software_version": "1"}


def features(client: Client) -> tuple[dict[str, tuple[int, int]], dict[str, int]]:
    """Return the supported features, and the finalized levels."""
    answer = client.call("api_versions", 4, **SOFTWARE)
    supported = {each["name"]: (each["min_version"], each["max_version"]) for each in answer["supported_features"]}
    return supported, {each["name"]: each["max_version_level"] for each in answer["finalized_features"]}


def test_a_new_cluster_finalizes_no_feature_that_nobody_serves(tmp_path: Path) -> None:
    """Without these features Kafka's share consumer and `kafka-share-groups` report that the cluster has no share
    groups."""
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


def take_snapshot(node: RunningNode) -> None:
    _ = node.node.broker.metadata.take_snapshot()


RELEASE = {
    "eligible.leader.replicas.version": 1,
    "group.version": 1,
    "kraft.version": 1,
    "metadata.version": 30,
    "transaction.version": 2,
}


def update(
    client: Client, levels: dict[str, int], *, validate_only: bool = False, upgrade_type: int = 1
) -> dict[str, Any]:
    updates = [
        {"feature": name, "max_version_level": level, "upgrade_type": upgrade_type} for name, level in levels.items()
    ]
    return client.call("update_features", 2, timeout=10_000, feature_updates=updates, validate_only=validate_only)


def test_a_single_node_goes_to_kraft_version_1(tmp_path: Path) -> None:
    """`kafka-features upgrade --release-version 4.3` moves the voters into the log; it cannot be undone."""
    with running_node(tmp_path) as node, node.client() as client:
        assert update(client, RELEASE, validate_only=True)["error_code"] == 0
        assert "kraft.version" not in features(client)[1]
        refused = update(client, {**RELEASE, "group.version": 9})
        assert refused["error_code"] == ErrorCode.INVALID_UPDATE_VERSION
        assert "kraft.version" not in features(client)[1], "all of a request or none"
        refused = update(client, {"odd": 1, "odder": 1, **RELEASE})
        assert "for feature odd. " in refused["error_message"], "the first feature that does not exist"
        assert update(client, RELEASE)["error_code"] == 0
        assert features(client)[1] == RELEASE
        assert update(client, {"kraft.version": 1})["error_code"] == 0
        down = update(client, {"kraft.version": 0}, upgrade_type=2)
        assert down["error_message"].endswith("Can't downgrade the version of this feature.")
        node.run(lambda: take_snapshot(node))
        client.create_topic("made", 1)
    controls = [control for batch in batches(tmp_path) for control in batch.controls]
    (voters,) = [each.value["voters"] for each in controls if each.type is ControlType.KRAFT_VOTERS]
    (voter,) = voters
    meta = read_meta_properties(tmp_path)
    assert meta is not None
    assert (voter["voterId"], voter["voterDirectoryId"]) == (1, meta.directory_id)
    assert [(each["name"], each["host"]) for each in voter["endpoints"]] == [("CONTROLLER", "localhost")]
    with running_node(tmp_path) as node, node.client() as client:
        assert features(client)[1] == RELEASE
        assert [each["name"] for each in client.call("metadata", 12, topics=None)["topics"]] == ["made"]


def test_a_directory_of_kafka_keeps_its_features(tmp_path: Path) -> None:
    with running_node(golden_copy("codecs/data", tmp_path)) as node, node.client() as client:
        _, finalized = features(client)
    assert (finalized["share.version"], finalized["streams.version"]) == (1, 1)
