"""Entries that fsck moved to lost+found: verify identifies them by their content, and its next steps, run in order,
restore everything."""

import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from kcli.inspector.verify import Finding
from kcli.inspector.verify.next_order import in_order, repeats
from kcli.inspector.verify.next_steps import search_log
from tests.cli.run import kcli
from tests.inspector.test_verify_causes import (
    PARTITION,
    directory,
    logs,
    loud,
    nexts,
    remove_all_logs,
    remove_first,
    remove_last,
    remove_log_only,
    remove_middle,
)

__all__ = ["directory"]  # a fixture


def adrift(directory: Path, name: str, number: int, home: Path | None = None) -> Path:
    """Move a partition's directory to lost+found. home: where lost+found is; None for the log directory."""
    target = (home or directory) / "lost+found" / f"#{number}"
    target.parent.mkdir(exist_ok=True)
    return (directory / name).rename(target)


def paste(directory: Path) -> list[str]:
    """Run all next steps that verify prints, in order. Returns them."""
    commands = list(nexts(kcli("verify", directory.name, cwd=directory.parent).stdout))
    for command in commands:
        if command.startswith(("mv", "printf")):
            subprocess.run(["sh", "-c", command], check=True, cwd=directory.parent)
    return commands


def test_a_partition_and_a_segment_are_put_back_before_the_rest_is_moved_away(directory: Path) -> None:
    adrift(directory, PARTITION, 131077)
    log = logs(directory, "java-gzip-0")[1]
    bytes_of_log = log.read_bytes()
    log.rename(directory / "lost+found" / "#131090")
    commands = paste(directory)
    assert len(commands) == 3
    assert commands[-1].startswith("mv -nT -- 'data it is/lost+found' ")
    assert loud(directory) == []
    assert log.read_bytes() == bytes_of_log


def test_one_without_partition_metadata_is_known_by_its_end(directory: Path) -> None:
    """crafted-0 is the only partition whose log ends at offset 655."""
    path = adrift(directory, "crafted-0", 131077)
    (path / "partition.metadata").unlink()
    paste(directory)
    assert loud(directory) == []


def test_one_in_lost_and_found_of_the_disk(directory: Path) -> None:
    adrift(directory, "crafted-0", 131077, directory.parent)
    paste(directory)
    assert loud(directory) == []


@pytest.mark.parametrize("is_named", [False, True], ids=["numbers", "names"])
def test_two_of_a_topic_that_end_alike_are_named_and_not_guessed(directory: Path, is_named: bool) -> None:
    for number in (0, 1):
        path = adrift(directory, f"java-none-{number}", 131077 + number)
        if is_named:
            path.rename(path.with_name(f"java-none-{number}"))
    found = [each for each in loud(directory) if each.kind == "partition-missing"]
    assert len(found) == 2
    if is_named:
        paste(directory)
        assert loud(directory) == []
    else:
        assert all("#131077" in str(each.found) and "#131078" in str(each.found) for each in found)


def test_a_copy_of_another_partition_is_not_taken_for_the_missing_one(directory: Path, tmp_path: Path) -> None:
    (directory / "old").mkdir()
    shutil.copytree(directory / "java-none-1", directory / "old" / "java-none-1")
    (directory / PARTITION).rename(tmp_path / "gone")
    (missing,) = [each for each in loud(directory) if each.kind == "partition-missing"]
    assert missing.lost_last_offset == 297


def test_salvage_keeps_it(directory: Path, tmp_path: Path) -> None:
    one, other = directory / PARTITION, directory / "crafted-0"
    bytes_of_logs = [each.read_bytes() for each in logs(directory)]
    adrift(directory, one.name, 131077)
    (adrift(directory, other.name, 131078) / "partition.metadata").unlink()
    done = kcli("recover", "--salvage", "--out", tmp_path / "out", directory)
    assert done.status == 0, done.stdout
    assert [each.read_bytes() for each in logs(tmp_path / "out")] == bytes_of_logs
    assert loud(tmp_path / "out") == []
    kcli("recover", "--salvage", "--in-place", directory)
    assert [each.read_bytes() for each in logs(directory)] == bytes_of_logs


