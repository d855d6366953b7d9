"""One node of kcli and two of real Kafka share a tier: the leadership moves between them while segments are copied, and
each reads, copies on, expires and deletes what the others have copied."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kcli.inspector.tier import Orphans, TierVerification
from kcli.tier.local import LocalStore
from kcli.tier.tier import Tier
from tests.broker.tiering.test_manager import CONFIGS, SETTINGS
from tests.cli.run import KCLI
from tests.interop.complaints import complaints
from tests.interop.kit import kafka
from tests.interop.real_cluster import RealCluster
from tests.interop.test_restore_kafka import consumed as consumed_by_kafka
from tests.interop.test_tier_handover_kafka import EXPECTED
from tests.interop.test_tier_live_kafka import tiered_storage

__all__ = ["tiered_storage"]

TOPIC = "orders"
LEADERS = 1, 2, 1, 3, 1
"""Node 1 is kcli's."""
TIMEOUT_S = 90.0
WHILE_LEADERS_MOVE = (
    "NotLeaderOrFollowerException|UnknownTopicOrPartitionException|while querying or creating __remote_log"
)
"""What Kafka says with any cluster; its warnings are of leaders that move, too."""


class MixedCluster(RealCluster):
    """Node 1 runs `kcli serve`, the others Kafka. more: the class path of LocalTieredStorage."""

    def __init__(self, directory: Path, options: dict[str, str], more: str) -> None:
        super().__init__(directory, options)
        self._more = more

    def _command(self, node: int) -> list[str]:
        if node == 1:
            return [*KCLI, "serve", "--config", str(self.place(node) / "server.properties")]
        command = super()._command(node)
        at = command.index("-cp") + 1
        return [*command[:at], f"{command[at]}:{self._more}", *command[at + 1 :]]


def wait_until(condition: Callable[[], bool], what: Callable[[], object]) -> None:
    until = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < until, what()
        time.sleep(0.1)


@contextmanager
def produced(bootstrap: str) -> Iterator[dict[int, bytes]]:
    """Produce until the context ends. Yields what was acknowledged, by offset."""
    acknowledged: dict[int, bytes] = {}
    ended = threading.Event()
    settings = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 0, "batch.num.messages": 5}
    producer = Producer({**settings, "message.timeout.ms": 120_000})

    def noted(value: bytes) -> Callable[[KafkaError | None, Message], None]:
        def note(error: KafkaError | None, message: Message) -> None:
            assert error is None, error
            offset = message.offset()
            assert offset is not None
            acknowledged[offset] = value

        return note

    def run() -> None:
        for number in itertools.count():
            value = b"value %06d" % number + b"x" * 60
            producer.produce(TOPIC, value, partition=0, on_delivery=noted(value))
            if number % 5 == 4:
                producer.poll(0.02)
            if ended.is_set():
                break
        producer.flush(TIMEOUT_S)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield acknowledged
    finally:
        ended.set()
        thread.join()


def offset_of(cluster: MixedCluster, timestamp: int) -> int:
    """What the leader answers to ListOffsets."""
    for node in cluster.ids:
        with cluster.client(node) as client:
            error_code, offset = client.list_offset(TOPIC, timestamp)
        if error_code == 0:
            return offset
    return -1


def lead(cluster: MixedCluster, node: int) -> None:
    """Make a node the preferred leader, and elect it."""
    replicas = [node, *(each for each in cluster.ids if each != node)]
    topics = [{"name": TOPIC, "partitions": [{"partition_index": 0, "replicas": replicas}]}]

    def is_leader() -> bool:
        with cluster.client(1) as client:
            client.call("alter_partition_reassignments", 0, timeout=10_000, topics=topics)
            wanted = [{"topic": TOPIC, "partitions": [0]}]
            client.call("elect_leaders", 2, election_type=0, topic_partitions=wanted, timeout=10_000)
        return [each.leader for each in cluster.partitions() if each.topic == TOPIC] == [node]

    wait_until(is_leader, cluster.partitions)


def consumed(cluster: MixedCluster, end: int) -> dict[int, bytes | None]:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "g", "enable.auto.commit": False})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    found: dict[int, bytes | None] = {}
    until = time.monotonic() + TIMEOUT_S
    try:
        while len(found) < end and time.monotonic() < until:
            for message in consumer.consume(end - len(found), 1):
                offset = message.offset()
                if message.error() is None and offset is not None:
                    assert offset not in found
                    found[offset] = message.value()
    finally:
        consumer.close()
    return found


def dumped(data: Path) -> dict[str, list[str]]:
    """What kafka-dump-log decodes of __remote_log_metadata in a log directory, by partition."""
    found = {}
    for path in sorted(data.glob("__remote_log_metadata-*/*.log")):
        lines = kafka("dump", "--remote-log-metadata-decoder", "--files", str(path)).splitlines()
        found[path.parent.name] = [line for line in lines if "payload: Remote" in line]
    return found


def test_leaders_of_both_kinds_copy_read_expire_and_delete(tiered_storage: str, tmp_path: Path) -> None:
    store = tmp_path / "remote"
    options = SETTINGS | {"rsm.config.dir": str(store), "rlmm.config.remote.log.metadata.topic.replication.factor": "3"}
    with MixedCluster(tmp_path, options, tiered_storage) as cluster:
        cluster.format()
        cluster.start()
        cluster.wait_ready()
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        admin.create_topics([NewTopic(TOPIC, 1, replica_assignment=[[1, 2, 3]], config=CONFIGS)])[TOPIC].result(60)
        with produced(cluster.bootstrap) as acknowledged:
            for node in LEADERS:
                lead(cluster, node)
                begin = offset_of(cluster, -1)
                wait_until(lambda: offset_of(cluster, -5) > begin + 20, lambda: (node, offset_of(cluster, -5)))  # noqa: B023
        end = len(acknowledged)
        assert sorted(acknowledged) == list(range(end))
        for node in LEADERS[-2:]:
            lead(cluster, node)
            wait_until(lambda: offset_of(cluster, -4) > begin, lambda: offset_of(cluster, -4))
            assert consumed(cluster, end) == acknowledged
            by_kafka = consumed_by_kafka(cluster.bootstrap, [TOPIC], "read_uncommitted")[TOPIC]
            assert [each["value"] for each in by_kafka] == [acknowledged[offset] for offset in range(end)]
        tier = Tier.read(LocalStore(store), cluster.data(1))
        verification = TierVerification(tier)
        assert [each for each in verification.findings() if each.severity != "info"] == []
        assert [each for each in Orphans(tier).findings() if each.severity != "info"] == []
        dumps = [dumped(cluster.data(node)) for node in cluster.ids]
        assert any(dumps[0].values())
        assert dumps[0] == dumps[1] == dumps[2]
        kafka("configs", "--bootstrap-server", cluster.bootstrap, "--alter", "--entity-type", "topics", "--entity-name",
              TOPIC, "--add-config", "retention.bytes=16384")  # fmt: skip
        for node in (2, 1):
            lead(cluster, node)
            wait_until(lambda: offset_of(cluster, -2) > end // 2, lambda: offset_of(cluster, -2))
        admin.delete_topics([TOPIC])[TOPIC].result(60)
        wait_until(lambda: not list(LocalStore(store).list_objects()), lambda: list(LocalStore(store).list_objects()))
        for node in (2, 3):
            errors = complaints(cluster.log_text(node), "ERROR|FATAL", f"{EXPECTED}|{WHILE_LEADERS_MOVE}")
            assert errors == [], errors
        cluster.stop()
        assert "Traceback" not in cluster.log_text(1)
