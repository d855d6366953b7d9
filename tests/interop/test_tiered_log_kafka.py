"""A log with tiered storage, opened by kcli after a running Kafka has copied its segments, deleted some of them locally
and answered ListOffsets: the same offsets, the same local retention, and the same segments, files, leader epochs and
producer snapshots to copy."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from formats.checkpoint import parse_leader_epochs
from formats.file_name import FileKind
from formats.producer_snapshot import parse as parse_snapshot
from kcli.log.config import LogConfig
from kcli.log.disk import Disk
from kcli.log.live.partition_log import OpenOptions, PartitionLog
from kcli.log.log_directory import LogDirectory
from kcli.protocol.topic_partition import TopicPartition
from kcli.tier.layout import object_name
from kcli.tier.local import LocalStore
from kcli.tier.segment import RemoteSegment
from kcli.tier.tier import PartitionTier, Tier
from tests.broker.running import Client
from tests.interop.kit import kafka
from tests.interop.test_tier_live_kafka import tiered_storage as tiered_storage  # noqa: PLC0414  (a fixture)

NODE = f"kcli-tiered-log-{os.getpid()}"
WAIT_S = 60.0
TIERED = {"remote.storage.enable": "true", "internal.segment.bytes": "8000"}
TOPICS = {
    "kept": TIERED,
    "short": TIERED | {"local.retention.bytes": "20000", "retention.bytes": "1000000000"},
    "none": TIERED | {"local.retention.ms": "100", "retention.ms": "1000000000"},
    "cut": TIERED | {"local.retention.ms": "100", "retention.ms": "1000000000"},
    "empty": TIERED,
    "plain": {"internal.segment.bytes": "8000"},
}
FILLED = ("kept", "short", "none", "cut", "plain")
DELETED_BELOW = 130
SPECIAL = range(-6, 0)
Answer = tuple[int, int, int, int]


class Live:
    """A running Kafka with tiered storage. answers: (topic, timestamp, replica id) -> error code, timestamp, offset and
    leader epoch in the answer to ListOffsets."""

    def __init__(self, store: Path) -> None:
        self.store = store
        self.address = ""
        self.answers: dict[tuple[str, int, int], Answer] = {}

    def start(self) -> None:
        settings = {
            "remote.log.storage.system.enable": "true",
            "remote.log.storage.manager.class.name": "org.apache.kafka.server.log.remote.storage.LocalTieredStorage",
            "rsm.config.dir": str(self.store),
            "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
            "rlmm.config.remote.log.metadata.topic.min.isr": "1",
            "rlmm.config.remote.log.metadata.topic.num.partitions": "3",
            "remote.log.metadata.manager.listener.name": "PLAINTEXT",
            "remote.log.manager.task.interval.ms": "300",
            "log.retention.check.interval.ms": "300",
            "log.initial.task.delay.ms": "300",
        }
        printed = kafka("start", NODE, *(f"{name}={value}" for name, value in settings.items()))
        self.address = printed.strip().splitlines()[-1]

    def client(self) -> Client:
        host, _, port = self.address.rpartition(":")
        return Client((host, int(port)))

    @property
    def data(self) -> Path:
        return Path(kafka("dir", NODE).strip())

    def produce(self, topic: str, begin: int) -> None:
        """Records in small batches, one of four hundreds in a transaction that is aborted."""
        producer = Producer(
            {
                "bootstrap.servers": self.address,
                "batch.size": 800,
                "linger.ms": 5,
                "transactional.id": f"{topic}-{begin}",
            }
        )
        producer.init_transactions(30)
        for hundred in range(begin, begin + 400, 100):
            producer.begin_transaction()
            for number in range(hundred, hundred + 100):
                producer.produce(topic, key=f"{number}", value=f"value-{number}-{'x' * 60}", partition=0)
            producer.flush(30)
            (producer.abort_transaction if hundred % 400 == 100 else producer.commit_transaction)(30)

    def wait(self, what: Callable[[], bool]) -> None:
        deadline = time.monotonic() + WAIT_S
        while not what():
            assert time.monotonic() < deadline, kafka("log", NODE)[-2000:]
            time.sleep(0.2)

    def ask(self, topic: str, timestamp: int, replica_id: int = -1) -> Answer:
        partition = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": timestamp}
        topics = [{"name": topic, "partitions": [partition]}]
        with self.client() as client:
            answer = client.call(
                "list_offsets", 11, replica_id=replica_id, isolation_level=0, topics=topics, timeout=10_000
            )
        found = answer["topics"][0]["partitions"][0]
        return found["error_code"], found["timestamp"], found["offset"], found["leader_epoch"]

    def ask_all(self) -> None:
        for topic in TOPICS:
            for timestamp in SPECIAL:
                for replica_id in (-1, -2):
                    self.answers[topic, timestamp, replica_id] = self.ask(topic, timestamp, replica_id)

    def tier(self, topic: str) -> PartitionTier:
        tier = Tier.read(LocalStore(self.store), self.data)
        (found,) = [each for each in tier.partitions if each.partition.topic == topic]
        return found

    def is_settled(self) -> bool:
        """Whether all but the active segments are copied, and local retention has come to its end."""
        for topic in FILLED[:-1]:
            bases = sorted(int(path.stem) for path in (self.data / f"{topic}-0").glob("*.log"))
            if self.ask(topic, -5)[2] != bases[-1] - 1:
                return False
            if topic in ("none", "cut") and len(bases) > 1:
                return False
        return sum(path.stat().st_size for path in (self.data / "short-0").glob("*.log")) < 28_000


@pytest.fixture(scope="module")
def live(tiered_storage: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """Kafka, stopped in order after it has answered."""
    store = tmp_path_factory.mktemp("tiered") / "store"
    store.mkdir()
    node = Live(store)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KAFKA_CLASSPATH", tiered_storage)
        try:
            node.start()
            with node.client() as client:
                for topic, configs in TOPICS.items():
                    client.create_topic(topic, 1, configs)
            for topic in FILLED:
                node.produce(topic, 0)
            kafka("stop", NODE)
            node.start()
            for topic in FILLED:
                node.produce(topic, 400)
            node.wait(node.is_settled)
            wanted = {"partitions": [{"topic": "cut", "partition": 0, "offset": DELETED_BELOW}], "version": 1}
            (store.parent / "offsets.json").write_text(json.dumps(wanted))
            asked = ["--bootstrap-server", node.address, "--offset-json-file", str(store.parent / "offsets.json")]
            kafka("delete-records", *asked)
            node.wait(lambda: node.tier("cut").copied()[0].start_offset > 0)
            node.ask_all()
            kafka("stop", NODE)
            yield node
        finally:
            kafka("rm", NODE)


def opened(live: Live, topic: str, directory: Path, **changed: str) -> PartitionLog:
    """Open a copy of Kafka's log, with all of it replicated."""
    shutil.copytree(live.data / f"{topic}-0", directory)
    files, key = LogDirectory(live.data), TopicPartition(topic, 0)
    options = OpenOptions(
        recovery_point=files.offsets(FileKind.RECOVERY_POINTS)[key],
        log_start_offset=files.offsets(FileKind.LOG_START_OFFSETS).get(key, 0),
        high_watermark=files.offsets(FileKind.REPLICATION_OFFSETS)[key],
        may_be_tiered=True,
    )
    log = PartitionLog(directory, Disk(), LogConfig(TOPICS[topic] | changed), int(time.time() * 1000), options)
    if log.is_tiered and topic != "empty":
        log.update_highest_tiered(max(each.end_offset for each in live.tier(topic).copied()))
    return log


