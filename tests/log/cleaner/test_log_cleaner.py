"""A disk that fails in the middle: one error, the log as it was."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from kcli.log.cleaner.log_cleaner import LogCleaner
from kcli.log.config import CleanerConfig
from kcli.log.disk import Disk, DiskFile
from tests.conftest import GOLDEN, files_below
from tests.log.cleaner.test_golden import config_of

NOW_MS = 1_795_262_006_000


class FullFile(DiskFile):
    """A file on a full disk."""

    def write(self, buffers: Sequence[bytes | bytearray | memoryview], position: int) -> int:
        size = sum(map(len, buffers))
        raise OSError(errno.ENOSPC, f"No space left on device for {size} bytes at {position}", str(self.path))


class FullDisk(Disk):
    """A disk on which files can be created, and no bytes written."""

    def open(self, path: Path, *, create: bool = False, truncate: bool = False, read_only: bool = False) -> DiskFile:
        return FullFile(path, super().open(path, create=create, truncate=truncate, read_only=read_only).fd)


class ReadOnlyDisk(Disk):
    """Nothing can be made."""

    def open(self, path: Path, *, create: bool = False, truncate: bool = False, read_only: bool = False) -> DiskFile:
        if create and path.name != ".lock":
            raise OSError(errno.EROFS, "Read-only file system", str(path))
        return super().open(path, create=create, truncate=truncate, read_only=read_only)

    def make_directory(self, path: Path) -> None:
        raise OSError(errno.EROFS, "Read-only file system", str(path))


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A log directory that may be written to."""
    source, target = GOLDEN / "compact/before", tmp_path / "logs"
    target.mkdir()
    shutil.copytree(source / "c-plain-0", target / "c-plain-0")
    shutil.copyfile(source / "meta.properties", target / "meta.properties")
    for path in (target, *target.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return target


def cleaner(directory: Path, disk: Disk) -> LogCleaner:
    after = GOLDEN / "compact/after"
    return LogCleaner(directory, lambda topic: config_of(topic, after), CleanerConfig(), now_ms=NOW_MS, disk=disk)


@pytest.mark.parametrize("disk", [FullDisk(), ReadOnlyDisk()], ids=["full", "read-only"])
def test_nothing_changes_on_a_disk_that_cannot_be_written(directory: Path, disk: Disk) -> None:
    before = files_below(directory)
    with pytest.raises(OSError, match=r"No space|Read-only"):
        list(cleaner(directory, disk).in_place())
    assert {name: stat for name, stat in files_below(directory).items() if name != ".lock"} == before


@pytest.mark.parametrize("disk", [FullDisk(), ReadOnlyDisk()], ids=["full", "read-only"])
def test_no_new_directory_is_left(directory: Path, tmp_path: Path, disk: Disk) -> None:
    with pytest.raises(OSError, match=r"No space|Read-only"):
        list(cleaner(directory, disk).into(tmp_path / "new"))
    assert [path.name for path in tmp_path.iterdir()] == ["logs"]


def test_every_thread_count_gives_the_same(directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logs = []
    for threads in (1, 3):
        monkeypatch.setattr("kcli.log.cleaner.cleaning_pass.thread_count", lambda count=threads: count)
        assert [outcome.error for outcome in cleaner(directory, Disk()).into(tmp_path / str(threads))] == [None]
        logs.append([path.read_bytes() for path in sorted((tmp_path / str(threads)).rglob("*.log"))])
    assert logs[0] == logs[1]
