"""A node goes from `kcli serve` to real Kafka and back, after a clean stop and after kill -9, and keeps all its state.

Both sides get the same requests, as bytes, so that the responses can be compared.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from formats.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD
from tests.broker.running import Address, Client, ServedNode
from tests.interop.complaints import complaints
from tests.interop.kit import SCRIPT
from tests.log.batches import batch

NODE = f"kcli-serve-handover-{os.getpid()}"
ENVIRONMENT = {**os.environ, "KAFKA_KIT_PORT": str(11_000 + os.getpid() % 9_000)}
COORDINATOR_LOAD_IN_PROGRESS = 14
NOT_YET = (-3, -6)
SOON = ("log.flush.start.offset.checkpoint.interval.ms=100", "log.initial.task.delay.ms=100")
"""A crash before the next checkpoint loses the effect of DeleteRecords."""
TOPIC, BROKER = 2, 4
EARLIEST, LATEST = -2, -1
CONFIGS = {
    "plain": {"retention.ms": "-1", "segment.bytes": "1048576"},
    "compacted": {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.9", "retention.ms": "-1"},
    "trimmed": {"retention.ms": "-1"},
}
PARTITIONS = {"plain": 3, "compacted": 2, "trimmed": 1}
QUOTAS = {"user": "alice", "client-id": "load"}


def kafka(*arguments: str) -> str:
    done = subprocess.run(
        [SCRIPT, *arguments], capture_output=True, text=True, timeout=180, check=False, env=ENVIRONMENT
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


class Kafka:
    """Real Kafka on a copy of a log directory."""

    def __init__(self, directory: Path) -> None:
        host, _, port = kafka("open", str(directory), NODE, *SOON).strip().rpartition(":")
        self.address: Address = host, int(port)
        self.directory = Path(kafka("dir", NODE).strip())

    def end(self, how: str) -> Path:
        """Stop or kill it. Returns its directory."""
        kafka(how, NODE)
        assert not complaints(kafka("log", NODE), also="Error processing append operation")  # of refused sequences
        return self.directory


@pytest.fixture(autouse=True)
def _no_node_left(kafka_jars: Path) -> Iterator[None]:
    yield
    if re.search(rf"^{NODE} .* running", kafka("ls"), re.MULTILINE):
        kafka("kill", NODE)
    kafka("rm", NODE)


@dataclass
class Cluster:
    """The state that was made, and must be found wherever the directory is opened next."""

    configs: dict[str, dict[str, str]] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)
    partitions: dict[str, int] = field(default_factory=dict)
    broker_configs: dict[str, str] = field(default_factory=dict)
    cluster_configs: dict[str, str] = field(default_factory=dict)
    quotas: dict[str, float] = field(default_factory=dict)
    starts: dict[tuple[str, int], int] = field(default_factory=dict)
    data: dict[tuple[str, int], list[tuple[int, bytes]]] = field(default_factory=dict)
    """Base offsets, and the batches without the fields that a broker writes."""
    producers: dict[int, dict[tuple[str, int], int]] = field(default_factory=dict)
    """The next sequence in each partition, by producer id."""
    last: dict[tuple[int, str, int], tuple[int, bytes]] = field(default_factory=dict)
    """The last batch of each producer in each partition, and its offset."""

    # what is done

    def create(self, client: Client, name: str, partitions: int, configs: dict[str, str]) -> None:
        answer = client.create_topic(name, partitions, configs)
        self.ids[name], self.partitions[name], self.configs[name] = answer["topic_id"], partitions, dict(configs)

    def delete(self, client: Client, name: str) -> None:
        answer = client.call("delete_topics", 5, topic_names=[name], timeout=10_000)
        assert answer["responses"][0]["error_code"] == 0
        for known in (self.ids, self.partitions, self.configs):
            del known[name]

    def alter(self, client: Client, kind: int, name: str, **values: str) -> None:
        configs = [
            {"name": key.replace("_", "."), "config_operation": 0, "value": value} for key, value in values.items()
        ]
        resources = [{"resource_type": kind, "resource_name": name, "configs": configs}]
        answer = client.call("incremental_alter_configs", 1, resources=resources, validate_only=False)
        assert answer["responses"][0]["error_code"] == 0, answer
        known = self.configs[name] if kind == TOPIC else self.broker_configs if name else self.cluster_configs
        known.update({key.replace("_", "."): value for key, value in values.items()})

    def set_quota(self, client: Client, key: str, value: float) -> None:
        entity = [{"entity_type": kind, "entity_name": name} for kind, name in QUOTAS.items()]
        entries = [{"entity": entity, "ops": [{"key": key, "value": value, "remove": False}]}]
        answer = client.call("alter_client_quotas", 1, entries=entries, validate_only=False)
        assert answer["entries"][0]["error_code"] == 0, answer
        self.quotas[key] = value

    def new_producer(self, client: Client) -> int:
        while True:
            answer = client.call("init_producer_id", 4, transactional_id=None, transaction_timeout=1000)
            if answer["error_code"] != COORDINATOR_LOAD_IN_PROGRESS:  # Kafka fetches a block of ids
                break
            time.sleep(0.05)
        assert answer["error_code"] == 0
        producer_id: int = answer["producer_id"]
        assert producer_id not in self.producers, "ids are given out once"
        self.producers[producer_id] = {}
        return producer_id

    def write(self, client: Client, producer_id: int, topic: str, partition: int, size: int, codec: int) -> None:
        """A batch of two records."""
        sequence = self.producers[producer_id].get((topic, partition), 0)
        values = bytes([sequence % 251]) * size, b"second"
        sent = bytes(batch(*values, producer=(producer_id, 0), sequence=sequence, codec=codec, timestamp_ms=now_ms()))
        while (offset := produce(client, topic, partition, sent)) in NOT_YET:  # Kafka's broker hears of a topic later
            time.sleep(0.05)
        stored = self.data.setdefault((topic, partition), [])
        assert offset == (stored[-1][0] + 2 if stored else 0)
        stored.append((offset, own(sent)))
        self.producers[producer_id][topic, partition] = sequence + 2
        self.last[producer_id, topic, partition] = offset, sent

    def trim(self, client: Client, topic: str, offset: int) -> None:
        topics = [{"name": topic, "partitions": [{"partition_index": 0, "offset": offset}]}]
        answer = client.call("delete_records", 2, topics=topics, timeout=10_000)
        assert answer["topics"][0]["partitions"][0]["error_code"] == 0
        self.starts[topic, 0] = offset

    # what is there

    def check(self, address: Address) -> None:
        with Client(address) as client:
            self._check_topics(client)
            self._check_configs(client)
            self._check_quotas(client)
            for topic, count in self.partitions.items():
                for partition in range(count):
                    self._check_data(client, topic, partition)
                    self._check_producers(client, topic, partition)

    def _check_topics(self, client: Client) -> None:
        answer = client.call("metadata", 12, topics=None, allow_auto_topic_creation=False)
        assert {each["name"]: each["topic_id"] for each in answer["topics"]} == self.ids
        assert {each["name"]: len(each["partitions"]) for each in answer["topics"]} == self.partitions

    def _check_configs(self, client: Client) -> None:
        wanted = [(TOPIC, name, configs) for name, configs in self.configs.items()]
        wanted += [(BROKER, "1", self.broker_configs), (BROKER, "", self.cluster_configs)]
        for kind, name, configs in wanted:
            resources = [{"resource_type": kind, "resource_name": name, "configuration_keys": None}]
            answer = client.call(
                "describe_configs", 4, resources=resources, include_synonyms=False, include_documentation=False
            )
            source = {TOPIC: 1, BROKER: 2 if name else 3}[kind]
            found = {
                each["name"]: each["value"]
                for each in answer["results"][0]["configs"]
                if each["config_source"] == source
            }
            assert found.items() >= configs.items()

    def _check_quotas(self, client: Client) -> None:
        entries = client.call("describe_client_quotas", 1, components=[], strict=False)["entries"]
        found = [
            ({each["entity_type"]: each["entity_name"] for each in entry["entity"]}, entry["values"])
            for entry in entries
        ]
        assert [(entity, {value["key"]: value["value"] for value in values}) for entity, values in found] == [
            (QUOTAS, self.quotas)
        ]

    def _check_data(self, client: Client, topic: str, partition: int) -> None:
        stored = self.data.get((topic, partition), [])
        start = self.starts.get((topic, partition), 0)
        assert offset_of(client, topic, partition, EARLIEST) == start
        assert offset_of(client, topic, partition, LATEST) == (stored[-1][0] + 2 if stored else 0)
        assert fetched(client, topic, partition, start) == [each for each in stored if each[0] + 2 > start]

    def _check_producers(self, client: Client, topic: str, partition: int) -> None:
        topics = [{"name": topic, "partition_indexes": [partition]}]
        answer = client.call("describe_producers", 0, topics=topics)
        active = answer["topics"][0]["partitions"][0]["active_producers"]
        found = {each["producer_id"]: each["last_sequence"] + 1 for each in active}
        assert found == {
            producer_id: sequences[topic, partition]
            for producer_id, sequences in self.producers.items()
            if (topic, partition) in sequences
        }

    def go_on(self, address: Address, name: str) -> None:
        """Duplicates are recognised, sequences continue, gaps are refused; a new producer, topic, configuration and
        quota are made."""
        with Client(address) as client:
            for (producer_id, topic, partition), (offset, sent) in list(self.last.items()):
                assert produce(client, topic, partition, sent) == offset, "known"
                gap = bytes(batch(b"gap", producer=(producer_id, 0), sequence=1_000_000, timestamp_ms=now_ms()))
                assert produce(client, topic, partition, gap) == -45
                self.write(client, producer_id, topic, partition, 100, LZ4)
            producer_id = self.new_producer(client)
            self.write(client, producer_id, "plain", 1, 700_000, NONE)
            self.write(client, producer_id, "plain", 1, 700_000, NONE)
            self.create(client, name, 2, {"max.message.bytes": "12345"})
            self.write(client, producer_id, name, 1, 10, NONE)
            self.alter(client, TOPIC, "trimmed", segment_ms=str(10_000_000 + len(self.ids)))
            self.alter(client, BROKER, "1", background_threads="12")
            self.set_quota(client, "consumer_byte_rate", 1_000_000.0 + len(self.ids))
            self.trim(client, "trimmed", self.starts["trimmed", 0] + 1)


def own(data: bytes) -> bytes:
    """Return a batch without base offset and leader epoch, which the broker writes."""
    return data[8:12] + data[16:]


def produce(client: Client, topic: str, partition: int, data: bytes) -> int:
    """Produce a batch; return its base offset, or the negative error code."""
    topics = [{"name": topic, "partition_data": [{"index": partition, "records": data}]}]
    answer = client.call("produce", 9, acks=-1, timeout=10_000, topic_data=topics)
    found = answer["responses"][0]["partition_responses"][0]
    offset: int = -found["error_code"] or found["base_offset"]
    return offset


def now_ms() -> int:
    """Return a time at which no producer has expired: that happens a day after its last batch."""
    return round(time.time() * 1000)


def offset_of(client: Client, topic: str, partition: int, timestamp: int) -> int:
    wanted = {"partition_index": partition, "current_leader_epoch": -1, "timestamp": timestamp}
    topics = [{"name": topic, "partitions": [wanted]}]
    answer = client.call("list_offsets", 7, replica_id=-1, isolation_level=0, topics=topics)
    found = answer["topics"][0]["partitions"][0]
    assert found["error_code"] == 0
    offset: int = found["offset"]
    return offset


def fetched(client: Client, topic: str, partition: int, offset: int) -> list[tuple[int, bytes]]:
    """Return base offset and bytes of all batches from an offset on."""
    from base64 import b64decode

    body: dict[str, Any] = {
        "replica_id": -1,
        "max_wait": 0,
        "min_bytes": 0,
        "max_bytes": 10 << 20,
        "isolation_level": 0,
    }
    body |= {"session_id": 0, "session_epoch": -1, "forgotten_topics_data": [], "rack_id": ""}
    found: list[tuple[int, bytes]] = []
    while True:
        wanted = {"partition": partition, "fetch_offset": offset, "partition_max_bytes": 10 << 20}
        answer = client.call("fetch", 11, **body, topics=[{"topic": topic, "partitions": [wanted]}])
        response = answer["responses"][0]["partitions"][0]
        assert response["error_code"] == 0
        data = b64decode(response["records"] or "")
        if not data:
            return found
        while data:
            size = 12 + int.from_bytes(data[8:12])
            base = int.from_bytes(data[:8])
            found.append((base, own(data[:size])))
            offset, data = base + int.from_bytes(data[23:27]) + 1, data[size:]


def fill(address: Address) -> Cluster:
    """A cluster with something of everything."""
    cluster = Cluster()
    with Client(address) as client:
        for name, configs in CONFIGS.items():
            cluster.create(client, name, PARTITIONS[name], configs)
        cluster.create(client, "gone", 2, {})
        first, second = cluster.new_producer(client), cluster.new_producer(client)
        for codec in (NONE, GZIP, SNAPPY, LZ4, ZSTD):
            for topic, count in PARTITIONS.items():
                for partition in range(count):
                    cluster.write(client, first, topic, partition, 300_000, codec)
        for _ in range(4):  # segments roll
            cluster.write(client, second, "plain", 0, 600_000, NONE)
        cluster.delete(client, "gone")
        cluster.trim(client, "trimmed", 3)
        cluster.alter(client, BROKER, "1", log_cleaner_threads="2")
        cluster.alter(client, BROKER, "", log_retention_ms="123456789")
        cluster.alter(client, TOPIC, "compacted", max_message_bytes="2000000")
        cluster.set_quota(client, "producer_byte_rate", 5_000_000.0)
    return cluster


def served(directory: Path) -> ServedNode:
    return ServedNode(directory, *(word for option in SOON for word in ("-o", option)))


def wait_for_checkpoint(directory: Path, cluster: Cluster) -> None:
    line = f"trimmed 0 {cluster.starts['trimmed', 0]}"
    for _ in range(400):
        if line in (directory / "log-start-offset-checkpoint").read_text().splitlines():
            return
        time.sleep(0.05)
    raise AssertionError(f"no {line!r} in log-start-offset-checkpoint")


def ended(node: ServedNode, how: str) -> None:
    status, log = node.signal(signal.SIGTERM if how == "stop" else signal.SIGKILL)
    assert status == (0 if how == "stop" else -signal.SIGKILL)
    assert "Traceback" not in log
    for stream in (node.process.stdout, node.process.stderr):
        assert stream is not None, "piped"
        stream.close()


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_to_kafka_and_back(tmp_path: Path, how: str) -> None:
    directory = tmp_path / "ours"
    node = served(directory)
    cluster = fill(node.address)
    cluster.check(node.address)
    wait_for_checkpoint(directory, cluster)
    ended(node, how)

    theirs = Kafka(directory)
    cluster.check(theirs.address)
    cluster.go_on(theirs.address, "of-kafka")
    cluster.check(theirs.address)
    wait_for_checkpoint(theirs.directory, cluster)
    back = shutil.copytree(theirs.end(how), tmp_path / "back")

    node = served(back)
    cluster.check(node.address)
    cluster.go_on(node.address, "of-kcli")
    cluster.check(node.address)
    wait_for_checkpoint(back, cluster)
    ended(node, how)

    again = Kafka(back)
    cluster.check(again.address)
    again.end("stop")
