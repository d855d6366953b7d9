"""Which sessions make room for new ones."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from kcli.broker.fetching import sessions as module
from kcli.broker.fetching.sessions import UNKNOWN, FetchedPartition, FetchSessions
from kcli.broker.fetching.tracker import Key, Tracker
from kcli.broker.partition.partitions import Partition
from kcli.broker.wire.fetch_layout import PartitionAnswer
from kcli.log.live.segments import FileRegion

EVICTION_MS = 120_000


def partitions(count: int) -> dict[Key, FetchedPartition]:
    return {("t", i): FetchedPartition("t", i, 0, 0, ("t", i)) for i in range(count)}


def test_room_is_limited() -> None:
    sessions = FetchSessions(2, EVICTION_MS)
    first = sessions.begin(partitions(1), 0, with_ids=False)
    second = sessions.begin(partitions(1), 0, with_ids=False)
    assert first is not None
    assert second is not None
    assert sessions.begin(partitions(9), 1000, with_ids=False) is None, "both are new"
    sessions.used(first, 100_000)
    third = sessions.begin(partitions(1), EVICTION_MS + 1, with_ids=False)
    assert third is not None
    assert sessions.find(second.id) is None, "the one not used for longest went"
    assert sessions.find(first.id) is first


def test_a_larger_session_takes_the_place_of_an_old_small_one() -> None:
    sessions = FetchSessions(2, EVICTION_MS)
    small = sessions.begin(partitions(2), 0, with_ids=False)
    large = sessions.begin(partitions(9), 0, with_ids=False)
    assert small is not None
    assert large is not None
    for session in (small, large):
        sessions.used(session, EVICTION_MS)
    assert sessions.begin(partitions(2), EVICTION_MS + 1, with_ids=False) is None
    assert sessions.begin(partitions(3), EVICTION_MS + 1, with_ids=False) is not None
    assert sessions.find(small.id) is None


def test_no_slots() -> None:
    assert FetchSessions(0, EVICTION_MS).begin(partitions(1), 0, with_ids=False) is None


def test_epochs_count_on_from_one() -> None:
    sessions = FetchSessions(1, EVICTION_MS)
    session = sessions.begin(partitions(1), 0, with_ids=False)
    assert session is not None
    session.epoch = 2**31 - 1
    sessions.used(session, 1)
    assert session.epoch == 1


def test_news() -> None:
    fetched = FetchedPartition("t", 0, 0, 0, ("t", 0))

    def is_news(error_code: int, high_watermark: int, log_start_offset: int, region: FileRegion | None = None) -> bool:
        answer = PartitionAnswer(0, error_code, high_watermark, UNKNOWN, log_start_offset, region=region)
        news = fetched.is_news(answer)
        fetched.note_sent(answer)
        return news

    assert is_news(0, 5, 0)
    assert not is_news(0, 5, 0)
    assert is_news(0, 5, 1)
    assert is_news(0, 5, 1, FileRegion(Path(), 0, 0, 1))
    assert is_news(6, 5, 1)
    assert is_news(0, 5, 1), "after an error all is news"


def test_partitions_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client may name any number of partitions; the broker keeps a limited number for all clients together."""
    monkeypatch.setattr(module, "PARTITIONS_MAX", 10)
    sessions = FetchSessions(100, EVICTION_MS)
    first = sessions.begin(partitions(6), 0, with_ids=False)
    assert first is not None
    assert sessions.begin(partitions(5), 0, with_ids=False) is None
    assert not sessions.hold(5), "a waiting Fetch"
    assert sessions.hold(4)
    sessions.release(4, Tracker())
    second = sessions.begin(partitions(4), 0, with_ids=False)
    assert second is not None
    second.partitions.update(partitions(5))
    assert not sessions.recount(second), "it has grown"
    assert (len(sessions), sessions.held) == (1, 6)
    assert sessions.begin(partitions(10), EVICTION_MS + 1, with_ids=False) is not None, "in place of the first"


def test_a_tracker_is_closed_in_parts() -> None:
    """A waiting Fetch or a session of many partitions ends without holding up other requests."""

    class Watched(Partition):
        def __init__(self) -> None:
            self.watchers = 0

        def watch(self, _: Any) -> None:
            self.watchers += 1

        def unwatch(self, _: Any) -> None:
            self.watchers -= 1

    async def main() -> None:
        partition, sessions = Watched(), FetchSessions(100, EVICTION_MS)
        count = module.RETIRED_AT_ONCE * 3
        for _ in range(3):
            tracker = Tracker()
            for i in range(module.RETIRED_AT_ONCE):
                tracker.watch(("t", i), partition)
            assert sessions.hold(module.RETIRED_AT_ONCE)
            sessions.release(module.RETIRED_AT_ONCE, tracker)
        assert (partition.watchers, sessions.held) == (count, 0)
        for left in (2, 1, 0):
            await asyncio.sleep(0)
            assert partition.watchers == left * module.RETIRED_AT_ONCE

    asyncio.run(main())
