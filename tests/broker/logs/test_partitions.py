"""Partitions as handlers see them: appends and the high watermark, waiting requests, epochs, replicas that another
broker leads."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest

from kcli.broker.partition.partitions import PartitionError
from kcli.log.live.partition_log import LogFailed
from kcli.log.live.validator import AppendRefused
from kcli.metadata.partition import from_uuid
from kcli.protocol.error_code import ErrorCode
from tests.broker.log_dirs import TOPIC_ID, FailingDisk, Node, make_node, run
from tests.log.batches import NOW_MS, batch


def change(node: Node, **more: object) -> None:
    node.apply("PartitionChangeRecord", partitionId=0, topicId=from_uuid(TOPIC_ID), **more)


def test_the_high_watermark_follows_the_only_replica_in_sync(tmp_path: Path) -> None:
    async def check(node: Node) -> None:
        node.create_topic()
        partition = node.partition()
        partition.append_as_leader(batch(b"one"), NOW_MS)
        assert partition.log.high_watermark == 1
        change(node, isr=[1, 2], replicas=[1, 2])
        partition.append_as_leader(batch(b"two"), NOW_MS)
        assert partition.log.high_watermark == 1
        change(node, isr=[1])
        assert partition.log.high_watermark == 2
        assert not partition.lacks_replicas
        node.configure("min.insync.replicas", "3")
        assert partition.lacks_replicas
        change(node, isr=[1, 2])
        assert not partition.lacks_replicas

    run(make_node([tmp_path / "a"]), check)


def test_waiters_hear_of_every_change_until_they_are_taken_back(tmp_path: Path) -> None:
    async def check(node: Node) -> None:
        node.create_topic()
        partition = node.partition()
        woken: list[str] = []

        def once() -> None:
            woken.append("once")
            partition.unwatch(once)

        def twice() -> None:
            woken.append("twice")

        partition.watch(once)
        partition.watch(twice)
        partition.watch(twice)
        partition.append_as_leader(batch(b"one"), NOW_MS)
        assert woken == ["once", "twice"]
        partition.unwatch(twice)
        partition.append_as_leader(batch(b"two"), NOW_MS)
        assert woken == ["once", "twice", "twice"]
        partition.unwatch(twice)
        partition.append_as_leader(batch(b"three"), NOW_MS)
        partition.unwatch(twice)
        assert woken == ["once", "twice", "twice"]
        partition.watch(twice)
        duplicate = batch(b"p", producer=(3, 0), sequence=0)
        partition.append_as_leader(bytearray(duplicate), NOW_MS)
        assert partition.append_as_leader(duplicate, NOW_MS).duplicate
        with pytest.raises(AppendRefused):
            partition.append_as_leader(batch(b"p", producer=(3, 0), sequence=7), NOW_MS)
        assert woken == ["once", "twice", "twice", "twice"]
        change(node, leader=1)
        partition.delete_records(1)
        partition.delete_records(1)
        node.apply("RemoveTopicRecord", topicId=from_uuid(TOPIC_ID))
        assert woken == ["once", *["twice"] * 6]

    run(make_node([tmp_path / "a"]), check)


def test_who_may_ask_which_replica(tmp_path: Path) -> None:
    async def check(node: Node) -> None:
        node.create_topic(leaderEpoch=5, replicas=[1, 2], isr=[1, 2], directories=[])
        partition = node.partition()
        assert partition.check_leader_epoch() is None
        assert partition.check_leader_epoch(5) is None
        assert partition.check_leader_epoch(4) == ErrorCode.FENCED_LEADER_EPOCH
        assert partition.check_leader_epoch(6) == ErrorCode.UNKNOWN_LEADER_EPOCH
        change(node, leader=2)
        assert (partition.leader_epoch, partition.is_leader) == (6, False)
        assert partition.check_leader_epoch(6) == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert partition.check_leader_epoch(6, leader_only=False) is None
        with pytest.raises(PartitionError) as refused:
            partition.log_for()
        assert refused.value.code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert node.logs.partitions.find("t", 0) is partition
        node.create_topic("others", topic_id=UUID(int=9 << 64), replicas=[2], isr=[2], leader=2)
        for topic, number, code in (
            ("t", 1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            ("u", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            ("others", 0, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ):
            with pytest.raises(PartitionError) as refused:
                node.logs.partitions.find(topic, number)
            assert refused.value.code is code

    run(make_node([tmp_path / "a"]), check)


def test_a_partition_that_comes_and_goes_by_reassignment(tmp_path: Path) -> None:
    async def check(node: Node) -> None:
        node.create_topic(replicas=[2], isr=[2], leader=2)
        assert node.logs.partitions.get("t", 0) is None
        change(node, replicas=[2, 1])
        partition = node.partition()
        assert partition.log.log_end_offset == 0
        change(node, replicas=[2], isr=[2])
        assert (node.logs.partitions.get("t", 0), partition.is_deleted) == (None, True)

    run(make_node([tmp_path / "a"]), check)


def test_a_directory_that_breaks_before_a_log_is_made_takes_it_offline(tmp_path: Path) -> None:
    disk = FailingDisk()

    async def check(node: Node) -> None:
        disk.broken.add(tmp_path / "a")
        node.create_topic()
        partition = node.partition()
        with pytest.raises(LogFailed):
            partition.append_as_leader(batch(b"lost"), NOW_MS)
        assert partition.is_offline
        assert node.heard.failed == [node.dirs.data[0]]
        assert len(node.heard.must_stop) == 1

    run(make_node([tmp_path / "a"], disk=disk), check)
