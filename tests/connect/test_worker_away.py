"""A worker whose brokers, or whose coordinator, are away, late, or refuse what it writes."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kcli.broker.network.peers import Unanswered
from kcli.connect.data.errors import ConnectError
from kcli.connect.topics.json_values import Record
from kcli.connect.worker import kafka_stores, topic_log
from kcli.connect.worker.distributed import DistributedGroup
from kcli.connect.worker.kafka_stores import KafkaStores, PendingStatus
from kcli.connect.worker.leading import Leading
from kcli.connect.worker.topic_log import NotReplayed, NotWritten, TopicConfig, TopicLog
from kcli.protocol.error_code import ErrorCode
from kcli.service.cluster import Cluster, Refused, Topic
from kcli.testing import Kafka
from tests.connect.running import running
from tests.connect.simple import SimpleEngine, Source
from tests.connect.test_distributed import ask, create, done, properties, states, worker

LONG = "é" * 100_000


@pytest.fixture(scope="module")
def broker() -> Iterator[Kafka]:
    with Kafka.started(config={"group.min.session.timeout.ms": "500"}) as kafka:
        yield kafka


def log_of(cluster: object) -> TopicLog:
    config = TopicConfig("t", "statuses", "status.storage.topic", 1, 1, {})
    return TopicLog(cast("Cluster", cluster), config, lambda _: None)


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


def test_a_worker_without_its_coordinator_stops_everything(broker: Kafka, tmp_path: Path) -> None:
    """After a session, though its JoinGroup is not answered for longer."""
    (tmp_path / "in.txt").write_text("one\n")
    with worker(broker, "cut", tmp_path) as (one, engine):
        create(one, "lines", tmp_path)
        done("running", lambda: engine.running)
        faults = [broker.faults.add(api="JoinGroup", delay_ms=8000), broker.faults.add(api="Heartbeat", drop=True)]
        began = time.monotonic()
        try:
            done("stopped", lambda: not engine.running)
            assert time.monotonic() - began < 6
        finally:
            for each in faults:
                broker.faults.remove(each)
        done("running", lambda: engine.running)


def test_a_worker_that_waits_to_join_stays_a_member(
    broker: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its heartbeats go on, so that the group knows it, and it keeps what it has, for longer than a session."""
    (tmp_path / "in.txt").write_text("one\n")
    stay, members = DistributedGroup._stay, []

    async def noted(self: DistributedGroup) -> None:
        members.append(self._member_id)
        await stay(self)

    monkeypatch.setattr(DistributedGroup, "_stay", noted)
    with worker(broker, "waits", tmp_path) as (one, engine):
        create(one, "lines", tmp_path)
        done("running", lambda: engine.running)
        task = next(iter(engine.running.values()))
        fault = broker.faults.add(api="JoinGroup", delay_ms=4000, count=1)
        config = {"connector.class": "FileStreamSource", "file": str(tmp_path / "in.txt"), "topic": "t"}
        done("created", lambda: ask(one, "PUT", "/connectors/more/config", config)[0] in (200, 201))
        done("late", lambda: broker.faults.hits(fault))
        done("running", lambda: states(one, "more") == ["RUNNING", "RUNNING"])
        assert next(iter(engine.running.values())) is task
    assert len(set(members)) == 1


def test_the_topics_are_read_on_however_long_brokers_are_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_log, "TIMEOUT_S", 0.1)
    until = time.monotonic() + 0.6

    async def topic(_: str) -> Topic:
        if time.monotonic() < until:
            raise Unanswered("nobody")
        return Topic((0,), (1,))

    async def patiently() -> list[int]:
        log = log_of(SimpleNamespace(topic=topic))
        await log._look_up_patiently()
        return log._leaders

    assert run(patiently()) == [0]


def test_a_write_does_not_wait_for_a_leader_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_log, "TIMEOUT_S", 0.2)

    async def topic(_: str) -> Topic:
        return Topic((-1,), (1,))

    async def nobody(*_: Any, **__: Any) -> None:
        raise Unanswered("broker 1 is not known")

    async def append() -> None:
        log = log_of(SimpleNamespace(topic=topic, ask=nobody))
        log._leaders, log._next = [1], [0]
        async with asyncio.timeout(5):
            await log.append([(b"k", b"v")])

    with pytest.raises(NotWritten, match="without a leader"):
        run(append())