@pytest.mark.parametrize("topic", TOPICS)
def test_special_timestamps(live: Live, topic: str, tmp_path: Path) -> None:
    log = opened(live, topic, tmp_path / f"{topic}-0")
    log.start_epoch(live.answers[topic, -1, -1][3])  # as the leader, which has answered
    for timestamp in SPECIAL:
        found = log.offset_for_timestamp(timestamp)
        ours = (-1, -1, -1) if found is None else (found.timestamp, found.offset, found.leader_epoch)
        if found is not None and found.offset >= log.log_end_offset and timestamp in (-3, -5, -6):
            ours = -1, -1, -1
        for replica_id in (-1, -2):
            code, *theirs = live.answers[topic, timestamp, replica_id]
            assert (code, ours) == (0, tuple(theirs)), (topic, timestamp, replica_id)
    assert (log.first_base_offset > 0) is (topic in ("short", "none", "cut"))
    assert (log.log_start_offset == DELETED_BELOW) is (topic == "cut")


@pytest.mark.parametrize("topic", ["short", "none", "cut"])
def test_local_retention(live: Live, topic: str, tmp_path: Path) -> None:
    """Kafka's retention has come to its end: ours deletes nothing more."""
    log = opened(live, topic, tmp_path / f"{topic}-0")
    bases = log.base_offsets
    assert log.delete_old_segments(int(time.time() * 1000)) == []
    assert log.base_offsets == bases


