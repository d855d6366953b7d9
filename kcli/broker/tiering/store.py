"""Opens the store of a broker's tier when the broker starts. Source: LocalTieredStorage for a directory."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from kcli.tier.address import parse_address
from kcli.tier.local import LocalStore
from kcli.tier.store import StoreAway

if TYPE_CHECKING:
    from kcli.broker.tiering.config import StoreConfig
    from kcli.log.disk import Disk
    from kcli.tier.store import Store

log = logging.getLogger("kcli.broker")
CHECK_S = 3.0


class KeepingStore(LocalStore):
    """A directory whose objects are never deleted: delete.enable=false of LocalTieredStorage."""

    def delete(self, name: str) -> None:
        """Do nothing."""


def open_tier(config: StoreConfig, disk: Disk) -> Store:
    """Open the store. A directory that does not exist is created later (kcli.broker.tiering.presence), unless the
    broker empties it when it stops. Blocks; for a bucket, up to CHECK_S seconds: if it does not answer by then, a
    warning is logged, and the broker starts nevertheless. Raises KcliError, OSError, also if the directory can neither
    be used nor created, or the bucket does not exist or may not be used."""
    parsed = parse_address(config.address)
    if isinstance(parsed, str):
        directory = Path(parsed)
        if config.is_emptied:
            disk.make_directory(directory)
        elif not os.path.lexists(directory):
            _check_can_be_made(directory)
        kind = LocalStore if config.deletes else KeepingStore
        return kind(directory, disk, may_be_away=True)
    from kcli.tier.bucket import BucketStore  # imported late: obstore is an optional dependency

    store = BucketStore(parsed, may_be_away=True)
    try:
        store.check(CHECK_S)
    except StoreAway as error:
        log.warning("tiered storage: %s; copies, deletions and reads from the tier are tried again", error)
    return store


def _check_can_be_made(directory: Path) -> None:
    """Raise OSError if the nearest directory above, in which `directory` would be created, is none or not writable."""
    above = next(each for each in directory.absolute().parents if os.path.lexists(each))
    if not above.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(above))
    if not os.access(above, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(above))


def empty(store: Store) -> None:
    """Delete all objects: delete.on.close of LocalTieredStorage. Raises KcliError, OSError."""
    names: Iterable[str] = [each.name for each in store.list_objects() if each.odd is None]
    for name in names:
        store.delete(name)
