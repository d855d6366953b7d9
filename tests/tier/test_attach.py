"""kcli tier attach: a topic of which only the tier is left becomes one of another cluster, whole or not at all.

tests/interop/test_attach_kafka.py starts real Kafka on such a cluster.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from formats.batch_writer import write_batch
from formats.checkpoint import EpochEntry, build_leader_epochs, parse_leader_epochs
from formats.file_name import FileKind
from formats.quorum_state import QuorumState, build
from kcli.broker.metadata.format import format_directories
from kcli.broker.tiering.attach import attach, plan_attaching
from kcli.inspector.tier import Orphans, TierVerification
from kcli.log.disk import Disk
from kcli.log.log_directory import DirectoryLock, LogDirectory
from kcli.log.partition_view import PartitionView
from kcli.log.stored_batches import read_batches
from kcli.metadata.image import MetadataImage
from kcli.metadata.partition import from_uuid
from kcli.metadata_log.replay import refuse, replay
from kcli.protocol.topic_partition import TopicPartition
from kcli.tier.attachment import attachment
from kcli.tier.local import LocalStore
from kcli.tier.metadata_log import read_metadata_log
from kcli.tier.segment import SegmentState
from kcli.tier.tier import Tier, chosen
from tests.broker.cluster import wait_for
from tests.broker.running import running_node
from tests.cli.run import Ended, kcli
from tests.conftest import files_below
from tests.interop.test_restore_kafka import consumed, wanted
from tests.log.batches import keyed
from tests.tier.records import PARTITION
from tests.tier.stores import TIERED, changed, flip
from tests.tier.worlds import make

CLUSTER = "MkU3OEVBNTcwNTJENDM2Qg"
NOW_MS = 1_795_000_000_000
SHORT_ID = "KlEWaF5xTFCF8vBhf0Z2Xg"


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """The log directory of a new node."""
    path = tmp_path / "node"
    path.mkdir()
    format_directories([path], now_ms=NOW_MS, node_id=1, cluster_id=CLUSTER)
    return path


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return Path(shutil.copytree(TIERED / "remote", tmp_path / "store"))


def run(node: Path, store: Path, *words: str, topic: str = "r-short") -> Ended:
    return kcli("tier", "attach", node, "--tier", store, "--topic", topic, "--metadata-partitions", "3", *words)


def image_of(node: Path) -> MetadataImage:
    directory = node / "__cluster_metadata-0"
    return replay(directory, PartitionView(directory).original, refuse, around_damage=False)


def sound(node: Path) -> bool:
    """Whether `kcli verify` finds no fault."""
    ended = kcli("verify", node)
    assert (ended.status, ended.stderr) == (0, ""), ended.stdout
    return True


def test_a_dry_run_changes_nothing(node: Path, store: Path) -> None:
    before = files_below(node), files_below(store)
    ended = run(node, store)
    assert (ended.status, ended.stderr) == (0, "")
    assert (files_below(node), files_below(store)) == before
    first, *_ = ended.stdout.splitlines()
    assert first == "r-short-0  7 segments, 37.3 kB, offsets 0..253, 14 records for __remote_log_metadata-0"
    assert "retention.ms=-1" in ended.stdout
    assert ended.stdout.splitlines()[-1] == "Nothing is changed: --in-place does it."


def test_what_is_attached(node: Path, store: Path) -> None:
    before = files_below(store)
    assert run(node, store, "--in-place", "-o", "local.retention.ms=1000").status == 0
    assert files_below(store) == before
    image = image_of(node)
    topic = image.topics["r-short"]
    assert from_uuid(topic.id) == SHORT_ID
    assert [(each.leader, each.leader_epoch, each.isr) for each in topic.partitions.values()] == [(1, 1, (1,))] * 2
    configs = {"remote.storage.enable": "true", "retention.ms": "-1", "retention.bytes": "-1"}
    assert image.topic_configs("r-short") == configs | {"local.retention.ms": "1000"}
    assert len(image.topics["__remote_log_metadata"].partitions) == 3
    assert image.next_producer_id == 1_000, "no new producer is taken for one of the log"
    home = LogDirectory(node)
    assert home.offsets(FileKind.LOG_START_OFFSETS) == {("r-short", 0): 0, ("r-short", 1): 0}
    assert home.offsets(FileKind.REPLICATION_OFFSETS)[TopicPartition("r-short", 1)] == 282
    epochs = parse_leader_epochs((node / "r-short-0/leader-epoch-checkpoint").read_bytes())
    assert [tuple(each) for each in epochs] == [(0, 0)]
    tier = Tier.read(LocalStore(store), node, "r-short")
    assert [each for each in TierVerification(tier).findings() if each.severity != "info"] == []
    assert [each.kind for each in Orphans(tier).findings() if each.severity != "info"] == []
    assert sound(node)


def test_again_there_is_nothing_left_to_do(node: Path, store: Path) -> None:
    assert run(node, store, "--in-place").status == 0
    assert run(node, store, "--in-place", topic="r-keep").status == 0
    before = image_of(node).topics
    ended = run(node, store, "--in-place", "--format", "jsonl")
    assert [json.loads(line)["records"] for line in ended.stdout.splitlines()] == [0, 0]
    assert image_of(node).topics == before


def test_lost_records_are_written_again(node: Path, store: Path) -> None:
    assert run(node, store, "--in-place").status == 0
    for path in node.glob("__remote_log_metadata-*"):
        shutil.rmtree(path)
    ended = run(node, store, "--in-place")
    assert (ended.status, ended.stdout.count("14 records")) == (0, 2)
    states = [each.state for each in read_metadata_log(node).metadata.caches.popitem()[1].segments()]
    assert states == [SegmentState.COPY_SEGMENT_FINISHED] * 7


def test_a_log_that_has_moved_on_gets_no_records(node: Path, store: Path) -> None:
    """Kafka deletes from the tier what is in front of its log start offset, or out of the lineage: as a leader that has
    run without the metadata has moved both."""
    assert run(node, store, "--in-place").status == 0
    for path in node.glob("__remote_log_metadata-*"):
        shutil.rmtree(path)
    epochs = node / "r-short-0/leader-epoch-checkpoint"
    whole = epochs.read_bytes()
    epochs.write_bytes(b"0\n1\n2 254\n")
    ended = run(node, store, "--in-place")
    assert (ended.status, "brokers would delete segments" in ended.stderr) == (1, True)
    epochs.write_bytes(whole)
    LogDirectory(node).write_offsets(Disk(), FileKind.LOG_START_OFFSETS, {TopicPartition("r-short", 0): 254})
    ended = run(node, store, "--in-place")
    assert (ended.status, "log start offset is 254" in ended.stderr) == (1, True)
    LogDirectory(node).write_offsets(Disk(), FileKind.LOG_START_OFFSETS, {})
    assert run(node, store, "--in-place").status == 0


@pytest.mark.parametrize("failing", [1, 2, 5, 10, 14, 20, 30, 37])
def test_a_failure_at_any_step(node: Path, store: Path, failing: int) -> None:
    """The cluster does not know the topic before all of it is there, and the command goes on where it ended."""

    class Failing(Disk):
        left = failing

        def write_file(self, path: Path, data: bytes) -> None:
            self._count()
            super().write_file(path, data)

        def sync_directory(self, path: Path) -> None:
            self._count()
            super().sync_directory(path)

        def _count(self) -> None:
            Failing.left -= 1
            if Failing.left == 0:
                raise OSError(5, "Input/output error")

    tier = Tier.read(LocalStore(store), None, "r-short")
    attachments = [attachment(tier, each) for each in chosen(tier.partitions, "r-short", None)]
    plan = plan_attaching(node, attachments, configs={}, count=3, now_ms=NOW_MS)
    try:
        attach(plan, disk=Failing(), now_ms=NOW_MS)
    except OSError:
        if (node / "__cluster_metadata-0").exists() and "r-short" in image_of(node).topics:
            assert Tier.read(LocalStore(store), node, "r-short").partitions[0].has_metadata
    ended = run(node, store, "--in-place")
    assert ended.status == 0, ended.stderr
    log = read_metadata_log(node)
    assert [each for each in log.troubles if each.kind == "refused"] == [], "no record is there twice"
    assert sum(len(each.segments()) for each in log.metadata.caches.values()) == 14
    assert sound(node)


def test_what_is_not_attached(node: Path, store: Path) -> None:
    def refused(reason: str, **options: str) -> None:
        before = files_below(node)
        ended = run(node, store, "--in-place", **options)
        assert (ended.status, reason in ended.stderr) == (1, True), ended.stderr
        assert ended.stdout.endswith("Nothing is changed.\n")
        assert files_below(node) == before

    (lost,) = store.rglob("00000000000000000172-*.index")
    data = lost.read_bytes()
    lost.unlink()
    refused("index is missing")
    lost.write_bytes(data)
    (lost,) = store.rglob("00000000000000000090-*.log")
    moved = lost.rename(store / "away")
    refused("no segment has offsets 90..165")
    moved.rename(lost)
    assert run(node, store, "--in-place", topic="r-keep").status == 0
    (node / "r-short-0").mkdir()
    (node / "r-short-0/00000000000000000000.log").write_bytes(b"records")
    refused("is there already")
    shutil.rmtree(node / "r-short-0")
    for each in list(store.rglob("r-keep-0-*")):
        each.rename(each.with_name("r-keep-0-AAAAAAAAAAAAAAAAAAAAfw"))
    refused("the cluster has another r-keep, with topic id", topic="r-keep")


def cut_to_batches(log: Path, count: int) -> None:
    rows = [row for row, _ in read_batches(log)]
    os.truncate(log, rows[count].position)


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda log: os.truncate(log, 50), "offsets from 269 on would be missing: {}: 50 bytes without a batch"),
        (lambda log: os.truncate(log, 0), "offsets from 269 on would be missing: {}: 0 bytes without a batch"),
        (Path.unlink, "offsets from 269 on would be missing: {}: no such object"),
        (lambda log: cut_to_batches(log, 2), "{}: the end is cut off: its indexes have offset 28"),
        (lambda log: os.truncate(log, log.stat().st_size - 1), "{}: the end is cut off: its indexes have offset 28"),
        (lambda log: flip(log, 60), "{}: byte 0: a damaged batch"),
        (lambda log: flip(log, log.stat().st_size - 1), ": a damaged batch"),
    ],
)
def test_a_damaged_last_segment(node: Path, store: Path, damage: Callable[[Path], object], reason: str) -> None:
    """The log would begin where the segments end whose batches can be read, and nobody would miss the others."""
    (last,) = store.rglob("r-short-1-*/00000000000000000269-*.log")
    damage(last)
    before = files_below(node)
    ended = run(node, store, "--in-place")
    assert (ended.status, reason.format(last) in ended.stderr) == (1, True), ended.stderr
    assert ended.stdout.endswith("Nothing is changed.\n")
    assert files_below(node) == before


@pytest.mark.parametrize("entries", [[(2**31 - 1, 0)], [(5, 0)], [(0, 0), (1, 100)], [(0, 1_000)], [(0, 253)], None])
def test_a_checkpoint_of_other_epochs(node: Path, store: Path, entries: list[tuple[int, int]] | None) -> None:
    """Followers take their leader epochs from it, and by the last one segments would be left out."""
    (checkpoint,) = store.rglob("r-short-0-*/00000000000000000253-*.leader_epoch_checkpoint")
    checkpoint.write_bytes(b"x" if entries is None else build_leader_epochs([EpochEntry(*each) for each in entries]))
    before = files_below(node)
    ended = run(node, store, "--in-place")
    reason = "leader_epoch_checkpoint does not have the leader epochs of the segment's batches"
    if entries == [(0, 253)]:
        assert ended.stderr.count("its leader epochs are 0 from") == 6, "each segment that would be left out"
        reason = "offsets 172..252 would be missing"
    assert (ended.status, reason in ended.stderr) == (1, True), ended.stderr
    assert files_below(node) == before


def test_a_log_that_is_too_large(node: Path, store: Path) -> None:
    """No record can have its size."""
    (log,) = store.rglob("r-short-0-*/00000000000000000172-*.log")
    os.truncate(log, 3 << 30)
    before = files_below(node)
    for words in ((), ("--in-place",)):
        ended = run(node, store, *words)
        assert ended.status == 1
        assert f"{log.name}: 3,221,225,472 bytes, and Kafka opens no segment of more" in ended.stderr
    assert files_below(node) == before


@pytest.mark.parametrize("epoch", [2**31 - 1, 2**31 - 2, 2**30 + 1])
def test_a_leader_epoch_that_none_can_follow(node: Path, store: Path, epoch: int) -> None:
    home = next(store.rglob("r-short-0-*"))
    with changed(next(home.glob("00000000000000000253-*.log"))) as data:
        data[12:16] = epoch.to_bytes(4)
    checkpoint = build_leader_epochs([EpochEntry(0, 0), EpochEntry(epoch, 253)])
    next(home.glob("00000000000000000253-*.leader_epoch_checkpoint")).write_bytes(checkpoint)
    before = files_below(node)
    for words in ((), ("--in-place",)):
        ended = run(node, store, *words)
        assert (ended.status, f"leader epoch {epoch:,}: no log has had as many" in ended.stderr) == (1, True)
    assert files_below(node) == before


def test_more_leader_epochs_than_brokers_take(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a segment with more than 10,000, kcli drops the records."""
    home = next(store.rglob("r-short-0-*"))
    log = next(home.glob("00000000000000000172-*.log"))
    entries = [EpochEntry(each, 0 if not each else 172 + each) for each in range(20)]
    batches = (keyed(None, b"value", base_offset=172 + each, leader_epoch=each) for each in range(20))
    log.write_bytes(b"".join(batches))
    for path in home.glob("00000000000000000253-*"):
        path.unlink()
    next(home.glob("00000000000000000172-*.leader_epoch_checkpoint")).write_bytes(build_leader_epochs(entries))
    for kind in ("index", "timeindex", "txnindex"):
        next(home.glob(f"00000000000000000172-*.{kind}")).write_bytes(b"")
    monkeypatch.setattr("kcli.tier.metadata.LEADER_EPOCHS_MAX", 10)
    tier = Tier.read(LocalStore(store), None, "r-short")
    (trouble,) = attachment(tier, chosen(tier.partitions, "r-short", None)[0]).troubles
    assert trouble.startswith("brokers would not take the records of its segments: ")
    assert trouble.endswith("has 20 leader epochs")


