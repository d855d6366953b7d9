"""The cleaner keeps the same records by the bits of its map as by looking up every key."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from random import Random
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formats.kernels.cleaner.key_map import KeyMap
from formats.kernels.crc import crc32c
from formats.producer_snapshot import ProducerSnapshot
from formats.producer_snapshot import build as build_snapshot
from formats.record_batch import BatchHeader, Record, RecordBatch, build_batch
from kcli.log.cleaner.cleaner import Cleaning, PartitionCleaner
from kcli.log.cleaner.partition import read_log
from kcli.log.config import CleanerConfig, LogConfig
from kcli.log.disk import Disk
from kcli.log.source import FileSource
from tests.conftest import examples
from tests.log.cleaner.random_log import RandomLog

RULES = LogConfig({"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"})
TIME_MS = 1_700_000_000_000
DAY_MS = 86_400_000

Pair = tuple[bytes | None, bytes | None]  # key, value


class Unmarked(KeyMap):
    """A map without bits."""

    def mark(self, first_offset: int) -> bool:
        assert first_offset >= 0
        return False


def unmarked(memory_bytes: int, load_factor: float) -> Unmarked:
    return Unmarked(memory_bytes, load_factor, os.urandom(16))


def clean(directory: Path, target: Path, checkpoint: int | None, broker: CleanerConfig) -> tuple[Cleaning, list[bytes]]:
    log = read_log(directory, now_ms=TIME_MS + DAY_MS, producer_expiration_ms=DAY_MS)
    target.mkdir()
    cleaner = PartitionCleaner(log, RULES, broker, now_ms=TIME_MS + DAY_MS, disk=Disk(), target=target)
    done = cleaner.clean(checkpoint)
    return done, [path.read_bytes() for path in sorted(target.iterdir())]


def compare(directory: Path, checkpoint: int | None = None, keys: int = 10_000) -> Cleaning:
    """Clean both ways. Returns what was done."""
    broker = CleanerConfig(dedupe_buffer_bytes=24 * keys)
    with_bits = clean(directory, directory.parent / "bits", checkpoint, broker)
    with patch("kcli.log.cleaner.cleaning_pass.new_map", unmarked):
        without = clean(directory, directory.parent / "none", checkpoint, broker)
    assert with_bits[0].counts == without[0].counts
    assert with_bits[1] == without[1]
    return with_bits[0]


def segment(directory: Path, offset: int, batches: Sequence[Sequence[Pair]], gap: int = 0) -> int:
    """Write a segment of plain batches, one (key, value) in each record, with `gap` offsets between them. Returns the
    next offset."""
    data = b""
    base = offset
    for records in batches:
        last = len(records) - 1
        header = BatchHeader(offset, 0, 0, 2, 0, 0, last, TIME_MS, TIME_MS, -1, -1, -1, len(records))
        data += build_batch(RecordBatch(header, tuple(Record(0, 0, i, *each) for i, each in enumerate(records))))
        offset += len(records) + gap
    (directory / f"{base:020}.log").write_bytes(data)
    return offset


@examples(40, soak=1000)
@given(st.integers(0, 2**32 - 1))
def test_logs_of_all_kinds(seed: int) -> None:
    random = Random(seed)
    made = RandomLog(seed, batches=40, legacy=random.random() < 0.2)
    checkpoint = random.choice((None, made.segments[len(made.segments) // 2].base_offset))
    with tempfile.TemporaryDirectory() as root:
        made.write_to(Path(root, "made-0"))
        compare(Path(root, "made-0"), checkpoint, random.choice((8, 10_000)))


@examples(40, soak=1000)
@given(st.integers(0, 2**32 - 1))
def test_plain_logs(seed: int) -> None:
    random = Random(seed)
    nulls = random.choice((0, 0, 0.1))
    with tempfile.TemporaryDirectory() as root:
        directory = Path(root, "made-0")
        directory.mkdir()
        offset = random.choice((0, 7, 2**40))
        for _ in range(3):
            batches = [
                [
                    (
                        None if random.random() < nulls else b"k%d" % random.randrange(6),
                        None if random.random() < 0.2 else random.randbytes(20),
                    )
                    for _ in range(random.randrange(1, 5))
                ]
                for _ in range(random.randrange(1, 8))
            ]
            offset = segment(directory, offset, batches, random.choice((0, 0, 200)))
        compare(directory, keys=random.choice((5, 10_000, 10_000)))


def test_what_is_dead_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A segment has three windows; the third repeats all keys of the first two."""
    directory = tmp_path / "made-0"
    directory.mkdir()
    offset = segment(directory, 0, [[(b"key %d" % (i % 100), bytes(1000))] for i in range(3000)])
    end = segment(directory, offset, [[(b"other", b"")]])
    (directory / f"{end:020}.snapshot").write_bytes(build_snapshot(ProducerSnapshot(())))
    read: list[int] = []
    read_at = FileSource.read_at

    def counted(self: FileSource, position: int, buffer: memoryview) -> int:
        got = read_at(self, position, buffer)
        read.append(got)
        return got

    monkeypatch.setattr(FileSource, "read_at", counted)
    size = (directory / f"{0:020}.log").stat().st_size
    broker = CleanerConfig(dedupe_buffer_bytes=1 << 20)
    done, _ = clean(directory, tmp_path / "new", None, broker)
    assert (done.counts.records_read, done.counts.records_kept) == (3000, 100)
    assert done.counts.bytes_read == size
    assert sum(read) < 1.6 * size
    monkeypatch.undo()
    assert compare(directory).counts == done.counts


def test_offsets_that_do_not_rise_are_looked_up(tmp_path: Path) -> None:
    """The batch has records beyond its last offset, whose bits would be those of other records."""
    directory = tmp_path / "made-0"
    directory.mkdir()
    offset = segment(directory, 0, [[(b"a", b"1"), (b"b", b"2"), (b"c", b"3")], [(b"a", b"4")], [(b"b", b"5")]])
    path = directory / f"{0:020}.log"
    data = bytearray(path.read_bytes())
    data[23:27] = bytes(4)  # the last offset delta; no checksum but the CRC covers it
    end = 12 + int.from_bytes(data[8:12])
    data[17:21] = crc32c(data[21:end]).to_bytes(4)
    path.write_bytes(data)
    segment(directory, offset, [[(b"z", b"")]])
    compare(directory)
