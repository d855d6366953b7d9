"""What is read from the tier is what was in the log: of golden/tiered, whose records Kafka's consumer has read; and of
partitions that had several leaders."""

from __future__ import annotations

import base64
import random
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from formats.file_name import FileKind
from formats.txn_index import parse as parse_txn_index
from kcli.broker.tiering.reads import RemoteRead
from kcli.protocol.error_code import ErrorCode
from kcli.tier.cache import SegmentCache
from kcli.tier.layout import object_name
from kcli.tier.lineage import plan
from kcli.tier.local import LocalStore
from kcli.tier.segment import RemoteSegment, TieredPartition
from kcli.tier.tier import PartitionTier, Tier
from tests.broker.tiering.tier_reader import (
    Opened,
    Reading,
    Record,
    committed,
    next_offset,
    records_of,
    replica,
    running,
)
from tests.conftest import GOLDEN, is_soak, read_jsonl
from tests.tier.stores import Copy
from tests.tier.worlds import make, values

LIVES, SOAK_LIVES = 40, 3_000


@pytest.fixture
def golden(tmp_path: Path) -> Copy:
    return Copy.of_golden(tmp_path)


def known(copy: Copy) -> tuple[list[PartitionTier], dict[TieredPartition, SegmentCache]]:
    """The partitions whose topics are not deleted, and the segments of each."""
    partitions = [each for each in copy.tier().partitions if each.local is not None]
    assert len(partitions) == 3
    return partitions, {each.partition: each.cache for each in partitions}


def truth(partition: PartitionTier, *, is_committed: bool = False) -> list[Record]:
    """The records that Kafka's consumer has read of a partition."""
    suffix = ".read_committed" if is_committed else ""
    path = GOLDEN / f"tiered/expected/truth/{partition.partition.topic}{suffix}.jsonl.gz"
    return [
        (each["offset"], each["leader_epoch"], each["timestamp"], _decoded(each["key"]), _decoded(each["value"]))
        for each in read_jsonl(path)
        if each["partition"] == partition.partition.partition
    ]


def stored(copy: Copy, partition: PartitionTier) -> list[tuple[int, int, int]]:
    """Offset, timestamp and leader epoch of each record in the segments that reads use."""
    found = []
    for each in plan(partition.cache, partition.lineage, None, None).parts:
        name = object_name(partition.partition, each.segment.start_offset, each.segment.id, FileKind.LOG)
        data = memoryview((copy.remote / "kafka-tiered-storage" / name).read_bytes())
        records, _ = records_of(data, with_markers=True)
        found += [(one[0], one[2], one[1]) for one in records if one[0] <= each.last]
    return found


