"""Replicas move from one log directory of a broker to another while clients produce."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from kcli.log.live.partition_log import Isolation
from kcli.protocol.error_code import ErrorCode
from tests.bad_sectors import break_sectors
from tests.broker.calls import ask
from tests.broker.log_dirs import TOPIC_ID, FailingDisk, Node, make_node, run
from tests.log.batches import NOW_MS, batch


def move(node: Node, path: Path, topic: str = "t", number: int = 0, version: int = 2) -> ErrorCode:
    asked = [{"path": str(path), "topics": [{"name": topic, "partitions": [number]}]}]
    (found,) = ask(node, "alter_replica_log_dirs", version, dirs=asked)["results"]
    return ErrorCode(found["partitions"][0]["error_code"])


async def until_moved(node: Node, path: Path, topic: str = "t") -> None:
    for _ in range(12_000):
        home = node.partition(topic).directory
        if home is not None and home.path == path:
            return
        await asyncio.sleep(0.005)
    raise AssertionError("not moved")


def contents(node: Node) -> bytes:
    """The batches, segment by segment."""
    log, found = node.partition().log, b""
    offset = log.log_start_offset
    for base in log.base_offsets:
        read = log.read(max(base, offset), 1 << 30, Isolation.LOG_END)
        if read.region is not None:
            found += read.region.path.read_bytes()[read.region.position :][: read.region.length]
    return found


@pytest.mark.parametrize("version", [1, 2])
def test_a_replica_moves_while_it_is_written(tmp_path: Path, version: int) -> None:
    a, b = tmp_path / "a", tmp_path / "b"

    async def check(node: Node) -> None:
        node.create_topic()
        node.configure("segment.bytes", "20000")
        partition = node.partition()
        home, other = (a, b) if partition.directory is not None and partition.directory.path == a else (b, a)
        for i in range(300):
            partition.append_as_leader(batch(b"%d" % i * 100, producer=(7, 0), sequence=i), NOW_MS)
        partition.delete_records(20)
        assert move(node, other, version=version) == ErrorCode.NONE
        assert list(other.glob("t-0.*-future"))
        assert move(node, other) == ErrorCode.NONE  # it is on its way
        described = ask(node, "describe_log_dirs", 4, topics=None)["results"]
        futures = [
            (each["log_dir"], found["is_future_key"])
            for each in described
            for topic in each["topics"]
            for found in topic["partitions"]
        ]
        assert sorted(futures) == sorted([(str(home), False), (str(other), True)])
        for i in range(300, 340):
            partition.append_as_leader(batch(b"%d" % i, producer=(7, 0), sequence=i), NOW_MS)
            await asyncio.sleep(0)
        await until_moved(node, other)
        log = partition.log
        assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (20, 340, 340)
        assert log.directory == other / "t-0"
        assert list(home.glob("t-0.*-delete"))
        assert not list(other.glob("*-future"))
        assert partition.append_as_leader(batch(b"x", producer=(7, 0), sequence=339), NOW_MS).duplicate
        partition.append_as_leader(batch(b"x", producer=(7, 0), sequence=340), NOW_MS)
        assert contents(node).count(b"key") == 321
        topic_id, number, directory_id = node.heard.assigned[-1]
        assert partition.directory is not None
        assert (topic_id, number, directory_id) == (TOPIC_ID, 0, partition.directory.id)
        assert move(node, other) == ErrorCode.NONE  # it is there
        assert not node.logs.futures

    run(make_node([a, b]), check)


def test_what_cannot_be_moved(tmp_path: Path) -> None:
    disk = FailingDisk()
    a, b = tmp_path / "a", tmp_path / "b"

    async def check(node: Node) -> None:
        node.create_topic()
        assert move(node, tmp_path / "c") == ErrorCode.LOG_DIR_NOT_FOUND
        assert move(node, b, "u") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        node.create_topic("u", topic_id=TOPIC_ID.__class__(int=9 << 64))
        assert node.partition("u").directory is not None
        assert node.partition("u").directory.path == b  # type: ignore[union-attr]
        home = node.partition().directory
        assert home is not None
        other = b if home.path == a else a
        disk.broken.add(other)
        assert move(node, other) == ErrorCode.KAFKA_STORAGE_ERROR
        assert move(node, other) == ErrorCode.KAFKA_STORAGE_ERROR
        assert [each.path for each in node.heard.failed] == [other]

    run(make_node([a, b], disk=disk), check)


def test_a_start_goes_on_with_a_move(tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    node = make_node([a, b])
    other = b

    async def begin(node: Node) -> None:
        nonlocal other
        node.create_topic()
        for i in range(50):
            node.partition().append_as_leader(batch(b"%d" % i), NOW_MS)
        home = node.partition().directory
        assert home is not None
        other = b if home.path == a else a
        assert move(node, other) == ErrorCode.NONE

    async def go_on(node: Node) -> None:
        await until_moved(node, other)
        assert node.partition().log.log_end_offset == 50

    run(node, begin)
    assert list(other.glob("t-0.*-future"))
    run(make_node([a, b], node.image), go_on)


def test_a_future_log_beside_its_own_partition_takes_its_place(tmp_path: Path) -> None:
    """As after one log directory was copied over the other; asked of Kafka 4.3."""
    a, b = tmp_path / "a", tmp_path / "b"
    node = make_node([a])

    async def begin(node: Node) -> None:
        node.create_topic()
        for i in range(50):
            node.partition().append_as_leader(batch(b"%d" % i), NOW_MS)

    async def go_on(node: Node) -> None:
        for _ in range(12_000):
            if not list(a.glob("*-future")):
                break
            await asyncio.sleep(0.005)
        assert node.partition().log.log_end_offset == 50
        assert node.partition().directory is not None

    run(node, begin)
    shutil.copytree(a / "t-0", a / f"t-0.{'0' * 32}-future")
    run(make_node([a, b], node.image), go_on)
    assert len(list(a.glob("t-0.*-delete"))) == 1
    assert (a / "t-0").is_dir()


def test_a_topic_that_goes_takes_its_future_log_along(tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"

    async def check(node: Node) -> None:
        node.create_topic()
        node.partition().append_as_leader(batch(b"x"), NOW_MS)
        home = node.partition().directory
        assert home is not None
        other = b if home.path == a else a
        assert move(node, other) == ErrorCode.NONE
        node.logs.moves.abort(node.partition())
        assert not list(other.glob("*-future"))
        assert list(other.glob("*-delete"))
        assert not node.logs.futures
        assert node.partition().directory is home

    run(make_node([a, b]), check)


def test_a_log_that_cannot_be_read_takes_its_own_directory_offline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not the directory to which it moves."""
    a, b = tmp_path / "a", tmp_path / "b"

    async def check(node: Node) -> None:
        node.create_topic()
        for i in range(50):
            node.partition().append_as_leader(batch(b"%d" % i), NOW_MS)
        home = node.partition().directory
        assert home is not None
        (log,) = (home.path / "t-0").glob("*.log")
        break_sectors(monkeypatch, log, [1])
        assert move(node, b if home.path == a else a) == ErrorCode.NONE
        for _ in range(12_000):
            if node.heard.failed:
                break
            await asyncio.sleep(0.005)
        assert [each.path for each in node.heard.failed] == [home.path]

    run(make_node([a, b]), check)
