"""Offsets that two segments have with different batches, as where two brokers have written one log."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcli.inspector.verify.log_findings import DOUBLED
from kcli.log.partition_view import ContentSource, PartitionView
from kcli.log.recovery.doubled import doubled
from kcli.log.recovery.loader import LoadOptions
from kcli.log.recovery.plan import PartitionPlan, plan
from kcli.log.segment_reader import sound_batches
from tests.cli.run import kcli
from tests.inspector.test_verify_causes import loud
from tests.log.recovery.test_contradicting_batches import COUNT, OTHER, OWN, batch, run

FIRST, SECOND = f"{0:020}.log", f"{100:020}.log"
CLEAN = LoadOptions(0, recovery_point=10**6, clean=True)
CRASHED = LoadOptions(0, clean=False)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A partition of which one broker has written 0..199 into one segment, and another one 100..299 into the next."""
    partition = tmp_path / "p-0"
    partition.mkdir()
    (partition / FIRST).write_bytes(run(0, 200, OWN))
    (partition / SECOND).write_bytes(run(100, 300, OTHER))
    return partition


def kept(planned: PartitionPlan) -> list[tuple[int, int]]:
    found = []
    for name in sorted(name for name in planned.view.names() if name.endswith(".log")):
        source = ContentSource(name, planned.view.files[name])
        found += [(row.base_offset, row.producer_id) for row in sound_batches(source)]
        source.close()
    return found


def test_salvage_keeps_the_version_of_the_segment_named_after_the_offsets(directory: Path) -> None:
    planned = plan(directory, CLEAN, with_salvage=True)
    offsets = [*((offset, OWN) for offset in range(0, 100, COUNT)), *((at, OTHER) for at in range(100, 300, COUNT))]
    assert kept(planned) == offsets
    (gap,) = planned.saved.gaps
    assert (gap.file, gap.first_offset, gap.last_offset) == (FIRST, 100, 99)
    assert (gap.contradicting, gap.following) == ((100, 199), SECOND)


def test_the_records_of_both_versions_count(directory: Path) -> None:
    """Kafka deletes both segments, as it cuts the one before them."""
    (directory / FIRST).write_bytes(run(0, 100, OWN) + b"no batch")
    (directory / f"{100:020}.log").write_bytes(run(100, 300, OWN))
    (directory / f"{200:020}.log").write_bytes(run(200, 400, OTHER))
    for log in list(directory.iterdir()):
        log.with_suffix(".index").touch()
        log.with_suffix(".timeindex").touch()
    planned = plan(directory, CRASHED, with_salvage=True)
    assert [each.records for each in plan(directory, CRASHED).lost if each.records] == [200, 200]
    assert planned.saved.records == 300


def test_verify_says_what_consumers_read_and_salvage_ends_it(directory: Path) -> None:
    (finding,) = (each for each in loud(directory) if each.kind == "offsets-overlap")
    assert finding.action == DOUBLED
    assert "100..199" in str(finding.found)
    assert SECOND in str(finding.found)
    assert finding.consequences["offsets-overlap"] == 100 // COUNT - 1
    shown = kcli("recover", "--unclean", "--salvage", "--dry-run", directory).stdout
    assert f"{SECOND} has other batches of offsets 100..199, and is kept" in shown
    assert kcli("recover", "--unclean", "--salvage", "--in-place", directory).status == 0
    assert not [each for each in loud(directory) if each.severity == "error"]
    assert not plan(directory, CLEAN, with_salvage=True).saved.gaps


@pytest.mark.parametrize("case", ["copy", "gap", "far", "whole"])
def test_what_is_no_second_version(directory: Path, case: str) -> None:
    if case == "copy":
        (directory / SECOND).write_bytes(run(100, 300, OWN))
    elif case == "gap":
        (directory / FIRST).write_bytes(run(0, 100, OWN) + run(120, 200, OWN))
    elif case == "far":
        (directory / FIRST).write_bytes(run(0, 80, OWN) + batch(80 + 2**20, OWN))
    else:
        (directory / FIRST).write_bytes(run(0, 100, OWN))
    view = PartitionView(directory)
    logs = {name: view.files[name] for name in (FIRST, SECOND)}
    assert doubled(logs, FIRST) is None
