"""A broker's log manager from start to stop: directories, new and deleted partitions, failures, clean shutdowns."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from pathlib import Path
from uuid import UUID

import pytest

from formats.file_name import FileKind
from kcli.broker.log_dirs.checkpoints import previous_epoch
from kcli.broker.log_dirs.directories import LogDir, LogDirs, LogDirsRefused, open_log_dirs
from kcli.broker.partition.partitions import PartitionError
from kcli.log.disk import Disk
from kcli.log.live.partition_log import LogFailed
from kcli.log.log_directory import DirectoryLocked, LogDirectory
from kcli.metadata.image import MetadataImage
from kcli.metadata.partition import from_uuid
from kcli.protocol.error_code import ErrorCode
from tests.broker.log_dirs import TOPIC_ID, FailingDisk, Node, create_topic, golden_node, make_node, run
from tests.broker.metadata_dirs import golden_copy
from tests.broker.replication.brokers import until
from tests.log.batches import NOW_MS, batch

GOLDEN_NODES = ["codecs/data", "txn/data", "txn/data-tv0", "groups/data"]


def partition_dirs(path: Path) -> list[str]:
    return sorted(each.name for each in path.iterdir() if each.is_dir() and not each.name.startswith("__cluster"))


@pytest.mark.parametrize("name", GOLDEN_NODES)
def test_a_directory_of_kafka_is_opened_and_closed_as_it_was(tmp_path: Path, name: str) -> None:
    copy = golden_copy(name, tmp_path)
    files = LogDirectory(copy)
    before = {kind: files.offsets(kind) for kind in (FileKind.RECOVERY_POINTS, FileKind.REPLICATION_OFFSETS)}
    logs = {path: path.read_bytes() for path in copy.rglob("*.log")}
    node = golden_node(copy)

    async def check(node: Node) -> None:
        assert not (copy / ".kafka_cleanshutdown").exists()
        assert {each.key for each in node.logs.partitions} == set(before[FileKind.RECOVERY_POINTS])
        for each in node.logs.partitions:
            assert each.log.log_end_offset == each.log.high_watermark == before[FileKind.REPLICATION_OFFSETS][each.key]

    run(node, check)
    assert json.loads((copy / ".kafka_cleanshutdown").read_text()) == {"version": 0, "brokerEpoch": 7}
    assert {kind: files.offsets(kind) for kind in before} == before
    assert {path: path.read_bytes() for path in copy.rglob("*.log")} == logs


def test_a_crashed_directory_is_recovered(tmp_path: Path) -> None:
    copy = golden_copy("codecs/data", tmp_path)
    (copy / ".kafka_cleanshutdown").unlink()
    with (copy / "mixed-0" / max(each.name for each in (copy / "mixed-0").glob("*.log"))).open("ab") as log:
        log.write(b"torn")
    node = golden_node(copy)

    async def check(node: Node) -> None:
        assert node.partition("mixed").log.log_end_offset == 298

    run(node, check, stop=False)
    assert not (copy / ".kafka_cleanshutdown").exists()


def test_a_new_directory_is_formatted_and_a_partition_made_where_fewest_are(tmp_path: Path) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]

    async def check(node: Node) -> None:
        node.create_topic(partitions=4)
        assert [node.partition(number=i).directory for i in range(4)] == [*node.dirs.data, *node.dirs.data]
        appended = node.partition(number=3).append_as_leader(batch(b"at once"), NOW_MS)
        assert (appended.first_offset, node.partition(number=3).log.high_watermark) == (0, 1)
        metadata = (paths[1] / "t-3" / "partition.metadata").read_text()
        assert metadata == f"version: 0\ntopic_id: {from_uuid(TOPIC_ID)}"
        assert node.heard.assigned == [(TOPIC_ID, i, node.dirs.data[i % 2].id) for i in range(4)]
        await until(lambda: all(each.opened_log is not None for each in node.logs.partitions))

    run(make_node(paths), check)
    assert [partition_dirs(path) for path in paths] == [["t-0", "t-2"], ["t-1", "t-3"]]
    assert LogDirectory(paths[1]).offsets(FileKind.RECOVERY_POINTS) == {("t", 1): 0, ("t", 3): 1}
    again = open_log_dirs(paths, paths[0], 1, Disk())
    assert {each.id for each in again.data} == {each.id for each in again.data if each.id.int}
    again.unlock()


def test_a_stop_does_not_make_what_is_not_made_yet(tmp_path: Path) -> None:
    """The next start does."""
    image, first_is_made = MetadataImage(), threading.Event()

    class SlowDisk(Disk):
        def make_directory(self, path: Path) -> None:
            super().make_directory(path)
            first_is_made.set()
            time.sleep(0.05)

    async def create(node: Node) -> None:
        node.create_topic(partitions=500)
        assert await asyncio.to_thread(first_is_made.wait, 10)

    async def check(node: Node) -> None:
        assert all(each.opened_log is not None for each in node.logs.partitions)

    data = tmp_path / "data"
    run(make_node([data], image=image, disk=SlowDisk()), create)
    assert 0 < len(partition_dirs(data)) < 100
    run(make_node([data], image=image), check)
    assert len(partition_dirs(data)) == 500


def test_partitions_are_found_again_and_led_in_a_new_epoch(tmp_path: Path) -> None:
    image = MetadataImage()
    create_topic(image)

    async def append(node: Node) -> None:
        node.partition().append_as_leader(batch(b"one", b"two"), NOW_MS)

    async def check(node: Node) -> None:
        assert node.partition().log.log_end_offset == 2
        assert node.partition().log.offset_for_leader_epoch(1) == (-1, -1)
        node.apply("PartitionChangeRecord", partitionId=0, topicId=from_uuid(TOPIC_ID), leader=1)
        assert node.partition().leader_epoch == 1
        assert node.partition().log.offset_for_leader_epoch(1) == (1, 2)
        node.partition().append_as_leader(batch(b"three"), NOW_MS)
        assert node.partition().log.offset_for_leader_epoch(0) == (0, 2)

    run(make_node([tmp_path / "a"], image), append, stop=False)
    run(make_node([tmp_path / "a"], image), check)


def test_a_deleted_topic_is_renamed_then_removed_and_may_come_again(tmp_path: Path) -> None:
    path = tmp_path / "a"
    woken: list[int] = []

    async def check(node: Node) -> None:
        node.create_topic(partitions=3)
        old = node.partition()
        old.append_as_leader(batch(b"old"), NOW_MS)
        await until(lambda: all(each.opened_log for each in node.logs.partitions))
        old.watch(lambda: woken.append(1))
        node.apply("RemoveTopicRecord", topicId=from_uuid(TOPIC_ID))
        assert (node.logs.partitions.get("t", 0), woken) == (None, [1])
        assert old.check_leader_epoch() == ErrorCode.NOT_LEADER_OR_FOLLOWER
        other = UUID(int=TOPIC_ID.int + 1)
        node.create_topic(topic_id=other)
        assert node.partition().log.log_end_offset == 0
        await until(lambda: len([name for name in partition_dirs(path) if name.endswith("-delete")]) == 3)
        await until(lambda: partition_dirs(path) == ["t-0"])

    run(make_node([path], log_segment_delete_delay_ms="1500"), check)
    assert LogDirectory(path).offsets(FileKind.RECOVERY_POINTS) == {("t", 0): 0}


def test_a_crash_after_a_topic_came_again_leaves_no_offsets_of_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the next start would begin the new log at the old log start offset, and remove its records."""
    path = tmp_path / "a"
    other = UUID(int=TOPIC_ID.int + 1)

    async def come_again(node: Node) -> None:
        node.create_topic()
        for _ in range(3):
            node.partition().append_as_leader(batch(b"old"), NOW_MS)
        node.partition().delete_records(3)
        await node.logs.background.write_log_starts()
        assert LogDirectory(path).offsets(FileKind.LOG_START_OFFSETS) == {("t", 0): 3}
        monkeypatch.setattr(node.logs.background, "checkpoint_soon", lambda _: None)  # the crash comes first
        node.apply("RemoveTopicRecord", topicId=from_uuid(TOPIC_ID))
        node.create_topic(topic_id=other)
        node.partition().append_as_leader(batch(b"new"), NOW_MS)

    async def check(node: Node) -> None:
        log = node.partition().log
        assert (log.log_start_offset, log.log_end_offset) == (0, 1)

    node = make_node([path])
    run(node, come_again, stop=False)
    for kind in (FileKind.LOG_START_OFFSETS, FileKind.REPLICATION_OFFSETS, FileKind.RECOVERY_POINTS):
        assert LogDirectory(path).legible_offsets(kind) == {}
    run(make_node([path], node.image), check)


