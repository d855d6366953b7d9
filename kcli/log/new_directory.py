"""A directory that comes to be whole, or not at all: written under another name, renamed at the end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kcli.errors import KcliError
from kcli.log.disk import Disk

UNFINISHED = ".part"


class TargetExists(KcliError):
    """A new directory is to be made where something is, or where it must not be."""

    exit_status = 2


@contextmanager
def new_directory(disk: Disk, target: Path) -> Iterator[Path]:
    """Yields the directory to write to, `<target>.part`. It gets its name behind the block; nothing of it stays where
    the block raises. Only a crash leaves it. Raises TargetExists, OSError.
    """
    if target.exists() or target.is_symlink():
        raise TargetExists(f"{target}: is there already; --out makes a new directory")
    partial = target.with_name(target.name + UNFINISHED)
    if partial.exists() or partial.is_symlink():
        raise TargetExists(f"{partial}: left by an earlier run; remove it first")
    disk.make_directory(partial)
    try:
        yield partial
    except BaseException:
        disk.remove_tree(partial)
        raise
    disk.rename(partial, target)
    disk.sync_directory(target.absolute().parent)
