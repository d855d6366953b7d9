"""A Fetch of many partitions works in parts, and reads again only what has changed."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from kcli.broker.api import fetch as module
from kcli.broker.fetching import sessions as sessions_module
from kcli.broker.fetching.sessions import FetchSessions
from kcli.broker.partition.partitions import Partition
from kcli.broker.process.turns import LONG_ITEMS
from kcli.broker.wire.answers import Laid
from kcli.broker.wire.fetch_layout import PartitionAnswer
from kcli.protocol.error_code import ErrorCode
from tests.metadata.node import call, node, started
from tests.metadata.test_answers import PROPERTIES

FETCH, VERSION = 1, 11
MANY = LONG_ITEMS * 20
EACH = {
    "fetch_offset": 0,
    "partition_max_bytes": 1 << 20,
    "current_leader_epoch": -1,
    "log_start_offset": -1,
}


class Watched(Partition):
    """An open partition whose log is empty. It keeps its watchers, and counts its reads."""

    opened_log = SimpleNamespace(high_watermark=0)  # type: ignore[assignment]

    def __init__(self) -> None:
        self.watchers: list[Any] = []
        self.read = 0

    def watch(self, watcher: Any) -> None:
        self.watchers.append(watcher)

    def unwatch(self, watcher: Any) -> None:
        self.watchers.remove(watcher)


class Fetches:
    """Fetches to a broker all of whose partitions are one object, or are all unknown."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, is_known: bool = True) -> None:
        self.broker: Any = node(PROPERTIES, started())
        self.broker.sessions = FetchSessions(10, 120_000)
        self.partition = Watched()
        self.looked_up = 0
        found: Any = self.partition if is_known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        self.size = 0

        def look_up(*_: object) -> Any:
            self.looked_up += 1
            return found

        def read(_: object, wanted: Any, partition: Any, *__: object, **___: object) -> PartitionAnswer:
            if isinstance(partition, ErrorCode):
                return PartitionAnswer(wanted.index, partition.value)
            self.partition.read += 1
            return PartitionAnswer(wanted.index, 0, 0, 0, 0)

        partitions: Any = SimpleNamespace(look_up=look_up)
        self.broker.partitions = partitions
        monkeypatch.setattr(module, "_read_partition", read)

    def fetch(self, count: int, session: tuple[int, int] = (0, -1), max_wait_ms: int = 10_000) -> Any:
        """Return the response to a Fetch of `count` partitions, or an awaitable of it."""
        topics = [{"topic": "a", "partitions": [{"partition": i, **EACH} for i in range(count)]}] if count else ()
        asked: Any = call(
            FETCH,
            VERSION,
            {
                "topics": topics,
                "forgotten_topics_data": (),
                "max_wait": max_wait_ms,
                "min_bytes": 1,
                "max_bytes": 1 << 20,
                "replica_id": -1,
                "isolation_level": 0,
                "rack_id": "",
                "session_id": session[0],
                "session_epoch": session[1],
            },
        )
        return module.fetch(self.broker, asked)

    async def begin(self, count: int) -> int:
        """Begin a new session of `count` partitions. Returns its id."""
        answer = self.fetch(count, (0, 0), max_wait_ms=0)
        await answer if not isinstance(answer, Laid) else None
        (session_id,) = self.broker.sessions._sessions
        return int(session_id)


async def rounds_of(task: asyncio.Task[Any], count: Any) -> int:
    """Return the largest increase of `count()` within one round of the event loop until the task is done."""
    most = 0
    while not task.done():
        before = count()
        await asyncio.sleep(0)
        most = max(most, count() - before)
    return most


def test_a_waiting_fetch_watches_until_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        fetches = Fetches(monkeypatch)
        task = asyncio.ensure_future(fetches.fetch(3))
        await asyncio.sleep(0)
        assert len(fetches.partition.watchers) == 3
        assert fetches.broker.sessions.held == 3
        task.cancel()
        await asyncio.wait([task])
        await asyncio.sleep(0)
        assert not fetches.partition.watchers
        assert fetches.broker.sessions.held == 0

    asyncio.run(main())


def test_waiting_fetches_of_too_many_partitions_are_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions_module, "PARTITIONS_MAX", 5)

    async def main() -> None:
        fetches = Fetches(monkeypatch)
        waiting = asyncio.ensure_future(fetches.fetch(3))
        await asyncio.sleep(0)
        assert isinstance(await asyncio.wait_for(fetches.fetch(3), 5), Laid)
        assert not waiting.done()
        waiting.cancel()
        await asyncio.wait([waiting])

    asyncio.run(main())


def test_a_session_reads_only_what_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        fetches = Fetches(monkeypatch)
        session_id = await fetches.begin(MANY)
        await fetches.fetch(0, (session_id, 1), max_wait_ms=0)
        fetches.partition.read = fetches.looked_up = 0
        answer = fetches.fetch(0, (session_id, 2), max_wait_ms=0)
        assert isinstance(answer, Laid), "an idle session is answered at once"
        assert fetches.looked_up == 0
        waiting = asyncio.ensure_future(fetches.fetch(0, (session_id, 3)))
        await asyncio.sleep(0)
        for changed in fetches.partition.watchers[:2]:
            changed()
        await asyncio.sleep(0)
        assert fetches.partition.read == 2
        assert len(fetches.partition.watchers) == MANY, "each is watched once"
        waiting.cancel()
        await asyncio.wait([waiting])
        assert len(fetches.partition.watchers) == MANY, "the session goes on"
        fetches.broker.sessions.end(session_id)
        await asyncio.sleep(0.1)
        assert not fetches.partition.watchers

    asyncio.run(main())


