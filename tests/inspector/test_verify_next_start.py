"""What a finding says of the next start: true above and below the recovery point, with the marker and without."""

import json
import os
import shlex
import subprocess
from pathlib import Path

import pytest

from kcli.inspector.verify.next_start import NextStart
from tests.inspector.test_verify_causes import KCLI, OTHER, PARTITION, directory, flip, logs, loud, nexts, run

__all__ = ["directory"]  # a fixture


def tear(log: Path) -> None:
    """Its last batch ends too early."""
    os.truncate(log, log.stat().st_size - 5)


def next_of(directory: Path) -> None:
    """Do what the only finding says."""
    (command,) = nexts(run(directory.name, cwd=directory.parent).stdout)
    subprocess.run(["sh", "-c", command], check=True, cwd=directory.parent)


def test_below_the_recovery_point_nothing_is_cut(directory: Path, tmp_path: Path) -> None:
    """Marker or not: a copy outside the log directory shows what there is to salvage."""
    tear(logs(directory)[1])
    (torn,) = loud(directory)
    assert (torn.kind, torn.action) == ("truncated", NextStart.PASSES_OVER.value)
    (directory / ".kafka_cleanshutdown").unlink()
    (finding,) = loud(directory)
    assert finding.action == NextStart.PASSES_OVER.value
    copy, recover = str(finding.command).split(" && ")
    subprocess.run(["sh", "-c", copy], check=True, cwd=tmp_path)
    arguments = [*KCLI, *shlex.split(recover)[1:], "--format", "jsonl"]
    shown = subprocess.run(arguments, check=False, capture_output=True, text=True)
    assert any(json.loads(line).get("position") == torn.position for line in shown.stdout.splitlines()), shown


def test_a_clean_start_does_not_cut_a_torn_tail(directory: Path) -> None:
    tear(logs(directory)[-1])
    (finding,) = loud(directory)
    assert (finding.kind, finding.action) == ("truncated", NextStart.TRUSTS.value)
    next_of(directory)
    (finding,) = loud(directory)
    assert (finding.kind, finding.action) == ("truncated", NextStart.RECOVERS.value)


@pytest.mark.parametrize(("number", "outcome"), [(1, "consumers skip records"), (-1, "the end of the log from it")])
def test_a_wrong_index_is_moved_away_where_no_start_rebuilds_it(directory: Path, number: int, outcome: str) -> None:
    index = logs(directory)[number].with_suffix(".index")
    flip(index, 7, 0)
    found = loud(directory)
    assert {finding.path for finding in found} == {str(index)}
    assert outcome in found[0].action
    subprocess.run(["sh", "-c", str(found[0].command)], check=True)
    assert {each.action for each in loud(directory)} == {"nothing to do: Kafka rebuilds it when it next opens the log"}


@pytest.mark.parametrize("number", [1, -1])
def test_a_start_after_a_crash_rebuilds_indexes_from_the_recovery_point_on(directory: Path, number: int) -> None:
    (directory / ".kafka_cleanshutdown").unlink()
    flip(logs(directory)[number].with_suffix(".index"), 7, 0)
    is_rebuilt = loud(directory)[0].action == "stop the broker; recovery rebuilds the index from the log"
    assert is_rebuilt == (number == -1)


def test_a_start_offset_behind_the_end_deletes_the_partition(directory: Path) -> None:
    path = directory / "log-start-offset-checkpoint"
    path.write_text(f"0\n2\n{OTHER[:-2]} 0 1\n{PARTITION[:-2]} 0 99999999\n")
    (finding,) = loud(directory)
    assert (finding.kind, finding.severity) == ("log-start-offset", "error")
    assert f"Kafka deletes all of {PARTITION}" in str(finding.found)
    next_of(directory)
    assert loud(directory) == []
    assert path.read_text() == f"0\n2\n{OTHER[:-2]} 0 1\n{PARTITION[:-2]} 0 {int(logs(directory)[0].stem)}\n"


def test_meta_properties_without_a_version(directory: Path) -> None:
    path = directory / "meta.properties"
    path.write_text("".join(line for line in path.read_text().splitlines(keepends=True) if "version" not in line))
    (finding,) = loud(directory)
    assert (finding.kind, finding.severity, finding.expected) == ("meta-properties-version", "error", "version=1")
    assert "no version line" in str(finding.found)


def test_a_bad_swap_file_is_moved_away(directory: Path) -> None:
    """Kafka puts it in the place of the sound segment, whatever is in it."""
    log, following = logs(directory)[1:3]
    data = log.read_bytes()
    swap = log.with_name(f"{log.name}.swap")
    first_batch = 12 + int.from_bytes(data[8:12])
    for size in (first_batch, len(data) - 5, 0):
        swap.write_bytes(data[:size])
        (finding,) = loud(directory)
        assert (finding.kind, finding.severity, finding.path) == ("swap-log", "error", str(swap))
        assert finding.lost_last_offset == int(following.stem) - 1
        assert finding.consequences == {"leftover-file": 1}
        next_of(directory)
        assert loud(directory) == []
        swap.with_name(f"{swap.name}.moved").unlink()


def test_a_sound_swap_file_is_calm(directory: Path) -> None:
    log = logs(directory)[1]
    log.with_name(f"{log.name}.swap").write_bytes(log.read_bytes())
    (finding,) = loud(directory)
    assert (finding.kind, finding.severity) == ("leftover-file", "warning")
