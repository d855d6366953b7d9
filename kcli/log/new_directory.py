"""A new directory that is complete or does not exist: it is written as `<target>.part` and renamed at the end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kcli.errors import KcliError
from kcli.log.disk import Disk

UNFINISHED = ".part"


class TargetExists(KcliError):
    """The new directory cannot be made: its path exists already, or lies in a place that is not permitted."""

    exit_status = 2


@contextmanager
def new_directory(disk: Disk, target: Path) -> Iterator[Path]:
    """Create a directory: yields `<target>.part` to write to, which is renamed to `target` at the end of the block.

    If the block raises, the `.part` directory is removed; only a crash leaves it. Raises TargetExists, OSError.
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