def test_local_retention_of_what_kafka_has_kept(live: Live, tmp_path: Path) -> None:
    """`kept` has the same records as `short`, and all its segments."""
    kept, short = (opened(live, topic, tmp_path / f"{topic}-0") for topic in ("kept", "short"))
    kept.set_config(LogConfig(TOPICS["short"]))
    kept.delete_old_segments(int(time.time() * 1000))
    assert kept.first_base_offset > 0
    assert 20_000 <= kept.size < 28_000
    assert 20_000 <= short.size < 28_000
    assert kept.local_log_start_offset == kept.first_base_offset


def test_what_is_copied(live: Live, tmp_path: Path) -> None:
    """The closed segments of a log that Kafka has kept whole are, in all files and fields, what Kafka copied of it."""
    log = opened(live, "kept", tmp_path / "kept-0")
    tier, store = live.tier("kept"), LocalStore(live.store)
    theirs = sorted(tier.copied(), key=lambda each: each.start_offset)
    ours = log.closed_segments(0, log.last_stable_offset)
    assert len(ours) == len(theirs) > 8
    assert {len(each.leader_epochs) for each in theirs} == {1, 2}, "a segment with two epochs is among them"
    assert any(each.has_txn_index for each in theirs)

    def copied(segment: RemoteSegment, kind: FileKind) -> bytes:
        with store.as_file(object_name(segment.partition, segment.start_offset, segment.id, kind)) as path:
            return path.read_bytes()

    for mine, their in zip(ours, theirs, strict=True):
        assert (mine.base_offset, mine.next_offset - 1) == (their.start_offset, their.end_offset)
        assert (mine.size, mine.max_timestamp_ms) == (their.size, their.max_timestamp_ms)
        assert (mine.txn_index_path is not None) is their.has_txn_index
        assert log.epoch_starts(mine.base_offset, mine.next_offset) == their.leader_epochs
        assert log.epochs_to(mine.next_offset) == copied(their, FileKind.REMOTE_LEADER_EPOCHS)
        with mine.open() as files:
            assert files.log.read(mine.size) == copied(their, FileKind.LOG)
            assert files.offset_index.read() == copied(their, FileKind.OFFSET_INDEX)
            assert files.time_index.read() == copied(their, FileKind.TIME_INDEX)
            if files.txn_index is not None:
                assert files.txn_index.read() == copied(their, FileKind.TXN_INDEX)
            assert files.producer_snapshot is not None
            assert files.producer_snapshot.read() == copied(their, FileKind.PRODUCER_SNAPSHOT)


def test_a_follower_begins_with_what_kafka_copied(live: Live, tmp_path: Path) -> None:
    log = opened(live, "none", tmp_path / "none-0")
    last = max(live.tier("none").copied(), key=lambda each: each.start_offset)
    store = LocalStore(live.store)

    def copied(kind: FileKind) -> bytes:
        with store.as_file(object_name(last.partition, last.start_offset, last.id, kind)) as path:
            return path.read_bytes()

    epochs = parse_leader_epochs(copied(FileKind.REMOTE_LEADER_EPOCHS))
    snapshot = copied(FileKind.PRODUCER_SNAPSHOT)
    (tmp_path / "follower-0").mkdir()
    options = OpenOptions(may_be_tiered=True)
    config = LogConfig(TOPICS["none"])
    follower = PartitionLog(tmp_path / "follower-0", Disk(), config, int(time.time() * 1000), options)
    follower.start_from_tier(last.end_offset + 1, 0, epochs, snapshot, int(time.time() * 1000))
    assert follower.local_log_start_offset == log.local_log_start_offset == last.end_offset + 1
    assert follower.leader_epochs == tuple(each for each in log.leader_epochs if each.start_offset <= last.end_offset)
    (ours,) = (tmp_path / "follower-0").glob("*.snapshot")
    assert parse_snapshot(ours.read_bytes()).entries == parse_snapshot(snapshot).entries
