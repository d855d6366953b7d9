"""The backup of what recovery in place cuts: one tar file beside the partitions, which Kafka ignores.

It is one file because a directory of any other name than a partition's keeps Kafka from starting. Members:
`<partition>/<file>` for a whole file, `<partition>/<file>.bytes-<from>-<to>` for a part of a file. To restore a file,
put its parts together with `cat`, or write a part to its position with `dd`.
"""

from __future__ import annotations

from pathlib import Path

from kcli.log.disk import COPY_BYTES, Disk, DiskFile
from kcli.log.partition_view import FileRange
from kcli.log.source import FileSource

BLOCK_BYTES = 512


class Backup:
    """The tar file. It is created when the first member is added; `path` is None until then. The caller closes it
    before any file is changed. directory: the directory for the file. name: the file's name without `.tar`; a number
    is added to a name that is taken. members: the number of members added."""

    def __init__(self, disk: Disk, directory: Path, name: str) -> None:
        self._disk = disk
        self._directory = directory
        self._name = name
        self._file: DiskFile | None = None
        self._size = 0
        self.path: Path | None = None
        self.members = 0

    def add(self, name: str, content: FileRange) -> None:
        """Copy a range of a file to the member `name`. Raises OSError, UnreadableInput."""
        import tarfile

        file = self._file or self._open()
        info = tarfile.TarInfo(name)
        info.size, info.mode = content.length, 0o644
        info.mtime = int(content.path.stat().st_mtime)
        self._size += file.write([info.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")], self._size)
        source = FileSource(content.path)
        try:
            buffer = bytearray(min(COPY_BYTES, max(1, content.length)))
            done = 0
            while done < content.length:
                view = memoryview(buffer)[: content.length - done]
                got = source.read_at(content.start + done, view)
                if got == 0:
                    view[:] = bytes(len(view))  # the file has shrunk: zeros take the place of missing bytes
                    got = len(view)
                done += got
                self._size += file.write([view[:got]], self._size)
        finally:
            source.close()
        self._size += file.write([bytes(-self._size % BLOCK_BYTES)], self._size)
        self.members += 1

    def close(self) -> None:
        """Complete the tar file, if one was created, and make it durable. Raises OSError."""
        if self._file is not None:
            self._file.write([bytes(2 * BLOCK_BYTES)], self._size)
            self._file.sync()
            self._file.close()
            self._file = None
            self._disk.sync_directory(self._directory)

    def _open(self) -> DiskFile:
        number = 0
        while (path := self._directory / f"{self._name}{f'-{number}' if number else ''}.tar").exists():
            number += 1
        self.path = path
        self._file = self._disk.open(path, create=True)
        return self._file
