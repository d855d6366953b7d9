"""Clusters whose nodes have two log directories each: one fails, replicas move between them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import confluent_kafka

from kcli.broker.log_dirs.directories import LogDirs
from kcli.broker.node import Node
from kcli.protocol.error_code import ErrorCode
from tests.broker.cluster import Cluster, running_cluster, wait_for
from tests.broker.log_dirs import FailingDisk
from tests.broker.replication.test_cluster import TOPIC, consume, create_topic, in_sync, partition_of

PARTITIONS = 6
ALL = {1, 2, 3}


def producer_to(cluster: Cluster) -> confluent_kafka.Producer:
    return confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True})


def send(producer: confluent_kafka.Producer, begin: int, end: int) -> None:
    """Produce a number to each partition in turn; all are acknowledged."""
    failed: list[Any] = []
    for i in range(begin, end):
        producer.produce(
            TOPIC,
            b"%d" % i,
            partition=i % PARTITIONS,
            on_delivery=lambda error, _: failed.append(error) if error else None,
        )
    assert producer.flush(60) == 0
    assert not failed


def sent(end: int) -> dict[int, list[bytes]]:
    return {number: [b"%d" % i for i in range(number, end, PARTITIONS)] for number in range(PARTITIONS)}


def dirs_of(node: Node) -> LogDirs:
    assert node._dirs is not None, "it runs"
    return node._dirs


def homes(cluster: Cluster, node_id: int) -> dict[int, Path]:
    """Return the log directories in which a node has its replicas of the topic, without offline ones."""

    def look(node: Node) -> dict[int, Path]:
        online = dirs_of(node).online
        found = ((number, node.broker.partitions.get(TOPIC, number)) for number in range(PARTITIONS))
        return {
            number: each.directory.path
            for number, each in found
            if each is not None and each.directory is not None and each.directory in online
        }

    placed: dict[int, Path] = cluster.on(node_id, look)
    return placed


def told(cluster: Cluster, node_id: int, of: int) -> dict[int, Any]:
    """Return the directory ids of another node's replicas, as this node knows them from the controller."""

    def look(node: Node) -> dict[int, Any]:
        partitions = node.broker.image.topics[TOPIC].partitions
        return {number: each.directories[each.replicas.index(of)] for number, each in partitions.items()}

    ids: dict[int, Any] = cluster.on(node_id, look)
    return ids


def results(cluster: Cluster, node_id: int) -> list[dict[str, Any]]:
    """What a broker says of its directories."""
    with cluster.client(node_id) as client:
        found: list[dict[str, Any]] = client.call("describe_log_dirs", 4, topics=None)["results"]
    return found


def test_a_directory_fails_and_what_it_led_goes_on_elsewhere(tmp_path: Path) -> None:
    disk = FailingDisk()
    with running_cluster(tmp_path, directories=2, disk=disk) as cluster:
        create_topic(cluster, PARTITIONS, min_insync_replicas="2")
        producer = producer_to(cluster)
        send(producer, 0, 60)
        broken = cluster.node_directories(1)[1]
        lost = {number for number, path in homes(cluster, 1).items() if path == broken}
        assert 0 < len(lost) < PARTITIONS
        disk.broken.add(broken)
        send(producer, 60, 120)
        for number in range(PARTITIONS):
            expected = ALL - {1} if number in lost else ALL
            wait_for(lambda n=number, e=expected: in_sync(cluster, 2, n) == e, f"ISR {expected} of {number}")  # type: ignore[misc]
            known = partition_of(cluster, 2, number)
            assert known["offline_replicas"] == ([1] if number in lost else [])
            assert known["leader_id"] != 1 or number not in lost
        assert set(homes(cluster, 1)) == set(range(PARTITIONS)) - lost
        assert [ErrorCode(each["error_code"]) for each in results(cluster, 1)] == [
            ErrorCode.NONE,
            ErrorCode.KAFKA_STORAGE_ERROR,
        ]
        send(producer, 120, 180)
        disk.broken.clear()
        cluster.stop(1)
        cluster.start(1)
        for number in range(PARTITIONS):
            wait_for(lambda n=number: in_sync(cluster, 2, n) == ALL, f"full ISR of {number}")  # type: ignore[misc]
        assert set(homes(cluster, 1)) == set(range(PARTITIONS))
        assert consume(cluster, PARTITIONS, 180) == sent(180)


def test_replicas_move_between_directories_while_they_are_written(tmp_path: Path) -> None:
    with running_cluster(tmp_path, directories=2) as cluster:
        create_topic(cluster, PARTITIONS, min_insync_replicas="2")
        producer = producer_to(cluster)
        send(producer, 0, 60)
        target = cluster.node_directories(1)[1]
        target_id = cluster.on(1, lambda node: dirs_of(node).online[1].id)
        asked = [{"path": str(target), "topics": [{"name": TOPIC, "partitions": list(range(PARTITIONS))}]}]
        with cluster.client(1) as client:
            (moved,) = client.call("alter_replica_log_dirs", 2, dirs=asked)["results"]
        assert {each["error_code"] for each in moved["partitions"]} == {0}
        for i in range(60, 180, 6):
            send(producer, i, i + 6)
        wait_for(lambda: set(homes(cluster, 1).values()) == {target}, "all moved")
        wait_for(lambda: set(told(cluster, 2, of=1).values()) == {target_id}, "the controller told")
        assert not [each for each in target.iterdir() if each.name.endswith("-future")]
        send(producer, 180, 240)
        cluster.stop(1)
        cluster.start(1)
        assert set(homes(cluster, 1).values()) == {target}
        for number in range(PARTITIONS):
            wait_for(lambda n=number: in_sync(cluster, 2, n) == ALL, f"full ISR of {number}")  # type: ignore[misc]
        assert consume(cluster, PARTITIONS, 240) == sent(240)
