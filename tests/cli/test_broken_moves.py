"""A move of a partition between two log directories of one broker that broke off: its files lie in both directories.
Kafka 4.3.0 serves one of them, or does not start; when the files are together again, it serves all records."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from kcli.inspector.verify import Finding, Verification
from kcli.log.log_directory import read_properties
from tests.cli.run import kcli
from tests.cli.test_two_directories import Directories, directories, found, recovered
from tests.two_directories import MOVED

__all__ = ["directories"]  # a fixture

PARTITION = MOVED[0]
BASES = ("000", "137", "261")
TEMPORARY = ".00000000000000000261.log.Xk93bQ"
"""The name under which rsync writes a file until it is complete."""


def moved(source: Path, target: Path, names: tuple[str, ...]) -> None:
    """Move the segments with these base offsets, or other files, into the partition's directory in `target`."""
    (target / PARTITION).mkdir(exist_ok=True)
    for each in names:
        for path in (source / PARTITION).glob(f"{int(each):020}.*" if each.isdecimal() else each):
            path.rename(target / PARTITION / path.name)


def with_begin_moved(one: Path, two: Path) -> None:
    """rsync --remove-source-files, which goes by the names."""
    moved(two, one, BASES[:2])
    shutil.copy(two / PARTITION / "00000000000000000261.log", one / PARTITION / TEMPORARY)
    os.truncate(one / PARTITION / TEMPORARY, 1000)


def with_end_moved(one: Path, two: Path) -> None:
    moved(two, one, BASES[1:])


def with_middle_moved(one: Path, two: Path) -> None:
    moved(two, one, BASES[1:2])


def with_small_files_moved(one: Path, two: Path) -> None:
    moved(two, one, (BASES[0], "leader-epoch-checkpoint", "partition.metadata"))


def with_small_files_in_both(one: Path, two: Path) -> None:
    moved(two, one, BASES[:1])
    for each in ("leader-epoch-checkpoint", "partition.metadata"):
        shutil.copy(two / PARTITION / each, one / PARTITION)


MOVES = (with_begin_moved, with_end_moved, with_middle_moved, with_small_files_moved, with_small_files_in_both)


def logs(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(directory.glob("*.log"))}


def whole(*homes: Path) -> list[dict[str, bytes]]:
    """Return the .log files of each directory with the name of the partition."""
    return [logs(each / PARTITION) for each in homes if (each / PARTITION).is_dir()]


def of_one(directory: Path, config: Path) -> list[Finding]:
    """Return the errors in one directory, with the configuration that names both."""
    verification = Verification([directory], server=read_properties(config), config=config)
    return [each for each in verification.findings() if each.severity == "error"]


@pytest.mark.parametrize("with_config", [True, False])
@pytest.mark.parametrize("move", MOVES)
def test_a_broken_move_is_one_finding(
    directories: Directories, move: Callable[[Path, Path], None], *, with_config: bool
) -> None:
    one, two, _ = directories
    before = logs(two / PARTITION)
    move(one, two)
    (finding,) = found(directories, with_config=with_config)
    assert (finding.kind, finding.lost_first_offset) == ("move-incomplete", None)
    assert finding.refuses_start == (move is with_small_files_in_both)
    assert (TEMPORARY in str(finding.action)) == (move is with_begin_moved)
    subprocess.run(["sh", "-c", str(finding.command)], check=True)
    assert found(directories, with_config=with_config) == []
    assert whole(one, two) == [before]


@pytest.mark.parametrize("move", MOVES)
def test_each_directory_alone_tells_it(directories: Directories, move: Callable[[Path, Path], None]) -> None:
    one, two, config = directories
    move(one, two)
    for each in (one, two):
        (finding,) = of_one(each, config)
        assert finding.kind == "move-incomplete"
        assert " lost" not in str(finding.found)


@pytest.mark.parametrize("move", MOVES)
def test_recovery_counts_what_is_not_served(
    directories: Directories, move: Callable[[Path, Path], None], tmp_path: Path
) -> None:
    one, two, config = directories
    before = logs(two / PARTITION)
    move(one, two)
    told = [row for number in (0, 1) for row in recovered(directories, number)]
    words = [str(row["reason"]) for row in told if row["kind"] in ("passed-over", "refused")]
    assert any("a move between the two broke off" in each for each in words)
    strays = [row for row in told if row["kind"] == "stray"]
    assert all(row["offsets"] for row in strays)
    assert len(strays) == (move is not with_small_files_in_both)
    for number in (0, 1):
        assert kcli("recover", "--config", config, directories[number]).status == 1
        out = tmp_path / f"out{number}"
        assert kcli("recover", "--salvage", "--config", config, "--out", out, directories[number]).status == 0
    (saved,) = whole(tmp_path / "out0", tmp_path / "out1")
    assert saved == before


@pytest.mark.parametrize("move", [with_begin_moved, with_small_files_in_both])
def test_recovery_in_place_leaves_the_files_where_they_are(
    directories: Directories, move: Callable[[Path, Path], None]
) -> None:
    """It moves no file to another log directory, and a stray would be found by no check."""
    one, two, config = directories
    before = logs(two / PARTITION)
    move(one, two)
    for each in (one, two):
        kcli("recover", "--salvage", "--in-place", "--config", config, each)
    (finding,) = [each for each in found(directories) if each.kind == "move-incomplete"]
    subprocess.run(["sh", "-c", str(finding.command)], check=True)
    assert whole(one, two) == [before]


