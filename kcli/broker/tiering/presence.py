"""Finds out, after a start of the broker, whether the directory of the store is there: its disk may not be mounted.

    a copied segment is found     the store is there
    no copied segment is found    the store is not there: an error is logged, and the broker looks again
    no segment is copied yet      the store is new: its directory is created

The copied segments are those in state COPY_SEGMENT_FINISHED of all partitions that this broker follows. Until the store
is there, nothing is copied to it, nothing expires in it, and local retention deletes no segment because of a copy in
it: objects in an empty mount point are hidden once the disk is mounted. A bucket is always there, and so is a store
that the broker empties when it stops (delete.on.close of LocalTieredStorage).
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from formats.file_name import FileKind
from kcli.errors import KcliError
from kcli.tier.layout import directory_name, object_name
from kcli.tier.local import LocalStore
from kcli.tier.metadata import TOPIC
from kcli.tier.segment import SegmentState

if TYPE_CHECKING:
    from collections.abc import Collection

    from kcli.broker.tiering.config import StoreConfig
    from kcli.broker.tiering.metadata_topic import MetadataTopic
    from kcli.broker.tiering.pool import ThreadPool
    from kcli.log.disk import Disk
    from kcli.tier.segment import TieredPartition
    from kcli.tier.store import Store


class StoreAbsent(KcliError):
    """The store has none of the segments that were copied to it."""


class StorePresence:
    """Finds out whether the store is there. threads: the threads in which the store is called."""

    def __init__(
        self, store: Store, config: StoreConfig, metadata: MetadataTopic, threads: ThreadPool, disk: Disk
    ) -> None:
        self._store, self._metadata, self._threads, self._disk = store, metadata, threads, disk
        self._found = asyncio.Event()
        if not config.is_local or config.is_emptied:
            self._found.set()

    @property
    def is_known(self) -> bool:
        """Whether the store was found."""
        return self._found.is_set()

    async def wait(self) -> None:
        """Wait until the store is found."""
        await self._found.wait()

    async def look(self, partitions: Collection[TieredPartition], *, are_all: bool) -> None:
        """Look for the copied segments of the followed partitions whose records are replayed. are_all: whether this
        broker follows no others; until then, and until all records are replayed, nothing is said about a store in which
        no segment is found. Raises StoreAbsent, KcliError and OSError of the store."""
        count = 0
        for whose in partitions:
            if not self._metadata.is_ready(whose):
                are_all = False
                continue
            names = {
                object_name(whose, each.start_offset, each.id, FileKind.LOG)
                for each in self._metadata.cache(whose).unsorted()
                if each.state is SegmentState.COPY_SEGMENT_FINISHED
            }
            has_one = await self._threads.run(self._has_one, f"{directory_name(whose)}/", names)
            if has_one:
                self._found.set()
                return
            count += len(names)
        if not are_all:
            return
        if count:
            raise StoreAbsent(await self._threads.run(self._absence, count))
        await self._threads.run(self._create)
        self._found.set()

    def _has_one(self, prefix: str, names: Collection[str]) -> bool:
        return bool(names) and self._exists() and any(each.name in names for each in self._store.list_objects(prefix))

    def _exists(self) -> bool:
        return isinstance(self._store, LocalStore) and self._store.find_root()

    def _absence(self, count: int) -> str:
        exists = self._exists()
        what = "the directory has none" if exists else "there is no such directory"
        segments = "1 segment that was" if count == 1 else f"{count:,} segments that were"
        first = "" if exists else "make the directory and "
        return (
            f"{self._store.address}: {TOPIC} names {segments} copied there, but {what}: until this has changed, "
            "nothing is copied there, and local retention deletes nothing. Mount the disk; or, if the segments are "
            f"lost, {first}set remote.storage.enable=false and remote.log.delete.on.disable=true on their topics"
        )

    def _create(self) -> None:
        if not self._exists():
            self._disk.make_directory(Path(self._store.address))
