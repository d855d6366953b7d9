"""A disk that dies at its n-th operation, as a machine does when the power goes: torn writes, lost writes."""

from collections.abc import Sequence
from pathlib import Path
from random import Random

from kcli.log.disk import Disk, DiskFile


class Crash(Exception):
    """The machine is gone."""


class CrashFile(DiskFile):
    """A file on a disk that dies. It is never really synced, since the test outlives the crash."""

    def __init__(self, disk: "CrashDisk", path: Path, fd: int) -> None:
        super().__init__(path, fd)
        self._disk = disk

    def write(self, buffers: Sequence[bytes | bytearray | memoryview], position: int) -> int:
        data = b"".join(buffers)
        if self.path not in self._disk.unsynced:
            self._disk.unsynced[self.path] = self.size()
        if self._disk.dies():
            super().write([data[: self._disk.random.randrange(len(data) + 1)]], position)
            self._disk.crash()
        return super().write([data], position)

    def truncate(self, size: int) -> None:
        self._disk.operate()
        super().truncate(size)

    def sync(self) -> None:
        self._disk.operate()
        self._disk.unsynced.pop(self.path, None)


class CrashDisk(Disk):
    """A disk that dies at operation number `dies_at` (from 1; 0: never). Bytes that were written and not synced may
    then be lost.

    `operations` counts the operations: a run without a crash shows how many there are.
    """

    def __init__(self, dies_at: int = 0, seed: int = 0) -> None:
        self.dies_at = dies_at
        self.random = Random(seed)
        self.operations = 0
        self.unsynced: dict[Path, int] = {}

    def dies(self) -> bool:
        self.operations += 1
        return self.operations == self.dies_at

    def crash(self) -> None:
        for path, synced_size in self.unsynced.items():
            if path.exists() and self.random.random() < 0.5 and path.stat().st_size > synced_size:
                with path.open("r+b") as file:
                    file.truncate(self.random.randint(synced_size, path.stat().st_size))
        raise Crash

    def operate(self) -> None:
        if self.dies():
            self.crash()

    def open(self, path: Path, *, create: bool = False, truncate: bool = False, read_only: bool = False) -> DiskFile:
        if create:
            self.operate()
        if truncate:
            self.unsynced[path] = 0
        file = super().open(path, create=create, truncate=truncate, read_only=read_only)
        return CrashFile(self, path, file.fd)

    def rename(self, source: Path, target: Path) -> None:
        self.operate()
        super().rename(source, target)
        self.unsynced.pop(target, None)
        if source in self.unsynced:
            self.unsynced[target] = self.unsynced.pop(source)

    def remove(self, path: Path) -> None:
        self.operate()
        super().remove(path)
        self.unsynced.pop(path, None)

    def make_directory(self, path: Path) -> None:
        self.operate()
        super().make_directory(path)

    def sync_directory(self, _: Path) -> None:
        self.operate()


class DurableDisk(CrashDisk):
    """A disk on which no directory gets its name before all bytes in it are durable."""

    def rename(self, source: Path, target: Path) -> None:
        assert source.suffix != ".part" or self.unsynced == {}
        super().rename(source, target)
