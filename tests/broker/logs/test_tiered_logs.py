"""The logs of a broker with tiered storage: local retention, checkpoints, starts, moves, and what requests see of a log
that begins below its local segments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from formats.checkpoint import EpochEntry
from formats.file_name import FileKind
from kcli.broker.config.tier_keys import LOCAL_TIERED_STORAGE
from kcli.log.live.partition_log import OffsetTiered, PartitionLog
from kcli.log.log_directory import LogDirectory
from kcli.metadata.partition import from_uuid
from kcli.protocol.error_code import ErrorCode
from tests.broker.calls import ask
from tests.broker.log_dirs import Node, make_node, run
from tests.broker.logs.test_moves import move, until_moved
from tests.log.batches import NOW_MS, batch

SYSTEM: dict[str, Any] = {
    "remote_log_storage_system_enable": "true",
    "remote_log_storage_manager_class_name": LOCAL_TIERED_STORAGE,
    "rsm_config_dir": "/tier",
    "log_index_interval_bytes": "100",
}
VALUE = bytes(200)


def tiered_topic(node: Node, **configs: str) -> PartitionLog:
    """Return the log of a topic with twenty batches of one record in segments of three, and two leader epochs."""
    node.create_topic()
    node.configure("internal.segment.bytes", "1000")
    node.configure("remote.storage.enable", "true")
    for name, value in configs.items():
        node.configure(name.replace("_", "."), value)
    partition = node.partition()
    for i in range(20):
        if i == 4:
            node.apply("PartitionChangeRecord", partitionId=0, topicId=node_topic(node), leader=1, isr=[1])
        partition.append_as_leader(batch(VALUE, producer=(7, 0), sequence=i), node.clock.now_ms())
    return partition.log


def node_topic(node: Node) -> str:
    return from_uuid(node.partition().topic_id)


def starts(log: PartitionLog) -> tuple[int, int]:
    return log.log_start_offset, log.local_log_start_offset


def test_retention_leaves_the_log_start_where_it_is(tmp_path: Path) -> None:
    async def check(node: Node) -> None:
        log = tiered_topic(node, local_retention_bytes="1")
        await node.logs.background.retain()
        assert starts(log) == (0, 0), "nothing is copied"
        log.update_highest_tiered(8)
        await node.logs.background.retain()
        assert starts(log) == (0, 9)
        assert log.base_offsets[0] == 9
        await node.logs.background.write_log_starts()

    def reopened(highest: int, start: int, local: int) -> None:
        node = make_node([tmp_path], image, **SYSTEM)

        async def check(node: Node) -> None:
            log = node.partition().log
            assert log.is_tiered
            assert starts(log) == (start, local)
            assert log.highest_tiered_offset == -1
            with pytest.raises(OffsetTiered):
                log.read(start, 1)
            log.update_highest_tiered(highest)
            await node.logs.background.retain()
            node.partition().advance_log_start(5)

        run(node, check)

    first = make_node([tmp_path], **SYSTEM)
    run(first, check, stop=False)
    image = first.image
    assert LogDirectory(tmp_path).offsets(FileKind.LOG_START_OFFSETS) == {("t", 0): 0}
    reopened(11, 0, 9)
    assert LogDirectory(tmp_path).offsets(FileKind.LOG_START_OFFSETS) == {("t", 0): 5}
    reopened(14, 5, 12)

    async def without(node: Node) -> None:
        log = node.partition().log
        assert (log.is_tiered, starts(log)) == (False, (15, 15))

    run(make_node([tmp_path], image), without)


def test_what_requests_see(tmp_path: Path) -> None:
    def offset(node: Node, timestamp: int, replica_id: int = -1) -> tuple[int, int, int]:
        partition = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": timestamp}
        asked = {"replica_id": replica_id, "isolation_level": 0, "timeout": 0}
        topics = [{"name": "t", "partitions": [partition]}]
        found = ask(node, "list_offsets", 11, topics=topics, **asked)["topics"][0]["partitions"][0]
        return found["error_code"], found["offset"], found["leader_epoch"]

    def deleted(node: Node, below: int) -> tuple[int, int]:
        asked = [{"name": "t", "partitions": [{"partition_index": 0, "offset": below}]}]
        answer: Any = ask(node, "delete_records", 2, topics=asked, timeout=0)
        found = answer["topics"][0]["partitions"][0]
        return found["error_code"], found["low_watermark"]

    def end_of(node: Node, epoch: int) -> tuple[int, int]:
        asked = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": epoch}
        topics = [{"topic": "t", "partitions": [asked]}]
        answer = ask(node, "offset_for_leader_epoch", 4, replica_id=-1, topics=topics)
        found = answer["topics"][0]["partitions"][0]
        return found["leader_epoch"], found["end_offset"]

    async def check(node: Node) -> None:
        log = tiered_topic(node, local_retention_bytes="1")
        assert [offset(node, each) for each in (-2, -4, -5, -6)] == [(0, 0, 0), (0, 0, 0), (0, -1, -1), (0, 0, 0)]
        log.update_highest_tiered(11)
        await node.logs.background.retain()
        assert [offset(node, each) for each in (-2, -4, -5, -6)] == [(0, 0, 0), (0, 12, 1), (0, 11, 1), (0, 12, 1)]
        assert end_of(node, 0) == (0, 4), "the epoch is in remote storage alone"
        assert deleted(node, 6) == (0, 6)
        assert starts(log) == (6, 12)
        assert [offset(node, each) for each in (-2, -4)] == [(0, 6, 1), (0, 12, 1)]
        assert deleted(node, 14) == (0, 14)
        assert starts(log) == (14, 14)
        (described,) = ask(node, "describe_log_dirs", 4, topics=None)["results"]
        (size,) = [found["partition_size"] for topic in described["topics"] for found in topic["partitions"]]
        assert 0 < size == log.size < 20 * 200, "that of the local segments"
        assert [offset(node, each)[1] for each in (-2, -4, -5, -6)] == [14, 14, 11, 14]
        assert deleted(node, 21) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)

    run(make_node([tmp_path], **SYSTEM), check)


def test_a_topic_that_is_no_longer_tiered_begins_at_its_local_segments(tmp_path: Path) -> None:
    async def check(node: Node) -> None:
        log = tiered_topic(node, local_retention_bytes="1")
        log.update_highest_tiered(8)
        await node.logs.background.retain()
        woken: list[int] = []
        node.partition().watch(lambda: woken.append(1))
        node.configure("remote.log.delete.on.disable", "true")
        node.configure("remote.storage.enable", "false")
        assert (log.is_tiered, starts(log)) == (False, (9, 9))
        assert log.leader_epochs == (EpochEntry(1, 9),)
        assert woken
        node.partition().advance_log_start(12)
        assert starts(log) == (9, 9)
        node.configure("remote.storage.enable", "true")
        assert (log.is_tiered, starts(log)) == (True, (9, 9))

    run(make_node([tmp_path], **SYSTEM), check)


def test_a_follower_that_is_no_longer_tiered_follows_its_leader(tmp_path: Path) -> None:
    async def check(node: Node) -> None:
        log = tiered_topic(node, local_retention_bytes="1")
        log.update_highest_tiered(8)
        await node.logs.background.retain()
        node.apply("PartitionChangeRecord", partitionId=0, topicId=node_topic(node), leader=2, isr=[2], replicas=[1, 2])
        node.configure("remote.storage.enable", "false")
        assert log.log_start_offset == 0
        node.partition().append_as_follower(None, 20, 9, NOW_MS)
        assert starts(log) == (9, 9)

    run(make_node([tmp_path], **SYSTEM), check)


def test_the_log_start_follows_remote_storage(tmp_path: Path) -> None:
    async def check(node: Node) -> None:
        log = tiered_topic(node)
        woken: list[int] = []
        node.partition().watch(lambda: woken.append(1))
        node.partition().advance_log_start(6)
        assert (starts(log), woken) == ((6, 6), [1])
        node.partition().advance_log_start(5)
        assert (starts(log), woken) == ((6, 6), [1])
        node.partition().start_from_tier(40, 8, [EpochEntry(0, 0), EpochEntry(4, 30)], None, NOW_MS)
        assert (starts(log), log.log_end_offset) == ((8, 40), 40)
        assert log.leader_epochs == (EpochEntry(0, 8), EpochEntry(4, 30))
        node.partition().append_as_leader(batch(VALUE), NOW_MS)
        assert log.log_end_offset == 41

    run(make_node([tmp_path], **SYSTEM), check)


def test_a_move_copies_the_local_segments(tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"

    async def check(node: Node) -> None:
        log = tiered_topic(node, local_retention_bytes="1")
        log.update_highest_tiered(8)
        await node.logs.background.retain()
        partition = node.partition()
        assert partition.directory is not None
        other = b if partition.directory.path == a else a
        assert move(node, other) == ErrorCode.NONE
        await until_moved(node, other)
        moved = partition.log
        assert moved is not log
        assert (starts(moved), moved.log_end_offset, moved.high_watermark) == ((0, 9), 20, 20)
        assert moved.leader_epochs == log.leader_epochs == (EpochEntry(0, 0), EpochEntry(1, 4))
        assert moved.highest_tiered_offset == 8
        assert partition.append_as_leader(batch(VALUE, producer=(7, 0), sequence=19), NOW_MS).duplicate

    run(make_node([a, b], **SYSTEM), check)


def test_the_metadata_topic_is_not_tiered(tmp_path: Path) -> None:
    async def check(node: Node) -> None:
        node.create_topic("__remote_log_metadata")
        node.configure("remote.storage.enable", "true", "__remote_log_metadata")
        assert not node.partition("__remote_log_metadata").log.is_tiered

    run(make_node([tmp_path], **SYSTEM), check)
