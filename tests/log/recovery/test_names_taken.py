"""A directory, or a link to nothing, with the name of one of Kafka's files: salvage makes room for the file."""

from __future__ import annotations

import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from formats.file_name import FileKind
from kcli.log.disk import Disk
from kcli.log.recovery.apply import InTheWay, apply_in_place, write_copy
from kcli.log.recovery.loader import LoadOptions
from kcli.log.recovery.plan import plan
from kcli.log.recovery.run import Recovery
from tests.cli.run import kcli
from tests.conftest import GOLDEN
from tests.log.batches import NOW_MS

OPTIONS = LoadOptions(NOW_MS)
BASE = f"{4:020}"
FILES = [f"{BASE}.index", f"{BASE}.timeindex", f"{BASE}.txnindex", "leader-epoch-checkpoint"]


def made_a_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "inside").write_bytes(b"kept")


def made_a_link(path: Path) -> None:
    path.unlink()
    path.symlink_to("/nonexistent")


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}


def copied(tmp_path: Path) -> Path:
    directory = tmp_path / "t-txn-0"
    shutil.copytree(GOLDEN / "txn/data/t-txn-0", directory)
    return directory


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", [made_a_directory, made_a_link])
def test_the_file_is_rebuilt(tmp_path: Path, damage: Callable[[Path], None], name: str) -> None:
    directory = copied(tmp_path)
    write_copy(plan(directory, OPTIONS, with_salvage=True).view.files, Disk(), tmp_path / "sound")
    damage(directory / name)
    done = plan(directory, OPTIONS, with_salvage=True)
    assert [each.file for each in done.saved.left_out] == [name]
    write_copy(done.view.files, Disk(), tmp_path / "copy")
    assert contents(tmp_path / "copy") == contents(tmp_path / "sound")
    apply_in_place(done.view, Disk())
    assert contents(directory) == contents(tmp_path / "sound")
    moved = directory / f"{name}.moved"
    assert moved.is_symlink() or (moved / "inside").read_bytes() == b"kept"
    assert not plan(directory, OPTIONS, with_salvage=True).saved.left_out


def test_a_log_or_a_snapshot(tmp_path: Path) -> None:
    directory = copied(tmp_path)
    for each in [*directory.glob("*.log"), *directory.glob("*.snapshot")]:
        made_a_directory(each)
    (directory / f"{BASE}.log.moved").mkdir()
    done = plan(directory, OPTIONS, with_salvage=True)
    assert done.offsets is not None
    assert done.offsets.log_end_offset == 0
    apply_in_place(done.view, Disk())
    assert [path.stat().st_size for path in directory.glob("*.log") if path.is_file()] == [0]
    assert (directory / f"{BASE}.log.moved-2" / "inside").exists()


@pytest.mark.parametrize("name", ["leader-epoch-checkpoint", "partition.metadata"])
@pytest.mark.parametrize("partition", ["g-a-0", "__cluster_metadata-0"])
def test_the_other_partitions_are_salvaged(tmp_path: Path, partition: str, name: str) -> None:
    directory = tmp_path / "data"
    shutil.copytree(GOLDEN / "groups/data", directory)
    made_a_directory(directory / partition / name)
    shown = kcli("recover", "--salvage", "--out", tmp_path / "new", directory)
    assert shown.status == 0, shown.stderr
    assert f"{partition}/{name}" in shown.stdout
    assert (tmp_path / "new" / partition / name).is_file()
    assert len(list((tmp_path / "new").glob("*-*/*.log"))) == len(list(directory.glob("*-*/*.log")))
    assert kcli("recover", "--salvage", "--in-place", directory).status == 0
    assert (directory / partition / name).read_bytes() == (tmp_path / "new" / partition / name).read_bytes()


@pytest.mark.parametrize("kind", [FileKind.RECOVERY_POINTS, FileKind.CLEANER_OFFSETS, FileKind.REPLICATION_OFFSETS])
def test_a_checkpoint_of_the_log_directory(tmp_path: Path, kind: FileKind) -> None:
    """In place the directory goes into the backup: beside the partitions Kafka does not start with it."""
    directory = tmp_path / "data"
    shutil.copytree(GOLDEN / "groups/data", directory)
    made_a_directory(directory / kind)
    recovery = Recovery(directory, NOW_MS, salvage=True)
    list(recovery.in_place("backup"))
    assert recovery.backup is not None
    with tarfile.open(recovery.backup) as backup:
        assert f"{kind}/inside" in backup.getnames()
    assert not (directory / kind).is_dir()
    assert Recovery(directory, NOW_MS, salvage=True).refusals == []


def test_what_a_backup_cannot_keep_stays(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    shutil.copytree(GOLDEN / "groups/data", directory)
    made_a_directory(directory / FileKind.RECOVERY_POINTS)
    (directory / FileKind.RECOVERY_POINTS / "link").symlink_to("/nonexistent")
    with pytest.raises(InTheWay, match="Next: mv -nT"):
        list(Recovery(directory, NOW_MS, salvage=True).in_place("backup"))
    assert (directory / FileKind.RECOVERY_POINTS / "inside").exists()
