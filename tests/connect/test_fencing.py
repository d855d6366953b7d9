"""KIP-618: before tasks of a source in transactions start, the leader fences the producers of those before them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from kcli.client.producing_transaction import ProducingTransaction
from kcli.client.wire import ErrorAnswer
from kcli.connect.engine.clients import become_producer
from kcli.connect.plugins import Listener, OffsetStore, Plugin, Plugins, PluginType, TaskId, TaskStart
from kcli.connect.worker.internal import InternalRequests
from kcli.connect.worker.leading import Leading
from kcli.pipelines.cluster import Cluster
from kcli.protocol.error_code import ErrorCode
from kcli.testing import Kafka
from tests.connect.calls import SOURCE
from tests.connect.replaying import Worker
from tests.connect.running import running
from tests.connect.simple import PLUGINS, SimpleEngine, Source
from tests.connect.test_distributed import ask, done, properties, states, values


class Many(Source):
    """As many tasks as there may be, each with a file of its own."""

    def task_configs(self, tasks_max: int) -> Sequence[Mapping[str, str]]:
        file = self._properties["file"]
        return [{**self._properties, "file": f"{file}-{number}"} for number in range(tasks_max)]


MANY = Plugins(
    [Plugin(SOURCE, PluginType.SOURCE, "1", f"{__name__}:Many"), *(each for each in PLUGINS if each.name != SOURCE)]
)
EXACTLY_ONCE = {"exactly.once.source.support": "enabled"}


@pytest.fixture(scope="module")
def broker() -> Iterator[Kafka]:
    with Kafka.started(config={"group.min.session.timeout.ms": "500"}) as kafka:
        yield kafka


class Producers:
    """Producers as tasks of a worker that others have forgotten."""

    def __init__(self, broker: Kafka, group: str, connector: str) -> None:
        self._broker, self._prefix = broker, f"{group}-{connector}-"

    def become(self, number: int) -> tuple[int, int]:
        """Become the producer of a task."""
        bootstrap = self._broker.bootstrap_servers
        return become_producer({"bootstrap.servers": bootstrap, "transactional.id": f"{self._prefix}{number}"})

    def is_fenced(self, number: int, producer: tuple[int, int]) -> bool:
        """Whether a producer may write no more."""
        brokers = Cluster(self._broker.bootstrap_servers).brokers()
        transaction = ProducingTransaction(brokers, f"{self._prefix}{number}", "", 10_000)
        try:
            transaction.begin(producer)
        except ErrorAnswer as error:
            return error.code in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
        return False


def configure(worker: Worker, name: str, directory: Path, tasks: int) -> None:
    config = {"connector.class": SOURCE, "file": str(directory / name), "topic": "lines", "tasks.max": str(tasks)}

    def is_done() -> bool:
        status, found = ask(worker, "PUT", f"/connectors/{name}/config", config)
        assert status in (200, 201, 409), found
        return status != 409

    done("configured", is_done)
    done("running", lambda: states(worker, name) == ["RUNNING"] * (tasks + 1))


def fencings(broker: Kafka, group: str) -> list[bytes | None]:
    """Return the records of fencings that a group's workers have written."""
    return [each.value for each in broker.records(f"{group}-config") if (each.key or b"").startswith(b"tasks-fencing-")]


def fenced(broker: Kafka, group: str, name: str) -> Any:
    """Return what the last of them says of a connector."""
    return values(broker, f"{group}-config").get(f"tasks-fencing-{name}")


def test_the_leader_fences_the_tasks_of_the_generation_before(broker: Kafka, tmp_path: Path) -> None:
    """All of them, also those whose numbers have gone; but for one task that follows one task, which fences it."""
    producers = Producers(broker, "fencing", "many")
    with running(tmp_path, properties(broker, "fencing", EXACTLY_ONCE), plugins=MANY) as worker:
        configure(worker, "many", tmp_path, 2)
        assert fenced(broker, "fencing", "many") == {"task-count": 2}
        earlier = [producers.become(number) for number in (0, 1)]
        configure(worker, "many", tmp_path, 1)
        done("fenced", lambda: fenced(broker, "fencing", "many") == {"task-count": 1})
        assert [producers.is_fenced(*each) for each in enumerate(earlier)] == [True, True]
        later = producers.become(0)
        assert ask(worker, "PATCH", "/connectors/many/config", {"batch.size": "5"})[0] == 200
        done("another", lambda: len(fencings(broker, "fencing")) == 3)
        assert not producers.is_fenced(0, later)


