"""All changes that kcli makes to a disk go through this module, so that tests can make any of them fail, tear or get
lost. Bulk reads do not go through it, but through source.py. Errors are the system's OSError, with the path. Durability
is explicit, as in Kafka: a file's bytes are safe after `sync`, a name (create, rename, remove) after `sync_directory`
of the directory that holds it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from types import TracebackType
from typing import Concatenate, ParamSpec, Self, TypeVar

COPY_BYTES = 16 << 20
IOV_MAX = os.sysconf("SC_IOV_MAX")

P = ParamSpec("P")
R = TypeVar("R")


def _named(method: Callable[Concatenate[DiskFile, P], R]) -> Callable[Concatenate[DiskFile, P], R]:
    """Return a method that does the same as `method`, and adds the file's path to OSErrors, which lack it."""

    @wraps(method)
    def run(file: DiskFile, /, *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return method(file, *args, **kwargs)
        except OSError as error:
            error.filename = str(file.path)
            raise

    return run


class DiskFile:
    """A file open for reading and writing by position; a context manager that closes it."""

    def __init__(self, path: Path, fd: int) -> None:
        self.path = path
        self.fd = fd

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def writes_directly(self) -> bool:
        """Whether `write` does no more than to write to the descriptor, so that compiled code may do so itself."""
        return type(self).write is DiskFile.write

    @_named
    def size(self) -> int:
        """Bytes in the file."""
        return os.fstat(self.fd).st_size

    @_named
    def read(self, length: int, position: int) -> bytes:
        """Return at most `length` bytes from `position` on; fewer only at the end of the file."""
        data = part = os.pread(self.fd, length, position)
        while part and len(data) < length:
            part = os.pread(self.fd, length - len(data), position + len(data))
            data += part
        return data

    @_named
    def write(self, buffers: Sequence[bytes | bytearray | memoryview], position: int) -> int:
        """Write all bytes of `buffers`, end to end, at `position`. Returns their number."""
        if len(buffers) == 1:  # the common case: no list is made
            done = os.pwrite(self.fd, buffers[0], position)
            if done == len(buffers[0]):
                return done
        views = [memoryview(buffer).cast("B") for buffer in buffers if len(buffer)]
        total = 0
        while views:
            done = os.pwritev(self.fd, views[:IOV_MAX], position)
            total += done
            position += done
            while views and done >= len(views[0]):
                done -= len(views.pop(0))
            if views and done:
                views[0] = views[0][done:]
        return total

    @_named
    def copy_from(self, fd: int, start: int, length: int, position: int) -> int:
        """Write bytes [start, start + length) of another open file at `position`, inside the kernel. Returns how many
        were written; 0 at the end of that file."""
        os.lseek(self.fd, position, os.SEEK_SET)
        return os.sendfile(self.fd, fd, start, length)

    @_named
    def truncate(self, size: int) -> None:
        """Cut the file, or lengthen it with zeros, to `size` bytes."""
        os.ftruncate(self.fd, size)

    @_named
    def sync(self) -> None:
        """Make the bytes durable (fdatasync if there is one)."""
        getattr(os, "fdatasync", os.fsync)(self.fd)

    def close(self) -> None:
        """Close the descriptor."""
        fd, self.fd = self.fd, -1
        os.close(fd)


class Disk:
    """The file system. Tests use a subclass that fails on purpose. waits: whether a sync waits for the device."""

    waits = True

    def open(self, path: Path, *, create: bool = False, truncate: bool = False, read_only: bool = False) -> DiskFile:
        """Open a file for reading and writing, or with `read_only` only for reading; with `create`, create it if it
        does not exist. With `truncate`, a symbolic link is an error (ELOOP): the file that it points to must not be
        overwritten."""
        flags = os.O_CLOEXEC | (os.O_RDONLY if read_only else os.O_RDWR)
        flags |= (os.O_CREAT if create else 0) | (os.O_TRUNC | os.O_NOFOLLOW if truncate else 0)
        return DiskFile(path, os.open(path, flags, 0o644))

    def write_file(self, path: Path, data: bytes) -> None:
        """Replace a small file atomically, as Kafka's CheckpointFile does: write and sync `.tmp`, rename, sync the
        directory."""
        temporary = path.with_name(path.name + ".tmp")
        if temporary.is_symlink():
            self.remove(temporary)
        with self.open(temporary, create=True, truncate=True) as file:
            file.write([data], 0)
            file.sync()
        self.rename(temporary, path)
        self.sync_directory(path.parent)

    def write_private_file(self, path: Path, data: bytes) -> None:
        """Replace a small file as `write_file` does, for data that has secrets: only the owner may read or write the
        file."""
        temporary = path.with_name(path.name + ".tmp")
        self.remove(temporary)
        os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        self.write_file(path, data)

    def rename(self, source: Path, target: Path) -> None:
        """Rename `source` to `target`, which is replaced if it exists."""
        source.replace(target)

    def remove(self, path: Path) -> None:
        """Remove a file that may already be gone."""
        path.unlink(missing_ok=True)

    def make_directory(self, path: Path) -> None:
        """Make a directory and its missing parents; do nothing if it exists."""
        path.mkdir(parents=True, exist_ok=True)

    def remove_directory(self, path: Path) -> None:
        """Remove an empty directory."""
        path.rmdir()

    def set_modified(self, path: Path, modified_ms: int) -> None:
        """Set a file's modification time, in ms since 1970."""
        os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))

    def remove_tree(self, path: Path) -> None:
        """Remove a directory and all in it."""
        for each in path.iterdir():
            if each.is_dir() and not each.is_symlink():
                self.remove_tree(each)
            else:
                self.remove(each)
        self.remove_directory(path)

    def sync_directory(self, path: Path) -> None:
        """Make the names in a directory durable."""
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        except OSError as error:
            error.filename = str(path)
            raise
        finally:
            os.close(fd)

    def copy(self, source: Path, target: Path, *, length: int | None = None) -> int:
        """Copy a file, or its first `length` bytes, to a new file. Returns the number of bytes copied."""
        with self.open(source, read_only=True) as old, self.open(target, create=True, truncate=True) as new:
            left = old.size() if length is None else min(length, old.size())
            done = 0
            while done < left:
                data = old.read(min(COPY_BYTES, left - done), done)
                if not data:
                    break
                done += new.write([data], done)
            return done
