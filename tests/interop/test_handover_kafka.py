"""The metadata of a node goes from kcli to real Kafka and back: nothing is lost, and neither complains."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from formats.file_name import METADATA_DIRECTORY
from kcli.broker.metadata.format import format_directories, random_id
from kcli.broker.metadata.log import MetadataLog
from kcli.broker.process.clock import Clock
from kcli.metadata.image import MetadataImage, Record
from tests.broker.metadata_dirs import (
    config,
    crash_copy,
    golden_copy,
    image_of_snapshot,
    open_metadata,
    state,
    topic_records,
)
from tests.conftest import GOLDEN
from tests.interop.complaints import complaints
from tests.interop.kit import kafka

NODE = f"kcli-handover-{os.getpid()}"
CLUSTER_ID = "5L6g3nShT-eMCtK--X86sw"
FEATURES = {
    "metadata.version": (7, 30),
    "kraft.version": (0, 1),
    "group.version": (0, 1),
    "share.version": (0, 1),
    "streams.version": (0, 1),
    "transaction.version": (0, 2),
    "eligible.leader.replicas.version": (0, 1),
}
DYNAMIC = ["controller.quorum.voters=", "controller.quorum.bootstrap.servers=127.0.0.1:9093"]


class Node:
    """Real Kafka on a copy of a log directory."""

    def __init__(self, directory: Path, *settings: str) -> None:
        self.address = kafka("open", str(directory), NODE, *settings).strip()

    def ask(self, tool: str, *arguments: str, stdin: str = "") -> str:
        return kafka(tool, "--bootstrap-server", self.address, *arguments, stdin=stdin)

    def stop(self, copy: Path) -> Path:
        """Stop it; its directory is copied."""
        kafka("stop", NODE)
        return shutil.copytree(kafka("dir", NODE).strip(), copy)

    def complaints(self) -> list[str]:
        return complaints(kafka("log", NODE))


@pytest.fixture(autouse=True)
def _no_node_left(kafka_jars: Path) -> Iterator[None]:
    yield
    if re.search(rf"^{NODE} .* running", kafka("ls"), re.MULTILINE):
        kafka("kill", NODE)
    kafka("rm", NODE)


def registration(log: MetadataLog, directory_id: str) -> list[list[Record]]:
    """Return what a combined node appends when it starts, one append each."""
    features = [
        {"name": name, "minSupportedVersion": low, "maxSupportedVersion": high}
        for name, (low, high) in FEATURES.items()
    ]
    endpoint: dict[str, Any] = {"host": "127.0.0.1", "port": 9092, "securityProtocol": 0}
    epoch = log.next_offset + 1
    controller = {
        "controllerId": 1,
        "incarnationId": random_id(),
        "endPoints": [{**endpoint, "name": "CONTROLLER"}],
        "features": features,
    }
    broker = {
        "brokerId": 1,
        "incarnationId": random_id(),
        "brokerEpoch": epoch,
        "endPoints": [{**endpoint, "name": "PLAINTEXT"}],
        "features": features,
        "logDirs": [directory_id],
        "fenced": True,
    }
    return [
        [("RegisterControllerRecord", 0, controller)],
        [("RegisterBrokerRecord", 4, broker)],
        [("BrokerRegistrationChangeRecord", 0, {"brokerId": 1, "brokerEpoch": epoch, "fenced": -1})],
    ]


def quota(user: str, rate: float) -> Record:
    entity = [{"entityType": "user", "entityName": user}]
    return "ClientQuotaRecord", 0, {"entity": entity, "key": "producer_byte_rate", "value": rate, "remove": False}


async def write_cluster(log: MetadataLog, directory_id: str, ids: dict[str, str]) -> None:
    """Topics, configurations, quotas and producer ids; some of them below a snapshot, some above."""
    for records in registration(log, directory_id):
        await log.append(records)
    await log.append(
        [*topic_records("first", ids["first"], directory_id, 3), config("retention.ms", "777000", "first")]
    )
    await log.append(topic_records("doomed", ids["doomed"], directory_id))
    await log.append([("ProducerIdsRecord", 0, {"brokerId": 1, "brokerEpoch": 11, "nextProducerId": 3000})])
    await log.take_snapshot()
    await log.append([quota("alice", 1234.0)])
    await log.append([("RemoveTopicRecord", 0, {"topicId": ids["doomed"]})])
    await log.append(topic_records("second", ids["second"], directory_id, 40))  # more than a batch holds here
    await log.append([config("cleanup.policy", "compact", "second")])


def check_cluster(node: Node, ids: dict[str, str]) -> None:
    """Kafka's tools see all of it."""
    topics = node.ask("topics", "--describe")
    found = dict(re.findall(r"^Topic: (\S+)\s+TopicId: (\S+)", topics, re.MULTILINE))
    assert found == {name: ids[name] for name in ("first", "second")}
    assert [len(re.findall(rf"\sTopic: {name}\s+Partition: ", topics)) for name in found] in ([3, 40], [40, 3])
    assert set(re.findall(r"Leader: (\S+)", topics)) == {"1"}
    configs = dict(re.findall(r"^Topic: (\S+)\s.*Configs: (\S+)", topics, re.MULTILINE))
    assert "retention.ms=777000" in configs["first"]
    assert "cleanup.policy=compact" in configs["second"]
    assert all("min.insync.replicas=1" in each for each in configs.values())
    assert "'alice' are producer_byte_rate=1234.0" in node.ask("configs", "--describe", "--entity-type", "users")
    levels = kafka("features", "--bootstrap-server", node.address, "describe")
    features = dict(re.findall(r"Feature: (\S+).*FinalizedVersionLevel: (\S+)", levels))
    assert features["metadata.version"] == "4.3-IV0"
    assert features["transaction.version"] == "2"