def test_a_copy_of_files_that_are_in_both_is_no_move(directories: Directories) -> None:
    """rsync without --remove-source-files."""
    one, two, _ = directories
    (one / PARTITION).mkdir()
    for path in (two / PARTITION).glob(f"{0:020}.*"):
        shutil.copy(path, one / PARTITION)
    (finding,) = found(directories)
    assert (finding.kind, finding.path) == ("copy-incomplete", str(one / PARTITION))


def test_logs_that_overlap_are_no_move(directories: Directories) -> None:
    one, two, _ = directories
    moved(two, one, BASES[:2])
    shutil.copy(one / PARTITION / f"{137:020}.log", two / PARTITION)
    os.truncate(two / PARTITION / f"{137:020}.log", 2000)
    kinds = [each.kind for each in found(directories)]
    assert "move-incomplete" not in kinds
    (copy,) = [each for each in found(directories) if each.kind == "copy-incomplete"]
    assert "only this one has offsets 0.." in str(copy.found)


def test_a_copy_whose_end_is_damaged_is_not_better(directories: Directories) -> None:
    one, two, _ = directories
    shutil.copytree(two / PARTITION, one / PARTITION)
    (one / PARTITION / "partition.metadata").unlink()
    name = f"{261:020}.log"
    data = (one / PARTITION / name).read_bytes()
    batches = [at for at in range(len(data) - 17) if data[at : at + 6] == bytes(6) and data[at + 16] == 2]
    (two / PARTITION / name).write_bytes(data[: batches[-1]])
    (one / PARTITION / name).write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    (copy,) = [each for each in found(directories) if each.kind == "copy-incomplete"]
    assert (copy.path, copy.lost_first_offset) == (str(one / PARTITION), None)


def removed_begin(directory: Path) -> None:
    """Remove the first segments, as mv does after it has copied all files to another disk."""
    for each in BASES[:2]:
        for path in directory.glob(f"{int(each):020}.*"):
            path.unlink()


@pytest.mark.parametrize("number", [0, 1])
def test_of_two_copies_the_one_that_has_all_is_kept(directories: Directories, number: int, tmp_path: Path) -> None:
    """Both end at one offset."""
    *homes, config = directories
    shutil.copytree(homes[1] / PARTITION, homes[0] / PARTITION)
    before = logs(homes[0] / PARTITION)
    removed_begin(homes[number] / PARTITION)
    (finding,) = found(directories)
    assert (finding.kind, finding.path) == ("directory-duplicate", str(homes[number] / PARTITION))
    assert finding.consequences == {"log-missing": 1}
    assert "only that one has offsets 0..260" in str(finding.found)
    for each in (0, 1):
        out = tmp_path / f"out{each}"
        assert kcli("recover", "--salvage", "--config", config, "--out", out, directories[each]).status == 0
    assert whole(tmp_path / "out0", tmp_path / "out1") == [before]
    subprocess.run(["sh", "-c", str(finding.command)], check=True)
    assert "log-missing" not in [each.kind for each in found(directories)]
    assert whole(*homes) == [before]


def test_offsets_that_were_deleted_make_no_copy_the_better_one(directories: Directories) -> None:
    """Retention had deleted the first segments of the log before an older copy of it came back."""
    one, two, _ = directories
    shutil.copytree(two / PARTITION, one / PARTITION)
    removed_begin(two / PARTITION)
    (two / PARTITION / "leader-epoch-checkpoint").write_text("0\n1\n2 261\n")
    (finding,) = [each for each in found(directories) if each.kind == "directory-duplicate"]
    assert finding.path == str(one / PARTITION)  # the partition is placed in the other directory


def test_a_partition_in_a_directory_that_was_not_given_is_not_lost(directories: Directories) -> None:
    one, two, config = directories
    name = "java-gzip-0"
    shutil.move(one / name, two / name)
    shown = kcli("recover", "--format", "jsonl", one).stdout.splitlines()
    (row,) = [row for row in map(json.loads, shown) if row["kind"] == "partition-missing"]
    assert row["log_directories"] == 2
    text = kcli("recover", one).stdout
    assert "--config FILE with log.dirs is needed to tell" in text
    assert "lost:" not in text
    (finding,) = [each for each in Verification([one]).findings() if each.kind == "partition-missing"]
    assert finding.lost_last_offset is None
    assert "lost" not in str(finding.found)
    assert "partition-missing" not in kcli("recover", "--config", config, one).stdout


def test_the_search_for_a_lost_log_covers_all_given_directories(directories: Directories) -> None:
    one, two, _ = directories
    log = two / PARTITION / f"{137:020}.log"
    log.rename(one / f"{log.name}.bak2")
    os.truncate(one / f"{log.name}.bak2", 2000)
    (finding,) = [each for each in found(directories) if each.kind == "log-missing"]
    done = subprocess.run(["sh", "-c", str(finding.command)], check=True, capture_output=True, text=True)
    assert done.stdout.splitlines() == [str(one / f"{log.name}.bak2")]
