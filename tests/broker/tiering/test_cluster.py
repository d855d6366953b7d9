"""A cluster with a tier: a replica that has lost its log begins behind the tier, leads, and is read whole."""

from __future__ import annotations

import shutil
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from kcli.broker.node import Node
from tests.broker.cluster import Cluster, running_cluster, wait_for
from tests.broker.tiering.test_manager import CONFIGS, SETTINGS

TOPIC = "orders"
ROUNDS = 12


def log_of(node: Node) -> Any:
    partition = node.broker.partitions.get(TOPIC, 0)
    assert partition is not None
    return partition.log


def offsets(cluster: Cluster, node_id: int) -> tuple[int, int, int]:
    """Log start, local log start and log end of a replica."""

    def look(node: Node) -> tuple[int, int, int]:
        log = log_of(node)
        return log.log_start_offset, log.local_log_start_offset, log.log_end_offset

    found: tuple[int, int, int] = cluster.on(node_id, look)
    return found


def produce(cluster: Cluster, first: int) -> dict[str, list[bytes]]:
    """Records in transactions, every third of which is aborted. Returns what each isolation level reads of them."""
    settings = {"bootstrap.servers": cluster.bootstrap, "transactional.id": f"t{first}", "linger.ms": 0}
    producer = Producer(settings)
    producer.init_transactions(30)
    values = defaultdict(list)
    for number in range(first, first + ROUNDS):
        producer.begin_transaction()
        for i in range(20):
            value = b"value %03d-%03d " % (number, i) + b"x" * 50
            producer.produce(TOPIC, value, partition=0)
            values["read_uncommitted"].append(value)
            if number % 3 != 1:
                values["read_committed"].append(value)
            if i % 5 == 4:
                producer.flush(30)
        if number % 3 == 1:
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)
    return values


def consumed(cluster: Cluster, isolation: str) -> list[bytes | None]:
    """The values of all records from the log start on."""
    settings = {
        "bootstrap.servers": cluster.bootstrap,
        "group.id": "g",
        "isolation.level": isolation,
        "enable.partition.eof": True,
        "enable.auto.commit": False,
    }
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(TOPIC, 0, OFFSET_BEGINNING)])
    found: list[bytes | None] = []
    try:
        while True:
            message = consumer.poll(30)
            assert message is not None
            error = message.error()
            if error is not None:
                assert error.name() == "_PARTITION_EOF", error
                return found
            found.append(message.value())
    finally:
        consumer.close()


@pytest.mark.parametrize("behind_last", ["false", "true"])
def test_a_replica_begins_behind_the_tier_and_leads(tmp_path: Path, behind_last: str) -> None:
    options = {name.replace(".", "_"): value for name, value in SETTINGS.items()} | {
        "rsm_config_dir": str(tmp_path / "remote"),
        "rlmm_config_remote_log_metadata_topic_replication_factor": "3",
        "offsets_topic_replication_factor": "3",
        "transaction_state_log_replication_factor": "3",
        "transaction_state_log_min_isr": "1",
        "follower_fetch_last_tiered_offset_enable": behind_last,
        "replica_lag_time_max_ms": "1500",
    }
    with running_cluster(tmp_path, **options) as cluster:  # type: ignore[arg-type]
        with cluster.client(3) as client:
            topic = {
                "name": TOPIC,
                "num_partitions": -1,
                "replication_factor": -1,
                "assignments": [{"partition_index": 0, "broker_ids": [1, 2]}],
                "configs": [{"name": name, "value": value} for name, value in CONFIGS.items()],
            }
            made = client.call("create_topics", 7, topics=[topic], timeout=10_000, validate_only=False)
            assert made["topics"][0]["error_code"] == 0, made
        values = produce(cluster, 0)
        wait_for(lambda: len({offsets(cluster, each)[2] for each in (1, 2)}) == 1, "replica that has caught up")
        cluster.stop(2)
        shutil.rmtree(cluster.node_directory(2) / f"{TOPIC}-0")
        for isolation, more in produce(cluster, ROUNDS).items():
            values[isolation] += more
        wait_for(lambda: offsets(cluster, 1)[1] > offsets(cluster, 1)[2] // 2, "log that is in the tier")
        cluster.start(2)  # meanwhile the marker of the last transaction is written
        wait_for(lambda: len({offsets(cluster, each)[2] for each in (1, 2)}) == 1, "replica that has caught up")
        end = offsets(cluster, 1)[2]
        start, local, _ = offsets(cluster, 2)
        assert start == 0 < local
        epochs = {node_id: cluster.on(node_id, lambda node: log_of(node).leader_epochs) for node_id in (1, 2)}
        assert epochs[1] == epochs[2]

        def is_in_sync() -> bool:
            state = cluster.on(3, lambda node: node.broker.image.topics[TOPIC].partitions[0])
            return set(state.isr) == {1, 2}

        wait_for(is_in_sync, "replica in the ISR")
        cluster.stop(1)
        for isolation in ("read_uncommitted", "read_committed"):
            assert consumed(cluster, isolation) == values[isolation]
        assert offsets(cluster, 2)[2] == end
