"""The other APIs about partitions: offsets, epochs, producers, sizes; compared with Kafka's responses."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from kcli.log.live.validator import Origin
from kcli.metadata.partition import from_uuid
from kcli.protocol.error_code import ErrorCode
from tests.broker.calls import ask
from tests.broker.log_dirs import TOPIC_ID, FailingDisk, Node, golden_node, make_node, run
from tests.broker.metadata_dirs import golden_copy
from tests.conftest import GOLDEN
from tests.log.batches import NOW_MS, batch, marker

NONE = ErrorCode.NONE.value
LIST_OFFSETS_VERSIONS = range(1, 12)
LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, PENDING_UPLOAD = range(-1, -7, -1)


def offset_of(
    node: Node, timestamp: int, version: int = 11, topic: str = "t", number: int = 0, **more: Any
) -> dict[str, Any]:
    """Return the response of ListOffsets for one partition. more: isolation_level, replica_id, current_leader_epoch."""
    partition = {"partition_index": number, "timestamp": timestamp}
    if "current_leader_epoch" in more:
        partition["current_leader_epoch"] = more["current_leader_epoch"]
    request: dict[str, Any] = {"replica_id": more.get("replica_id", -1)}
    request |= {"isolation_level": more.get("isolation_level", 0)} if version >= 2 else {}
    request |= {"timeout": 0} if version >= 10 else {}
    answer = ask(node, "list_offsets", version, **request, topics=[{"name": topic, "partitions": [partition]}])
    ((found,),) = (each["partitions"] for each in answer["topics"])
    assert isinstance(found, dict)
    return found


def value_of(found: dict[str, Any]) -> tuple[int, int, int]:
    assert found["error_code"] == NONE
    return found["timestamp"], found["offset"], found.get("leader_epoch", -1)


def error_of(found: dict[str, Any]) -> ErrorCode:
    assert (found["timestamp"], found["offset"]) == (-1, -1)
    return ErrorCode(found["error_code"])


def test_offsets_of_times_are_those_of_kafka(tmp_path: Path) -> None:
    expected = json.loads((GOLDEN / "codecs/expected/offsets.json").read_text())

    async def check(node: Node) -> None:
        checked = 0
        for topic, offsets in expected.items():
            for number, asked in offsets.get("for_time", {}).items():
                for timestamp, offset, found_at in asked:
                    for version in (1, 11):
                        found = value_of(offset_of(node, timestamp, version, topic, int(number)))
                        assert found[:2] == (-1 if found_at is None else found_at, -1 if offset is None else offset)
                        checked += 1
            for number, (offset, timestamp) in enumerate(offsets["max_timestamp"]):
                assert value_of(offset_of(node, MAX_TIMESTAMP, 7, topic, number))[:2] == (timestamp, offset)
            for isolation, level in enumerate(("read_uncommitted", "read_committed")):
                for name, timestamp in (("earliest", EARLIEST), ("latest", LATEST)):
                    for number, offset in enumerate(offsets[f"{name}_{level}"]):
                        found = value_of(offset_of(node, timestamp, 2, topic, number, isolation_level=isolation))
                        assert found[:2] == (-1, offset)
        assert checked > 300

    run(golden_node(golden_copy("codecs/data", tmp_path)), check)


def test_an_open_transaction_hides_what_lies_behind_it_from_who_reads_committed(tmp_path: Path) -> None:
    expected = json.loads((GOLDEN / "txn/expected/data/offsets.json").read_text())

    async def check(node: Node) -> None:
        for topic, offsets in expected.items():
            for number, high_watermark in enumerate(offsets["high_watermark"]):
                stable = offsets["last_stable_offset"][number]
                assert value_of(offset_of(node, LATEST, topic=topic, number=number))[1] == high_watermark
                committed = offset_of(node, LATEST, topic=topic, number=number, isolation_level=1)
                assert value_of(committed)[1] == stable
        late = value_of(offset_of(node, 1_700_000_190_607, topic="t-hang"))
        assert late[1] >= 6
        assert value_of(offset_of(node, 1_700_000_190_607, topic="t-hang", isolation_level=1)) == (-1, -1, -1)

    run(golden_node(golden_copy("txn/data", tmp_path)), check)


@pytest.mark.parametrize("version", LIST_OFFSETS_VERSIONS)
def test_special_times_by_version(tmp_path: Path, version: int) -> None:
    async def check(node: Node) -> None:
        node.create_topic()
        assert value_of(offset_of(node, LATEST, version)) == (-1, 0, 0 if version >= 4 else -1)
        assert value_of(offset_of(node, EARLIEST, version)) == (-1, 0, 0 if version >= 4 else -1)
        node.partition().append_as_leader(batch(b"one", b"two"), NOW_MS)
        epoch = 0 if version >= 4 else -1
        for timestamp, since, wanted in (
            (LATEST, 1, (-1, 2, epoch)),
            (EARLIEST, 1, (-1, 0, epoch)),
            (MAX_TIMESTAMP, 7, (NOW_MS + 1, 1, epoch)),
            (EARLIEST_LOCAL, 8, (-1, 0, epoch)),
            (LATEST_TIERED, 9, (-1, -1, -1)),
            (PENDING_UPLOAD, 11, (-1, -1, -1)),
            (NOW_MS + 1, 1, (NOW_MS + 1, 1, epoch)),
            (NOW_MS + 2, 1, (-1, -1, -1)),
        ):
            found = offset_of(node, timestamp, version)
            if version < since:
                assert error_of(found) == ErrorCode.UNSUPPORTED_VERSION
            else:
                assert value_of(found) == wanted
        assert error_of(offset_of(node, -7, version)) == ErrorCode.UNSUPPORTED_VERSION

    run(make_node([tmp_path / "a"]), check)


def test_who_may_not_ask_for_offsets(tmp_path: Path) -> None:
    disk = FailingDisk()

    async def check(node: Node) -> None:
        node.create_topic(partitions=2, leaderEpoch=3)
        assert error_of(offset_of(node, LATEST, number=7)) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert error_of(offset_of(node, LATEST, topic="u")) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert error_of(offset_of(node, LATEST, current_leader_epoch=2)) == ErrorCode.FENCED_LEADER_EPOCH
        assert error_of(offset_of(node, LATEST, current_leader_epoch=4)) == ErrorCode.UNKNOWN_LEADER_EPOCH
        assert value_of(offset_of(node, LATEST, current_leader_epoch=3))[1] == 0
        twice = [{"partition_index": 0, "timestamp": LATEST}] * 2
        request = {"replica_id": -1, "isolation_level": 0, "topics": [{"name": "t", "partitions": twice}]}
        answer = ask(node, "list_offsets", 6, **request)
        assert [each["error_code"] for each in answer["topics"][0]["partitions"]] == [ErrorCode.INVALID_REQUEST.value]
        node.create_topic("elsewhere", topic_id=UUID(int=5 << 64), replicas=[2], isr=[2], leader=2)
        assert error_of(offset_of(node, LATEST, topic="elsewhere")) == ErrorCode.NOT_LEADER_OR_FOLLOWER
        node.create_topic("followed", topic_id=UUID(int=6 << 64), replicas=[1, 2], isr=[1, 2], leader=2, directories=[])
        assert error_of(offset_of(node, LATEST, topic="followed")) == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert value_of(offset_of(node, LATEST, topic="followed", replica_id=-2))[1] == 0
        disk.broken.add(tmp_path / "a")
        node.partition().failed(OSError("broken"))
        assert error_of(offset_of(node, LATEST)) == ErrorCode.KAFKA_STORAGE_ERROR

    run(make_node([tmp_path / "a"], disk=disk), check)


def test_a_leader_whose_high_watermark_lags_behind_its_epoch_has_no_latest_offset(tmp_path: Path) -> None:
    async def check(node: Node) -> None:
        node.create_topic(replicas=[1, 2], isr=[1, 2], directories=[])
        node.partition().append_as_leader(batch(b"one"), NOW_MS)
        assert value_of(offset_of(node, LATEST))[1] == 0
        assert value_of(offset_of(node, LATEST, replica_id=2))[1] == 1
        assert value_of(offset_of(node, NOW_MS)) == (-1, -1, -1)
        node.apply("PartitionChangeRecord", partitionId=0, topicId=from_uuid(TOPIC_ID), leader=1)
        assert error_of(offset_of(node, LATEST)) == ErrorCode.OFFSET_NOT_AVAILABLE
        assert error_of(offset_of(node, LATEST, 4)) == ErrorCode.LEADER_NOT_AVAILABLE
        assert error_of(offset_of(node, NOW_MS)) == ErrorCode.OFFSET_NOT_AVAILABLE
        assert value_of(offset_of(node, EARLIEST))[1] == 0
        node.apply("PartitionChangeRecord", partitionId=0, topicId=from_uuid(TOPIC_ID), isr=[1])
        assert value_of(offset_of(node, LATEST))[1] == 1

    run(make_node([tmp_path / "a"]), check)


# DeleteRecords


def delete(node: Node, offset: int, topic: str = "t", number: int = 0, version: int = 2) -> tuple[int, ErrorCode]:
    """Low watermark and error."""
    asked = [{"name": topic, "partitions": [{"partition_index": number, "offset": offset}]}]
    answer = ask(node, "delete_records", version, topics=asked, timeout=1000)
    ((found,),) = (each["partitions"] for each in answer["topics"])
    return found["low_watermark"], ErrorCode(found["error_code"])


@pytest.mark.parametrize("version", range(3))
def test_records_are_deleted_up_to_an_offset(tmp_path: Path, version: int) -> None:
    async def check(node: Node) -> None:
        node.create_topic()
        woken: list[int] = []
        node.partition().watch(lambda: woken.append(1))
        for i in range(4):
            node.partition().append_as_leader(batch(b"%d" % i), NOW_MS)
        woken.clear()
        assert delete(node, 2, version=version) == (2, ErrorCode.NONE)
        assert woken == [1]
        assert value_of(offset_of(node, EARLIEST))[1] == 2
        assert delete(node, 1, version=version) == (2, ErrorCode.NONE)
        assert delete(node, 5, version=version) == (-1, ErrorCode.OFFSET_OUT_OF_RANGE)
        assert delete(node, -2, version=version) == (-1, ErrorCode.OFFSET_OUT_OF_RANGE)
        assert delete(node, -1, version=version) == (4, ErrorCode.NONE)
        await node.logs.background.write_log_starts()
        assert (tmp_path / "a" / "log-start-offset-checkpoint").read_text() == "0\n1\nt 0 4\n"

    run(make_node([tmp_path / "a"]), check)


def test_what_must_not_be_deleted(tmp_path: Path) -> None:
    disk = FailingDisk()

    async def check(node: Node) -> None:
        node.create_topic()
        assert delete(node, 0, "u") == (-1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        assert delete(node, 0, number=1) == (-1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        node.create_topic("__consumer_offsets", topic_id=UUID(int=5 << 64))
        assert delete(node, 0, "__consumer_offsets") == (-1, ErrorCode.INVALID_TOPIC_EXCEPTION)
        node.configure("cleanup.policy", "compact")
        assert delete(node, 0) == (-1, ErrorCode.POLICY_VIOLATION)
        for policy in ("compact,delete", ""):
            node.configure("cleanup.policy", policy)
            assert delete(node, 0) == (0, ErrorCode.NONE)
        node.create_topic("elsewhere", topic_id=UUID(int=6 << 64), replicas=[2], isr=[2], leader=2)
        assert delete(node, 0, "elsewhere") == (-1, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        disk.broken.add(tmp_path / "a")
        node.partition().failed(OSError("broken"))
        assert delete(node, 0) == (-1, ErrorCode.KAFKA_STORAGE_ERROR)

    run(make_node([tmp_path / "a"], disk=disk), check)


# OffsetForLeaderEpoch


@pytest.mark.parametrize("version", range(2, 5))
def test_epochs_end_where_the_next_one_begins(tmp_path: Path, version: int) -> None:
    def end(node: Node, epoch: int, current: int = -1, topic: str = "t") -> tuple[int, int] | ErrorCode:
        partition = {"partition": 0, "leader_epoch": epoch, "current_leader_epoch": current}
        more = {"replica_id": -1} if version >= 3 else {}
        asked = [{"topic": topic, "partitions": [partition]}]
        answer = ask(node, "offset_for_leader_epoch", version, topics=asked, **more)
        ((found,),) = (each["partitions"] for each in answer["topics"])
        code = ErrorCode(found["error_code"])
        return code if code.value else (found["leader_epoch"], found["end_offset"])

    async def check(node: Node) -> None:
        node.create_topic()
        assert end(node, 0) == (0, 0)
        node.partition().append_as_leader(batch(b"one", b"two"), NOW_MS)
        node.apply("PartitionChangeRecord", partitionId=0, topicId=from_uuid(TOPIC_ID), leader=1)
        assert (end(node, 0), end(node, 1), end(node, 2), end(node, -1)) == ((0, 2), (1, 2), (-1, -1), (-1, -1))
        assert end(node, 0, 0) == ErrorCode.FENCED_LEADER_EPOCH
        assert end(node, 0, 2) == ErrorCode.UNKNOWN_LEADER_EPOCH
        assert end(node, 0, topic="u") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    run(make_node([tmp_path / "a"]), check)


# DescribeProducers


def producers(node: Node, topic: str, number: int = 0) -> tuple[ErrorCode, list[dict[str, Any]]]:
    answer = ask(node, "describe_producers", 0, topics=[{"name": topic, "partition_indexes": [number]}])
    ((found,),) = (each["partitions"] for each in answer["topics"])
    return ErrorCode(found["error_code"]), found["active_producers"]


def test_producers_are_those_that_kafka_described(tmp_path: Path) -> None:
    node = golden_node(golden_copy("txn/data", tmp_path))
    node.clock.ms = 1_700_000_000_000  # the clock shows the records' time: no producer has expired

    async def check(node: Node) -> None:
        checked = 0
        for path in (GOLDEN / "txn/expected/data").glob("describe-producers-*.txt"):
            topic, _, number = path.stem.removeprefix("describe-producers-").rpartition("-")
            code, found = producers(node, topic, int(number))
            assert code == ErrorCode.NONE
            lines = [line.split() for line in path.read_text().splitlines()[1:] if line.strip()]
            told = [[int(word) if word != "None" else -1 for word in line] for line in lines]
            names = (
                "producer_id",
                "producer_epoch",
                "coordinator_epoch",
                "last_sequence",
                "last_timestamp",
                "current_txn_start_offset",
            )
            ours = {each["producer_id"]: [each[name] for name in names] for each in found}
            for line in told:
                if line[4] == 0:  # the batch is from 1970: at a start its producer has expired already
                    assert line[0] not in ours
                    continue
                assert ours[line[0]] == line
                checked += 1
        assert checked > 30

    run(node, check)


def test_whose_producers_are_not_described(tmp_path: Path) -> None:
    async def check(node: Node) -> None:
        node.create_topic()
        node.partition().append_as_leader(batch(b"p", producer=(3, 1), sequence=0, transactional=True), NOW_MS)
        code, (found,) = producers(node, "t")
        assert (code, found["producer_id"], found["current_txn_start_offset"]) == (ErrorCode.NONE, 3, 0)
        assert producers(node, "a/b")[0] == ErrorCode.INVALID_TOPIC_EXCEPTION
        assert producers(node, "u")[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert producers(node, "t", 1)[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    run(make_node([tmp_path / "a"]), check)


# DescribeLogDirs


@pytest.mark.parametrize("version", range(1, 6))
def test_log_directories_and_what_lies_in_them(tmp_path: Path, version: int) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]
    disk = FailingDisk()

    async def check(node: Node) -> None:
        node.create_topic(partitions=4)
        for number in range(4):
            node.partition(number=number).append_as_leader(batch(bytes(number)), NOW_MS)
        answer = ask(node, "describe_log_dirs", version, topics=None)
        results = answer["results"]
        assert [each["log_dir"] for each in results] == [str(path) for path in paths]
        found = {each["partition_index"]: each for each in results[1]["topics"][0]["partitions"]}
        size = node.partition(number=3).log.size
        assert found.keys() == {1, 3}
        assert found[3] == {"partition_index": 3, "partition_size": size, "offset_lag": 0, "is_future_key": False}
        if version >= 4:
            volume = os.statvfs(paths[0])
            assert results[0]["total_bytes"] == volume.f_blocks * volume.f_frsize
            assert 0 < results[0]["usable_bytes"] < results[0]["total_bytes"]
        asked = [{"topic": "t", "partitions": [2]}, {"topic": "u", "partitions": [0]}]
        chosen = ask(node, "describe_log_dirs", version, topics=asked)["results"]
        assert [[topic["name"] for topic in each["topics"]] for each in chosen] == [["t"], []]
        disk.broken.add(paths[1])
        node.partition(number=1).failed(OSError("broken"))
        offline = ask(node, "describe_log_dirs", version, topics=None)["results"][1]
        assert (offline["error_code"], offline["topics"]) == (ErrorCode.KAFKA_STORAGE_ERROR.value, [])

    run(make_node(paths, disk=disk), check)


def test_cordoned_directories_get_no_new_partitions(tmp_path: Path) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]

    async def check(node: Node) -> None:
        node.apply("FeatureLevelRecord", name="metadata.version", featureLevel=30)
        node.create_topic(partitions=3)
        assert {node.partition(number=number).directory for number in range(3)} == {node.dirs.data[1]}
        results = ask(node, "describe_log_dirs", 5, topics=None)["results"]
        assert [each["is_cordoned"] for each in results] == [True, False]

    run(make_node(paths, cordoned_log_dirs=str(paths[0])), check)


def test_a_log_on_its_way_to_another_directory_is_told_of(tmp_path: Path) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]
    node = make_node(paths)
    image = node.image

    async def fill(node: Node) -> None:
        node.create_topic()
        node.partition().append_as_leader(batch(b"one"), NOW_MS)
        node.partition().append_as_leader(marker((1, 0), commit=True), NOW_MS, origin=Origin.COORDINATOR)

    async def check(node: Node) -> None:
        described = ask(node, "describe_log_dirs", 4, topics=None)["results"][1]["topics"][0]["partitions"]
        assert [(each["is_future_key"], each["offset_lag"]) for each in described] == [(True, 2)]

    run(node, fill)
    future = paths[1] / "t-0.0123456789abcdef0123456789abcdef-future"
    future.mkdir()
    (future / "partition.metadata").write_bytes((paths[0] / "t-0" / "partition.metadata").read_bytes())
    run(make_node(paths, image), check)
