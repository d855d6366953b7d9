"""Clusters of nodes: elections, replication of metadata, failover, catching up, and messages about problems."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from kcli.broker.metadata.format import format_directories
from kcli.broker.node import Node
from kcli.metadata.snapshot import snapshot
from kcli.protocol.error_code import ErrorCode
from tests.broker.cluster import (
    BEGUN_MS,
    CLUSTER_ID,
    Cluster,
    ClusterNode,
    ProcessNode,
    free_ports,
    running_cluster,
    wait_for,
)
from tests.broker.metadata_dirs import golden_copy
from tests.broker.running import Client

ONE_REPLICA: dict[str, Any] = {"offsets_topic_replication_factor": "1", "transaction_state_log_replication_factor": "1"}


def create(cluster: Cluster, node_id: int, *names: str, partitions: int = 2, replicas: int = 3) -> None:
    """Make topics through a broker."""
    sizes = {"num_partitions": partitions, "replication_factor": replicas, "assignments": (), "configs": ()}
    topics = [{"name": name, **sizes} for name in names]
    with cluster.client(node_id) as client:
        made = client.call("create_topics", 7, topics=topics, timeout=10_000, validate_only=False)
    assert [each["error_code"] for each in made["topics"]] == [0] * len(names), made


def topics(cluster: Cluster, node_id: int) -> dict[str, list[dict[str, Any]]]:
    """Return the topics in a broker's image, with their partitions."""
    with cluster.client(node_id) as client:
        found = client.call("metadata", 12, topics=None)["topics"]
    return {each["name"]: each["partitions"] for each in found}


def wait_for_topics(cluster: Cluster, *names: str) -> None:
    """Until all brokers know them."""

    def is_known(node_id: int) -> bool:
        return set(names) <= topics(cluster, node_id).keys()

    for node_id in cluster.broker_ids:
        if node_id in cluster.nodes:
            wait_for(lambda node_id=node_id: is_known(node_id), f"{names} at {node_id}")  # type: ignore[misc]


def images(cluster: Cluster) -> list[list[Any]]:
    """Return the image of each node at one offset: each is read together with its offset, since the log grows."""

    def image(node: Node) -> tuple[int, list[str]]:
        return node.broker.image.offset, sorted(map(str, snapshot(node.broker.image)))

    found: list[tuple[int, list[str]]] = []

    def are_of_one_offset() -> bool:
        found[:] = [cluster.on(each, image) for each in cluster.nodes]
        return len({offset for offset, _ in found}) == 1

    wait_for(are_of_one_offset, "images of one offset")
    return [said for _, said in found]


def test_combined_nodes_elect_one_and_create_topics_through_any(tmp_path: Path) -> None:
    with running_cluster(tmp_path, metadata_max_idle_interval_ms="0") as cluster:
        leader = cluster.leader()
        assert leader in (1, 2, 3)
        for node_id in (1, 2, 3):
            create(cluster, node_id, f"t{node_id}")
        wait_for_topics(cluster, "t1", "t2", "t3")
        first, *others = images(cluster)
        assert all(each == first for each in others)
        quorum = cluster.quorum(1)
        assert [each["replica_id"] for each in quorum["current_voters"]] == [1, 2, 3]
        assert quorum["observers"] == []


def test_controllers_and_brokers_apart(tmp_path: Path) -> None:
    with running_cluster(tmp_path, brokers=2, controllers=3) as cluster:
        assert cluster.leader() in (3001, 3002, 3003)
        create(cluster, 1, "a", replicas=2)
        wait_for_topics(cluster, "a")
        quorum = cluster.quorum(2)
        assert [each["replica_id"] for each in quorum["current_voters"]] == [3001, 3002, 3003]
        assert sorted(each["replica_id"] for each in quorum["observers"]) == [1, 2]


def test_configurations_are_changed_through_any_broker(tmp_path: Path) -> None:
    with running_cluster(tmp_path) as cluster:
        create(cluster, 1, "t")
        for node_id in (1, 2, 3):
            change = {"name": "log.cleaner.threads", "config_operation": 0, "value": "2"}
            own = {"resource_type": 4, "resource_name": str(node_id), "configs": [change]}
            topic_change = {"name": "retention.ms", "config_operation": 0, "value": f"{node_id}000"}
            topic = {"resource_type": 2, "resource_name": "t", "configs": [topic_change]}
            other = own | {"resource_name": str(node_id % 3 + 1)}
            with cluster.client(node_id) as client:
                asked = {"resources": [own, topic, other], "validate_only": False}
                answers = client.call("incremental_alter_configs", 1, **asked)["responses"]
            assert [each["error_code"] for each in answers] == [0, 0, 42]
            assert answers[2]["error_message"].startswith("Unexpected broker id, expected ")
            wait_for(lambda node_id=node_id: config(cluster, node_id) == "2", "its own configuration")  # type: ignore[misc]
        for node_id in (1, 2, 3):
            wait_for(lambda node_id=node_id: retention(cluster, node_id) == "3000", "the last change")  # type: ignore[misc]


