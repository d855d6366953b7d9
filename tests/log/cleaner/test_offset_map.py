"""The offset map: its entries, when it is full, and its memory."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from formats.kernels.cleaner.key_map import KeyMap
from formats.record_batch import BatchHeader, Record, RecordBatch, build_batch
from kcli.log.cleaner.cleaner import PartitionCleaner
from kcli.log.cleaner.offset_map import build_offset_map, new_map
from kcli.log.cleaner.partition import CleanerLog, read_log
from kcli.log.cleaner.progress import silent
from kcli.log.config import CleanerConfig, LogConfig
from kcli.log.disk import Disk
from tests.log.cleaner.test_golden import records

ENTRY_BYTES = 24
Keys = list[list[bytes | None]]


def log_of(directory: Path, keys: Keys) -> CleanerLog:
    """Return a log with a batch for each list of keys, all in one segment, and an active segment behind it."""
    directory.mkdir()
    offset, parts = 0, []
    for batch in keys:
        made = tuple(Record(0, 0, i, key, b"v") for i, key in enumerate(batch))
        header = BatchHeader(offset, 0, 0, 2, 0, 0, len(batch) - 1, 5, 5, -1, -1, -1, 0)
        parts.append(build_batch(RecordBatch(header, made)))
        offset += len(batch)
    (directory / f"{0:020}.log").write_bytes(b"".join(parts))
    active = BatchHeader(offset, 0, 0, 2, 0, 0, 0, 5, 5, -1, -1, -1, 0)
    (directory / f"{offset:020}.log").write_bytes(build_batch(RecordBatch(active, (Record(0, 0, 0, b"z", b"v"),))))
    return read_log(directory, now_ms=10, producer_expiration_ms=1)


def skimpy(keys: Keys, limit: int) -> tuple[bool, int, dict[bytes, int]]:
    """SkimpyOffsetMap as Cleaner.buildOffsetMapForSegment fills it."""
    latest: dict[bytes, int] = {}
    reach, offset = -1, 0
    for batch in keys:
        for key in batch:
            if key is not None:
                if len(latest) >= limit:
                    return True, reach, latest
                latest[key] = offset
                reach = offset
            offset += 1
        reach = offset - 1
    return False, reach, latest


key_lists = st.lists(
    st.lists(st.one_of(st.none(), st.integers(0, 9).map(lambda i: b"k%d" % i)), min_size=1, max_size=5),
    min_size=1,
    max_size=20,
)


@settings(max_examples=60)
@given(key_lists, st.integers(1, 12))
def test_fills_as_kafkas_map(keys: Keys, slots: int) -> None:
    with tempfile.TemporaryDirectory() as root:
        log = log_of(Path(root, "made-0"), keys)
        offset_map = new_map(slots * ENTRY_BYTES, 1.0)
        stop = log.active.base_offset
        full = build_offset_map(log, 0, stop, offset_map, threads=2, progress=silent)
        assert (full, offset_map.reach) == skimpy(keys, slots)[:2]
        latest = skimpy(keys, slots)[2]
        assert {key: offset_map.get(key) for key in latest} == latest
        assert offset_map.get(b"never") == -1
        assert len(offset_map) == len(latest)


def test_several_passes_end_where_one_does(tmp_path: Path) -> None:
    keys: Keys = [[b"k%d" % ((7 * i + j) % 50) for j in range(5)] for i in range(80)]
    left = []
    for name, slots in (("one-0", 1000), ("many-0", 20)):
        log = log_of(tmp_path / name, keys)
        config = LogConfig({"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"})
        broker = CleanerConfig(dedupe_buffer_bytes=slots * ENTRY_BYTES)
        cleaner = PartitionCleaner(log, config, broker, now_ms=10, disk=Disk(), target=log.directory)
        done = cleaner.clean(None)
        assert (len(done.passes) > 1) is (name == "many-0")
        assert done.checkpoint == 400
        left.append(records(log.segments[0].path()))
    assert len(left[0]) == 50
    assert left[0] == left[1]


def test_memory_stays_within_the_setting() -> None:
    """A map that is nearly full takes the memory of Kafka's, a nearly empty one hardly any."""
    count, memory = 27_000, 30_000 * ENTRY_BYTES
    offset_map = KeyMap(memory, 0.9, bytes(16))
    assert (offset_map.slots, offset_map.limit) == (30_000, 27_000)
    assert offset_map.memory_bytes == 0
    with tempfile.TemporaryDirectory() as root:
        keys: Keys = [[b"key-%d" % (i * 1000 + j) for j in range(1000)] for i in range(count // 1000)]
        log = log_of(Path(root, "made-0"), keys)
        assert not build_offset_map(log, 0, count, offset_map, threads=2, progress=silent)
    assert len(offset_map) == count
    assert offset_map.memory_bytes <= 1.15 * memory
