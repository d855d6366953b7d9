"""When the directory of the store counts as there, and when it is created."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import cast

import pytest

from formats.file_name import FileKind
from kcli.broker.tiering.config import StoreConfig
from kcli.broker.tiering.metadata_topic import MetadataTopic
from kcli.broker.tiering.pool import ThreadPool
from kcli.broker.tiering.presence import StoreAbsent, StorePresence
from kcli.broker.tiering.store import open_tier
from kcli.log.disk import Disk
from kcli.tier.cache import SegmentCache
from kcli.tier.layout import object_name
from kcli.tier.local import LocalStore
from kcli.tier.metadata import RemoteLogMetadata
from kcli.tier.segment import SegmentState, TieredPartition
from tests.tier.records import started, updated, uuid

KNOWN, EMPTY, UNREAD = (TieredPartition(topic, 0, uuid(9)) for topic in ("known", "empty", "unread"))


class Topic:
    """The metadata topic: KNOWN has a segment, whose state is given; the records of UNREAD are not read yet."""

    def __init__(self, state: SegmentState) -> None:
        metadata = RemoteLogMetadata()
        metadata.replay(started(uuid(1), 0, 9, partition=KNOWN))
        for each in range(SegmentState.COPY_SEGMENT_FINISHED, state + 1):
            metadata.replay(updated(uuid(1), each, partition=KNOWN))
        self._caches = metadata.caches

    def is_ready(self, whose: TieredPartition) -> bool:
        return whose != UNREAD

    def cache(self, whose: TieredPartition) -> SegmentCache:
        return self._caches.get(whose, SegmentCache())


def found(
    root: Path,
    *partitions: TieredPartition,
    state: SegmentState = SegmentState.COPY_SEGMENT_FINISHED,
    is_emptied: bool = False,
) -> bool:
    """Whether the store is found at the first look."""

    async def look() -> bool:
        config = StoreConfig(address=str(root), is_local=True, is_emptied=is_emptied)
        pool = ThreadPool("test", lambda: 1, lambda: 9)
        topic = cast("MetadataTopic", Topic(state))
        presence = StorePresence(open_tier(config, Disk()), config, topic, pool, Disk())
        try:
            if not presence.is_known:
                await presence.look(partitions, are_all=True)
            return presence.is_known
        finally:
            pool.close()

    return asyncio.run(look())


def test_a_new_store_is_created_once_all_records_are_read(tmp_path: Path) -> None:
    root = tmp_path / "mnt/store"
    assert not found(root, EMPTY, UNREAD)
    assert not list(tmp_path.iterdir())
    assert found(root, EMPTY)
    assert root.is_dir()


@pytest.mark.parametrize("state", [SegmentState.DELETE_SEGMENT_STARTED, SegmentState.DELETE_SEGMENT_FINISHED])
def test_segments_that_were_deleted_are_not_looked_for(tmp_path: Path, state: SegmentState) -> None:
    assert found(tmp_path / "store", KNOWN, state=state)


def test_a_store_without_the_copied_segments_is_not_there(tmp_path: Path) -> None:
    root = tmp_path / "store"
    with pytest.raises(StoreAbsent, match=r"store: __remote_log_metadata names 1 segment .* no such directory"):
        found(root, EMPTY, KNOWN)
    assert not root.exists()
    (root / "other-0").mkdir(parents=True)
    (root / "other-0/object").touch()
    with pytest.raises(StoreAbsent, match="the directory has none"):
        found(root, EMPTY, KNOWN)
    assert not found(root, UNREAD, KNOWN), "segments of a partition whose records are not read may be there"
    LocalStore(root).write(object_name(KNOWN, 0, uuid(1), FileKind.LOG), [b"x"])
    assert found(root, UNREAD, KNOWN)


def test_a_store_that_is_emptied_at_each_stop_is_there(tmp_path: Path) -> None:
    assert found(tmp_path / "store", KNOWN, is_emptied=True)
    assert (tmp_path / "store").is_dir()


def test_the_directory_inside_may_come_later(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "mnt", may_be_away=True)
    assert not store.find_root()
    (tmp_path / "mnt/kafka-tiered-storage").mkdir(parents=True)
    assert store.find_root()
    assert store.address == str(tmp_path / "mnt/kafka-tiered-storage")


def test_a_path_that_can_be_no_directory_ends_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError, match="file"):
        open_tier(StoreConfig(address=str(tmp_path / "file/store"), is_local=True), Disk())
