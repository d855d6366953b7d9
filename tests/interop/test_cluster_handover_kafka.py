"""The directories of a stopped cluster go from kcli's nodes to real Kafka's and back, and all that was in it is there.

Each of the three legs, on the same properties and directories: the cluster comes up whole, all that was done so far is
there, more is done (topics, configurations, idempotent records, transactions of the same id, a group's offsets), a
leader is moved by a clean stop of one node, and it is stopped.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from kcli.log.log_directory import read_properties
from kcli.protocol.topic_partition import TopicPartition
from tests.conftest import examples
from tests.interop.clusters import Cluster, KcliCluster, local_places
from tests.interop.complaints import complaints
from tests.interop.real_cluster import RealCluster

PARTITIONS, RECORDS = 3, 50
WAIT_S = 60.0
GROUP = "readers"
MOVING = (
    "Graceful shutdown of RaftClient failed"  # the last nodes: no majority is left to which leadership could go
    "|Coordinator loader is closed"
    "|Stopped loading records from .* is no longer the leader"
)
"""Lines that Kafka's nodes log while others start and stop."""


@dataclass
class Told:
    """What was done, and must be found wherever the directories are opened next."""

    topics: dict[str, dict[str, str]] = field(default_factory=dict)
    values: dict[TopicPartition, list[str]] = field(default_factory=dict)
    offsets: dict[TopicPartition, int] = field(default_factory=dict)
    ids: set[str] = field(default_factory=set)

    # what is done

    def create(self, admin: AdminClient, name: str, **config: str) -> None:
        dotted = {key.replace("_", "."): value for key, value in config.items()}
        admin.create_topics([NewTopic(name, PARTITIONS, 3, config=dict(dotted))])[name].result(WAIT_S)
        self.topics[name] = dotted
        self.values.update({TopicPartition(name, number): [] for number in range(PARTITIONS)})

    def delete(self, admin: AdminClient, name: str) -> None:
        admin.delete_topics([name])[name].result(WAIT_S)
        del self.topics[name]
        self.values = {place: values for place, values in self.values.items() if place[0] != name}

    def alter(self, admin: AdminClient, name: str, key: str, value: str) -> None:
        entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=[entry])
        admin.incremental_alter_configs([resource])[resource].result(WAIT_S)
        self.topics[name][key] = value

    def write(self, cluster: Cluster, leg: str) -> None:
        """To all partitions of all topics, acks=all."""
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True, "log_level": 0})
        for (topic, number), values in self.values.items():
            for each in range(RECORDS):
                values.append(f"{leg} {each}")
                producer.produce(topic, values[-1], partition=number, key=f"{each}")
        assert producer.flush(WAIT_S) == 0

    def transact(self, cluster: Cluster, leg: str) -> None:
        """Run transactions, some committed, some aborted; one has the group's offsets."""
        server = {"bootstrap.servers": cluster.bootstrap, "log_level": 0}
        producer = Producer(server | {"transactional.id": "handover"})
        producer.init_transactions(WAIT_S)
        consumer = Consumer(server | {"group.id": GROUP})
        for commits in (True, False, True):
            producer.begin_transaction()
            for (topic, number), values in self.values.items():
                value = f"{leg} {'committed' if commits else 'aborted'}"
                producer.produce(topic, value, partition=number, key=value)
                if commits:
                    values.append(value)
            if commits:
                self.offsets = {place: len(values) for place, values in self.values.items()}
                moved = [confluent_kafka.TopicPartition(*place, offset) for place, offset in self.offsets.items()]
                producer.send_offsets_to_transaction(moved, consumer.consumer_group_metadata(), WAIT_S)
                producer.commit_transaction(WAIT_S)
            else:
                assert producer.flush(WAIT_S) == 0
                producer.abort_transaction(WAIT_S)
        consumer.close()

    # what is there

    def check(self, cluster: Cluster) -> None:
        cluster.wait_in_sync(topics=self.topics)
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        known = admin.list_topics(timeout=WAIT_S)
        self.ids.add(str(known.cluster_id))
        assert len(self.ids) == 1, "it is the same cluster"
        found = {name: len(topic.partitions) for name, topic in known.topics.items() if not name.startswith("__")}
        assert found == dict.fromkeys(self.topics, PARTITIONS)
        for name, config in self.topics.items():
            resource = ConfigResource(ResourceType.TOPIC, name)
            entries = admin.describe_configs([resource])[resource].result(WAIT_S)
            assert {key: entries[key].value for key in config} == config
        assert read(cluster, self.values) == self.values
        if self.offsets:
            asked = ConsumerGroupTopicPartitions(
                GROUP, [confluent_kafka.TopicPartition(*place) for place in self.offsets]
            )
            answer = admin.list_consumer_group_offsets([asked], require_stable=True)[GROUP].result(WAIT_S)
            told = {(each.topic, each.partition): each.offset for each in answer.topic_partitions}
            assert told == self.offsets