def can_read(address: str) -> bool:
    """Whether the broker reads from the tier."""
    try:
        return bool(consumed(address, ["r-short"], "read_uncommitted"))
    except AssertionError:
        return False


def test_kcli_goes_on_behind_the_tier(tmp_path: Path, store: Path) -> None:
    """And reads what is in the tier."""
    node = tmp_path / "data"
    with running_node(node):
        pass
    assert run(node, store, "--in-place").status == 0
    options = {
        "remote_log_storage_system_enable": "true",
        "remote_log_storage_manager_class_name": "org.apache.kafka.server.log.remote.storage.LocalTieredStorage",
        "rsm_config_dir": str(store),
        "rlmm_config_remote_log_metadata_topic_num_partitions": "3",
        "rlmm_config_remote_log_metadata_topic_replication_factor": "1",
    }
    with running_node(node, None, **options) as started, started.client() as client:
        wait_for(lambda: can_read(started.bootstrap), "the metadata topic is read")
        found = consumed(started.bootstrap, ["r-short"], "read_uncommitted")["r-short"]
        whole = wanted(TIERED / "expected/truth/r-short.jsonl.gz")
        assert found == [each for each in whole if each["offset"] < (254, 282)[each["partition"]]]
        for timestamp, expected in ((-2, [0, 0]), (-4, [254, 282]), (-1, [254, 282])):
            asked = [{"partition_index": each, "current_leader_epoch": -1, "timestamp": timestamp} for each in (0, 1)]
            topics = [{"name": "r-short", "partitions": asked}]
            answer = client.call("list_offsets", 9, replica_id=-1, isolation_level=0, topics=topics)
            assert [each["offset"] for each in answer["topics"][0]["partitions"]] == expected, timestamp
        data = bytes(write_batch([(b"k", b"v")], NOW_MS))
        sent = [{"name": "r-short", "partition_data": [{"index": 1, "records": data}]}]
        answer = client.call("produce", 9, transactional_id=None, acks=-1, timeout=5_000, topic_data=sent)
        assert answer["responses"][0]["partition_responses"][0]["base_offset"] == 282
        epoch = started.node.broker.image.topics["r-short"].partitions[1].leader_epoch
    epochs = parse_leader_epochs((node / "r-short-1/leader-epoch-checkpoint").read_bytes())
    assert [tuple(each) for each in epochs] == [(0, 0), (epoch, 282)]


