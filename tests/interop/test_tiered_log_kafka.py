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
from random import Random
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Producer

from formats.checkpoint import parse_leader_epochs
from formats.file_name import FileKind
from formats.producer_snapshot import parse as parse_snapshot
from kcli.log.config import LogConfig
from kcli.log.disk import Disk
from kcli.log.live.partition_log import OffsetOutOfRange, OpenOptions, PartitionLog
from kcli.log.live.validator import Origin
from kcli.log.log_directory import LogDirectory
from kcli.protocol.topic_partition import TopicPartition
from kcli.tier.layout import object_name
from kcli.tier.local import LocalStore
from kcli.tier.segment import RemoteSegment
from kcli.tier.tier import PartitionTier, Tier
from tests.broker.running import Client
from tests.conftest import is_soak
from tests.interop.kit import Oracle, kafka
from tests.interop.test_tier_live_kafka import tiered_storage as tiered_storage  # noqa: PLC0414  (a fixture)
from tests.log.batches import NOW_MS, batch, marker

NODE = f"kcli-tiered-log-{os.getpid()}"
ORACLE = Path(__file__).with_name("TieredLogOracle.java")
PLAYS, SOAK_PLAYS = 100, 2000
HOUR_MS = 3_600_000
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


@pytest.fixture(scope="module")
def oracle(kafka_jars: Path) -> Iterator[Oracle]:
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"
    started = Oracle(kafka_jars, ORACLE, quiet, "-Dlog4j2.level=OFF")
    yield started
    started.close()


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


class Play(NamedTuple):
    """A closed log, and steps: a configuration, the log start offset in the checkpoint, and what is done to the open
    log."""

    directory: Path
    config: dict[str, str]
    log_start: int
    steps: list[list[Any]]


def play_of(seed: int, directory: Path) -> Play:
    """A log of random batches, producers, transactions and leader epochs, and random steps."""
    random = Random(seed)
    config = {
        "internal.segment.bytes": "700",
        "index.interval.bytes": "100",
        "segment.index.bytes": "4096",
        "cleanup.policy": random.choice(["delete", "delete", ""]),
        "remote.storage.enable": "true" if random.random() < 0.9 else "false",
        "retention.ms": "-1",
    }
    directory.mkdir(parents=True)
    log = PartitionLog(directory, Disk(), LogConfig(config), NOW_MS)
    epoch, time_ms, sequences = 0, NOW_MS, [0, 0, 0]
    for _ in range(random.randrange(4, 40)):
        epoch += random.random() < 0.2
        time_ms += random.randrange(-HOUR_MS, 3 * HOUR_MS)
        producer = random.randrange(-1, 3)
        values = [bytes(random.randrange(100))] * random.randrange(1, 4)
        more: dict[str, Any] = {}
        if producer >= 0:
            more = {"producer": (producer, 0), "sequence": sequences[producer], "transactional": producer == 2}
            sequences[producer] += len(values)
        log.append_as_leader(batch(*values, timestamp_ms=time_ms, **more), epoch, time_ms)
        if producer == 2 and random.random() < 0.8:
            ended = marker((2, 0), commit=random.random() < 0.5, timestamp_ms=time_ms)
            log.append_as_leader(ended, epoch, time_ms, origin=Origin.COORDINATOR)
    end = log.log_end_offset
    log.close(NOW_MS)
    steps: list[list[Any]] = [["high watermark", end if random.random() < 0.7 else random.randrange(end + 1)]]
    for _ in range(random.randrange(3, 12)):
        offset = random.randrange(end + 3)
        match random.randrange(10):
            case 0 | 1 | 2:
                steps.append(["tiered", offset])
            case 3 | 4 | 5:
                steps.append(["retain", time_ms + random.randrange(-10, 10) * HOUR_MS])
            case 6:
                steps.append([random.choice(["delete", "advance"]), offset])
            case 7:
                steps.append(random.choice([["high watermark", offset], ["truncate", random.randrange(end)]]))
            case 8 if random.random() < 0.3:
                steps.append(["fully", offset, random.randrange(offset + 1)])
            case _:
                steps.append(["configure", config | retention(random)])
    start = 0 if random.random() < 0.7 else random.randrange(end)
    return Play(directory, config | retention(random), start, steps)


