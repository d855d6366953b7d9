"""Replication in clusters of real nodes: a leader is killed, the ISR is too small, a returning broker catches up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import confluent_kafka
from confluent_kafka.admin import AdminClient, NewTopic

from kcli.protocol.error_code import ErrorCode
from tests.broker.cluster import Cluster, running_cluster, wait_for
from tests.log.batches import batch

TOPIC = "t"


def create_topic(cluster: Cluster, partitions: int = 1, replicas: int = 3, **config: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "debug": "admin,metadata"})
    new = NewTopic(
        TOPIC, partitions, replicas, config={name.replace("_", "."): value for name, value in config.items()}
    )
    for future in admin.create_topics([new]).values():
        future.result(30)


def partition_of(cluster: Cluster, node_id: int, number: int = 0) -> dict[str, Any]:
    """Return a partition's state in a broker's metadata."""
    with cluster.client(node_id) as client:
        (topic,) = client.call("metadata", 12, topics=[{"topic_id": "A" * 22, "name": TOPIC}])["topics"]
    found: dict[str, Any] = next(each for each in topic["partitions"] if each["partition_index"] == number)
    return found


def in_sync(cluster: Cluster, node_id: int, number: int = 0) -> set[int]:
    return set(partition_of(cluster, node_id, number)["isr_nodes"])


def produce(cluster: Cluster, node_id: int, value: bytes, acks: int = -1) -> tuple[ErrorCode, int]:
    data = [{"name": TOPIC, "partition_data": [{"index": 0, "records": bytes(batch(value))}]}]
    with cluster.client(node_id) as client:
        answer = client.call("produce", 9, acks=acks, timeout=5000, topic_data=data)
    found = answer["responses"][0]["partition_responses"][0]
    return ErrorCode(found["error_code"]), found["base_offset"]


def consume(cluster: Cluster, partitions: int, count: int) -> dict[int, list[bytes]]:
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": "g", "auto.offset.reset": "earliest"}
    )
    consumer.assign([confluent_kafka.TopicPartition(TOPIC, each, 0) for each in range(partitions)])
    found: dict[int, list[bytes]] = {each: [] for each in range(partitions)}
    while sum(map(len, found.values())) < count:
        message = consumer.poll(30)
        assert message is not None, f"{sum(map(len, found.values())):,} of {count:,}"
        assert message.error() is None
        number, value = message.partition(), message.value()
        assert number is not None
        assert value is not None
        found[number].append(value)
    consumer.close()
    return found


def test_a_killed_leader_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    with running_cluster(tmp_path, processes=True) as cluster:
        create_topic(cluster, 3, min_insync_replicas="2")
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True, "linger.ms": 2}
        )
        acknowledged: dict[int, list[bytes]] = {0: [], 1: [], 2: []}
        failed: list[Any] = []

        def told(error: Any, message: Any) -> None:
            if error is not None:
                failed.append(error)
            else:
                acknowledged[message.partition()].append(message.value())

        def send(begin: int, end: int) -> None:
            for i in range(begin, end):
                producer.produce(TOPIC, b"%d" % i, partition=i % 3, on_delivery=told)
                producer.poll(0.001)

        send(0, 900)
        producer.flush(30)
        killed = partition_of(cluster, 1)["leader_id"]
        send(900, 1000)
        cluster.kill(killed)
        send(1000, 1500)
        producer.flush(60)
        assert not failed
        other = next(iter(cluster.nodes))
        assert in_sync(cluster, other) == {1, 2, 3} - {killed}
        cluster.start(killed)
        wait_for(lambda: all(in_sync(cluster, other, each) == {1, 2, 3} for each in range(3)), "full ISR")
        send(1500, 1800)
        producer.flush(60)
        assert not failed
        found = consume(cluster, 3, 1800)
        assert found == acknowledged
        assert found == {each: [b"%d" % i for i in range(each, 1800, 3)] for each in range(3)}


def test_too_few_in_sync_are_refused(tmp_path: Path) -> None:
    with running_cluster(tmp_path, controllers=1) as cluster:
        create_topic(cluster, min_insync_replicas="2")
        leader = partition_of(cluster, 1)["leader_id"]
        others = [each for each in (1, 2, 3) if each != leader]
        assert produce(cluster, leader, b"three") == (ErrorCode.NONE, 0)
        cluster.stop(others[0])
        wait_for(lambda: others[0] not in in_sync(cluster, leader), "ISR without one")
        assert produce(cluster, leader, b"two") == (ErrorCode.NONE, 1)
        cluster.stop(others[1])
        wait_for(lambda: in_sync(cluster, leader) == {leader}, "ISR of one")
        assert produce(cluster, leader, b"refused")[0] == ErrorCode.NOT_ENOUGH_REPLICAS
        assert produce(cluster, leader, b"one", acks=1) == (ErrorCode.NONE, 2)
        cluster.start(*others)
        wait_for(lambda: in_sync(cluster, leader) == {1, 2, 3}, "full ISR")
        assert produce(cluster, leader, b"three") == (ErrorCode.NONE, 3)
        assert consume(cluster, 1, 4) == {0: [b"three", b"two", b"one", b"three"]}
