"""The store of a broker's tier, opened at the start. Source: LocalTieredStorage for a directory."""

from __future__ import annotations

import logging
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
    """Open the store, and make its directory if it is one. Waits for the disk, and for a bucket up to CHECK_S. A bucket
    that does not answer is logged: the broker starts without it. Raises KcliError, OSError, also if there is no bucket,
    or no access."""
    parsed = parse_address(config.address)
    if isinstance(parsed, str):
        directory = Path(parsed)
        disk.make_directory(directory)
        return LocalStore(directory, disk) if config.deletes else KeepingStore(directory, disk)
    from kcli.tier.bucket import BucketStore  # imported late: obstore is an extra

    store = BucketStore(parsed, may_be_away=True)
    try:
        store.check(CHECK_S)
    except StoreAway as error:
        log.warning("tiered storage: %s; copies, deletions and reads from the tier are tried again", error)
    return store


def empty(store: Store) -> None:
    """Delete all objects: delete.on.close of LocalTieredStorage. Raises KcliError, OSError."""
    names: Iterable[str] = [each.name for each in store.list_objects() if each.odd is None]
    for name in names:
        store.delete(name)
