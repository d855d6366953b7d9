"""One segment is copied, or deleted: what stays in the store and in the topic after each failure."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from formats.checkpoint import EpochEntry
from kcli.broker.metadata.format import random_id
from kcli.broker.tiering.followed import MetadataFailed
from kcli.broker.tiering.index_cache import IndexCache
from kcli.broker.tiering.metadata_topic import MetadataTopic
from kcli.broker.tiering.pool import ThreadPool
from kcli.broker.tiering.segment_tasks import SegmentTasks
from kcli.log.live.closed_segments import ClosedSegment
from kcli.log.live.partition_log import PartitionLog
from kcli.tier.cache import SegmentCache
from kcli.tier.local import LocalStore
from kcli.tier.metadata import RemoteLogMetadata
from kcli.tier.records import record_bytes
from kcli.tier.segment import PartitionDeleteState, RemoteSegment, SegmentState, TieredPartition
from kcli.tier.store import ObjectPart
from tests.tier.records import uuid

WHOSE = TieredPartition("orders", 0, uuid(9))
SIZE = 3 << 20


class Topic:
    """The metadata topic. refused: the state whose record fails. loses: whether it is appended, but not answered."""

    def __init__(self) -> None:
        self.metadata = RemoteLogMetadata()
        self.states: list[int] = []
        self.refused: int | None = None
        self.loses = False

    async def append(self, _: TieredPartition, value: Mapping[str, Any], kind: str) -> None:
        await asyncio.sleep(0)
        state = value.get("remoteLogSegmentState")
        if state is None:
            state = 10 + value["remotePartitionDeleteState"]
        if state == self.refused and not self.loses:
            raise MetadataFailed("refused")
        self.metadata.replay(record_bytes(kind, value))
        self.states.append(state)
        if state == self.refused:
            raise MetadataFailed("no answer")

    def state_of(self, segment: RemoteSegment) -> SegmentState | None:
        known = self.cache.segment(segment.id)
        return None if known is None else known.state

    @property
    def cache(self) -> SegmentCache:
        return self.metadata.caches.setdefault(WHOSE, SegmentCache())


class Store(LocalStore):
    """failing: the end of the name of an object that is not written. gate: writes of .log objects wait for it behind
    the first window."""

    failing = "-"

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.gate, self.at_gate = threading.Event(), threading.Event()
        self.gate.set()

    def write(self, name: str, parts: Iterable[ObjectPart]) -> None:
        if name.endswith(self.failing):
            raise OSError(5, "Input/output error", name)
        super().write(name, self._slowly(name, parts))

    def _slowly(self, name: str, parts: Iterable[ObjectPart]) -> Iterable[ObjectPart]:
        for part in parts:
            yield part
            if name.endswith(".log"):
                self.at_gate.set()
                assert self.gate.wait(30)


class Log:
    """What a copy asks of its log."""

    def epoch_starts(self, base_offset: int, _: int) -> tuple[EpochEntry, ...]:
        return (EpochEntry(0, base_offset),)

    def epochs_to(self, _: int) -> bytes:
        return b"0\n1\n0 0\n"


class Copier:
    """SegmentTasks of one closed segment."""

    def __init__(self, home: Path) -> None:
        (home / "log").mkdir()
        (home / "store").mkdir()
        self.home = home
        self.topic, self.store = Topic(), Store(home / "store")
        paths = [home / "log" / f"{0:020}{suffix}" for suffix in (".log", ".index", ".timeindex", ".snapshot")]
        for path in paths:
            path.write_bytes(b"x" * (SIZE if path.suffix == ".log" else 24))
        log, index, times, snapshot = paths
        self.closed = ClosedSegment(0, 10, SIZE - 5, 77, log, index, times, None, snapshot)
        copiers, deleters = (ThreadPool(name, lambda: 2, lambda: 100) for name in ("copy", "delete"))
        indexes = IndexCache(home, self.store, lambda: 1 << 20)
        topic = cast("MetadataTopic", self.topic)
        self.tasks = SegmentTasks(self.store, topic, indexes, copiers, deleters, 1, lambda: 5)

    async def copy(self) -> None:
        await self.tasks.copy(WHOSE, cast("PartitionLog", Log()), self.closed)

    @property
    def files(self) -> list[Path]:
        return sorted(each for each in (self.home / "store").rglob("*") if each.is_file())

    @property
    def sizes(self) -> dict[str, int]:
        return {each.suffix: each.stat().st_size for each in self.files}

    def states(self) -> list[SegmentState | None]:
        return [each.state for each in self.topic.cache.segments()]


@pytest.fixture
def copier(tmp_path: Path) -> Copier:
    return Copier(tmp_path)


def test_a_copy_and_its_deletion(copier: Copier) -> None:
    async def run() -> None:
        await copier.copy()
        sizes = {".log": SIZE - 5, ".index": 24, ".timeindex": 24, ".snapshot": 24, ".leader_epoch_checkpoint": 8}
        assert copier.sizes == sizes
        (segment,) = copier.topic.cache.segments()
        assert (segment.start_offset, segment.end_offset, segment.size) == (0, 9, SIZE - 5)
        assert (segment.state, segment.max_timestamp_ms) == (SegmentState.COPY_SEGMENT_FINISHED, 77)
        assert copier.tasks.being_copied == set()
        await copier.tasks.delete(segment)
        assert copier.files == []
        await copier.tasks.delete_partition(WHOSE, PartitionDeleteState.DELETE_PARTITION_FINISHED)
        assert list((copier.home / "store").iterdir()) == []

    asyncio.run(run())
    assert copier.topic.states == [0, 1, 2, 3, 12]


@pytest.mark.parametrize("suffix", [".log", ".snapshot", ".leader_epoch_checkpoint"])
def test_a_store_that_fails_leaves_nothing(copier: Copier, suffix: str) -> None:
    copier.store.failing = suffix
    with pytest.raises(OSError, match="Input/output error"):
        asyncio.run(copier.copy())
    assert copier.files == []
    assert copier.topic.states == [0, 2, 3]


def test_a_log_file_that_is_too_short_is_not_copied(copier: Copier) -> None:
    copier.closed.log_path.write_bytes(b"x" * 100)
    with pytest.raises(OSError, match="ends at byte 100"):
        asyncio.run(copier.copy())
    assert copier.files == []


def test_nothing_is_written_without_the_first_record(copier: Copier) -> None:
    copier.topic.refused = 0
    with pytest.raises(MetadataFailed):
        asyncio.run(copier.copy())
    assert (copier.files, copier.topic.states) == ([], [])


@pytest.mark.parametrize("loses", [False, True])
def test_a_copy_whose_end_got_no_answer_is_not_undone(copier: Copier, loses: bool) -> None:
    copier.topic.refused, copier.topic.loses = 1, loses
    with pytest.raises(MetadataFailed):
        asyncio.run(copier.copy())
    assert len(copier.files) == 5
    assert copier.states() == [SegmentState.COPY_SEGMENT_FINISHED if loses else SegmentState.COPY_SEGMENT_STARTED]
    assert copier.tasks.unsettled == {each.id for each in copier.topic.cache.segments()}


def test_a_cancelled_copy_breaks_off_behind_its_window(copier: Copier) -> None:
    async def run() -> None:
        copier.store.gate.clear()
        copying = asyncio.ensure_future(copier.copy())
        await asyncio.to_thread(copier.store.at_gate.wait, 30)
        copying.cancel()
        with pytest.raises(asyncio.CancelledError):
            await copying
        (segment,) = copier.topic.cache.segments()
        assert copier.tasks.being_copied == {segment.id}
        copier.store.gate.set()
        await copier.tasks.copies_ended(WHOSE)
        assert copier.tasks.being_copied == set()
        assert ".log" not in copier.sizes
        assert not any(each.name.endswith(".part") for each in copier.files)
        assert copier.states() == [SegmentState.COPY_SEGMENT_STARTED]
        await copier.tasks.delete(segment)
        assert copier.files == []

    asyncio.run(run())


def test_ids_are_those_of_kafka() -> None:
    for _ in range(200):
        text = random_id()
        assert len(text) == 22
        assert not text.startswith("-")
