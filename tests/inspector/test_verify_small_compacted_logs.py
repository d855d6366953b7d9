"""The log of a small partition of __consumer_offsets under another name: its indexes have no entries yet, and only the
checkpoints say where it ended. Verify gives it its name back, and so does salvage; an older copy does not count as the
log, and neither does a copy of another partition's."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.run import kcli
from tests.conftest import GOLDEN
from tests.damage import frames
from tests.inspector.test_verify_causes import loud

PARTITION, OTHER = "__consumer_offsets-2", "__consumer_offsets-3"
LOG = "00000000000000000000.log"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Return a log directory as after a crash, before Kafka has written an index entry or a snapshot."""
    home = Path(shutil.copytree(GOLDEN / "groups/data", tmp_path / "data", copy_function=shutil.copyfile))
    (home / ".kafka_cleanshutdown").unlink()
    for index in (home / PARTITION).glob("*index"):
        index.write_bytes(bytes(1_200))
    for snapshot in (home / PARTITION).glob("*.snapshot"):
        snapshot.unlink()
    return home


def state(home: Path, end: int) -> None:
    """Write the recovery point 0 and this high watermark of the partition."""
    topic, _, number = PARTITION.rpartition("-")
    for name, offset in (("recovery-point-offset-checkpoint", 0), ("replication-offset-checkpoint", end)):
        lines = (home / name).read_text().splitlines()
        lines = [f"{topic} {number} {offset}" if line.startswith(f"{topic} {number} ") else line for line in lines]
        (home / name).write_text("\n".join([*lines, ""]))


def gone(log: Path, name: str) -> Path:
    return log.rename(log.with_name(f"{log.name}{name}"))


def emptied(log: Path, name: str) -> Path:
    away = gone(log, name)
    log.touch()
    return away


def salvaged(home: Path, out: Path) -> bytes:
    assert kcli("recover", "--salvage", "--out", out, home).status == 0
    log = out / PARTITION / LOG
    return log.read_bytes() if log.exists() else b""


@pytest.mark.parametrize("end", [27, 20], ids=["to the high watermark", "beyond it"])
@pytest.mark.parametrize("name", ["\r", "-20261129", ".1", ".bak", ".old", "_old", "~"])
@pytest.mark.parametrize("damage", [gone, emptied])
def test_it_gets_its_name_back(
    directory: Path, tmp_path: Path, damage: Callable[[Path, str], Path], name: str, end: int
) -> None:
    state(directory, end)
    log = directory / PARTITION / LOG
    before = log.read_bytes()
    away = damage(log, name)
    assert salvaged(directory, tmp_path / "new") == before
    (finding,) = (each for each in loud(directory) if each.severity == "error")
    assert (finding.path, finding.lost_first_offset) == (str(log), None)
    assert str(away).removesuffix("\r") in str(finding.found)
    assert str(finding.command).startswith("mv -nT -- ")
    subprocess.run(["bash", "-c", str(finding.command)], check=True)
    assert log.read_bytes() == before
    assert [each for each in loud(directory) if each.severity == "error"] == []


@pytest.mark.parametrize("damage", [gone, emptied])
def test_an_older_copy_is_not_the_log(directory: Path, tmp_path: Path, damage: Callable[[Path, str], Path]) -> None:
    """It ends below the high watermark."""
    log = directory / PARTITION / LOG
    away = damage(log, ".bak")
    data = away.read_bytes()
    away.write_bytes(data[: frames(data)[len(frames(data)) // 2][0]])
    (finding,) = (each for each in loud(directory) if each.severity == "error")
    assert finding.lost_last_offset == 26
    assert "mv -nT" not in str(finding.command)
    assert data.startswith(salvaged(directory, tmp_path / "new"))


@pytest.mark.parametrize("damage", [gone, emptied])
def test_a_copy_of_another_partitions_log_is_not_the_log(
    directory: Path, tmp_path: Path, damage: Callable[[Path, str], Path]
) -> None:
    """The other partition has no such log any more; only the keys of the records show whose they are."""
    other = (directory / OTHER / LOG).read_bytes()
    shutil.rmtree(directory / OTHER)
    damage(directory / PARTITION / LOG, ".bak").write_bytes(other)
    found = [each for each in loud(directory) if each.severity == "error"]
    (finding,) = (each for each in found if Path(each.path).parent.name == PARTITION)
    assert finding.lost_last_offset == 26
    assert "mv -nT" not in str(finding.command)
    assert salvaged(directory, tmp_path / "new") != other
