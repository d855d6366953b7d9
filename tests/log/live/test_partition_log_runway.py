"""Batches that take the short way into an open log make the same log as on the long way, whatever happens in between:
a leader's log, and that of a follower."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formats.kernels.batches import BatchTable
from formats.kernels.columns import BatchRow
from formats.kernels.crc import crc32c
from formats.kernels.scan import scan
from kcli.log.config import LogConfig
from kcli.log.disk import Disk
from kcli.log.live.partition_log import Appended, PartitionLog, UnexpectedOffsets
from kcli.log.live.validator import AppendRefused, Origin
from tests.conftest import examples
from tests.log.batches import NOW_MS, batch, marker

CONFIGS: tuple[dict[str, str], ...] = (
    {"index.interval.bytes": "0"},
    {"internal.segment.bytes": "900", "index.interval.bytes": "100"},
    {"segment.index.bytes": "60", "index.interval.bytes": "100"},
    {"segment.ms": "40", "index.interval.bytes": "100"},
    {"flush.messages": "7"},
    {"cleanup.policy": "compact"},
    {"message.timestamp.type": "LogAppendTime"},
    {"compression.type": "lz4"},
    {"message.timestamp.before.max.ms": "30", "message.timestamp.after.max.ms": "30"},
    {"max.message.bytes": "400"},
)


Step = Callable[[PartitionLog], object]


class LongWay(PartitionLog):
    """A log whose batches all take the long way."""

    def _append_plain(self, data: bytearray | memoryview, leader_epoch: int, now_ms: int) -> Appended | None:  # noqa: ARG002 (the signature of what it stands for)
        return None

    def _follow_plain(self, data: bytes | bytearray | memoryview, leader_epoch: int) -> Appended | None:  # noqa: ARG002 (as above)
        return None


class Counting(PartitionLog):
    """A log that counts the batches, or a leader's answers with batches, that take the short way."""

    taken = 0

    def _append_plain(self, data: bytearray | memoryview, leader_epoch: int, now_ms: int) -> Appended | None:
        found = super()._append_plain(data, leader_epoch, now_ms)
        self.taken += found is not None
        return found

    def _follow_plain(self, data: bytes | bytearray | memoryview, leader_epoch: int) -> Appended | None:
        found = super()._follow_plain(data, leader_epoch)
        self.taken += found is not None
        return found


def damaged(draw: st.DataObject, data: bytearray) -> bytearray:
    """Return the batch, rarely with a change behind its CRC field, and then mostly with a correct CRC."""
    how = draw.draw(st.sampled_from([None] * 12 + ["flip", "cut", "behind"]))
    if how is None:
        return data
    if how == "flip":
        data[draw.draw(st.integers(21, len(data) - 1))] ^= 1 << draw.draw(st.integers(0, 7))
    elif how == "cut":
        del data[-draw.draw(st.integers(1, 5)) :]
    else:
        data += draw.draw(st.sampled_from([b"\0", b"garbage"]))
    data[8:12] = (len(data) - 12).to_bytes(4)
    if draw.draw(st.integers(0, 4)):
        data[17:21] = crc32c(data[21:]).to_bytes(4)
    return data


class Sender:
    """The sequences of a few producers."""

    def __init__(self) -> None:
        self.next_sequence: dict[tuple[int, int], int] = {}

    def batch(self, draw: st.DataObject, at_ms: int) -> bytearray:
        """Return a batch, mostly one that continues its producer's sequence."""
        values = draw.draw(st.lists(st.binary(max_size=60), min_size=1, max_size=5))
        producer = draw.draw(st.sampled_from([(-1, -1), (5, 0), (5, 0), (5, 1), (6, 0), (7, 3)]))
        sequence = -1
        if producer[0] >= 0:
            known = self.next_sequence.get(producer, 0)
            sequence = max(0, known + draw.draw(st.sampled_from([0, 0, 0, 0, 1, -len(values)])))
            if sequence == known:
                self.next_sequence[producer] = known + len(values)
        made = batch(
            *values,
            producer=producer,
            sequence=sequence,
            transactional=producer == (7, 3),
            timestamp_ms=at_ms + draw.draw(st.sampled_from([0, 0, 0, -10, -50, 50])),
            codec=draw.draw(st.sampled_from([0, 0, 0, 1, 2, 3, 3, 4])),
        )
        return damaged(draw, made)