def retention(random: Random) -> dict[str, str]:
    sizes, times = (0, 1, 500, 1500, 5000), (0, 1, 5 * HOUR_MS, 20 * HOUR_MS)
    found = {"remote.log.copy.disable": "true" if random.random() < 0.2 else "false"}
    for name, values in {"bytes": sizes, "ms": times}.items():
        found[f"retention.{name}"] = str(random.choice([-1, random.choice(values)]))
        found[f"local.retention.{name}"] = str(random.choice([-2, -1, random.choice(values)]))
    return found


def state_of(log: PartitionLog, error: str) -> dict[str, Any]:
    special = [log.offset_for_timestamp(each) for each in (-2, -4, -1, -5, -6)]
    return {
        "error": error,
        "tiered": log.is_tiered,
        "offsets": [
            log.log_start_offset,
            log.local_log_start_offset,
            log.last_stable_offset,
            log.high_watermark,
            log.log_end_offset,
        ],
        "segments": [
            [each.base_offset, each.size, each.age_timestamp if each.size else -1] for each in log._segments.all
        ],
        "epochs": [list(each) for each in log.leader_epochs],
        "special": [[each.offset, each.leader_epoch] for each in special if each is not None],
        "snapshots": sorted(path.name for path in log.directory.glob("*.snapshot")),
    }


def played(play: Play) -> list[dict[str, Any]]:
    """The states of kcli's log, as the oracle answers."""
    options = OpenOptions(log_start_offset=play.log_start, may_be_tiered=True)
    log = PartitionLog(play.directory, Disk(), LogConfig(play.config), NOW_MS, options)
    states = [state_of(log, "")]
    for what, *values in play.steps:
        error = ""
        try:
            match what:
                case "high watermark":
                    log.update_high_watermark(*values)
                case "tiered":
                    log.update_highest_tiered(*values)
                case "delete":
                    log.delete_records(*values)
                case "advance":
                    log.advance_log_start(*values)
                case "truncate":
                    log.truncate_to(values[0], NOW_MS)
                case "fully":
                    log.truncate_fully_and_start_at(values[0], NOW_MS, log_start_offset=values[1])
                case "configure":
                    log.set_config(LogConfig(*values))
                case "retain":
                    log.delete_old_segments(*values)
        except OffsetOutOfRange:
            error = "out of range"
        states.append(state_of(log, error))
    log.close_handles()
    return states


@pytest.mark.hypothesis
def test_a_log_is_what_kafkas_is_after_each_step(oracle: Oracle, tmp_path: Path) -> None:
    deleted = 0
    for seed in range(SOAK_PLAYS if is_soak() else PLAYS):
        play = play_of(seed, tmp_path / f"{seed}" / "t-0")
        theirs_in = tmp_path / f"{seed}" / "kafka" / "t-0"
        shutil.copytree(play.directory, theirs_in)
        theirs = oracle.ask(
            "play",
            directory=str(theirs_in),
            config=play.config,
            log_start=play.log_start,
            now_ms=NOW_MS,
            system=True,
            steps=play.steps,
        )
        ours = played(play)
        for number, (mine, their) in enumerate(zip(ours, theirs, strict=True)):
            _, local_start, _, high_watermark, _ = their["offsets"]
            if local_start > high_watermark:
                break  # Kafka lets the high watermark, and even the log's end, lie below the local log start offset
            if ["truncate"] in [step[:1] for step in play.steps[:number]]:
                mine["offsets"][2] = their["offsets"][2]  # ended transactions above the high watermark, read anew
            assert mine == their, (seed, number, play.config, play.steps[:number])
            deleted += mine["tiered"] and mine["offsets"][0] < mine["segments"][0][0]
        shutil.rmtree(tmp_path / f"{seed}")
    assert deleted > PLAYS // 2, "the plays have local retention"
