"""A batch whose header has a wrong last offset, with a CRC that is right for it: salvage gives it that of its last
record, where what lies behind it shows that this is the right one."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from formats.record_batch import BatchHeader, Record, RecordBatch, build_batch
from kcli.log.recovery.apply import apply_in_place, write_copy
from kcli.log.recovery.loader import LoadOptions
from kcli.log.recovery.plan import plan
from kcli.log.recovery.salvage import WrongLastOffset
from tests.conftest import GOLDEN
from tests.damage import frames, mended
from tests.log.batches import NOW_MS
from tests.log.crash_disk import CrashDisk
from tests.log.recovery.test_recover_salvage import KEEPS_ALL, OPTIONS, made, rows_of

INT_MIN, INT_MAX = -(2**31), 2**31 - 1
CLOSED = 6
"""The base offset of a closed segment of three batches of two records each."""


def set_delta(log: Path, number: int, delta: int) -> WrongLastOffset:
    """Write a last offset delta, and the CRC of it, into a batch of a .log file. Return what salvage is to find."""
    row = rows_of(log)[number]
    data = bytearray(log.read_bytes())
    data[row.position + 23 : row.position + 27] = delta.to_bytes(4, signed=True)
    log.write_bytes(mended(data))
    return WrongLastOffset(log.name, row.position, row.base_offset + delta, row.base_offset, row.last_offset)


@pytest.mark.parametrize("options", [OPTIONS, KEEPS_ALL], ids=["unclean", "clean"])
@pytest.mark.parametrize("delta", [-1, -2, 0, 2, 3, 100, INT_MAX, INT_MIN])
@pytest.mark.parametrize("number", [0, 1, -1])
def test_in_a_closed_segment(tmp_path: Path, number: int, delta: int, options: LoadOptions) -> None:
    directory = tmp_path / "p-0"
    made(directory)
    whole = {path.name: path.read_bytes() for path in directory.glob("*.log")}
    wrong = set_delta(directory / f"{CLOSED:020}.log", number, delta)
    done = plan(directory, options, with_salvage=True)
    assert (done.saved.last_offsets, done.saved.gaps, done.refused) == ([wrong], [], None)
    apply_in_place(done.view, CrashDisk())
    assert {path.name: path.read_bytes() for path in directory.glob("*.log")} == whole


@pytest.mark.parametrize("delta", [-1, 0, 2, 100, INT_MAX, INT_MIN])
def test_at_the_end_of_the_log(tmp_path: Path, delta: int) -> None:
    """The checkpoints say where the log ended."""
    directory = tmp_path / "p-0"
    made(directory)
    log = max(directory.glob("*.log"))
    whole, end = log.read_bytes(), rows_of(log)[-1].last_offset + 1
    wrong = set_delta(log, -1, delta)
    done = plan(directory, replace(OPTIONS, reached=end), with_salvage=True)
    assert (done.saved.last_offsets, done.saved.gaps) == ([wrong], [])
    apply_in_place(done.view, CrashDisk())
    assert log.read_bytes() == whole


@pytest.mark.parametrize("delta", [-1, 0, INT_MAX, INT_MIN])
def test_at_the_end_of_the_log_without_checkpoints(tmp_path: Path, delta: int) -> None:
    directory = tmp_path / "p-0"
    made(directory)
    log = max(directory.glob("*.log"))
    wrong = set_delta(log, -1, delta)
    assert plan(directory, OPTIONS, with_salvage=True).saved.last_offsets == [wrong]


@pytest.mark.parametrize("codec", ["none", "gzip", "zstd", "lz4", "snappy"])
@pytest.mark.parametrize("delta", [-1, 0])
def test_in_kafkas_batches(tmp_path: Path, codec: str, delta: int) -> None:
    directory = Path(shutil.copytree(GOLDEN / f"codecs/data/java-{codec}-0", tmp_path / "p-0"))
    log = max(directory.glob("*.log"))
    whole = log.read_bytes()
    number = next(n for n, row in enumerate(rows_of(log)) if row.count > 1)
    wrong = set_delta(log, number, delta)
    done = plan(directory, LoadOptions(0), with_salvage=True)
    assert (done.saved.last_offsets, done.saved.gaps) == ([wrong], [])
    write_copy(done.view.files, CrashDisk(), tmp_path / "new")
    assert (tmp_path / "new" / log.name).read_bytes() == whole


def sparse(base_offset: int, deltas: tuple[int, ...], last: int) -> bytes:
    """Return a batch with records at these offset deltas, and this last offset delta."""
    records = tuple(Record(0, 0, delta, b"%d" % (base_offset + delta), bytes(100)) for delta in deltas)
    header = BatchHeader(base_offset, 0, 0, 2, 0, 0, last, NOW_MS, NOW_MS, -1, -1, -1, len(records))
    return build_batch(RecordBatch(header, records))


def log_of(directory: Path, *batches: bytes) -> Path:
    directory.mkdir()
    log = directory / f"{0:020}.log"
    log.write_bytes(b"".join(batches))
    return log


CLEANED = sparse(0, (0, 1), 4)
"""A batch of which the log cleaner has removed the last records."""


@pytest.mark.parametrize("reached", [0, 5, 8])
@pytest.mark.parametrize("following", [(), (sparse(5, (0,), 0),), (sparse(7, (0, 1), 1),)])
def test_a_cleaned_batch_is_sound(tmp_path: Path, following: tuple[bytes, ...], reached: int) -> None:
    log = log_of(tmp_path / "p-0", CLEANED, *following)
    before = log.read_bytes()
    options = replace(OPTIONS, reached=reached, is_compacted=True)
    done = plan(log.parent, options, with_salvage=True)
    assert (done.saved.last_offsets, done.saved.gaps) == ([], [])
    apply_in_place(done.view, CrashDisk())
    assert log.read_bytes() == before


def test_a_cleaned_batch_at_the_end_of_a_segment_is_sound(tmp_path: Path) -> None:
    log = log_of(tmp_path / "p-0", CLEANED)
    (log.parent / f"{5:020}.log").write_bytes(sparse(5, (0,), 0))
    done = plan(log.parent, replace(OPTIONS, is_compacted=True), with_salvage=True)
    assert (done.saved.last_offsets, done.saved.gaps) == ([], [])


def test_a_cleaned_batch_with_a_low_last_offset(tmp_path: Path) -> None:
    """The next batch begins right behind the last record."""
    log = log_of(tmp_path / "p-0", sparse(0, (0, 9), 5), sparse(10, (0,), 0))
    done = plan(log.parent, replace(OPTIONS, is_compacted=True), with_salvage=True)
    assert done.saved.last_offsets == [WrongLastOffset(log.name, 0, 5, 0, 9)]


@pytest.mark.parametrize("deltas", [(0, 0), (5, 6), (-3, -2), (1, 0)])
def test_a_leader_appends_records_with_any_offsets(tmp_path: Path, deltas: tuple[int, ...]) -> None:
    """It only checks that an uncompressed batch has as many offsets as records."""
    odd = sparse(2, deltas, 1)
    log = log_of(tmp_path / "p-0", sparse(0, (0, 1), 1), odd, sparse(4, (0, 1), 1))
    before = log.read_bytes()
    done = plan(log.parent, OPTIONS, with_salvage=True)
    assert (done.saved.last_offsets, done.saved.gaps) == ([], [])
    apply_in_place(done.view, CrashDisk())
    assert log.read_bytes() == before


def test_not_where_a_record_is_wrong_too(tmp_path: Path) -> None:
    directory = tmp_path / "p-0"
    made(directory)
    log = directory / f"{CLOSED:020}.log"
    data = bytearray(log.read_bytes())
    start, size = frames(data)[1]
    data[start + 61] ^= 2  # the length of the first record
    log.write_bytes(data)
    set_delta(log, 1, -1)
    done = plan(directory, OPTIONS, with_salvage=True)
    assert done.saved.last_offsets == []
    assert [(gap.position, gap.length) for gap in done.saved.gaps] == [(start, size)]