def outcome(do: Step, log: PartitionLog) -> object:
    """Return the result of a step, or the reason of its refusal."""
    try:
        return do(log)
    except UnexpectedOffsets as refused:
        return str(refused)
    except AppendRefused as refused:
        records = refused.records
        errors = None if records is None else [(records.index(i), records.reason(i)) for i in range(len(records))]
        return refused.error, refused.reason, errors


def files(directory: Path) -> dict[str, bytes]:
    """All files."""
    return {each.name: each.read_bytes() for each in sorted(directory.iterdir())}


def step(draw: st.DataObject, sender: Sender, epoch: int, now_ms: int, end_offset: int) -> Step:
    """Return a random step for a log, which gives the same on all equal logs."""
    kinds = ["append"] * 12 + ["coordinator"] * 2 + ["marker", "roll", "truncate", "epoch", "flush", "config"]
    kind = draw.draw(st.sampled_from(kinds))
    if kind == "coordinator":
        own = batch(b"a", b"b", timestamp_ms=now_ms)
        return lambda log: log.append_as_leader(bytearray(own), epoch, now_ms, origin=Origin.COORDINATOR)
    if kind == "marker":
        data = marker((7, 3), commit=True, timestamp_ms=now_ms)
        return lambda log: log.append_as_leader(bytearray(data), epoch, now_ms, origin=Origin.COORDINATOR)
    if kind == "roll" and end_offset:
        return lambda log: log.roll(now_ms)
    if kind == "truncate":
        to = draw.draw(st.integers(0, end_offset))
        return lambda log: bool(log.truncate_to(to, now_ms))
    if kind == "epoch":
        return lambda log: log.start_epoch(epoch + 1)
    if kind == "flush":
        return lambda log: log.flush(now_ms)
    if kind == "config":
        config = LogConfig(draw.draw(st.sampled_from(CONFIGS)))
        return lambda log: log.set_config(config)
    data = sender.batch(draw, now_ms)
    return lambda log: log.append_as_leader(bytearray(data), epoch, now_ms)


def followed(draw: st.DataObject, leader: PartitionLog, from_offset: int, now_ms: int) -> Step:
    """Return a follower's step that appends some of the leader's batches, mostly those that come next, whole and
    sound."""
    data = b"".join(each.read_bytes() for each in sorted(leader.directory.glob("*.log")))
    table = BatchTable()
    scan(data, 0, len(data), 0, table)
    rows = [BatchRow._make(table.row(i)) for i in range(table.count)]
    rows = [each for each in rows if each.base_offset >= from_offset] or rows
    skipped = draw.draw(st.sampled_from([0] * 8 + [1]))
    rows = rows[skipped : skipped + draw.draw(st.integers(1, 4))]
    fetched = bytearray(b"".join(data[each.start : each.start + each.size] for each in rows))
    damage = draw.draw(st.sampled_from([""] * 12 + ["flip", "cut", "again"])) if fetched else ""
    if damage == "flip":
        fetched[-draw.draw(st.integers(1, rows[-1].size - 8))] ^= 1 << draw.draw(st.integers(0, 7))  # not its offset
    elif damage == "cut":
        del fetched[-draw.draw(st.integers(1, len(fetched))) :]
    elif damage == "again":
        fetched *= 2
    epoch = draw.draw(st.sampled_from([100, 100, 100, 0]))
    return lambda log: log.append_as_follower(bytes(fetched), epoch, now_ms)


def opened(home: Path, config: LogConfig, *kinds: type[PartitionLog]) -> list[PartitionLog]:
    """Return new, equal logs."""
    logs = []
    for kind in kinds:
        directory = home / kind.__name__
        directory.mkdir()
        logs.append(kind(directory, Disk(), config, NOW_MS))
    return logs


