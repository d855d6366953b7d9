"""A disk on which a process dies, during a write or between two. Written bytes stay, or where the power fails those
that were not synced may be lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.log.crash_disk import Crash, CrashDisk, CrashFile


class DyingFile(CrashFile):
    """A file that the disk closes where its process is dead."""

    def __init__(self, disk: DyingDisk, path: Path, fd: int) -> None:
        super().__init__(disk, path, fd)
        self._opened = disk.opened
        self._opened[self] = None

    def close(self) -> None:
        del self._opened[self]
        super().close()


class DyingDisk(CrashDisk):
    """A disk that dies at operation `dies_at`, from 1 on, and calls `died`; it does nothing after that.

    loses: the power fails, so bytes that were not synced may be lost; otherwise only the current write is torn.
    """

    def __init__(self, died: Callable[[], None], seed: int, *, dies_at: int, loses: bool) -> None:
        super().__init__(dies_at, seed)
        self._died, self._loses = died, loses
        self.is_dead = False
        self.opened: dict[DyingFile, None] = {}

    def open(self, path: Path, *, create: bool = False, truncate: bool = False, read_only: bool = False) -> DyingFile:
        file = super().open(path, create=create, truncate=truncate, read_only=read_only)
        return DyingFile(self, path, file.fd)

    def close_all(self) -> None:
        """Close all files, as the system does for a dead process."""
        for file in list(self.opened):
            file.close()

    def dies(self) -> bool:
        if self.is_dead:
            raise Crash
        return super().dies()

    def crash(self) -> None:
        """End the process here."""
        self.end()
        raise Crash

    def end(self) -> None:
        """Kill the process from outside."""
        if self.is_dead:
            return
        self.is_dead = True
        self._died()
        if self._loses:
            try:
                super().crash()
            except Crash:
                return