def test_topics_that_come_and_go_at_once_leave_nothing(tmp_path: Path) -> None:
    async def check(node: Node) -> None:
        for i in range(30):
            topic_id = UUID(int=(i + 1) << 64)
            node.create_topic(partitions=3, topic_id=topic_id)
            if i % 3 == 0:
                node.partition(number=1).append_as_leader(batch(b"one"), NOW_MS)
            node.apply("RemoveTopicRecord", topicId=from_uuid(topic_id))
        await until(lambda: not [name for name in partition_dirs(tmp_path / "a") if not name.endswith("-stray")])
        assert not partition_dirs(tmp_path / "a")
        assert not node.heard.failed

    run(make_node([tmp_path / "a"], log_segment_delete_delay_ms="1"), check)


def test_what_a_crash_left_to_delete_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "a"

    async def delete(node: Node) -> None:
        node.create_topic()
        node.partition().append_as_leader(batch(b"old"), NOW_MS)
        node.apply("RemoveTopicRecord", topicId=from_uuid(TOPIC_ID))
        await until(lambda: [name.endswith("-delete") for name in partition_dirs(path)] == [True])

    async def check(node: Node) -> None:
        await until(lambda: not partition_dirs(path))

    run(make_node([path]), delete, stop=False)
    run(make_node([path], log_segment_delete_delay_ms="1"), check)