def test_what_is_read_in_time_is_progress_not_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A topic that takes longer to read than a wait is read to its end."""
    monkeypatch.setattr(topic_log, "TIMEOUT_S", 0.3)

    async def replayed(step: int) -> None:
        log = log_of(None)
        log._leaders, log._next = [0], [0]

        async def move() -> None:
            for _ in range(6):
                await asyncio.sleep(0.1)
                async with log._moved:
                    log._next[0] += step
                    log._moved.notify_all()

        moving = asyncio.create_task(move())
        await log._replayed({0: 6})
        await moving

    run(replayed(1))
    with pytest.raises(NotReplayed):
        run(replayed(0))


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[list[bytes]]:
    """The keys of the statuses that a topic takes: at most two at a time, no key `large`, and none at first."""
    taken: list[list[bytes]] = []
    errors: Iterator[Exception] = iter([NotWritten("later")])

    class Log:
        async def append(self, records: Sequence[Record]) -> None:
            for error in errors:
                raise error
            if len(records) > 2 or any(key == b"large" for key, _ in records):
                raise Refused("Produce to t", ErrorCode.MESSAGE_TOO_LARGE)
            taken.append([key for key, _ in records])

    async def write() -> None:
        stores = KafkaStores.__new__(KafkaStores)
        stores._status_log = cast("TopicLog", Log())
        await stores._write_patiently([PendingStatus((key, b"x")) for key in (b"a", b"b", b"large", b"c", b"d")])

    monkeypatch.setattr(kafka_stores, "AGAIN_S", 0.01)
    run(write())
    return taken


def test_statuses_are_written_later_and_without_those_that_are_too_large(written: list[list[bytes]]) -> None:
    assert sorted(key for keys in written for key in keys) == [b"a", b"b", b"c", b"d"]


class FailingEngine(SimpleEngine):
    """Whose tasks fail with a long trace."""

    def start(self, tasks: Any, offsets: Any, listener: Any, *, paused: bool) -> None:  # noqa: ARG002
        for each in tasks:
            listener.failed(each.id, LONG)


def test_a_long_trace_fits_into_a_status(broker: Kafka, tmp_path: Path) -> None:
    """Other statuses are written beside it."""
    (tmp_path / "in.txt").write_text("one\n")
    with running(tmp_path, properties(broker, "long"), engine=FailingEngine()) as one:
        create(one, "lines", tmp_path)
        done("failed", lambda: states(one, "lines") == ["RUNNING", "FAILED"])
        assert len(ask(one, "GET", "/connectors/lines/status")[1]["tasks"][0]["trace"]) == 1 << 16


def test_a_connector_that_gives_no_tasks_is_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has failed until it gives some; one that has tasks keeps them, and its state."""
    (tmp_path / "in.txt").write_text("one\n")
    give, is_broken = Source.task_configs, threading.Event()
    is_broken.set()

    def task_configs(self: Source, tasks_max: int) -> Sequence[Mapping[str, str]]:
        if is_broken.is_set():
            raise ConnectError("the file is locked")
        return give(self, tasks_max)

    monkeypatch.setattr(Source, "task_configs", task_configs)
    with running(tmp_path, {}) as one:
        create(one, "lines", tmp_path)
        done("failed", lambda: states(one, "lines") == ["FAILED"])
        is_broken.clear()
        done("running", lambda: states(one, "lines") == ["RUNNING", "RUNNING"])
        is_broken.set()
        assert ask(one, "PATCH", "/connectors/lines/config", {"batch.size": "3"})[0] == 200
        time.sleep(0.3)
        assert states(one, "lines") == ["RUNNING", "RUNNING"]
        is_broken.clear()
        done("changed", lambda: ask(one, "GET", "/connectors/lines/tasks")[1][0]["config"].get("batch.size") == "3")


@pytest.mark.parametrize("error", [ConnectError("not now"), ValueError("broken")])
def test_a_request_does_not_wait_for_what_cannot_be_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """The connector is looked at again, whatever the error was."""
    (tmp_path / "in.txt").write_text("one\n")
    put_tasks, is_broken = Leading.put_tasks, threading.Event()
    is_broken.set()

    async def broken(self: Leading, name: str, tasks: Sequence[Any]) -> None:
        if is_broken.is_set():
            raise error
        await put_tasks(self, name, tasks)

    monkeypatch.setattr(Leading, "put_tasks", broken)
    with running(tmp_path, {}) as one:
        began = time.monotonic()
        create(one, "lines", tmp_path)
        assert time.monotonic() - began < 5
        is_broken.clear()
        done("running", lambda: states(one, "lines") == ["RUNNING", "RUNNING"])
