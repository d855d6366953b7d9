"""Copies of data directories, as they are: clones where the file system can, else without the holes of files.

A broker's active segments have indexes of 10 MiB that are nearly all hole.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from pathlib import Path

FICLONE = 0x40049409  # linux/fs.h


def copy_tree(source: Path, target: Path) -> None:
    """Copy a directory that nobody writes to meanwhile to one that is not there yet. Raises OSError."""
    target.mkdir()
    with os.scandir(source) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                copy_tree(source / entry.name, target / entry.name)
            elif entry.name != ".lock":
                _copy_file(entry, target / entry.name)


def remove_tree(path: Path) -> None:
    """Remove a directory, if there is one."""
    shutil.rmtree(path, ignore_errors=True)


def _copy_file(entry: os.DirEntry[str], target: Path) -> None:
    status = entry.stat(follow_symlinks=False)
    old = os.open(entry.path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        new = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        try:
            if status.st_size and not _cloned(old, new):
                _copy_data(old, new, status.st_size)
            os.utime(new, ns=(status.st_atime_ns, status.st_mtime_ns))
        finally:
            os.close(new)
    finally:
        os.close(old)


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
            if error.errno == errno.ENXIO:  # nothing but a hole is left
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
