"""A commit that was accepted is repeated by compiled code, from socket to log, until something changes that its
acceptance depended on."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from formats.batch_writer import write_batch
from formats.kernels.append import LogState
from formats.kernels.group_requests import Interval, KeptCommits, read_offset_commit
from formats.kernels.produce import Lane, ProduceLanes
from formats.message import uuid_text
from kcli.broker.coordinators.log import read_log
from kcli.broker.network import data_plane
from kcli.broker.network.connection import PLAIN_TURNS, State
from kcli.group.committed import CommittedOffset
from kcli.group.records import offset_record, parse
from kcli.protocol.error_code import ErrorCode
from tests.broker.full_disk import FullDisk
from tests.broker.network.test_group_requests import framed
from tests.broker.running import Client, RunningNode, running_node
from tests.runways import bare_runway

OPTIONS: dict[str, Any] = {"offsets_topic_num_partitions": "1", "group_initial_rebalance_delay_ms": "0"}
GROUP = "group"
NOW_MS = 1_700_000_000_000


class Committer:
    """A client that commits offsets of two partitions, and counts the commits that compiled code repeats."""

    def __init__(self, node: RunningNode, client: Client) -> None:
        self.node, self.client = node, client
        self.topic_id = str(self.client.create_topic("orders", 2)["topic_id"])
        self.client.call("find_coordinator", 4, key_type=0, coordinator_keys=[GROUP])
        self.client.wait_for_leaders("__consumer_offsets")
        self.decoded = 0
        server = node.node.server
        at_once = server.at_once

        def noted(frame: memoryview, client: Any) -> Any:
            self.decoded += int.from_bytes(frame[:2]) == 8
            return at_once(frame, client)

        server.at_once = noted
        while self.commit(0) != [0, 0]:
            pass

    def commit(self, offset: int, *, member: tuple[str, int] = ("", -1), metadata: str | None = "") -> list[int]:
        """Commit an offset and its double. Return the error codes."""
        partitions = [
            {
                "partition_index": index,
                "committed_offset": offset * (index + 1),
                "committed_leader_epoch": offset % 3,
                "committed_metadata": metadata,
            }
            for index in range(2)
        ]
        answer = self.client.call(
            "offset_commit",
            10,
            group_id=GROUP,
            member_id=member[0],
            generation_id_or_member_epoch=member[1],
            group_instance_id=None,
            topics=[{"topic_id": self.topic_id, "partitions": partitions}],
        )
        return [each["error_code"] for topic in answer["topics"] for each in topic["partitions"]]

    def is_repeated(self, offset: int, **how: Any) -> bool:
        """Commit, and return whether compiled code has repeated an earlier commit."""
        before = self.decoded
        assert self.commit(offset, **how) == [0, 0]
        assert self.committed() == [offset, offset * 2]
        return self.decoded == before

    def committed(self) -> list[int]:
        """Return the offsets that OffsetFetch returns. It is a step of the state machine."""
        answer = self.client.call("offset_fetch", 7, group_id=GROUP, topics=None, require_stable=True)
        found = {each["partition_index"]: each for topic in answer["topics"] for each in topic["partitions"]}
        assert all(each["committed_leader_epoch"] == found[0]["committed_offset"] % 3 for each in found.values())
        return [found[index]["committed_offset"] for index in range(2)]

    def repeats(self) -> None:
        """Let a commit be repeated."""
        self.commit(1)
        before = self.decoded
        assert self.commit(2) == [0, 0]
        assert self.decoded == before


@pytest.fixture
def committer(tmp_path: Path) -> Iterator[Committer]:
    with running_node(tmp_path / "data", **OPTIONS) as node, node.client() as client:
        yield Committer(node, client)


def test_offsets_are_those_of_the_last_repetition_also_after_a_restart(tmp_path: Path) -> None:
    with running_node(tmp_path / "data", **OPTIONS) as node, node.client() as client:
        committer = Committer(node, client)
        committer.commit(0)
        before = committer.decoded
        for offset in range(1, 50):
            assert committer.commit(offset) == [0, 0]
        assert committer.decoded == before
        assert committer.committed() == [49, 98]
        log = node.node.broker.partitions.find("__consumer_offsets", 0).log
        batches = list(read_log(log))[-50:]
        assert [len(each.records) for each in batches] == [2] * 50
        values = [parse(record) for each in batches for _, record in each.records]
        assert [each.value["offset"] for each in values if each and each.value] == [
            offset * factor for offset in range(50) for factor in (1, 2)
        ]
        assert log.high_watermark == log.log_end_offset
    with running_node(tmp_path / "data", **OPTIONS) as node, node.client() as client:
        while True:
            answer = client.call("offset_fetch", 7, group_id=GROUP, topics=None, require_stable=True)
            if not answer["error_code"]:
                break
        assert [each["committed_offset"] for each in answer["topics"][0]["partitions"]] == [49, 98]


def test_a_step_of_the_state_machine_ends_the_repetitions(committer: Committer) -> None:
    committer.repeats()
    committer.committed()
    assert not committer.is_repeated(3)
    committer.repeats()
    joined = committer.client.call(
        "join_group",
        7,
        group_id=GROUP,
        session_timeout=10_000,
        rebalance_timeout=60_000,
        member_id="",
        group_instance_id=None,
        protocol_type="consumer",
        protocols=[{"name": "range", "metadata": b""}],
    )
    assert joined["error_code"] == ErrorCode.MEMBER_ID_REQUIRED
    before = committer.decoded
    assert committer.commit(4) == [0, 0]
    assert committer.decoded == before + 1


def test_other_metadata_is_another_commit(committer: Committer) -> None:
    committer.repeats()
    before = committer.decoded
    assert committer.commit(3, metadata="x") == [0, 0]
    assert committer.commit(3, metadata="x" * 5_000) == [ErrorCode.OFFSET_METADATA_TOO_LARGE] * 2
    assert committer.commit(3, metadata="x" * 5_000) == [ErrorCode.OFFSET_METADATA_TOO_LARGE] * 2
    assert committer.decoded == before + 3


def test_a_topic_that_is_gone_is_not_committed(committer: Committer) -> None:
    committer.repeats()
    committer.client.call("delete_topics", 6, topics=[{"name": "orders", "topic_id": None}], timeout=1000)
    assert committer.commit(3) == [ErrorCode.UNKNOWN_TOPIC_ID] * 2


def test_any_change_of_the_metadata_lets_the_commit_be_accepted_anew(committer: Committer) -> None:
    committer.repeats()
    committer.client.create_topic("other", 1)
    before = committer.decoded
    assert committer.commit(3) == committer.commit(4) == [0, 0]
    assert committer.decoded == before + 1


def test_a_change_of_the_partition_lets_the_commit_be_accepted_anew(committer: Committer) -> None:
    committer.repeats()
    partition = committer.node.node.broker.partitions.find("__consumer_offsets", 0)
    committer.node.run(lambda: partition.update(partition.state))
    before = committer.decoded
    assert committer.commit(3) == committer.commit(4) == [0, 0]
    assert committer.decoded == before + 1


def test_a_write_that_fails(tmp_path: Path) -> None:
    sign = tmp_path / "full"
    with running_node(tmp_path / "data", FullDisk(sign), **OPTIONS) as node, node.client() as client:
        committer = Committer(node, client)
        committer.repeats()
        sign.write_text("__consumer_offsets-*/*.log")
        codes = committer.commit(3)
        assert len(codes) == 2
        assert set(codes) <= {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE}


def test_no_thread_gets_the_connection(committer: Committer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads repeat no commits."""
    monkeypatch.setattr(data_plane, "processors", lambda: 8)
    committer.repeats()
    for offset in range(PLAIN_TURNS + 2):
        committer.commit(offset)
        assert {each._state for each in committer.node.node.server.connections} == {State.READING}