def config(cluster: Cluster, node_id: int) -> str:
    """What a node itself runs with."""
    return str(cluster.on(node_id, lambda node: node.config.log_cleaner_threads))


def retention(cluster: Cluster, node_id: int) -> str | None:
    """What a node knows of topic t."""
    found: str | None = cluster.on(node_id, lambda node: node.broker.image.topic_configs("t").get("retention.ms"))
    return found


def test_controllers_are_described_through_their_listener(tmp_path: Path) -> None:
    with running_cluster(tmp_path, brokers=1, controllers=3, **ONE_REPLICA) as cluster:
        leader = cluster.leader()
        expected = dict(cluster.controller_ports)

        def described(kind: int) -> dict[str, Any]:
            with Client(("127.0.0.1", cluster.controller_ports[3002])) as client:
                asked = {"include_cluster_authorized_operations": False, "endpoint_type": kind}
                return client.call("describe_cluster", 1, **asked)

        wait_for(lambda: len(described(2)["brokers"]) == 3, "three controllers")
        found = described(2)
        assert {each["broker_id"]: each["port"] for each in found["brokers"]} == expected
        assert (found["controller_id"], found["error_code"], found["endpoint_type"]) == (leader, 0, 2)
        refused = described(1)
        assert refused["error_code"] == ErrorCode.MISMATCHED_ENDPOINT_TYPE
        assert refused["error_message"].endswith(
            "endpoint of type CONTROLLER, but we wanted an endpoint of type BROKER"
        )
        with Client(("127.0.0.1", cluster.controller_ports[leader])) as client:
            served = {each["api_key"] for each in client.call("api_versions", 2)["api_keys"]}
            assert {0, 3, 11} & served == set()
            assert {1, 19, 52, 53, 54, 55, 56, 58, 59, 62, 63, 67, 70, 73, 80, 81, 82} <= served
            client.socket.sendall(client.frame("metadata", 12, {"topics": None}))
            assert client.is_closed()


def test_one_controller_is_a_quorum(tmp_path: Path) -> None:
    with running_cluster(tmp_path, brokers=2, controllers=1) as cluster:
        assert cluster.leader() == 3001
        create(cluster, 2, "a", replicas=2)
        wait_for_topics(cluster, "a")


def test_a_broker_joins_a_node_that_was_alone(tmp_path: Path) -> None:
    with running_cluster(tmp_path, brokers=1, processes=True, **ONE_REPLICA) as cluster:
        create(cluster, 1, "before", replicas=1)
        (port,) = free_ports(1)
        other = tmp_path / "node-2"
        format_directories([other], now_ms=BEGUN_MS, node_id=2, cluster_id=CLUSTER_ID)
        own = {"process.roles": "broker", "node.id": "2", "listeners": f"PLAINTEXT://127.0.0.1:{port}"}
        cluster.nodes[2] = ProcessNode(cluster.properties(1) | own | {"log.dirs": str(other)})
        cluster.broker_ids.append(2)
        cluster.nodes[2].wait_until_up()
        create(cluster, 2, "after", replicas=2)
        wait_for_topics(cluster, "before", "after")
        assert cluster.leader() == 1


def test_another_leads_when_the_leader_stops_and_it_catches_up_when_it_is_back(tmp_path: Path) -> None:
    with running_cluster(tmp_path, metadata_max_idle_interval_ms="0") as cluster:
        create(cluster, 1, "before")
        first = cluster.leader()
        cluster.stop(first)
        second = cluster.leader(other_than=first)
        create(cluster, second, "meanwhile", replicas=2)
        cluster.start(first)
        create(cluster, first, "after")
        wait_for_topics(cluster, "before", "meanwhile", "after")
        one, *others = images(cluster)
        assert all(each == one for each in others)


def test_a_killed_leader_is_replaced_and_its_copy_is_mended(tmp_path: Path) -> None:
    with running_cluster(tmp_path, processes=True) as cluster:
        create(cluster, 1, "before")
        wait_for_topics(cluster, "before")
        first = cluster.leader()
        cluster.kill(first)
        second = cluster.leader(other_than=first)
        create(cluster, second, "meanwhile", replicas=2)
        cluster.start(first)
        create(cluster, first, "after")
        wait_for_topics(cluster, "before", "meanwhile", "after")


def test_a_node_leaves_the_quorum_after_brokers_that_are_on_their_way_out(tmp_path: Path) -> None:
    def see(node: Node, *, fenced: bool) -> None:
        known = node.broker.image.brokers
        known[2] = replace(known[2], in_controlled_shutdown=True, fenced=fenced)

    with running_cluster(tmp_path) as cluster:
        node = cluster.nodes.pop(1)
        assert isinstance(node, ClusterNode)
        node.run(lambda: see(node.node, fenced=False))
        node.begin_stop()
        wait_for(lambda: node.node._is_broker_stopped, "end of the broker")
        time.sleep(0.3)
        assert node.run(lambda: node.node.broker.metadata.is_leader or node.node.broker.metadata.leader_id is not None)
        node.run(lambda: see(node.node, fenced=True))
        node.wait_until_down()