def test_strays_are_set_aside(tmp_path: Path) -> None:
    copy = golden_copy("codecs/data", tmp_path)
    (copy / "java-lz4-0" / "partition.metadata").unlink()
    image = golden_node(copy)
    image.dirs.unlock()
    image.image.apply("RemoveTopicRecord", {"topicId": from_uuid(image.image.topics["mixed"].id)}, 10**6)
    node = make_node([copy], image.image)

    async def check(node: Node) -> None:
        assert node.logs.partitions.get("mixed", 0) is None
        assert node.partition("java-lz4").log.log_end_offset == 0

    run(node, check)
    strays = [name.split(".")[0] for name in partition_dirs(copy) if name.endswith("-stray")]
    assert strays == ["java-lz4-0", "mixed-0"]


def test_configurations_reach_open_logs(tmp_path: Path) -> None:
    async def check(node: Node) -> None:
        node.create_topic()
        assert node.partition().log.config.retention_ms == 604_800_000
        node.configure("retention.ms", "1000")
        assert node.partition().log.config.retention_ms == 1000
        node.logs.config.update({"log.retention.bytes": "77"}, {})
        node.logs.reconfigured()
        assert node.partition().log.config.retention_bytes == 77

    run(make_node([tmp_path / "a"]), check)


def test_a_configuration_that_comes_while_a_log_is_made_is_not_lost(tmp_path: Path) -> None:
    async def check(node: Node) -> None:
        node.create_topic()
        while node.partition().made is None:  # the thread has created the log, and the event loop does not know it yet
            time.sleep(0.001)  # noqa: ASYNC251  (that is the point)
        node.configure("retention.ms", "1000")
        assert node.partition().log.config.retention_ms == 1000

    run(make_node([tmp_path / "a"]), check)


# failures


def test_a_directory_that_fails_goes_offline_and_the_others_go_on(tmp_path: Path) -> None:
    disk = FailingDisk()
    paths = [tmp_path / "a", tmp_path / "b"]

    async def check(node: Node) -> None:
        node.create_topic(partitions=4)
        for number in range(4):
            node.partition(number=number).append_as_leader(batch(b"fine"), NOW_MS)
        woken: list[int] = []
        node.partition(number=3).watch(lambda: woken.append(3))
        disk.broken.add(paths[1])
        broken = node.partition(number=1)
        with pytest.raises(OSError, match="Input/output error") as error:
            broken.append_as_leader(batch(b"lost"), NOW_MS)
        broken.failed(error.value)
        assert (node.heard.failed, node.heard.must_stop, woken) == ([node.dirs.data[1]], [], [3])
        for number in (1, 3):
            assert node.partition(number=number).check_leader_epoch() == ErrorCode.KAFKA_STORAGE_ERROR
            with pytest.raises(PartitionError) as refused:
                node.logs.partitions.find("t", number)
            assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR
            with pytest.raises(LogFailed):
                node.partition(number=number).append_as_leader(batch(b"lost"), NOW_MS)
        node.partition(number=2).append_as_leader(batch(b"fine"), NOW_MS)
        node.create_topic("u", topic_id=UUID(int=99 << 64))
        assert node.partition("u").directory is node.dirs.data[0]
        disk.broken.add(paths[0])
        node.partition(number=0).failed(OSError("gone"))
        assert "metadata" in node.heard.must_stop[0]

    run(make_node(paths, disk=disk), check)
    assert not any((path / ".kafka_cleanshutdown").exists() for path in paths)


