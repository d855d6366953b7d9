"""Copy data directories: as clones if the file system supports them, otherwise without copying the holes of files.

The indexes of a broker's active segments are preallocated with 10 MiB, nearly all of it a hole.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from pathlib import Path

FICLONE = 0x40049409  # linux/fs.h
SMALL_BYTES = 4096
"""The size of a page, in bytes: a file up to this size is copied as a whole, since a clone saves nothing and such a
file has no holes."""


def copy_tree(source: Path, target: Path) -> None:
    """Copy a directory, without `.lock` files, to one that must not exist yet. Raises OSError.

    No process may write to the source meanwhile.
    """
    _copy_tree(str(source), str(target))


def _copy_tree(source: str, target: str) -> None:
    Path(target).mkdir()
    with os.scandir(source) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                _copy_tree(entry.path, f"{target}/{entry.name}")
            elif entry.name != ".lock":
                _copy_file(entry, f"{target}/{entry.name}")


def remove_tree(path: Path) -> None:
    """Remove a directory, if it exists."""
    shutil.rmtree(path, ignore_errors=True)


def _copy_file(entry: os.DirEntry[str], target: str) -> None:
    status = entry.stat(follow_symlinks=False)
    new = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    try:
        if status.st_size:
            old = os.open(entry.path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                if status.st_size <= SMALL_BYTES:
                    os.write(new, os.read(old, status.st_size))
                elif not _cloned(old, new):
                    _copy_data(old, new, status.st_size)
            finally:
                os.close(old)
        os.utime(new, ns=(status.st_atime_ns, status.st_mtime_ns))
    finally:
        os.close(new)


def _cloned(old: int, new: int) -> bool:
    try:
        fcntl.ioctl(new, FICLONE, old)
    except OSError:
        return False
    return True


def _copy_data(old: int, new: int, size: int) -> None:
    os.ftruncate(new, size)
    position = 0
    while position < size:
        try:
            begin = os.lseek(old, position, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # the rest of the file is a hole
                return
            raise
        end = os.lseek(old, begin, os.SEEK_HOLE)
        os.lseek(old, begin, os.SEEK_SET)
        os.lseek(new, begin, os.SEEK_SET)
        while begin < end:
            data = os.read(old, min(end - begin, 1 << 20))
            if not data:
                return
            os.write(new, data)
            begin += len(data)
        position = end
