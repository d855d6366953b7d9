"""Lost end markers of transactions: salvage writes those again that other files prove, so that read_committed consumers
continue and read no aborted record."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from formats.control_record import ControlType
from formats.kernels.columns import BatchRow
from kcli.log.partition_view import PartitionView
from kcli.log.producer_state import read_control
from kcli.log.recovery.apply import apply_in_place
from kcli.log.recovery.end_markers import EndMarker
from kcli.log.recovery.loader import LoadOptions
from kcli.log.recovery.plan import plan
from kcli.log.recovery.salvage import Checked
from kcli.log.recovery.snapshots import wrong_snapshots
from kcli.log.segment_reader import Damage, read_segment
from kcli.log.source import FileSource
from tests.conftest import GOLDEN
from tests.log.crash_disk import CrashDisk

OPTIONS = LoadOptions(1_795_000_000_000, max_index_bytes=4096, index_interval_bytes=100)
PARTITIONS = [GOLDEN / "txn" / data / name for data in ("data", "data-tv0") for name in ("t-mix-0", "t-txn-0")]
ABORT, COMMIT = ControlType.ABORT, ControlType.COMMIT


class Marker(NamedTuple):
    """A marker in a golden log: its transaction begins at first_offset."""

    log: str
    row: BatchRow
    type: ControlType
    first_offset: int


class Ends(NamedTuple):
    """The ended transactions of a log (producer, first offset, offset of the marker), and those that are open."""

    aborted: list[tuple[int, int, int]]
    open: list[tuple[int, int]]


def rows(directory: Path) -> Iterator[tuple[str, BatchRow, bytes]]:
    for log in sorted(directory.glob("*.log")):
        source = FileSource(log)
        try:
            for part in read_segment(source):
                assert not isinstance(part, Damage)
                for i in range(part.batches.count):
                    row = BatchRow._make(part.batches.row(i))
                    yield log.name, row, bytes(part.data[row.start : row.start + row.size])
        finally:
            source.close()


def markers(directory: Path) -> Iterator[Marker]:
    begun: dict[int, int] = {}
    for log, row, data in rows(directory):
        if row.is_control:
            kind = ControlType(read_control(data)[1])
            if row.producer_id in begun:
                yield Marker(log, row, kind, begun.pop(row.producer_id))
        elif row.is_transactional:
            begun.setdefault(row.producer_id, row.base_offset)


def ends(directory: Path) -> Ends:
    """Return the ended and open transactions as consumers see them: from the batches and the transaction indexes."""
    ended: list[tuple[int, int, int]] = []
    begun: dict[int, int] = {}
    for _, row, data in rows(directory):
        if row.is_control and row.producer_id in begun:
            first = begun.pop(row.producer_id)
            if read_control(data)[1] == ABORT:
                ended.append((row.producer_id, first, row.base_offset))
        elif row.is_transactional and not row.is_control:
            begun.setdefault(row.producer_id, row.base_offset)
    return Ends(ended, sorted(begun.items()))


def without(directory: Path, marker: Marker) -> None:
    """Remove the batch of a marker from its log."""
    log = directory / marker.log
    data = log.read_bytes()
    log.write_bytes(data[: marker.row.position] + data[marker.row.position + marker.row.size :])


def flipped(directory: Path, marker: Marker) -> None:
    log = directory / marker.log
    data = bytearray(log.read_bytes())
    data[marker.row.position + marker.row.size - 2] ^= 1
    log.write_bytes(data)


def salvaged(directory: Path) -> list[EndMarker]:
    done = plan(directory, OPTIONS, with_salvage=True)
    assert done.refused is None
    apply_in_place(done.view, CrashDisk())
    return done.saved.markers


def copied(golden: Path, tmp_path: Path) -> Path:
    directory = tmp_path / golden.name
    shutil.copytree(golden, directory)
    return directory


@pytest.mark.parametrize("golden", PARTITIONS, ids=lambda each: f"{each.parent.name}-{each.name}")
@pytest.mark.parametrize("damage", [without, flipped])
def test_each_marker(tmp_path: Path, golden: Path, damage: object) -> None:
    """A marker is lost. Salvage restores every abort, and a commit where a snapshot, or an aborted transaction of its
    producer, proves it; it ends no transaction in the wrong way."""
    before = ends(golden)
    came_back = {ABORT: 0, COMMIT: 0}
    of_type = {kind: [each for each in markers(golden) if each.type is kind] for kind in (ABORT, COMMIT)}
    for number, marker in enumerate([*of_type[ABORT][::2], *of_type[COMMIT][::4]]):
        directory = copied(golden, tmp_path / str(number))
        damage(directory, marker)  # type: ignore[operator]
        found = salvaged(directory)
        after = ends(directory)
        shutil.rmtree(directory)
        assert all(each.type is marker.type for each in found), marker
        if marker.type is ABORT:
            assert [(each.producer_id, each.offset) for each in found] == [
                (marker.row.producer_id, marker.row.base_offset)
            ]
        if found:
            assert after == before, marker
            assert found[0].first_offset == marker.first_offset
        came_back[marker.type] += len(found)
    assert came_back[ABORT]
    assert came_back[COMMIT]


@pytest.mark.parametrize("golden", PARTITIONS, ids=lambda each: f"{each.parent.name}-{each.name}")
def test_the_marker_is_kafkas(tmp_path: Path, golden: Path) -> None:
    """A restored marker has the bytes of the lost one, except for timestamp and leader epoch; also where transactions
    raise the producer's epoch (KIP-890)."""
    marker = [each for each in markers(golden) if each.type is ABORT][2]
    directory = copied(golden, tmp_path)
    lost = {row.base_offset: (row, data) for _, row, data in rows(golden)}[marker.row.base_offset]
    without(directory, marker)
    salvaged(directory)
    anew = {row.base_offset: (row, data) for _, row, data in rows(directory)}[marker.row.base_offset]
    same = ("size", "base_offset", "last_offset", "magic", "attributes", "producer_id", "producer_epoch", "count")
    assert [getattr(anew[0], each) for each in same] == [getattr(lost[0], each) for each in same]
    assert anew[1][61:] == lost[1][61:]
    assert not anew[0].faults