@examples(40, soak=2_000)
@given(st.data())
def test_the_short_way_makes_the_same_log_of_a_follower(draw: st.DataObject) -> None:
    home = Path(tempfile.mkdtemp())
    try:
        (leader,) = opened(home, LogConfig(), PartitionLog)
        short, long = logs = opened(home, LogConfig(draw.draw(st.sampled_from(CONFIGS))), Counting, LongWay)
        sender, now_ms = Sender(), NOW_MS
        for _ in range(draw.draw(st.integers(1, 30))):
            now_ms += draw.draw(st.sampled_from([0, 1, 5, 20]))
            for _ in range(draw.draw(st.integers(0, 3))):
                outcome(step(draw, sender, leader.latest_epoch or 0, now_ms, leader.log_end_offset), leader)
            if draw.draw(st.integers(0, 6)):
                do = followed(draw, leader, short.log_end_offset, now_ms)
            else:
                do = step(draw, sender, short.latest_epoch or 0, now_ms, short.log_end_offset)
            assert outcome(do, short) == outcome(do, long)
            assert short.log_end_offset == long.log_end_offset
            assert short.base_offsets == long.base_offsets
            assert short.producers.table.entries() == long.producers.table.entries()
        for log in logs:
            log.close(now_ms)
        assert files(short.directory) == files(long.directory)
    finally:
        shutil.rmtree(home)


@examples(40, soak=2_000)
@given(st.data())
def test_the_short_way_makes_the_same_log(draw: st.DataObject) -> None:
    config = LogConfig(draw.draw(st.sampled_from(CONFIGS)))
    home = Path(tempfile.mkdtemp())
    try:
        logs = short, long = opened(home, config, PartitionLog, LongWay)
        sender, now_ms = Sender(), NOW_MS
        for _ in range(draw.draw(st.integers(1, 30))):
            now_ms += draw.draw(st.sampled_from([0, 1, 5, 20]))
            do = step(draw, sender, short.latest_epoch or 0, now_ms, short.log_end_offset)
            assert outcome(do, short) == outcome(do, long)
            assert short.log_end_offset == long.log_end_offset
            assert short.base_offsets == long.base_offsets
            assert short.producers.table.entries() == long.producers.table.entries()
        for log in logs:
            log.close(now_ms)
        assert files(short.directory) == files(long.directory)
    finally:
        shutil.rmtree(home)


@pytest.mark.parametrize("producer", [(-1, -1), (5, 0)])
def test_most_batches_go_the_short_way(tmp_path: Path, producer: tuple[int, int]) -> None:
    log = Counting(tmp_path, Disk(), LogConfig(), NOW_MS)
    for i in range(10):
        data = batch(b"value", producer=producer, sequence=i if producer[0] >= 0 else -1, timestamp_ms=NOW_MS + i)
        log.append_as_leader(memoryview(data), 0, NOW_MS + i)
    assert log.log_end_offset == 10
    assert log.taken == 9
    log.append_as_leader(batch(b"value", producer=(7, 3), sequence=0, transactional=True), 0, NOW_MS)
    log.append_as_leader(batch(b"value"), 0, NOW_MS)
    log.append_as_leader(batch(b"value"), 0, NOW_MS)
    assert log.taken == 10


@pytest.mark.parametrize("codec", range(5))
def test_compressed_batches_go_the_short_way(tmp_path: Path, codec: int) -> None:
    log = Counting(tmp_path, Disk(), LogConfig(), NOW_MS)
    for i in range(4):
        log.append_as_leader(batch(b"value" * 100, b"more", codec=codec, timestamp_ms=NOW_MS + i), 0, NOW_MS + i)
    assert (log.log_end_offset, log.taken) == (8, 3)
    log.set_config(LogConfig({"compression.type": "lz4"}))
    for _ in range(3):
        log.append_as_leader(batch(b"value" * 100, codec=codec), 0, NOW_MS)
    assert (log.log_end_offset, log.taken) == (11, 5 if codec == 3 else 3)


def test_most_batches_of_a_leader_go_the_short_way(tmp_path: Path) -> None:
    log = Counting(tmp_path, Disk(), LogConfig(), NOW_MS)

    def fetched(at: int, epoch: int) -> bytes:
        one = batch(b"value", producer=(5, 0), sequence=at, base_offset=at, leader_epoch=epoch)
        values = b"value", b"more"
        return bytes(one + batch(*values, producer=(5, 0), sequence=at + 1, base_offset=at + 1, leader_epoch=epoch))

    for i in range(4):
        log.append_as_follower(memoryview(fetched(3 * i, 7)), 7, NOW_MS)
    assert (log.log_end_offset, log.taken) == (12, 3)
    log.append_as_follower(fetched(12, 8), 8, NOW_MS)  # the first batches of a leader epoch
    log.append_as_follower(fetched(15, 8), 8, NOW_MS)
    assert (log.log_end_offset, log.taken, log.latest_epoch) == (18, 4, 8)
