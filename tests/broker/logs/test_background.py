"""Retention, compaction, flushes, checkpoints and deletions while a broker serves."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from formats.file_name import FileKind
from kcli.broker.logs.compaction import Throttle
from kcli.log.live.partition_log import Isolation
from kcli.log.log_directory import LogDirectory
from kcli.metadata.partition import from_uuid
from tests.broker.log_dirs import TOPIC_ID, FailingDisk, Node, golden_node, make_node, run
from tests.broker.metadata_dirs import golden_copy
from tests.broker.replication.brokers import until
from tests.broker.running import running_node
from tests.conftest import GOLDEN
from tests.log.batches import NOW_MS, batch

DAY_MS = 86_400_000
DESCRIPTORS = Path("/proc/self/fd")
SMALL: dict[str, Any] = {"log_index_interval_bytes": "100", "log_segment_delete_delay_ms": "50"}


def small_segments(node: Node) -> None:
    node.configure("internal.segment.bytes", "1000")


def fill(node: Node, count: int = 20, first_ms: int = NOW_MS) -> None:
    """Append batches with one key, an hour apart, so that the log has several segments."""
    for i in range(count):
        node.clock.ms = first_ms + i * 3_600_000
        node.partition().append_as_leader(batch(bytes(200), timestamp_ms=node.clock.ms), node.clock.ms)


def test_old_segments_go_and_their_files_a_little_later(tmp_path: Path) -> None:
    directory = tmp_path / "a" / "t-0"

    async def check(node: Node) -> None:
        node.create_topic()
        small_segments(node)
        node.configure("file.delete.delay.ms", "50")
        fill(node)
        node.configure("retention.ms", str(5 * 3_600_000))
        before = node.partition().log.base_offsets
        await node.logs.background.retain()
        log = node.partition().log
        assert before[0] < log.log_start_offset == log.base_offsets[0]
        deleted = {each.name for each in directory.glob("*.deleted")}
        assert len(deleted) >= 3
        await until(lambda: not list(directory.glob("*.deleted")))
        await until(lambda: (directory / "leader-epoch-checkpoint").read_text() == f"0\n1\n0 {log.log_start_offset}\n")
        node.configure("retention.bytes", "0")
        await node.logs.background.retain()
        assert node.partition().log.log_start_offset == node.partition().log.log_end_offset

    run(make_node([tmp_path / "a"], **SMALL), check)


@pytest.mark.skipif(not DESCRIPTORS.exists(), reason="no /proc")
def test_a_stop_closes_the_files_of_deleted_topics_and_segments(tmp_path: Path) -> None:
    """Otherwise the files would stay open for file.delete.delay.ms; in a process that goes on, such as a test's, for
    ever."""
    with running_node(tmp_path / "d", internal_segment_bytes="1000") as node, node.client() as client:
        for topic in ("gone", "cut"):
            client.create_topic(topic, 1)
            for _ in range(5):
                records = bytes(batch(bytes(900), timestamp_ms=int(time.time() * 1000)))
                data = [{"name": topic, "partition_data": [{"index": 0, "records": records}]}]
                client.call("produce", 9, acks=1, timeout=1000, transactional_id=None, topic_data=data)
        offsets = [{"partition_index": 0, "offset": 4}]
        client.call("delete_records", 2, topics=[{"name": "cut", "partitions": offsets}], timeout=1000)
        client.call("delete_topics", 4, topic_names=["gone"], timeout=1000)
        assert open_below(tmp_path)
    assert not open_below(tmp_path)


def open_below(directory: Path) -> list[str]:
    """Return the files below a directory that this process has open."""
    links = [each.readlink() for each in DESCRIPTORS.iterdir() if each.is_symlink()]
    return [str(each) for each in links if each.is_relative_to(directory)]


def test_a_rolled_segment_is_made_durable_without_being_asked_for(tmp_path: Path) -> None:
    async def check(node: Node) -> None:
        node.create_topic()
        small_segments(node)
        fill(node)
        log = node.partition().log
        await until(lambda: log.recovery_point == log.active_base_offset)
        assert log.recovery_point < log.log_end_offset
        await node.logs.background.write_recovery_points()
        assert LogDirectory(tmp_path / "a").offsets(FileKind.RECOVERY_POINTS) == {("t", 0): log.recovery_point}

    run(make_node([tmp_path / "a"], **SMALL), check)


def test_flush_ms_is_kept_by_the_flusher(tmp_path: Path) -> None:
    async def check(node: Node) -> None:
        node.create_topic()
        node.configure("flush.ms", "1000")
        node.partition().append_as_leader(batch(b"one"), NOW_MS)
        await node.logs.background.flush_due()
        assert node.partition().log.recovery_point == 0
        node.clock.ms += 1000
        await node.logs.background.flush_due()
        assert node.partition().log.recovery_point == 1

    run(make_node([tmp_path / "a"]), check)


def test_checkpoints_are_written_by_themselves(tmp_path: Path) -> None:
    async def check(node: Node) -> None:
        node.create_topic()
        node.partition().append_as_leader(batch(b"one", b"two"), NOW_MS)
        files = LogDirectory(tmp_path / "a")
        await until(lambda: files.offsets(FileKind.REPLICATION_OFFSETS) == {("t", 0): 2})
        await until(lambda: files.offsets(FileKind.RECOVERY_POINTS) == {("t", 0): 0})
        node.partition().append_as_leader(batch(b"three"), NOW_MS)
        await until(lambda: files.offsets(FileKind.REPLICATION_OFFSETS) == {("t", 0): 3})

    intervals: dict[str, Any] = {
        "log_initial_task_delay_ms": "1",
        "replica_high_watermark_checkpoint_interval_ms": "20",
        "log_flush_offset_checkpoint_interval_ms": "20",
        "log_flush_start_offset_checkpoint_interval_ms": "20",
        "log_retention_check_interval_ms": "20",
        "log_flush_scheduler_interval_ms": "20",
        "producer_id_expiration_check_interval_ms": "20",
    }
    run(make_node([tmp_path / "a"], **intervals), check)


def test_silent_producers_are_forgotten(tmp_path: Path) -> None:
    async def check(node: Node) -> None:
        node.create_topic()
        node.partition().append_as_leader(batch(b"p", producer=(3, 0), sequence=0), NOW_MS)
        await node.logs.background.expire_producers()
        assert len(node.partition().log.producers.table.entries()) == 1
        node.clock.ms += DAY_MS
        await node.logs.background.expire_producers()
        assert node.partition().log.producers.table.entries() == []

    run(make_node([tmp_path / "a"]), check)


def test_a_disk_that_breaks_in_the_background_takes_its_directory_offline(tmp_path: Path) -> None:
    disk = FailingDisk()
    paths = [tmp_path / "a", tmp_path / "b"]

    async def check(node: Node) -> None:
        node.create_topic(partitions=2)
        node.partition(number=1).append_as_leader(batch(b"one"), NOW_MS)
        disk.broken.add(paths[1])
        await node.logs.background.write_high_watermarks()
        assert [each.path for each in node.dirs.online] == [paths[0]]
        assert node.partition(number=1).is_offline
        assert not node.partition(number=0).is_offline

    run(make_node(paths, disk=disk), check)


def test_the_files_of_old_segments_can_be_closed_and_are_opened_again(tmp_path: Path) -> None:
    async def check(node: Node) -> None:
        node.create_topic()
        small_segments(node)
        fill(node)
        log = node.partition().log
        await until(lambda: log.recovery_point == log.active_base_offset)
        for offset in range(20):
            assert log.read(offset, 1, Isolation.LOG_END).region is not None
        before = descriptors()
        await node.logs.background.each_log(lambda _, opened: opened.release_handles())
        assert before - descriptors() >= 5
        assert log.read(0, 1, Isolation.LOG_END).region is not None

    run(make_node([tmp_path / "a"], **SMALL), check)


def descriptors() -> int:
    return sum(1 for _ in Path("/dev/fd").iterdir())


async def nothing(_: Node) -> None:
    """Start and stop."""


# compaction


def keys_of(node: Node, topic: str = "t") -> int:
    log = node.partition(topic).log
    found, offset = 0, log.log_start_offset
    while (region := log.read(offset, 1, Isolation.LOG_END).region) is not None:
        with region.path.open("rb") as file:
            file.seek(region.position)
            head = file.read(61)
        found += int.from_bytes(head[57:61])
        offset = int.from_bytes(head[:8]) + int.from_bytes(head[23:27]) + 1
    return found


def test_the_filthiest_log_is_compacted_and_the_checkpoint_written(tmp_path: Path) -> None:
    files = LogDirectory(tmp_path / "a")

    async def check(node: Node) -> None:
        node.create_topic()
        small_segments(node)
        node.configure("cleanup.policy", "compact")
        fill(node)
        log = node.partition().log
        dirty, active = keys_of(node), log.active_base_offset
        assert await node.logs.background.compactor.clean_filthiest()
        assert keys_of(node) < dirty
        assert files.offsets(FileKind.CLEANER_OFFSETS) == {("t", 0): active}
        assert not await node.logs.background.compactor.clean_filthiest()
        node.partition().append_as_leader(batch(b"goes on", timestamp_ms=node.clock.ms), node.clock.ms)
        await until(lambda: not list((tmp_path / "a" / "t-0").glob("*.deleted")))

    async def again(node: Node) -> None:
        assert not await node.logs.background.compactor.clean_filthiest()
        node.apply("RemoveTopicRecord", topicId=from_uuid(TOPIC_ID))
        await until(lambda: files.offsets(FileKind.CLEANER_OFFSETS) == {})

    node = make_node([tmp_path / "a"], **SMALL)
    node_again = None
    run(node, check)
    node_again = make_node([tmp_path / "a"], node.image, **SMALL)
    run(node_again, again)


def test_compaction_runs_by_itself_and_stops_when_the_topic_goes(tmp_path: Path) -> None:
    async def check(node: Node) -> None:
        node.create_topic()
        small_segments(node)
        node.configure("cleanup.policy", "compact")
        fill(node, 60)
        await until(lambda: LogDirectory(tmp_path / "a").offsets(FileKind.CLEANER_OFFSETS))
        fill(node, 200)
        node.apply("RemoveTopicRecord", topicId=from_uuid(TOPIC_ID))
        await asyncio.sleep(0.05)
        assert not node.heard.failed

    run(make_node([tmp_path / "a"], log_cleaner_backoff_ms="5", **SMALL), check)


def test_the_cleaned_offset_of_a_partition_that_was_moved_by_hand_goes(tmp_path: Path) -> None:
    """Kafka's cleaner would end once both directories have an entry."""
    one, two = (LogDirectory(tmp_path / name) for name in "ab")

    async def make(node: Node) -> None:
        node.create_topic()

    async def check(node: Node) -> None:
        await until(lambda: one.offsets(FileKind.CLEANER_OFFSETS) == {})
        assert node.logs.background.compactor.cleaned_in(node.dirs.data[0]) == {}
        assert two.offsets(FileKind.CLEANER_OFFSETS) == {("t", 0): 7}

    node = make_node([one.path, two.path], **SMALL)
    run(node, make)
    home = next(each for each in (one, two) if (each.path / "t-0").exists())
    if home is one:
        (one.path / "t-0").rename(two.path / "t-0")
    for each in (one, two):
        (each.path / FileKind.CLEANER_OFFSETS).write_text("0\n1\nt 0 7\n")
    run(make_node([one.path, two.path], node.image, **SMALL), check)


