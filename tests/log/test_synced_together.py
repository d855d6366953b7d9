"""Files that are synced together are durable at the end of the block, and closed however it ends."""

from __future__ import annotations

import errno
from contextlib import suppress
from pathlib import Path

import pytest

from kcli.log import synced_together
from kcli.log.disk import Disk, DiskFile
from kcli.log.synced_together import FILES_MAX, SyncedTogether
from tests.log.crash_disk import CrashDisk


def open_files(directory: Path) -> int:
    """How many files of a directory this process has open. (Other tests' files may be closed meanwhile.)"""
    found = 0
    for each in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            found += each.readlink().is_relative_to(directory)
    return found


@pytest.mark.parametrize("count", [0, 1, 2, FILES_MAX, 3 * FILES_MAX + 1])
def test_all_files_are_durable_at_the_end(count: int, tmp_path: Path) -> None:
    disk = CrashDisk()
    with SyncedTogether(disk) as files:
        for number in range(count):
            with files.new_file(tmp_path / f"{number}") as file:
                file.write([b"x" * number], 0)
            assert len(disk.unsynced) < FILES_MAX
            assert open_files(tmp_path) < FILES_MAX
    assert disk.unsynced == {}
    assert open_files(tmp_path) == 0
    assert [(tmp_path / f"{number}").stat().st_size for number in range(count)] == list(range(count))


def test_no_more_bytes_wait_than_are_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(synced_together, "BYTES_MAX", 100)
    disk = CrashDisk()
    with SyncedTogether(disk) as files:
        for number, left in enumerate((1, 2, 0, 1)):
            with files.new_file(tmp_path / f"{number}") as file:
                file.write([b"x" * 40], 0)
            assert len(disk.unsynced) == left


class FullFile(DiskFile):
    def sync(self) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(self.path))


class FullDisk(Disk):
    """A disk that has no room for what it has taken."""

    def open(self, path: Path, *, create: bool = False, truncate: bool = False, read_only: bool = False) -> DiskFile:
        return FullFile(path, super().open(path, create=create, truncate=truncate, read_only=read_only).fd)


@pytest.mark.parametrize("count", [1, 2, FILES_MAX])
def test_a_sync_that_fails_is_raised(count: int, tmp_path: Path) -> None:
    def write() -> None:
        with SyncedTogether(FullDisk()) as files:
            for number in range(count):
                with files.new_file(tmp_path / f"{number}"):
                    pass

    with pytest.raises(OSError, match="No space left on device"):
        write()
    assert open_files(tmp_path) == 0


def test_what_fails_in_the_block_closes_all_files(tmp_path: Path) -> None:
    def write() -> None:
        with SyncedTogether(Disk()) as files:
            with files.new_file(tmp_path / "one"):
                pass
            with files.new_file(tmp_path / "two"):
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write()
    assert open_files(tmp_path) == 0