@pytest.mark.parametrize("how", ["clean", "crash"])
def test_kafka_goes_on_with_our_metadata_and_we_with_kafkas(tmp_path: Path, how: str) -> None:
    directory, ids = tmp_path / "d", {name: random_id() for name in ("first", "second", "doomed")}
    found = format_directories([directory], now_ms=int(time.time() * 1000), cluster_id=CLUSTER_ID)

    async def write() -> Path:
        log = open_metadata(directory, clock=Clock(), batch_bytes_max=1500)
        await write_cluster(log, found.directory_ids[directory], ids)
        if how == "clean":
            await log.close()
            return directory
        copy = crash_copy(directory, tmp_path / "copy")
        await log.close()
        return copy

    node = Node(asyncio.run(write()), "metadata.log.max.record.bytes.between.snapshots=1500")
    check_cluster(node, ids)
    node.ask("topics", "--create", "--topic", "third", "--partitions", "2", "--config", "segment.ms=5000")
    node.ask("topics", "--delete", "--topic", "second")
    node.ask("producer", "--topic", "first", stdin="from kafka\n")
    theirs = node.stop(tmp_path / "theirs")
    assert not node.complaints()
    check_what_kafka_wrote(theirs, tmp_path, ids)


def check_what_kafka_wrote(directory: Path, tmp_path: Path, ids: dict[str, str]) -> None:
    log = open_metadata(directory, clock=Clock())
    assert log.epoch == 3
    assert len(log.snapshots) > 1, "Kafka made some of its own"
    assert log.image.topics.keys() == {"first", "third"}
    assert log.image.topics["first"].id.bytes == uuid_of(ids["first"])
    assert dict(log.image.topic_configs("third")) == {"segment.ms": "5000"}
    assert log.image.next_producer_id == 4000  # Kafka took the next block of ids
    assert list(log.image.client_quotas.values()) == [{"producer_byte_rate": 1234.0}]

    async def go_on() -> None:
        await log.append([config("retention.ms", "888000", "third")])
        await log.close()

    asyncio.run(go_on())
    node = Node(directory)
    third = node.ask("configs", "--describe", "--entity-type", "topics", "--entity-name", "third")
    assert "retention.ms=888000" in third
    assert "segment.ms=5000" in third
    node.stop(tmp_path / "last")
    assert not node.complaints()


def uuid_of(text: str) -> bytes:
    from formats.message import uuid_bytes

    return uuid_bytes(text)


def taken_over(directory: Path) -> MetadataImage:
    """Return the image after kcli has started on a directory, written, made a snapshot and stopped."""

    async def scenario() -> MetadataImage:
        log = open_metadata(directory, clock=Clock())
        await log.append([quota("kcli", 5.0)])
        await log.take_snapshot()
        await log.close()
        kept = image_of_snapshot(log.log.directory / log.snapshots[-1].file_name)
        assert state(kept) == state(log.image)
        return log.image

    return asyncio.run(scenario())