def test_kafkas_compacted_topics_are_cleaned_while_they_are_served(tmp_path: Path) -> None:
    copy = golden_copy("compact/before", tmp_path)
    params = GOLDEN / "compact/expected/params.json"
    assert params.exists()

    async def check(node: Node) -> None:
        node.clock.ms = NOW_MS + 10 * DAY_MS
        while await node.logs.background.compactor.clean_filthiest():
            pass
        cleaned = LogDirectory(copy).offsets(FileKind.CLEANER_OFFSETS)
        assert len(cleaned) >= 10
        assert not node.heard.failed

    run(golden_node(copy), check)
    run(golden_node(copy), nothing)


def test_a_log_that_cannot_be_cleaned_is_left_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def check(node: Node) -> None:
        node.create_topic()
        small_segments(node)
        node.configure("cleanup.policy", "compact")
        fill(node)
        with (tmp_path / "a" / "t-0" / f"{0:020}.log").open("r+b") as file:
            file.seek(100)
            file.write(b"\xff" * 20)
        assert not await node.logs.background.compactor.clean_filthiest()
        assert "is not cleaned any more" in caplog.text
        assert not await node.logs.background.compactor.clean_filthiest()
        assert not node.heard.failed

    run(make_node([tmp_path / "a"], **SMALL), check)


