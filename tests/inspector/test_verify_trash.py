"""Files of a partition in the trash of a file manager, which Kafka 4.3.0 takes for a partition's directory, and renames
to -stray."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path
from urllib.parse import quote

import pytest

from kcli.inspector.verify import Finding
from kcli.log.trash import deleted_from, is_in_trash, is_trash, original_path
from tests.cli.test_recover_renamed_logs import rows
from tests.inspector.test_verify_causes import OTHER, PARTITION, directory, files_of, logs, loud

__all__ = ["directory"]  # a fixture

TRASH = ".Trash-0"
OF_KAFKA = f"{TRASH}.0f3a5b7c9d1e4f60a2b4c6d8e0f1a3b5-stray"


def delete(path: Path, suffix: str = "", trash: str = TRASH, *, is_absolute: bool = False) -> Path:
    """Move a file to the trash of its log directory, as a file manager does that finds its name taken there."""
    home = path.parent.parent if path.parent.name in (PARTITION, OTHER) else path.parent
    files, info = home / trash / "files", home / trash / "info"
    for each in (files, info):
        each.mkdir(parents=True, exist_ok=True)
    name = f"{path.stem}{suffix}{path.suffix}"
    original = path if is_absolute else path.relative_to(home)
    (info / f"{name}.trashinfo").write_text(f"[Trash Info]\nPath={quote(str(original))}\nDeletionDate=2026-11-28\n")
    return path.rename(files / name)


def delete_segment(log: Path, suffix: str = "", *, is_absolute: bool = False) -> Path:
    moved = [delete(path, suffix, is_absolute=is_absolute) for path in files_of(log)]
    return next(path for path in moved if path.suffix == ".log")


def of(found: list[Finding], kind: str) -> Finding:
    (finding,) = (each for each in found if each.kind == kind)
    return finding


@pytest.mark.parametrize("number", [0, -1])
@pytest.mark.parametrize(("suffix", "is_absolute"), [("", False), (".2", False), ("", True)])
def test_the_lost_segment_is_found(
    directory: Path, tmp_path: Path, number: int, suffix: str, *, is_absolute: bool
) -> None:
    log = logs(directory)[number]
    whole = log.read_bytes()
    moved = delete_segment(log, suffix, is_absolute=is_absolute)
    first, *others = loud(directory)
    assert (first.path, first.severity, first.lost_first_offset) == (str(log), "error", None)
    assert f"{moved}, in the trash of a file manager" in str(first.found)
    trash = of(others, "partition-stray")
    assert (trash.path, trash.severity) == (str(directory / TRASH), "warning")
    assert str(trash.found).startswith("the trash of a file manager")
    assert "partition-metadata-missing" not in [each.kind for each in others]
    out = tmp_path / "out"
    assert [row["name"] for row in rows(directory, "--out", out) if row["kind"] == "restored"] == [log.name]
    assert (out / PARTITION / log.name).read_bytes() == whole
    assert (out / TRASH / moved.relative_to(directory / TRASH)).read_bytes() == whole
    assert len([*(out / TRASH / "info").iterdir()]) == len([*(directory / TRASH / "info").iterdir()])
    subprocess.run(["bash", "-c", str(first.command)], check=True)
    assert log.read_bytes() == whole
    assert [each.kind for each in loud(directory)] == ["partition-stray"]


def test_what_a_start_has_renamed_is_the_trash_still(directory: Path, tmp_path: Path) -> None:
    log = logs(directory)[-1]
    moved = delete_segment(log).relative_to(directory / TRASH)
    (directory / TRASH).rename(directory / OF_KAFKA)
    assert str(directory / OF_KAFKA / moved) in str(loud(directory)[0].found)
    out = tmp_path / "out"
    assert "restored" in [row["kind"] for row in rows(directory, "--out", out)]
    assert (out / OF_KAFKA / moved).exists()


def test_one_checkpoint_beyond_the_end_is_enough(directory: Path) -> None:
    """After a crash the recovery point may be the end of the log that is left."""
    (directory / ".kafka_cleanshutdown").unlink(missing_ok=True)
    log = logs(directory)[-1]
    moved = delete_segment(log)
    points = directory / "recovery-point-offset-checkpoint"
    topic, _, number = PARTITION.rpartition("-")
    lines = points.read_text().splitlines()
    own = next(line for line in lines if line.startswith(f"{topic} {number} "))
    points.write_text("\n".join(f"{topic} {number} {int(log.stem)}" if line == own else line for line in lines) + "\n")
    for snapshot in (directory / PARTITION).glob("*.snapshot"):
        snapshot.unlink()
    first = loud(directory)[0]
    assert (first.kind, first.path) == ("log-end", str(log))
    assert str(moved) in str(first.found)


def test_a_file_of_another_partition_is_not_taken(directory: Path) -> None:
    """By its .trashinfo: both partitions have a segment with that base offset."""
    log = logs(directory)[0]
    moved = delete_segment(log)
    info = directory / TRASH / "info" / f"{moved.name}.trashinfo"
    info.write_text(info.read_text().replace(PARTITION, OTHER))
    assert str(moved) not in "".join(str(each.found) for each in loud(directory))


def test_a_partition_in_the_trash(directory: Path, tmp_path: Path) -> None:
    before = [log.read_bytes() for log in logs(directory)]
    moved = delete(directory / PARTITION)
    first, trash = loud(directory)[:2]
    assert (first.kind, first.path) == ("partition-missing", str(directory / PARTITION))
    assert str(moved) in str(first.found)
    assert trash.command == first.command
    out = tmp_path / "out"
    rows(directory, "--out", out)
    assert [log.read_bytes() for log in logs(out)] == before
    subprocess.run(shlex.split(str(trash.command)), check=True)
    assert of(loud(directory), "partition-stray").action == "move it out of the log directory"


def test_an_empty_trash(directory: Path) -> None:
    (directory / TRASH / "files").mkdir(parents=True)
    (finding,) = loud(directory)
    assert (finding.kind, finding.severity) == ("partition-stray", "warning")
    assert str(finding.command).startswith("mv ")


def test_a_log_of_a_topic_called_trash_is_no_trash(directory: Path) -> None:
    shutil.copytree(directory / PARTITION, directory / TRASH)
    (directory / TRASH / "partition.metadata").unlink()
    assert "partition-metadata-missing" in [each.kind for each in loud(directory)]


def test_what_the_trash_tells(tmp_path: Path) -> None:
    home = tmp_path / "data"
    path = home / PARTITION / "a b.log"
    path.parent.mkdir(parents=True)
    path.touch()
    moved = delete(path)
    assert is_trash(home / TRASH)
    assert is_in_trash(moved)
    assert original_path(moved) == path
    assert [*deleted_from(home / TRASH)] == [(moved, path)]
    (home / TRASH / "info" / f"{moved.name}.trashinfo").write_bytes(b"\xff\x00")
    assert original_path(moved) is None
    assert original_path(path) is None
    assert [*deleted_from(home / TRASH)] == [*deleted_from(home)] == []