def read(
    cluster: Cluster, places: Sequence[TopicPartition] | dict[TopicPartition, list[str]]
) -> dict[TopicPartition, list[str]]:
    """Everything that is committed."""
    found: dict[TopicPartition, list[str]] = {place: [] for place in places}
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "check",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "auto.offset.reset": "error",
            "log_level": 0,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, number, 0) for topic, number in places])
    ended: set[TopicPartition] = set()
    latest = time.monotonic() + WAIT_S
    while len(ended) < len(found):
        assert time.monotonic() < latest, f"no end of {found.keys() - ended}"
        for message in consumer.consume(1000, 0.2):  # it waits until it has as many
            error, number = message.error(), message.partition()
            assert number is not None
            place = TopicPartition(str(message.topic()), number)
            if error is None:
                found[place].append((message.value() or b"").decode())
            else:
                assert error.code() == KafkaError._PARTITION_EOF, error
                ended.add(place)
    consumer.close()
    return found


def leg(cluster: Cluster, told: Told, name: str) -> None:
    """Check what was done before, do more, and check this too, also with one node stopped."""
    with cluster:
        cluster.format()
        cluster.start()
        cluster.wait_ready()
        told.check(cluster)
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        told.create(admin, f"made-in-{name}", retention_ms="-1", min_insync_replicas="2")
        told.create(admin, f"compacted-in-{name}", cleanup_policy="compact", min_cleanable_dirty_ratio="0.99")
        told.create(admin, f"doomed-in-{name}")
        cluster.wait_in_sync(topics=told.topics)
        told.alter(admin, f"made-in-{name}", "segment.bytes", "1048576")
        told.delete(admin, f"doomed-in-{name}")
        told.write(cluster, name)
        told.transact(cluster, name)
        cluster.restart(2)
        cluster.wait_ready()
        told.check(cluster)
        cluster.stop()


ORDERS = [(KcliCluster, RealCluster, KcliCluster), (RealCluster, KcliCluster, RealCluster)]


@pytest.mark.hypothesis  # make soak runs both orders; only one runs here, as the other starts twice as many real nodes
@pytest.mark.parametrize(
    "kinds", ORDERS[: examples(1, soak=2).max_examples], ids=lambda kinds: ", ".join(each.__name__ for each in kinds)
)
def test_a_cluster_changes_hands(kafka_jars: Path, tmp_path: Path, kinds: Sequence[Callable[..., Cluster]]) -> None:
    told, places = Told(), local_places(3)
    for number, kind in enumerate(kinds):
        cluster = kind(tmp_path / "cluster", places=places)
        said = {node: len(cluster.log_text(node)) for node in cluster.ids}
        leg(cluster, told, f"leg-{number}")
        if kind is RealCluster and number:  # the first cluster made its directories itself
            for node, begin in said.items():
                assert not complaints(cluster.log_text(node)[begin:], "ERROR|FATAL", MOVING), f"node {node}"
        ids = {read_properties(cluster.data(node) / "meta.properties")["cluster.id"] for node in cluster.ids}
        assert ids == told.ids
        for node in cluster.ids:
            (cluster.place(node) / "log").unlink()