def test_compacted_logs_are_kept_no_longer_than_their_retention(tmp_path: Path) -> None:
    async def check(node: Node) -> None:
        node.create_topic()
        small_segments(node)
        node.configure("cleanup.policy", "compact,delete")
        node.configure("retention.ms", "3600000")
        fill(node)
        await node.logs.background.retain()
        assert node.partition().log.log_start_offset == 0
        await node.logs.background.compactor.retain()
        assert node.partition().log.log_start_offset > 10

    run(make_node([tmp_path / "a"], **SMALL), check)


def test_a_throttle_keeps_threads_below_its_rate() -> None:
    throttle = Throttle(1_000_000)
    began = time.monotonic()

    def work() -> None:
        for _ in range(10):
            throttle.wait(50_000)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 0.5 < time.monotonic() - began < 2


# many partitions


def test_a_broker_with_many_partitions_has_descriptors_left(tmp_path: Path) -> None:
    async def check(node: Node) -> None:
        before = descriptors()
        node.create_topic(partitions=400)
        await until(lambda: all(each.opened_log is not None for each in node.logs.partitions))
        assert descriptors() - before < 10
        for each in node.logs.partitions:
            each.append_as_leader(batch(b"one"), NOW_MS)

    node = make_node([tmp_path / "a"])
    run(node, check)
    run(make_node([tmp_path / "a"], node.image), nothing)