def test_a_record_behind_the_offset_ends_a_wait_for_one_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    """The partition is read once only, for the response."""

    async def main() -> None:
        fetches = Fetches(monkeypatch)
        waiting = fetches.fetch(1)
        assert fetches.partition.read == 1
        monkeypatch.setattr(Watched, "opened_log", SimpleNamespace(high_watermark=1))
        fetches.partition.watchers[0]()
        fetches.partition.watchers[0]()
        assert isinstance(await asyncio.wait_for(waiting, 5), Laid)
        assert fetches.partition.read == 2
        assert not fetches.partition.watchers

    asyncio.run(main())


def test_a_wait_goes_on_in_turns_where_many_partitions_have_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The turns also go on where the Fetch times out meanwhile. A Fetch that is cancelled leaves no watchers."""

    async def main() -> None:
        fetches = Fetches(monkeypatch)
        session_id = await fetches.begin(MANY)
        await fetches.fetch(0, (session_id, 1), max_wait_ms=0)
        tracker = fetches.broker.sessions.find(session_id).tracker
        for epoch, max_wait_ms in ((2, 10_000), (3, 50), (4, 300)):
            waiting = asyncio.ensure_future(fetches.fetch(0, (session_id, epoch), max_wait_ms=max_wait_ms))
            await asyncio.sleep(0)
            fetches.looked_up = 0
            for changed in list(fetches.partition.watchers):
                changed()
            if epoch == 2:
                for _ in range(5):
                    await asyncio.sleep(0)
                waiting.cancel()
                await asyncio.wait([waiting])
            else:
                assert await rounds_of(waiting, lambda: fetches.looked_up) <= 2 * LONG_ITEMS
                assert isinstance(waiting.result(), Laid)
                assert fetches.looked_up >= MANY
            await asyncio.sleep(0)
            assert tracker.wake is None

    asyncio.run(main())


@pytest.mark.parametrize("is_known", [False, True])
@pytest.mark.parametrize("is_session", [False, True])
def test_many_partitions_are_read_in_parts(monkeypatch: pytest.MonkeyPatch, is_known: bool, is_session: bool) -> None:
    """Even an incremental Fetch of 45 bytes is answered in parts if its session has very many partitions."""

    async def main() -> None:
        fetches = Fetches(monkeypatch, is_known=is_known)
        count, session = MANY, (0, -1)
        if is_session:
            count, session = 0, (await fetches.begin(MANY), 1)
        fetches.looked_up = 0
        tasks = [
            asyncio.ensure_future(fetches.fetch(count, session, max_wait_ms=0)) for _ in range(1 if is_session else 3)
        ]
        most = await rounds_of(asyncio.ensure_future(asyncio.wait(tasks)), lambda: fetches.looked_up)
        assert fetches.looked_up >= MANY
        assert most <= 2 * LONG_ITEMS, "a round may begin in the middle of this test's"
        assert all(isinstance(task.result(), Laid) for task in tasks)

    asyncio.run(main())


def test_hundreds_of_fetches_at_the_same_time_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each Fetch takes a millisecond, and a client that connects meanwhile does not wait for all of them."""

    async def main() -> None:
        fetches = Fetches(monkeypatch)
        count = module.AT_ONCE_MAX + 1
        tasks = [asyncio.ensure_future(fetches.fetch(count)) for _ in range(50)]
        waiting = asyncio.ensure_future(asyncio.wait(tasks, timeout=1))
        assert await rounds_of(waiting, lambda: fetches.partition.read) <= 2 * count
        assert fetches.partition.read == 2 * count * len(tasks), "before and after they are watched"
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)

    asyncio.run(main())


def test_topics_without_partitions_are_many_too(monkeypatch: pytest.MonkeyPatch) -> None:
    fetches = Fetches(monkeypatch)
    topics = [{"topic": "a", "partitions": []}] * MANY
    body = {"topics": topics, "forgotten_topics_data": topics, "max_wait": 0, "min_bytes": 1, "max_bytes": 1}
    fields = {"replica_id": -1, "isolation_level": 0, "rack_id": "", "session_id": 0, "session_epoch": -1}
    asked: Any = call(FETCH, VERSION, {**body, **fields})
    assert module._is_long(fetches.broker, asked)
    assert len(list(module._partitions_of(asked))) == MANY // LONG_ITEMS, "parts"


def test_many_logs_are_opened_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Watched, "opened_log", None)

    async def main() -> None:
        fetches = Fetches(monkeypatch)
        task = asyncio.ensure_future(fetches.fetch(LONG_ITEMS + 1, max_wait_ms=0))
        assert await rounds_of(task, lambda: fetches.partition.read) <= 2 * module.OPENED_AT_ONCE
        assert isinstance(task.result(), Laid)

    asyncio.run(main())