def test_a_partition_that_may_lie_in_an_offline_directory_is_not_made_anew(tmp_path: Path) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]
    image = MetadataImage()

    async def create(node: Node) -> None:
        for number, home in enumerate(node.dirs.data):
            create_topic(image, f"t{number}", topic_id=UUID(int=77 + number << 64), directories=[from_uuid(home.id)])
        node.logs.apply(image.take_changes())
        for number in range(2):
            node.partition(f"t{number}").append_as_leader(batch(b"one"), NOW_MS)

    async def check(node: Node) -> None:
        assert node.partition("t0").log.log_end_offset == 1
        assert node.partition("t1").is_offline
        assert [each.path for each in node.dirs.online] == [paths[0]]

    run(make_node(paths, image), create)
    (paths[1] / "recovery-point-offset-checkpoint").write_text("garbage\n")
    node = make_node(paths, image)
    run(node, check)
    assert not (paths[0] / "t1-0").exists()
    assert not (paths[1] / ".kafka_cleanshutdown").exists()


def test_a_disk_that_fails_at_the_start_leaves_the_others(tmp_path: Path) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]
    make_node(paths).dirs.unlock()
    paths[1].chmod(0)
    dirs = open_log_dirs([paths[0], tmp_path / "a" / ".lock" / "x"], paths[0], 1, Disk())
    assert [each.is_online for each in dirs.data] == [True, False]
    dirs.unlock()
    paths[1].chmod(0o700)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("version=1\ncluster.id={cluster}\nnode.id=2\ndirectory.id={other}\n", "Stored node id 2"),
        ("version=1\ncluster.id=other\nnode.id=1\ndirectory.id={other}\n", "Invalid cluster.id in"),
        ("version=1\ncluster.id={cluster}\nnode.id=1\ndirectory.id={same}\n", "Duplicate directory ID"),
        ("version=1\ncluster.id={cluster}\nnode.id=1\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAQ\n", "reserved directory ID"),
    ],
)
def test_directories_that_do_not_belong_together_are_refused(tmp_path: Path, text: str, reason: str) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]
    dirs = make_node(paths).dirs
    dirs.unlock()
    ids = {"same": from_uuid(dirs.data[0].id), "other": from_uuid(dirs.data[1].id), "cluster": dirs.cluster_id}
    (paths[1] / "meta.properties").write_text(text.format(**ids))
    with pytest.raises(LogDirsRefused, match=reason):
        make_node(paths)
    make_node(paths[:1]).dirs.unlock()


def test_a_metadata_log_in_the_wrong_directory_is_refused(tmp_path: Path) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]
    make_node(paths).dirs.unlock()
    (paths[1] / "__cluster_metadata-0").mkdir()
    with pytest.raises(LogDirsRefused, match="unexpected metadata location"):
        make_node(paths)


def test_a_directory_in_use_is_refused(tmp_path: Path) -> None:
    dirs = make_node([tmp_path / "a"]).dirs
    with pytest.raises(DirectoryLocked):
        make_node([tmp_path / "a"])
    dirs.unlock()


def test_a_directory_with_something_else_in_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "photos.zip").write_bytes(b"")
    with pytest.raises(LogDirsRefused, match="not empty"):
        make_node([tmp_path / "a"])


def test_a_directory_that_is_no_partition_keeps_the_broker_from_starting(tmp_path: Path) -> None:
    node = make_node([tmp_path / "a"])
    (tmp_path / "a" / "lost+found").mkdir()
    with pytest.raises(LogDirsRefused, match="lost\\+found"):
        asyncio.run(node.logs.start())
    node.dirs.unlock()


def test_a_partition_in_two_directories_is_refused(tmp_path: Path) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]
    image = MetadataImage()
    create_topic(image)

    async def nothing(node: Node) -> None:
        node.partition().append_as_leader(batch(b"one"), NOW_MS)

    run(make_node(paths, image), nothing)
    (paths[1] / "t-0").mkdir()
    for each in (paths[0] / "t-0").iterdir():
        (paths[1] / "t-0" / each.name).write_bytes(each.read_bytes())
    node = make_node(paths, image)
    with pytest.raises(LogDirsRefused, match="t-0 lies in"):
        asyncio.run(node.logs.start())
    node.dirs.unlock()


@pytest.mark.parametrize(
    "marker", [b"[" * 100_000, b"[]", b'{"brokerEpoch":"7"}', b'{"brokerEpoch":9223372036854775808}', b"\xff", b""]
)
def test_a_marker_that_names_no_epoch(tmp_path: Path, marker: bytes) -> None:
    (tmp_path / FileKind.CLEAN_SHUTDOWN).write_bytes(marker)
    assert previous_epoch(LogDirs([home := LogDir(tmp_path)], home, "", 1)) == -1