def test_the_end_of_the_log_is_lost(tmp_path: Path) -> None:
    """The transaction index and the snapshot of the lost end show how its transactions ended."""
    golden = PARTITIONS[2]
    directory = copied(golden, tmp_path)
    marker = next(each for each in reversed(list(markers(golden))) if each.type is ABORT)
    log = directory / marker.log
    log.write_bytes(log.read_bytes()[: marker.row.position + 5])
    found = salvaged(directory)
    assert (marker.row.base_offset, ABORT) in [(each.offset, each.type) for each in found]
    known = {(pid, first) for pid, first, _ in ends(golden).aborted}
    assert {(pid, first) for pid, first, _ in ends(directory).aborted} <= known


def test_no_commit_without_the_transaction_index(tmp_path: Path) -> None:
    """The missing transaction index may have had the abort: the transaction stays open."""
    golden = PARTITIONS[2]
    lost = next(each for each in markers(golden) if each.type is ABORT)
    directory = copied(golden, tmp_path)
    flipped(directory, lost)
    for path in directory.glob("*.txnindex"):
        path.unlink()
    assert salvaged(directory) == []


def test_a_transaction_index_of_another_partition(tmp_path: Path) -> None:
    """Its entries fit no open transaction: salvage writes no marker."""
    golden, other = PARTITIONS[2], PARTITIONS[3]
    directory = copied(golden, tmp_path)
    marker = [each for each in markers(golden) if each.type is COMMIT][3]
    without(directory, marker)
    index = directory / marker.log.replace(".log", ".txnindex")
    index.write_bytes(next(iter(sorted(other.glob("*.txnindex")))).read_bytes())
    assert all(each.type is COMMIT for each in salvaged(directory))


def test_a_sound_log(tmp_path: Path) -> None:
    for golden in PARTITIONS:
        directory = copied(golden, tmp_path / golden.parent.name)
        assert plan(directory, OPTIONS, with_salvage=True, checked=Checked()).saved.markers == []


def test_gaps_are_exact(tmp_path: Path) -> None:
    """A restored marker's offset is not reported as missing."""
    golden = PARTITIONS[2]
    marker = next(each for each in markers(golden) if each.type is ABORT)
    directory = copied(golden, tmp_path)
    flipped(directory, marker)
    done = plan(directory, OPTIONS, with_salvage=True)
    assert [each.offset for each in done.saved.markers] == [marker.row.base_offset]
    assert all((each.last_offset or 0) < each.first_offset for each in done.saved.gaps)


@pytest.mark.parametrize("damage", [without, flipped])
@pytest.mark.parametrize(
    ("golden", "offset"),
    [
        ("data/t-txn-0", 54),
        ("data/t-txn-0", 74),
        ("data-tv0/t-mix-0", 84),
        ("data-tv0/t-mix-0", 102),
        ("data-tv0/t-txn-0", 31),
    ],
)
def test_a_snapshot_that_contradicts_the_log_by_the_lost_marker_alone(
    tmp_path: Path, golden: str, offset: int, damage: object
) -> None:
    """The snapshot has the producer's next transaction open, the log still the one before it."""
    before = ends(GOLDEN / "txn" / golden)
    directory = copied(GOLDEN / "txn" / golden, tmp_path)
    (marker,) = [each for each in markers(directory) if each.row.base_offset == offset]
    damage(directory, marker)  # type: ignore[operator]
    assert wrong_snapshots(PartitionView(directory)), "the case is not made"
    done = plan(directory, OPTIONS, with_salvage=True)
    assert [each.file for each in done.saved.left_out] == []
    (written,) = done.saved.markers
    assert (written.type, written.offset, written.producer_id) == (COMMIT, offset, marker.row.producer_id)
    apply_in_place(done.view, CrashDisk())
    assert ends(directory) == before


def test_a_snapshot_of_another_partition_beside_a_lost_marker(tmp_path: Path) -> None:
    """The other partition's snapshot is left out, and proves no marker; the partition's own snapshots do."""
    golden = GOLDEN / "txn/data-tv0/t-mix-0"
    directory = copied(golden, tmp_path)
    (marker,) = [each for each in markers(directory) if each.row.base_offset == 84]
    without(directory, marker)
    foreign = max((golden.parent / "t-txn-0").glob("*.snapshot"))
    place = directory / f"{max(int(each.stem) for each in directory.glob('*.snapshot')):020}.snapshot"
    place.write_bytes(foreign.read_bytes())
    done = plan(directory, OPTIONS, with_salvage=True)
    assert [each.file for each in done.saved.left_out] == [place.name]
    assert [each.offset for each in done.saved.markers] == [84]
    apply_in_place(done.view, CrashDisk())
    assert ends(directory) == ends(golden)