def described(node: Node) -> set[tuple[str, str, str]]:
    return topics_in(node.ask("topics", "--describe"))


def topics_in(text: str) -> set[tuple[str, str, str]]:
    return set(re.findall(r"Topic: (\S+)\s+TopicId: (\S+)\s+PartitionCount: (\d+)", text))


@pytest.mark.parametrize("name", ["controller-100", "broker-3"])
def test_kafka_goes_on_after_we_took_over_a_node_of_a_quorum(tmp_path: Path, name: str) -> None:
    directory = golden_copy(f"kraft/{name}", tmp_path)
    image = taken_over(directory)
    node = Node(directory)
    expected = topics_in((GOLDEN / "kraft/expected/topics-describe.txt").read_text())
    assert described(node) == expected
    assert {(each[0], each[2]) for each in expected} == {
        (topic.name, str(len(topic.partitions))) for topic in image.topics.values()
    }
    assert "'kcli' are producer_byte_rate=5.0" in node.ask("configs", "--describe", "--entity-type", "users")
    theirs = node.stop(tmp_path / "theirs")
    again = open_metadata(theirs, clock=Clock())
    assert again.image.topics.keys() == image.topics.keys()
    assert again.image.acls == image.acls
    assert again.image.scram_credentials == image.scram_credentials


def test_a_quorum_in_the_log_goes_to_us_and_back(tmp_path: Path) -> None:
    directory = golden_copy("kraft/dynamic-quorum", tmp_path)
    image = taken_over(directory)
    node = Node(directory, *DYNAMIC)
    assert described(node) == topics_in((GOLDEN / "kraft/expected/dynamic-topics-describe.txt").read_text())
    status = kafka("metadata-quorum", "--bootstrap-server", node.address, "describe", "--status")
    assert re.search(r"LeaderEpoch:\s+3\b", status)
    assert re.search(r'CurrentVoters:\s+\[\{"id": ?1', status)
    theirs = node.stop(tmp_path / "theirs")
    assert not node.complaints()
    again = open_metadata(theirs, clock=Clock())
    assert again.image.topics.keys() == image.topics.keys()
    assert again.epoch == 4


def test_a_quorum_that_kafka_formatted_starts_with_us(tmp_path: Path) -> None:
    """kafka-storage format --standalone, then kcli, then Kafka."""
    directory = tmp_path / "d"
    properties = tmp_path / "server.properties"
    properties.write_text(
        "process.roles=broker,controller\nnode.id=4\ncontroller.quorum.bootstrap.servers=127.0.0.1:9093\n"
        "listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093\ncontroller.listener.names=CONTROLLER\n"
        f"log.dirs={directory}\n"
    )
    kafka("format", "format", "-t", CLUSTER_ID, "-c", str(properties), "--standalone")
    taken_over(directory)
    node = Node(directory, *DYNAMIC)
    assert "'kcli' are producer_byte_rate=5.0" in node.ask("configs", "--describe", "--entity-type", "users")
    theirs = node.stop(tmp_path / "theirs")
    assert not node.complaints()
    log = open_metadata(theirs, clock=Clock())
    voters = [voter["voterId"] for voter in log.quorum.voters]
    assert (log.epoch, log.quorum.kraft_version, voters) == (3, 1, [4])
    assert (theirs / METADATA_DIRECTORY / "00000000000000000000-0000000000.checkpoint").exists()


def test_kafkas_dump_reads_what_we_write(kafka_dump: Any, tmp_path: Path) -> None:
    directory, ids = tmp_path / "d", {name: random_id() for name in ("first", "second", "doomed")}

    async def write() -> None:
        log = open_metadata(directory, clock=Clock(), batch_bytes_max=1500)
        found = format_directories([directory], now_ms=0)
        await write_cluster(log, found.directory_ids[directory], ids)
        await log.close()

    asyncio.run(write())
    for path in [*(directory / METADATA_DIRECTORY).glob("0*.log"), *directory.rglob("*.checkpoint")]:
        output = kafka_dump(["--cluster-metadata-decoder", "--files", path.name], cwd=path.parent)
        assert (output.exit, output.stderr) == (0, "")
        assert "isvalid: false" not in output.stdout
        assert "Could not decode" not in output.stdout
