"""A log directory that a copy or an archive has left incomplete: verify's first finding names the cause."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from formats.file_name import FileKind
from kcli.inspector.verify import Verification
from kcli.log.log_directory import read_properties
from tests.cli.run import kcli
from tests.conftest import GOLDEN
from tests.inspector.test_verify_causes import directory, loud
from tests.metadata_damage import copied
from tests.two_directories import MOVED, two_directories

__all__ = ["directory"]  # a fixture


def half_of_an_archive(directory: Path) -> list[str]:
    """Keep the first files by name, with the last one cut. Returns the missing partitions."""
    names = sorted(path.name for path in directory.iterdir())
    last = next(name for name in names if name > "crafted-0" and (directory / name).is_dir())
    gone = names[names.index(last) + 1 :]
    for name in gone:
        path = directory / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    logs = sorted((directory / last).glob("*.log"))
    os.truncate(logs[0], logs[0].stat().st_size // 2)
    for path in sorted((directory / last).iterdir()):
        if path.name > logs[0].name:
            path.unlink()
    return [name for name in gone if re.search("-[0-9]+$", name)]


def test_an_archive_that_ended_early(directory: Path, tmp_path: Path) -> None:
    before = read_properties(directory / FileKind.META_PROPERTIES)
    gone = half_of_an_archive(directory)
    first = next(iter(sorted(loud(directory), key=lambda each: (not each.refuses_start, each.path))))
    assert (first.kind, first.path, first.refuses_start) == ("copy-incomplete", str(directory), True)
    assert f"{len(gone):,} partitions have no directory" in str(first.found)
    assert first.consequences["partition-missing"] == len(gone)
    assert {each.kind for each in loud(directory)} & {"partition-missing", "meta-properties-missing"} == set()
    assert kcli("recover", "--salvage", "--out", tmp_path / "new", directory).status == 0
    after = read_properties(tmp_path / "new" / FileKind.META_PROPERTIES)
    assert {**after, "cluster.id": ""} == {**before, "cluster.id": ""}


def test_a_copy_to_a_full_disk(directory: Path) -> None:
    for path in [*(directory / "mixed-0").iterdir(), directory / FileKind.META_PROPERTIES]:
        path.write_bytes(b"")
    first = kcli("verify", directory).stdout.splitlines()[0]
    assert first.startswith(f"error   copy-incomplete  {directory}  ")
    assert "as a copy to a full disk leaves them" in first


@pytest.mark.parametrize("block", [512, 4096])
def test_a_copy_in_blocks(tmp_path: Path, block: int) -> None:
    """What follows is counted with it, and damage of another cause is not."""
    directory = copied(tmp_path, "groups/data")
    log = directory / "g-a-0/00000000000000000000.log"
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 1
    log.write_bytes(data)
    (damage,) = loud(directory)
    for path in [each for each in directory.rglob("*") if each.is_file()]:
        os.truncate(path, -(-path.stat().st_size // block) * block)
    first, second = loud(directory)
    assert (first.kind, first.path, first.refuses_start) == ("copy-padded", str(directory), True)
    assert f"end in NULs up to a multiple of {block:,} bytes" in str(first.found)
    assert first.consequences["partition-metadata-content"] > 1
    assert (second.kind, second.path, second.offset) == (damage.kind, damage.path, damage.offset)
    assert kcli("recover", "--salvage", "--out", tmp_path / "new", directory).status == 0
    assert [each.kind for each in loud(tmp_path / "new")] == ["offset-gap"]


def test_a_file_that_ends_in_nuls_is_not_one(directory: Path) -> None:
    path = directory / FileKind.META_PROPERTIES
    os.truncate(path, 512)
    assert "copy-padded" not in {each.kind for each in loud(directory)}


def test_a_lost_partition_alone_is_not_one(directory: Path) -> None:
    shutil.rmtree(directory / "mixed-0")
    assert [each.kind for each in loud(directory)] == ["partition-missing"]


def test_a_directory_made_anew_is_not_one(tmp_path: Path) -> None:
    """All its partitions are lost, and no better copy is possible."""
    one, two, server = two_directories(tmp_path)
    server.write_text(f"{server.read_text()}process.roles=broker,controller\n")
    for path in two.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name != FileKind.META_PROPERTIES:
            path.unlink()
    shown = kcli("verify", "--config", server, one, two).stdout
    assert "copy-incomplete" not in shown
    assert all(f"partition-missing  {two / name}" in shown for name in MOVED)


def test_emptied_checkpoints_are_one_finding(directory: Path) -> None:
    emptied = [each.parent / "leader-epoch-checkpoint" for each in directory.glob("*/*.log") if each.stat().st_size]
    for path in emptied:
        path.write_bytes(b"")
    (directory / "__cluster_metadata-0" / "quorum-state").write_bytes(b"")
    (finding,) = loud(directory)
    assert (finding.kind, finding.refuses_start) == ("copy-incomplete", True)
    assert finding.consequences["checkpoint-empty"] == len(set(emptied))
    assert finding.consequences["quorum-state-content"] == 1


@pytest.mark.parametrize("witness", [None, "00000000000000000000.index", ".kafka_cleanshutdown", "recovery", "epochs"])
def test_a_backup_without_logs_lacks_nothing_of_an_empty_partition(tmp_path: Path, witness: str | None) -> None:
    """Nothing is lost unless a file tells of a batch, or none tells that there was none; after a crash it may have got
    one in the last seconds."""
    home = Path(shutil.copytree(GOLDEN / "groups/data", tmp_path / "data", copy_function=shutil.copyfile))
    empty, other = home / "__transaction_state-0", home / "__transaction_state-1"
    for log in (*empty.glob("*.log"), *other.glob("*.log")):
        log.unlink()
    if witness == "recovery":
        (home / FileKind.RECOVERY_POINTS).unlink()
    elif witness == "epochs":
        (empty / FileKind.LEADER_EPOCHS).write_text("0\n1\n0 7\n")
    elif witness == ".kafka_cleanshutdown":
        (home / witness).unlink()
    elif witness is not None:
        (empty / witness).write_bytes(bytes([0, 0, 0, 5, 0, 0, 0, 90]))
    found = {Path(each.path): each for each in Verification([home]).findings() if each.kind == "log-missing"}
    assert found[other / f"{0:020}.log"].lost_first_offset == 0
    finding = found[empty / f"{0:020}.log"]
    no_loss = {None: ("info", None, None), ".kafka_cleanshutdown": ("warning", None, None)}
    expected = no_loss.get(witness, ("error", 0, None))
    assert (finding.severity, finding.lost_first_offset, finding.lost_last_offset) == expected
    assert ("nothing to do" in finding.action) == (witness in no_loss)


def test_a_backup_without_any_log_is_one_finding(directory: Path) -> None:
    for path in directory.glob("*/*.log"):
        path.unlink()
    first = loud(directory)[0]
    partitions = sum(each.is_dir() for each in directory.iterdir())
    assert (first.kind, first.path) == ("copy-incomplete", str(directory))
    assert f"none of {partitions} partitions has a log" in str(first.found)
    assert first.consequences["log-missing"] == partitions
    assert {each.kind for each in loud(directory)} & {"log-missing", "orphan-file", "partition-stray"} == set()


def test_files_of_many_partitions_that_are_read_only_are_one_finding(directory: Path) -> None:
    """The next step opens all of them, but for KRaft snapshots, which Kafka makes read-only."""
    closed = [each for each in directory.glob("*/*") if each.suffix != ".checkpoint"]
    for path in closed:
        path.chmod(0o444)
    (finding,) = loud(directory)
    assert (finding.kind, finding.path) == ("file-mode", str(directory))
    assert f"{len(closed):,} files are closed to their owner" in str(finding.found)
    assert finding.consequences == {"file-mode": len(closed)}
    subprocess.run(str(finding.command), shell=True, check=True)
    assert loud(directory) == []
    closed[0].chmod(0o444)
    (finding,) = loud(directory)
    assert (finding.kind, finding.path) == ("file-mode", str(closed[0]))