def test_static_voters_become_dynamic_ones_and_can_be_changed(tmp_path: Path) -> None:
    with running_cluster(tmp_path, brokers=1, controllers=3, **ONE_REPLICA) as cluster:
        leader = cluster.leader()
        wait_for(lambda: len(cluster.on(1, lambda node: node.broker.image.controllers)) == 3, "three controllers")
        update = {"feature": "kraft.version", "max_version_level": 1, "upgrade_type": 1}
        with cluster.client(1) as client:
            asked = {"timeout": 10_000, "feature_updates": [update], "validate_only": False}
            wait_for(lambda: client.call("update_features", 1, **asked)["error_code"] == 0, "all voters' consent")
            voters = cluster.quorum(1)["current_voters"]
            assert all(each["replica_directory_id"] is not None for each in voters)
            gone = next(each for each in voters if each["replica_id"] != leader)
            named = {"voter_id": gone["replica_id"], "voter_directory_id": gone["replica_directory_id"]}
            wait_for(lambda: cluster.quorum(1)["high_watermark"] > 0 and removes(client, named), "one voter less")
            assert gone["replica_id"] not in [each["replica_id"] for each in cluster.quorum(1)["current_voters"]]
            again = client.call("remove_raft_voter", 0, cluster_id=None, **named)
            assert again["error_code"] == ErrorCode.VOTER_NOT_FOUND
            listener = {"name": "CONTROLLER", "host": "127.0.0.1", "port": cluster.controller_ports[gone["replica_id"]]}
            wait_for(
                lambda: gone["replica_id"] in [each["replica_id"] for each in cluster.quorum(1)["observers"]],
                "an observer",
            )
            asked = {"cluster_id": None, "timeout": 10_000, "listeners": [listener], **named}
            added = client.call("add_raft_voter", 0, **asked)
            assert (added["error_code"], added["error_message"]) == (0, None)
            assert len(cluster.quorum(1)["current_voters"]) == 3
        create(cluster, 1, "t", replicas=1)


def removes(client: Client, voter: dict[str, Any]) -> bool:
    """Return whether the voter is removed. False while the last change of the voters is not committed."""
    code = client.call("remove_raft_voter", 0, cluster_id=None, **voter)["error_code"]
    assert code in (0, 7)
    return bool(code == 0)


def test_a_node_far_behind_takes_a_snapshot(tmp_path: Path) -> None:
    with running_cluster(tmp_path, metadata_max_retention_bytes="1") as cluster:
        create(cluster, 1, "before", "deleted")
        first = next(each for each in (1, 2, 3) if each != cluster.leader())
        cluster.stop(first)
        second = cluster.leader()
        with cluster.client(second) as client:
            client.call("delete_topics", 6, topics=[{"name": "deleted", "topic_id": None}], timeout=10_000)
        names = [f"t{number}" for number in range(5)]
        for number, name in enumerate(names):
            create(cluster, second, name, replicas=2)
            if number in (2, 4):
                for each in cluster.nodes:
                    cluster.on(each, lambda node: bool(node.broker.metadata.take_snapshot()))
                wait_for(lambda: all(snapshots(cluster, each) > 0 for each in cluster.nodes), "a snapshot")
        wait_for(lambda: all(log_start(cluster, each) > 0 for each in cluster.nodes), "a log that begins later")
        cluster.start(first)
        wait_for_topics(cluster, "before", *names)
        assert log_start(cluster, first) > 0
        assert "deleted" not in topics(cluster, first)


def snapshots(cluster: Cluster, node_id: int) -> int:
    """How many snapshots a node has."""
    found: int = cluster.on(node_id, lambda node: len(node.broker.metadata.snapshots))
    return found


def log_start(cluster: Cluster, node_id: int) -> int:
    """Where a node's metadata log begins."""
    found: int = cluster.on(node_id, lambda node: node.broker.metadata.log.log_start_offset)
    return found


def test_a_quorum_whose_voters_are_in_the_log_goes_on(tmp_path: Path) -> None:
    directory = golden_copy("kraft/dynamic-quorum", tmp_path)
    client_port, controller_port = free_ports(2)
    properties = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller_port}",
        "listeners": f"PLAINTEXT://127.0.0.1:{client_port},CONTROLLER://127.0.0.1:{controller_port}",
        "log.dirs": str(directory),
    }
    node = ClusterNode(properties)
    node.wait_until_up()
    try:
        with node.client() as client:
            assert client.call("metadata", 12, topics=None)["topics"]
            client.create_topic("new", 1)
            asked = [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]
            (topic,) = client.call("describe_quorum", 2, topics=asked)["topics"]
        (voter,) = topic["partitions"][0]["current_voters"]
        assert (voter["replica_id"], voter["replica_directory_id"]) == (1, "47OKbrfpSEqH4dU5Sx9jiA")
    finally:
        node.stop()