class Noting(SimpleEngine):
    """Notes what it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []

    def start(self, tasks: Sequence[TaskStart], offsets: OffsetStore, listener: Listener, *, paused: bool) -> None:
        self.calls += [f"start {each.id.task}" for each in tasks]
        super().start(tasks, offsets, listener, paused=paused)

    def stop(self, tasks: Sequence[TaskId]) -> None:
        self.calls += [f"stop {each.task}" for each in tasks]
        super().stop(tasks)


def test_no_task_of_earlier_configurations_runs_beside_a_later_one(tmp_path: Path) -> None:
    """The worker that gives a connector other tasks stops those that there are first."""
    engine = Noting()
    with running(tmp_path, {}, plugins=MANY, engine=engine) as worker:
        configure(worker, "many", tmp_path, 1)
        configure(worker, "many", tmp_path, 2)
        assert engine.calls == ["start 0", "stop 0", "start 0", "start 1"]


def test_a_worker_has_the_leader_fence(broker: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task starts once the leader has answered, to the request of whichever worker; to others it does not answer."""
    asked: list[str] = []
    ask_leader, fence, may = InternalRequests._ask, Leading.fence, threading.Event()

    async def noted(self: InternalRequests, method: str, path: str, body: bytes) -> None:
        asked.append(f"{method} {path}")
        await ask_leader(self, method, path, body)

    async def held(self: Leading, name: str) -> None:
        if not may.is_set():
            raise ErrorAnswer(name, ErrorCode.REQUEST_TIMED_OUT, None)
        await fence(self, name)

    monkeypatch.setattr(InternalRequests, "_ask", noted)
    monkeypatch.setattr(Leading, "fence", held)
    with ExitStack() as stack:
        engines = [SimpleEngine(), SimpleEngine()]
        known = properties(broker, "both", EXACTLY_ONCE)
        one, _ = (stack.enter_context(running(tmp_path, known, plugins=MANY, engine=each)) for each in engines)
        config = {"connector.class": SOURCE, "file": str(tmp_path / "many"), "topic": "lines", "tasks.max": "4"}
        done("created", lambda: ask(one, "PUT", "/connectors/many/config", config)[0] == 201)
        done("asked", lambda: "PUT /connectors/many/fence" in asked)
        time.sleep(0.5)
        assert [each.started for each in engines] == [[], []]
        may.set()
        done("running", lambda: states(one, "many") == ["RUNNING"] * 5)
        assert all(each.running for each in engines)
        assert fenced(broker, "both", "many") == {"task-count": 4}
        assert ask(one, "PUT", "/connectors/many/fence")[0] == 400


def test_new_configurations_while_the_leader_fences(
    broker: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record would be that of tasks whose forerunners are not fenced: there is none, and the next round has one."""
    fence_all, fencing, go = Leading._fence, threading.Event(), threading.Event()

    def slow(self: Leading, name: str, count: int) -> None:
        fencing.set()
        go.wait(30)
        fence_all(self, name, count)

    producers = Producers(broker, "race", "many")
    with running(tmp_path, properties(broker, "race", EXACTLY_ONCE), plugins=MANY) as worker:
        configure(worker, "many", tmp_path, 2)
        monkeypatch.setattr(Leading, "_fence", slow)
        assert ask(worker, "PATCH", "/connectors/many/config", {"tasks.max": "3"})[0] == 200
        assert fencing.wait(30)
        count = len(fencings(broker, "race"))
        assert ask(worker, "PUT", "/connectors/many/stop")[0] == 204
        earlier = producers.become(1)
        go.set()
        done("stopped", lambda: states(worker, "many") == ["STOPPED"])
        time.sleep(0.5)
        assert len(fencings(broker, "race")) == count
        assert ask(worker, "PUT", "/connectors/many/resume")[0] == 202
        done("running", lambda: states(worker, "many") == ["RUNNING"] * 4)
        assert fenced(broker, "race", "many") == {"task-count": 3}
        assert producers.is_fenced(1, earlier)


def test_offsets_are_altered_once_their_writers_are_fenced(broker: Kafka, tmp_path: Path) -> None:
    """A worker of Spark that is about to be killed commits no transaction behind the alteration."""
    producers = Producers(broker, "altered", "many")
    with running(tmp_path, properties(broker, "altered", EXACTLY_ONCE), plugins=MANY) as worker:
        configure(worker, "many", tmp_path, 2)
        earlier = [producers.become(number) for number in (0, 1)]
        assert ask(worker, "PUT", "/connectors/many/stop")[0] == 204
        offsets = {"offsets": [{"partition": {"filename": "x"}, "offset": {"position": 2}}]}
        assert ask(worker, "PATCH", "/connectors/many/offsets", offsets)[0] == 200
        assert [producers.is_fenced(*each) for each in enumerate(earlier)] == [True, True]
        assert fenced(broker, "altered", "many") == {"task-count": 0}


class SlowEngine(SimpleEngine):
    """Takes two seconds to stop a task, and stores its last offset then."""

    def stop(self, tasks: Sequence[TaskId]) -> None:
        time.sleep(2)
        for each in tasks:
            if each in self.running:
                self.running[each].write(99)
        super().stop(tasks)


def test_offsets_are_altered_once_the_tasks_have_stopped_elsewhere(broker: Kafka, tmp_path: Path) -> None:
    """Their last turns have stored theirs before, also on a worker that does not lead."""
    engines, known = (SlowEngine(), SlowEngine()), properties(broker, "stops")
    with ExitStack() as stack:
        one, _ = (stack.enter_context(running(tmp_path, known, plugins=MANY, engine=each)) for each in engines)
        for name in ("a", "b"):
            configure(one, name, tmp_path, 1)
        done("shared", lambda: [len(each.running) for each in engines] == [1, 1])
        for name in ("a", "b"):
            assert ask(one, "PUT", f"/connectors/{name}/stop")[0] == 204
            entry = {"partition": {"filename": f"{tmp_path / name}-0"}, "offset": {"position": 2}}
            assert ask(one, "PATCH", f"/connectors/{name}/offsets", {"offsets": [entry]}) == (
                200,
                {"message": "The offsets for this connector have been altered successfully"},
            )
        time.sleep(2.5)
        for name in ("a", "b"):
            (found,) = ask(one, "GET", f"/connectors/{name}/offsets")[1]["offsets"]
            assert found["offset"] == {"position": 2}