# the kernel


class Led(LogState):
    """A partition and its log, alone."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.runway = bare_runway(
            self, write=lambda parts, _: self.written.append(bytes(parts[0])), offset_slots=1000, time_slots=1000
        )
        self.lacks_replicas = False

    def plain_appended(self) -> int:
        return 0

    def appended_aside(self) -> None:
        """Do nothing: nobody waits."""

    def failed(self, error: Exception) -> None:
        raise error


class OfOne:
    """One kept commit, of version 9, and what it has applied."""

    def __init__(self, bytes_max: int = 1 << 20) -> None:
        self.led, self.applied = Led(), list[tuple[int, int, list[tuple[int, int]]]]()
        self.lanes: ProduceLanes[Led] = ProduceLanes(0)
        self.lane = self.opened()
        self.interval = Interval(self.lane)
        self.kept = KeptCommits(bytes_max).at(7, NOW_MS)
        self.keep()

    def opened(self, *, alone: bool = True) -> Lane:
        return self.lanes.add(b"t", bytes(16), 0, self.led, self.led, alone=alone, watchers=({}, {}))

    def keep(self, group: str = GROUP) -> None:
        frame = commit_frame(5, 1, group)
        read = read_offset_commit(frame)
        assert read is not None
        offset = CommittedOffset(5, NOW_MS, 1, "ä", topic_id=uuid_text(UUID(int=1).bytes))
        batch = write_batch([offset_record(group, "orders", 0, offset)], NOW_MS, base_sequence=0)
        self.kept.keep(frame, read[6], batch, self.interval, lambda *of: self.applied.append(of))


def commit_frame(offset: int, epoch: int, group: str = GROUP, metadata: str = "ä") -> bytes:
    """Return an OffsetCommit, version 9, of orders-0."""
    raw, of_group = metadata.encode(), group.encode()
    numbers = offset.to_bytes(8, signed=True) + epoch.to_bytes(4, signed=True)
    head = bytes([len(of_group) + 1]) + of_group + b"\xff\xff\xff\xff\x01\0"
    return framed(8, 9, head + b"\2\7orders\2\0\0\0\0" + numbers + bytes([len(raw) + 1]) + raw + b"\0\0\0")


def test_it_writes_the_batch_that_the_state_machine_would() -> None:
    one = OfOne()
    topic_id = uuid_text(UUID(int=1).bytes)
    for place, (offset, epoch) in enumerate(((6, 1), (2**63 - 1, 2**31 - 1), (-1, -1))):
        now_ms = NOW_MS + place
        assert one.kept.at(7, now_ms).answer(commit_frame(offset, epoch)) is not None
        record = offset_record(GROUP, "orders", 0, CommittedOffset(offset, now_ms, epoch, "ä", topic_id=topic_id))
        same = write_batch([record], now_ms, base_sequence=0, base_offset=place, leader_epoch=0)
        assert one.led.written[-1] == same
        assert one.applied[-1] == (now_ms, place, [(offset, epoch)])
        assert one.led.high_watermark == one.led.log_end_offset == place + 1


def test_what_is_not_repeated() -> None:
    def is_repeated(one: OfOne, frame: bytes = commit_frame(6, 1)) -> bool:
        before = len(one.led.written)
        found = one.kept.answer(frame) is not None
        assert len(one.led.written) == len(one.applied) == before + found
        return found

    one = OfOne()
    assert is_repeated(one)
    for frame in (commit_frame(6, 1, "grouq"), commit_frame(6, 1, metadata="ö"), commit_frame(6, 1) + b"\0", b""):
        assert not is_repeated(one, frame)
    one.kept.at(8, NOW_MS)
    assert not is_repeated(one), "other metadata"
    one.kept.at(7, NOW_MS)
    one.led.high_watermark -= 1
    assert not is_repeated(one), "records are not committed"
    one.led.high_watermark += 1
    assert is_repeated(one)
    runway, one.led.runway = one.led.runway, None
    assert not is_repeated(one), "the next batch needs all checks"
    one.led.runway = runway
    one.lane.close()
    assert not is_repeated(one), "the partition's state has changed"
    one.interval = Interval(one.opened(alone=False))
    one.keep()
    assert not is_repeated(one), "there are other replicas"
    one.interval = Interval(one.opened())
    one.keep()
    assert is_repeated(one)
    one.interval.end()
    assert not is_repeated(one), "the state machine has taken a step"


def test_every_frame_that_differs_elsewhere_is_another_commit() -> None:
    one, frame = OfOne(), commit_frame(6, 1)
    numbers = frame.index((6).to_bytes(8))
    for at in range(len(frame)):
        for value in (0, 1, 127, 128, 255):
            changed = bytearray(frame)
            changed[at] = value
            is_number = 4 <= at < 8 or numbers <= at < numbers + 12 or changed == frame
            assert (one.kept.answer(bytes(changed)) is not None) is is_number
        assert one.kept.answer(frame[:at]) is None


def test_it_keeps_up_to_so_many_bytes() -> None:
    one = OfOne(bytes_max=10_000)
    counts = []
    for number in count():
        one.keep(f"group-{number % 10}")
        counts.append(len(one.kept))
        if number == 30:
            break
    assert max(counts) == 4
    assert min(counts[4:]) == 1
