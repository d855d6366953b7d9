"""Files of a new directory whose bytes are made durable together, by a few threads.

A sync of one file waits for a commit of the file system's journal, some ms each; syncs at the same time share a commit.
This is for a directory that gets its name only when it is complete, so that it does not matter which file is durable
first: the block must end before the directory gets its name.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from kcli.log.disk import Disk, DiskFile

FILES_MAX = 64
"""How many files are open and wait for a sync at most."""
BYTES_MAX = 256 << 20
THREADS = 8


class SyncedTogether:
    """A context manager: at the end of the block all its files are durable and closed. If the block raises, they are
    only closed."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._files: list[DiskFile] = []
        self._bytes = 0
        self._threads: ThreadPoolExecutor | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._sync()
        finally:
            self._close()
            if self._threads is not None:
                self._threads.shutdown()

    @contextmanager
    def new_file(self, path: Path) -> Iterator[DiskFile]:
        """Create a file, or cut an existing one to 0 bytes, and yield it; the block must write the whole file. Raises
        OSError, also for a file that was yielded before."""
        file = self._disk.open(path, create=True, truncate=True)
        try:
            yield file
        except BaseException:
            file.close()
            raise
        self._files.append(file)
        self._bytes += file.size()
        if len(self._files) >= FILES_MAX or self._bytes >= BYTES_MAX:
            self._sync()
            self._close()

    def _sync(self) -> None:
        if len(self._files) == 1:
            self._files[0].sync()
            return
        if self._threads is None:
            self._threads = ThreadPoolExecutor(THREADS)
        for _ in self._threads.map(lambda each: each.sync(), self._files):
            pass

    def _close(self) -> None:
        for each in self._files:
            each.close()
        self._files.clear()
        self._bytes = 0