def _decoded(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def opened(partition: PartitionTier, *, start: int | None = None) -> Opened:
    """The log of a partition, of which everything below `start` is in the tier alone; by default what the golden log
    directory has."""
    local = partition.local
    assert local is not None
    first = local.first_offset if start is None else start
    assert first is not None
    aborted = [
        each
        for path in sorted(local.directory.glob("*.txnindex"))
        if int(path.stem) >= first
        for each in parse_txn_index(path.read_bytes())
    ]
    return Opened(partition.lineage, first, partition.first_offset or 0, aborted)


def whole(reading: Reading, partition: PartitionTier, log: Opened, **how: int | bool) -> Iterator[RemoteRead]:
    """Read from the log start offset to the end of the tier."""
    ends = max(each.end_offset for each in partition.copied())
    at = log.log_start_offset

    async def read() -> list[RemoteRead]:
        nonlocal at
        found = []
        while at <= ends:
            one = await reading.read(partition.partition, log, at, **how)  # type: ignore[arg-type]
            assert isinstance(one, RemoteRead)
            assert len(one.records), f"nothing at {at}"
            found.append(one)
            at = next_offset(records_of(one.records)[1])
        return found

    yield from running(read)


@pytest.mark.parametrize("max_bytes", [1, 700, 5_000, 1 << 20])
def test_golden_is_read_whole(golden: Copy, tmp_path: Path, max_bytes: int) -> None:
    partitions, caches = known(golden)
    for partition in partitions:
        ends = max(each.end_offset for each in partition.copied())
        reading = Reading(LocalStore(golden.remote), caches, tmp_path)
        found = []
        for each in whole(reading, partition, opened(partition), max_bytes=max_bytes):
            records, table = records_of(each.records)
            assert len(each.records) <= max_bytes or table.count == 1, "a larger batch comes alone"
            found += records
        start = partition.first_offset or 0
        expected = [each for each in truth(partition) if start <= each[0] <= ends]
        assert [each for each in found if each[0] >= start] == expected
        assert expected


@pytest.mark.parametrize("max_bytes", [1, 3_000, 1 << 20])
def test_golden_is_read_committed(golden: Copy, tmp_path: Path, max_bytes: int) -> None:
    partitions, caches = known(golden)
    dropped = 0
    for partition in partitions:
        ends = max(each.end_offset for each in partition.copied())
        reading = Reading(LocalStore(golden.remote), caches, tmp_path)
        found = []
        for each in whole(reading, partition, opened(partition), max_bytes=max_bytes, with_aborted=True):
            found += committed(each.records, each.aborted)
        expected = [each for each in truth(partition, is_committed=True) if each[0] <= ends]
        assert found == expected
        dropped += len([each for each in truth(partition) if each[0] <= ends]) - len(expected)
    assert dropped, "there are aborted transactions"


def test_every_offset_is_found(golden: Copy, tmp_path: Path) -> None:
    """A read at any offset begins with the batch that has it."""
    partitions, caches = known(golden)
    reading = Reading(LocalStore(golden.remote), caches, tmp_path)

    async def read_all() -> None:
        for partition in partitions:
            log = opened(partition)
            for offset in range(log.log_start_offset, max(each.end_offset for each in partition.copied()) + 1):
                found = await reading.read(partition.partition, log, offset, 1)
                assert isinstance(found, RemoteRead)
                _, table = records_of(found.records)
                assert table.count == 1
                assert table.row(0)[3] <= offset <= table.row(0)[4]
        assert await reading.read(partition.partition, log, 10_000) is ErrorCode.OFFSET_OUT_OF_RANGE
        found = await reading.read(partition.partition, log, log.log_start_offset, 1, min_one_batch=False)
        assert found == RemoteRead(memoryview(b""))

    running(read_all)
    assert reading.quota.size > 0


def test_timestamps(golden: Copy, tmp_path: Path) -> None:
    """The record found is the first one with the timestamp or a later one, markers of transactions included, as in
    Kafka."""
    partitions, caches = known(golden)
    reading = Reading(LocalStore(golden.remote), caches, tmp_path)

    async def find_all() -> int:
        count = 0
        for partition in partitions:
            ends = max(each.end_offset for each in partition.copied())
            log = opened(partition, start=ends + 1)
            records = [each for each in stored(golden, partition) if each[0] >= log.log_start_offset]
            times = sorted({each[1] + delta for each in records for delta in (-1, 0, 1)})
            for time_ms in [0, *times[::7], times[-1]]:
                expected = next(((each[1], each[0], each[2]) for each in records if each[1] >= time_ms), None)
                found = await reading.reader.find_time(replica(partition.partition), log, time_ms)  # type: ignore[arg-type]
                assert found == expected, time_ms
                count += 1
        return count

    assert running(find_all) > 50


def test_lives_of_partitions(tmp_path: Path) -> None:
    """Below the local log, a partition that had several leaders is read from the tier as the last leader has it: no
    record that a leader lost comes back."""
    dice = random.Random(1)
    read = 0
    for seed in range(SOAK_LIVES if is_soak() else LIVES):
        home = tmp_path / str(seed)
        world = make(home, seed)
        store = LocalStore(home / "tier")
        (partition,) = Tier.read(store, home / "data").partitions
        reading = Reading(store, {partition.partition: partition.cache}, home)
        log = opened(partition, start=world.local)

        async def read_all(
            whose: TieredPartition = partition.partition, reading: Reading = reading, log: Opened = log
        ) -> list[tuple[int, int]]:
            at, found = 0, []
            while at < log.local_log_start_offset:
                one = await reading.read(whose, log, at, dice.choice((1, 200, 1_000, 1 << 20)))
                assert isinstance(one, RemoteRead), one
                records, table = records_of(one.records)
                found += [(each[0], each[1]) for each in records if each[0] >= at]
                at = next_offset(table)
            return found

        found = [each for each in running(read_all) if each[0] < world.local]
        assert found == [each for each in values(world.log) if each[0] < world.local], seed
        read += len(found)
    assert read > 1_000


@pytest.mark.parametrize("fault", ["another segment's", "zeros behind the first batch"])
def test_an_object_with_other_bytes_is_an_error(golden: Copy, tmp_path: Path, fault: str) -> None:
    """A read of its offsets gets an error, none skips them."""
    partitions, caches = known(golden)
    (partition, *_) = partitions
    one, other = partition.copied()[:2]
    paths = [
        golden.remote
        / "kafka-tiered-storage"
        / object_name(partition.partition, each.start_offset, each.id, FileKind.LOG)
        for each in (one, other)
    ]
    if fault == "another segment's":
        paths[0].write_bytes(paths[1].read_bytes())
    else:
        data = paths[0].read_bytes()
        first = 12 + int.from_bytes(data[8:12])
        assert len(data) > first, "there is a second batch"
        paths[0].write_bytes(data[:first] + bytes(len(data) - first))
    reading = Reading(LocalStore(golden.remote), caches, tmp_path)

    async def read_all() -> set[object]:
        log = opened(partition)
        found = [await reading.read(partition.partition, log, at) for at in range(one.start_offset, one.end_offset + 1)]
        return {each if isinstance(each, ErrorCode) else "records" for each in found}

    expected: set[object] = {ErrorCode.UNKNOWN_SERVER_ERROR}
    assert running(read_all) == (expected if fault == "another segment's" else {*expected, "records"})


def test_a_flipped_byte_is_never_delivered(golden: Copy, tmp_path: Path) -> None:
    """Wherever it is in a .log object: what is before its batch is read, a read of its batch gets an error."""
    partitions, caches = known(golden)
    (partition, *_) = partitions
    segment = max(partition.copied(), key=lambda each: each.size)
    name = object_name(partition.partition, segment.start_offset, segment.id, FileKind.LOG)
    path = golden.remote / "kafka-tiered-storage" / name
    sound = path.read_bytes()
    dice = random.Random(7)
    offsets = range(segment.start_offset, segment.end_offset + 1)

    async def read_all() -> dict[int, bytes | ErrorCode]:
        reading = Reading(LocalStore(golden.remote), caches, tmp_path)
        found: dict[int, bytes | ErrorCode] = {}
        for at in offsets:
            one = await reading.read(partition.partition, opened(partition), at)
            found[at] = bytes(one.records) if isinstance(one, RemoteRead) else one
        return found

    whole = running(read_all)
    assert all(isinstance(each, bytes) for each in whole.values())
    for _ in range(12):
        damaged = bytearray(sound)
        damaged[dice.randrange(len(damaged))] ^= 1 << dice.randrange(8)
        path.write_bytes(damaged)
        found = running(read_all)
        assert ErrorCode.UNKNOWN_SERVER_ERROR in found.values()
        for at, each in found.items():
            expected = whole[at]
            assert isinstance(expected, bytes)
            assert each is ErrorCode.UNKNOWN_SERVER_ERROR or (isinstance(each, bytes) and expected.startswith(each))
            assert each != b""
    path.write_bytes(sound)
    assert running(read_all) == whole


def test_a_wrong_index_skips_no_record_and_is_fetched_anew(golden: Copy, tmp_path: Path) -> None:
    partitions, caches = known(golden)
    partition, segment = next(
        (partition, each)
        for partition in partitions
        for each in partition.copied()
        if (golden.remote / "kafka-tiered-storage" / index_name(each)).stat().st_size > 16
    )
    path = golden.remote / "kafka-tiered-storage" / index_name(segment)
    sound = path.read_bytes()
    entries = [sound[i : i + 8] for i in range(0, len(sound), 8)]
    shifted = b"".join(one[:4] + two[4:] for one, two in pairwise([*entries, entries[-1]]))  # each names a later batch
    offsets = range(segment.start_offset, segment.end_offset + 1)

    async def firsts() -> set[str]:
        reading = Reading(LocalStore(golden.remote), caches, tmp_path)
        found = set()
        for at in offsets:
            one = await reading.read(partition.partition, opened(partition), at)
            if isinstance(one, RemoteRead):
                records, _ = records_of(one.records)
                found.add("from the offset on" if records[0][0] <= at <= records[-1][0] else "behind it")
            else:
                found.add(one.name)
        return found

    path.write_bytes(shifted)
    assert running(firsts) == {"from the offset on", "UNKNOWN_SERVER_ERROR"}
    path.write_bytes(sound)
    running(firsts)  # the first read that meets the wrong index in the cache removes it
    assert running(firsts) == {"from the offset on"}


def index_name(segment: RemoteSegment) -> str:
    return object_name(segment.partition, segment.start_offset, segment.id, FileKind.OFFSET_INDEX)
