"""Connect's workers of Kafka and of kcli in one group: each connector and task is with one of them, and requests reach
the leader, whoever that is."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from kcli.connect.rest_client import NoWorker, ask
from kcli.testing import Kafka
from tests.connect.calls import SOURCE
from tests.connect.record import properties, real_worker
from tests.connect.replaying import Worker
from tests.connect.running import running
from tests.connect.simple import SimpleEngine
from tests.connect.test_distributed import done, values
from tests.connect.test_fencing import Producers
from tests.interop import kit

MORE = {"scheduled__rebalance__max__delay__ms": "0"}
pytestmark = pytest.mark.kafka


@pytest.fixture
def kafka() -> Iterator[Kafka]:
    with Kafka.started() as broker:
        broker.create_topic("lines")
        yield broker


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        port: int = found.getsockname()[1]
        return port


def asked(url: str, method: str, path: str, body: object = None) -> Any:
    """Return a worker's answer; a request that meets a rebalance is sent again, as a worker of Kafka asks for."""
    found: list[Any] = []

    def is_answered() -> bool:
        try:
            found.append(ask(url, method, path, body))
        except NoWorker as error:
            if not any(each in str(error) for each in ("rebalance", "stale configuration")):
                raise
        return bool(found)

    done(f"{method} {path}", is_answered)
    return found[0]


def running_tasks(url: str, name: str) -> int:
    """Return how many of a connector's tasks run."""
    try:
        found = ask(url, "GET", f"/connectors/{name}/status")
    except NoWorker:
        return 0
    return sum(task["state"] == "RUNNING" for task in found["tasks"])


@pytest.mark.usefixtures("kafka_jars")
def test_workers_of_both_in_one_group(kafka: Kafka, tmp_path: Path) -> None:
    port, engine = free_port(), SimpleEngine()
    (tmp_path / "in.txt").write_text("one\n")
    text = properties(kafka.bootstrap_servers, port, **MORE)
    own_config = dict(line.split("=", 1) for line in text.splitlines())
    config = {"connector.class": SOURCE, "file": str(tmp_path / "in.txt"), "topic": "lines"}
    theirs = f"http://127.0.0.1:{port}"
    names = [f"c{number}" for number in range(4)]

    def share(own: Worker) -> bool:
        return len(engine.running) == 2 and all(running_tasks(f"http://127.0.0.1:{own.port}", each) for each in names)

    with running(tmp_path, {**own_config, "listeners": "http://127.0.0.1:0"}, engine=engine) as own:
        ours = f"http://127.0.0.1:{own.port}"
        with real_worker(str(kit.SCRIPT), kafka.bootstrap_servers, port, tmp_path, **MORE):
            for at, name in enumerate(names):
                asked((ours, theirs)[at % 2], "PUT", f"/connectors/{name}/config", config)
            done("both have two tasks", lambda: share(own))
            for url in (ours, theirs):
                for name in names:
                    asked(url, "POST", f"/connectors/{name}/restart")
                    asked(url, "POST", f"/connectors/{name}/tasks/0/restart")
            asked(theirs, "PUT", "/connectors/c0/stop")
            asked(ours, "PUT", "/connectors/c1/stop")
            for url in (ours, theirs):
                done("stopped", lambda url=url: asked(url, "GET", "/connectors/c0/tasks") == [])
                done("stopped", lambda url=url: asked(url, "GET", "/connectors/c1/tasks") == [])
            asked(theirs, "PUT", "/connectors/c0/resume")
            asked(ours, "PUT", "/connectors/c1/resume")
            done("both have two tasks again", lambda: share(own))
        done("kcli's worker has all", lambda: len(engine.running) == 4)
        with real_worker(str(kit.SCRIPT), kafka.bootstrap_servers, port, tmp_path, **MORE):
            done("both have two tasks once more", lambda: share(own))


@pytest.mark.usefixtures("kafka_jars")
@pytest.mark.parametrize("leads", ["ours", "theirs"])
def test_the_leader_fences_the_tasks_of_both(kafka: Kafka, tmp_path: Path, leads: str) -> None:
    """KIP-618: whoever leads fences the producers of earlier tasks, for its own tasks and for those of the other
    worker, which asks for it."""
    port, engine, names = free_port(), SimpleEngine(), [f"c{number}" for number in range(4)]
    more = {**MORE, "exactly__once__source__support": "enabled"}
    kafka.create_topic("connect-configs", 1, {"cleanup.policy": "compact"})
    kafka.produce("connect-configs", *({"key": f"tasks-fencing-{each}", "value": '{"task-count":3}'} for each in names))
    producers = {each: Producers(kafka, "connect", each) for each in names}
    earlier = {each: producers[each].become(2) for each in names}
    text = properties(kafka.bootstrap_servers, port, **more)
    own_config = {**dict(line.split("=", 1) for line in text.splitlines()), "listeners": "http://127.0.0.1:0"}
    (tmp_path / "in.txt").write_text("one\n")
    config = {"connector.class": SOURCE, "file": str(tmp_path / "in.txt"), "topic": "lines"}

    with ExitStack() as stack:

        def join_ours() -> str:
            return f"http://127.0.0.1:{stack.enter_context(running(tmp_path, own_config, engine=engine)).port}"

        def join_theirs() -> str:
            stack.enter_context(real_worker(str(kit.SCRIPT), kafka.bootstrap_servers, port, tmp_path, **more))
            return f"http://127.0.0.1:{port}"

        url, _ = [each() for each in ((join_ours, join_theirs) if leads == "ours" else (join_theirs, join_ours))]
        for name in names:
            asked(url, "PUT", f"/connectors/{name}/config", config)
        done(
            "both have two tasks", lambda: len(engine.running) == 2 and all(running_tasks(url, each) for each in names)
        )
        assert [producers[each].is_fenced(2, earlier[each]) for each in names] == [True] * 4
        written = values(kafka, "connect-configs")
        assert [written[f"tasks-fencing-{each}"] for each in names] == [{"task-count": 1}] * 4
