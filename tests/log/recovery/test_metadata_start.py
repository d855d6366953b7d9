"""A start on the metadata log fits log and snapshots together as Kafka's does."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kcli.log.disk import Disk
from kcli.log.recovery.apply import apply_in_place
from kcli.log.recovery.loader import EventKind, LoadOptions
from kcli.log.recovery.plan import PartitionPlan, plan
from kcli.log.recovery.run import Recovery
from tests.conftest import GOLDEN

SOURCE = GOLDEN / "kraft/controller-100/__cluster_metadata-0"
NOW_MS = 1_795_262_000_000
LOG = f"{0:020}.log"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Return a metadata log without its snapshots."""
    target = tmp_path / SOURCE.name
    target.mkdir()
    for path in SOURCE.iterdir():
        if path.suffix != ".checkpoint":
            shutil.copyfile(path, target / path.name)
    return target


def planned(directory: Path) -> PartitionPlan:
    return plan(directory, LoadOptions(NOW_MS, is_metadata=True))


def snapshot(directory: Path, offset: int, epoch: int, state: str = "") -> str:
    name = f"{offset:020}-{epoch:010}.checkpoint{state}"
    (directory / name).write_bytes(b"snapshot")
    return name


def test_a_log_that_its_snapshots_do_not_pass_stays(directory: Path) -> None:
    alone = planned(directory)
    assert alone.offsets is not None
    end = alone.offsets.log_end_offset
    name = snapshot(directory, end, 1)
    done = planned(directory)
    assert (done.offsets, done.events) == (alone.offsets, alone.events)
    assert name in done.view


@pytest.mark.parametrize(("further", "epoch"), [(1, None), (-1, 99), (-1, 100)])
def test_a_snapshot_ahead_of_the_log_takes_its_place(directory: Path, further: int, epoch: int | None) -> None:
    alone = planned(directory)
    assert alone.offsets is not None
    last_epoch = int((directory / "leader-epoch-checkpoint").read_text().split()[-2])
    offset, epoch = alone.offsets.log_end_offset + further, last_epoch if epoch is None else epoch
    old, latest = snapshot(directory, 10, 1), snapshot(directory, offset, epoch)
    done = planned(directory)
    assert done.offsets is not None
    assert (done.offsets.log_start_offset, done.offsets.log_end_offset) == (offset, offset)
    assert done.has_losses == (further < 0)  # else the snapshot has all that goes
    lost = dict(zip((event.kind for event in done.events), done.lost, strict=True))
    assert lost[EventKind.SEGMENT_REMOVED].last_offset == alone.offsets.log_end_offset - 1
    apply_in_place(done.view, Disk())
    kept = {latest, f"{offset:020}.log", f"{offset:020}.index", f"{offset:020}.timeindex", "leader-epoch-checkpoint"}
    left = {path.name for path in directory.iterdir()} - {"partition.metadata", "quorum-state"}
    assert left == kept
    assert old not in left
    assert (directory / "leader-epoch-checkpoint").read_text() == "0\n0\n"
    again = planned(directory)
    assert (again.offsets, again.is_changed(), again.events) == (done.offsets, False, [])


def test_what_is_unfinished_or_not_needed_goes(directory: Path) -> None:
    gone = [snapshot(directory, 10, 1, ".part"), snapshot(directory, 20, 1, ".deleted")]
    done = planned(directory)
    assert set(gone) <= set(done.view.removed())
    assert {event.file for event in done.events if event.kind is EventKind.LEFTOVER_REMOVED} == set(gone)
    assert not done.has_losses


def test_a_log_that_begins_behind_its_snapshots_is_refused(directory: Path) -> None:
    for path in directory.glob(f"{0:020}.*"):
        path.rename(directory / path.name.replace(f"{0:020}", f"{50:020}"))
    (directory / f"{50:020}.log").write_bytes(b"")
    snapshot(directory, 49, 7)
    done = planned(directory)
    assert done.refused is not None
    assert "no snapshot reaches" in done.refused.reason
    name = snapshot(directory, 50, 7)
    done = planned(directory)
    assert done.refused is None
    assert name in done.view
    assert f"{49:020}-{7:010}.checkpoint" not in done.view


def test_only_the_metadata_log_is_looked_at_so(directory: Path) -> None:
    name = snapshot(directory, 10**6, 99)
    (done,) = Recovery(directory, NOW_MS, clean=True, threads=1).plans()
    assert EventKind.SEGMENT_REMOVED in {event.kind for event in done.events}
    other = directory.with_name("orders-0")
    directory.rename(other)
    (done,) = Recovery(other, NOW_MS, clean=False, threads=1).plans()
    assert not done.has_losses
    assert EventKind.SEGMENT_REMOVED not in {event.kind for event in done.events}
    assert name in done.view


def test_the_golden_metadata_logs_stay_as_they_are() -> None:
    for source in sorted(GOLDEN.glob("*/*/__cluster_metadata-0")):
        done = planned(source)
        assert done.refused is None, source
        assert not done.has_losses, source