def test_a_node_of_several_voters(node: Path, store: Path) -> None:
    state = QuorumState(0, -1, 3, -1, cluster_id="", applied_offset=0, current_voters=(1, 2, 3))
    assert run(node, store, "--in-place", topic="r-keep").status == 0
    (node / "__cluster_metadata-0/quorum-state").write_bytes(build(state))
    ended = run(node, store, "--in-place")
    assert (ended.status, "other controllers have its metadata log, too: 2, 3" in ended.stderr) == (1, True)


def test_usage(node: Path, store: Path, tmp_path: Path) -> None:
    assert run(node, store, "-o", "retention.ms=soon").status == 2
    ended = run(node, store, "--in-place", "-o", "remote.storage.enable=False")
    assert (ended.status, "remote.storage.enable must be true" in ended.stderr) == (2, True)
    assert run(node, store, topic="no-such").status == 2
    assert run(tmp_path, store).status == 2
    with DirectoryLock(Disk(), node):
        assert "in use" in run(node, store, "--in-place").stderr
    (node / FileKind.BOOTSTRAP).unlink()
    assert "no metadata log" in run(node, store, "--in-place").stderr


@pytest.mark.parametrize("seed", range(12))
def test_any_life_of_a_partition(tmp_path: Path, node: Path, seed: int) -> None:
    """Overlapping copies of several leaders: brokers read from the records what the tier has of the last lineage."""
    make(tmp_path / "world", seed)
    store = LocalStore(tmp_path / "world/tier")
    tier = Tier.read(store, None, PARTITION.topic)
    (each,) = chosen(tier.partitions, PARTITION.topic, None)
    found = attachment(tier, each)
    plan = plan_attaching(node, [found], configs={}, count=2, now_ms=NOW_MS)
    if plan.troubles:
        assert each.plan().gaps or all("missing" in trouble for trouble in plan.troubles), plan.troubles
        return
    attach(plan, disk=Disk(), now_ms=NOW_MS)
    (attached,) = Tier.read(store, node, PARTITION.topic).partitions
    assert attached.has_metadata
    ranges = [(part.first, part.last) for part in attached.plan().parts]
    assert [(part.first, part.last) for part in each.plan().parts] == ranges
    assert attached.plan().gaps == []