def moves(path: str, *pairs: tuple[str, str]) -> Finding:
    command = " && ".join(f"mv -nT -- {one} {other}" for one, other in pairs)
    return Finding(path=path, kind="file-name", severity="error", action="move it", command=command)


def test_what_reads_a_path_comes_before_what_moves_it_away() -> None:
    away, inside, behind = moves("d", ("d", "e")), moves("f", ("d/f", "f")), moves("g", ("g", "h"))
    assert in_order([away, behind, inside]) == [2, 0, 1]
    assert in_order([moves("a", ("a", "b")), moves("b", ("b", "a"))]) in ([0, 1], [1, 0])


def test_a_path_is_one_path_however_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """log.dirs has absolute paths, perhaps through a link, and the arguments of verify may be relative."""
    (tmp_path / "home").mkdir()
    (tmp_path / "linked").symlink_to("home")
    monkeypatch.chdir(tmp_path)
    for home in (tmp_path / "home", tmp_path / "linked"):
        away, inside = moves("d", (f"{home}/d", "d")), moves("f", ("home/d/f", "home/d/g"))
        assert in_order([away, inside]) == [1, 0]
    assert in_order([moves("linked", ("linked", "away")), moves("f", ("linked/d/f", "f"))]) == [1, 0]


def test_the_same_move_is_told_once() -> None:
    both = moves("i", ("i", "i.moved"), ("t", "t.moved"))
    assert repeats([both, moves("t", ("t", "t.moved")), moves("u", ("u", "u.moved"))]) == [False, True, False]


def test_the_same_removal_is_told_once() -> None:
    removals = [replace(moves(path, ("a", "b")), command=f"rm -- {path}") for path in ("marker", "other", "marker")]
    assert repeats(removals) == [False, False, True]


def test_two_files_that_change_places_stay_where_they_are() -> None:
    swap = moves("a", ("a", "x"), ("b", "a"), ("x", "b"))
    reads = Finding(path="a", kind="batch-crc", severity="error", action="look", command="kcli dump-segment a")
    assert in_order([swap, reads]) == [0, 1]


@pytest.mark.parametrize("damage", [remove_first, remove_middle, remove_last, remove_log_only, remove_all_logs])
def test_the_search_for_a_log_lists_what_it_may_be(directory: Path, damage: Callable[[Path], Path]) -> None:
    damage(directory)
    (command,) = [each for each in nexts(kcli("verify", directory.name, cwd=directory.parent).stdout) if "find" in each]
    done = subprocess.run(["sh", "-c", command], check=True, capture_output=True, text=True, cwd=directory.parent)
    found = [line for line in done.stdout.splitlines() if not line.endswith(f"/{PARTITION}")]
    assert found == []


def test_the_search_finds_a_log_of_another_name(directory: Path) -> None:
    log = remove_first(directory)
    (directory / "java-none-0.old").mkdir()
    kept = [directory / "java-none-0.old" / log.name, directory / f"{log.name}.gone", directory / f".{log.name}.Xa3bQ1"]
    for each in kept:
        each.write_bytes(b"not a log")
    command = search_log([directory], log.stem, PARTITION)
    done = subprocess.run(["sh", "-c", command], check=True, capture_output=True, text=True)
    assert sorted(done.stdout.splitlines()) == sorted(map(str, kept))


def test_a_link_to_an_empty_directory_is_told(directory: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    shutil.rmtree(directory / PARTITION)
    (directory / PARTITION).symlink_to(tmp_path / "empty")
    (missing,) = [each for each in loud(directory) if each.kind == "log-missing"]
    assert f"a link to {tmp_path / 'empty'}" in str(missing.found)
