"""Distributed workers on a broker: topics, the group, forwarding, a worker that dies."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from kcli.client.admin import Admin
from kcli.client.connection import Connection
from kcli.connect.plugins import TaskId
from kcli.connect.topics.json_values import Record
from kcli.connect.worker import kafka_stores, topic_log
from kcli.connect.worker.distributed import DistributedGroup
from kcli.connect.worker.kafka_stores import KafkaStores
from kcli.connect.worker.topic_log import TopicLog
from kcli.protocol.error_code import ErrorCode
from kcli.service.cluster import Refused
from kcli.testing import Kafka
from tests.connect.calls import call, source
from tests.connect.replaying import Worker
from tests.connect.running import running
from tests.connect.simple import SimpleEngine, Source

WAIT_S = 120.0
QUICK = {
    "heartbeat.interval.ms": "100",
    "session.timeout.ms": "1500",
    "scheduled.rebalance.max.delay.ms": "0",
    **{f"{kind}.storage.replication.factor": "1" for kind in ("config", "offset", "status")},
}


@pytest.fixture(scope="module")
def broker() -> Iterator[Kafka]:
    with Kafka.started(config={"group.min.session.timeout.ms": "500"}) as kafka:
        yield kafka


def properties(broker: Kafka, group: str, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return a worker's configuration."""
    topics = {f"{kind}.storage.topic": f"{group}-{kind}" for kind in ("config", "offset", "status")}
    return {"bootstrap.servers": broker.bootstrap_servers, "group.id": group, **topics, **QUICK, **(more or {})}


@contextmanager
def worker(broker: Kafka, group: str, directory: Path, **more: str) -> Iterator[tuple[Worker, SimpleEngine]]:
    """Run a worker of a group."""
    engine = SimpleEngine()
    known = {key.replace("__", "."): value for key, value in more.items()}
    with running(directory, properties(broker, group, known), engine=engine) as found:
        yield found, engine


def ask(worker: Worker, method: str, path: str, body: object = None) -> tuple[int, Any]:
    """Return the status and the JSON of an answer."""
    answer = worker.send(call(method, path, body))
    return answer["status"], json.loads(answer["body"]) if answer["body"] else None


def done(what: str, check: Any) -> Any:
    """Wait until a check gives something."""
    until = time.monotonic() + WAIT_S
    while not (found := check()):
        assert time.monotonic() < until, what
        time.sleep(0.02)
    return found


def states(worker: Worker, name: str) -> list[str]:
    """Return the states of a connector and its tasks; none if there is no status."""
    status, found = ask(worker, "GET", f"/connectors/{name}/status")
    return [found["connector"]["state"], *(each["state"] for each in found["tasks"])] if status == 200 else []


def create(worker: Worker, name: str, directory: Path) -> None:
    """Create a source; a rebalance may be underway."""
    body = {"name": name, "config": {**source(name=name), "file": str(directory / "in.txt")}}

    def made() -> bool:
        status, found = ask(worker, "POST", "/connectors", body)
        assert status in (201, 409), found
        return status == 201

    done("created", made)


def values(broker: Kafka, topic: str) -> dict[str, Any]:
    """Return the last value of each key."""
    found = {}
    for record in broker.records(topic):
        found[(record.key or b"").decode()] = json.loads(record.value) if record.value else None
    return found


def test_a_worker_keeps_everything_in_its_topics(broker: Kafka, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("one\n")
    with worker(broker, "alone", tmp_path) as (first, _):
        create(first, "lines", tmp_path)
        done("running", lambda: states(first, "lines") == ["RUNNING", "RUNNING"])
        done("read", lambda: ask(first, "GET", "/connectors/lines/offsets")[1]["offsets"])
        done("paused", lambda: ask(first, "PUT", "/connectors/lines/pause")[0] == 202)
        done("paused", lambda: states(first, "lines") == ["PAUSED", "PAUSED"])
        worker_id = ask(first, "GET", "/connectors/lines/status")[1]["connector"]["worker_id"]
    configs = values(broker, "alone-config")
    assert list(configs["connector-lines"]) == ["properties"]
    assert configs["task-lines-0"]["properties"]["task.class"].endswith("FileStreamSourceTask")
    assert configs["commit-lines"] == {"tasks": 1}
    assert configs["target-state-lines"] == {"state": "PAUSED", "state.v2": "PAUSED"}
    assert configs["session-key"]["algorithm"] == "HmacSHA256"
    (offset,) = values(broker, "alone-offset").items()
    assert offset == (f'["lines",{{"filename":"{tmp_path}/in.txt"}}]', {"position": 4})
    assert values(broker, "alone-status")["status-connector-lines"]["state"] == "UNASSIGNED"
    assert worker_id == "WORKER"
    with worker(broker, "alone", tmp_path) as (second, engine):
        done("taken up", lambda: states(second, "lines") == ["PAUSED", "PAUSED"])
        assert [str(each) for each in engine.started] == ["lines-0"]
        assert ask(second, "DELETE", "/connectors/lines")[0] == 204
        done("gone", lambda: not states(second, "lines"))
        done("stopped", lambda: not engine.running)


def test_two_workers_share_the_work_and_forward_to_the_leader(broker: Kafka, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("one\n")
    with worker(broker, "two", tmp_path) as (first, one), worker(broker, "two", tmp_path) as (second, two):
        names = [f"c{number}" for number in range(4)]
        for at, name in enumerate(names):
            create((first, second)[at % 2], name, tmp_path)
        for name in names:
            done("running", lambda name=name: states(second, name) == ["RUNNING", "RUNNING"])
        done("balanced", lambda: (len(one.running), len(two.running)) == (2, 2))
        assert not one.running.keys() & two.running.keys()
        for each in (first, second):
            assert sorted(ask(each, "GET", "/connectors")[1]) == names
            assert ask(each, "POST", "/connectors/c1/restart")[0] == 204
            assert ask(each, "POST", "/connectors/c2/tasks/0/restart")[0] == 204
            assert ask(each, "PUT", "/connectors/none/stop")[0] == 404
            assert ask(each, "POST", "/connectors/c1/tasks", [])[0] in (400, 403)
        assert ask(second, "PUT", "/connectors/c3/stop")[0] == 204
        done("stopped", lambda: states(first, "c3") == ["STOPPED"])


def test_the_work_of_a_worker_that_leaves_goes_on(broker: Kafka, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("one\n")
    with ExitStack() as stack:
        first, one = stack.enter_context(worker(broker, "left", tmp_path))
        with worker(broker, "left", tmp_path) as (second, two):
            for name in ("a", "b"):
                create(second, name, tmp_path)
            done("balanced", lambda: (len(one.running), len(two.running)) == (1, 1))
        done("taken over", lambda: len(one.running) == 2)
        for name in ("a", "b"):
            done("running", lambda name=name: states(first, name) == ["RUNNING", "RUNNING"])


def test_a_topic_that_is_not_compacted_is_refused(broker: Kafka, tmp_path: Path) -> None:
    broker.create_topic("plain-config")
    with pytest.raises(Exception, match=r"'cleanup\.policy=compact'"), worker(broker, "plain", tmp_path):
        pass


def test_a_connector_is_created_once(broker: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two requests at the same time the second one finds it."""
    write = KafkaStores.write_configs

    async def slow(self: KafkaStores, records: Sequence[Record]) -> None:
        await asyncio.sleep(0.5)
        await write(self, records)

    with worker(broker, "once", tmp_path) as (one, _), ThreadPoolExecutor(4) as threads:
        create(one, "first", tmp_path)
        done("running", lambda: states(one, "first") == ["RUNNING", "RUNNING"])
        monkeypatch.setattr(KafkaStores, "write_configs", slow)
        config = {**source(name="both"), "file": str(tmp_path / "in.txt")}
        asked = [threads.submit(ask, one, "POST", "/connectors", {"name": "both", "config": config}) for _ in range(4)]
        assert sorted(each.result()[0] for each in asked) == [201, 409, 409, 409]


def test_a_worker_joins_again_after_any_error(broker: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stay, errors = DistributedGroup._stay, iter([ValueError("broken")])

    async def broken(self: DistributedGroup) -> None:
        for error in errors:
            raise error
        await stay(self)

    monkeypatch.setattr(DistributedGroup, "_stay", broken)
    (tmp_path / "in.txt").write_text("one\n")
    with worker(broker, "again", tmp_path) as (one, _):
        create(one, "lines", tmp_path)
        done("running", lambda: states(one, "lines") == ["RUNNING", "RUNNING"])
        assert next(errors, None) is None


def test_offsets_that_cannot_be_read_in_time(broker: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with worker(broker, "slow", tmp_path) as (one, _):
        create(one, "lines", tmp_path)
        done("running", lambda: states(one, "lines") == ["RUNNING", "RUNNING"])

        async def far(_: TopicLog, *__: int) -> list[int]:
            return [1 << 40]

        monkeypatch.setattr(topic_log, "TIMEOUT_S", 0.2)
        monkeypatch.setattr(TopicLog, "_offsets", far)
        assert ask(one, "GET", "/connectors/lines/offsets") == (
            500,
            {"error_code": 500, "message": "topic slow-offset is not read to its end in 0.2 s"},
        )
        monkeypatch.setattr(kafka_stores, "WAIT_S", 0.1)
        assert "does not answer in 0.1 s" in ask(one, "GET", "/connectors/lines/offsets")[1]["message"]
        monkeypatch.undo()


def test_a_member_of_an_older_generation_keeps_its_id(
    broker: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the group would wait for its old self until the session is over."""
    stay, members = DistributedGroup._stay, []

    async def refused(self: DistributedGroup) -> None:
        members.append(self._member_id)
        if len(members) == 1:
            raise Refused("heartbeat", ErrorCode.ILLEGAL_GENERATION)
        await stay(self)

    monkeypatch.setattr(DistributedGroup, "_stay", refused)
    with worker(broker, "older", tmp_path):
        done("joined again", lambda: len(members) > 1)
    assert members[0] == members[1] != ""


class Late(SimpleEngine):
    """Says that its tasks have failed while it stops them, and takes its time for that."""

    is_late = False

    def stop(self, tasks: Sequence[TaskId]) -> None:
        if self.is_late:
            for each in tasks:
                self.running[each].fail("ProducerFencedException")
            time.sleep(1)
        super().stop(tasks)


def test_a_worker_that_was_paused_hides_no_status_of_the_next_owner(
    broker: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It learns late that its session is over; what it stops then is another worker's."""
    (tmp_path / "in.txt").write_text("one\n")
    start, loops = DistributedGroup.start, []

    async def noted(self: DistributedGroup, *parts: Any) -> None:
        loops.append(asyncio.get_running_loop())
        await start(self, *parts)

    monkeypatch.setattr(DistributedGroup, "start", noted)
    late = Late()
    with (
        running(tmp_path, properties(broker, "paused"), engine=late) as first,
        worker(broker, "paused", tmp_path) as (second, engine),
    ):
        for name in ("a", "b", "c", "d"):
            create(first, name, tmp_path)
        done("balanced", lambda: (len(late.running), len(engine.running)) == (2, 2))
        done("running", lambda: all(states(second, each) == ["RUNNING", "RUNNING"] for each in "abcd"))
        late.is_late = True
        loops[0].call_soon_threadsafe(time.sleep, 4)
        done("taken over", lambda: len(engine.running) == 4)
        done("given back", lambda: len(engine.running) == 2)
        done("running", lambda: all(states(second, each) == ["RUNNING", "RUNNING"] for each in "abcd"))
    owners: dict[bytes | None, str] = {}
    for key, status in ((each.key, json.loads(each.value)) for each in broker.records("paused-status") if each.value):
        if status.get("state") == "RUNNING":
            owners[key] = status["worker_id"]
        elif status.get("worker_id") == f"127.0.0.1:{first.port}":
            assert owners[key] == status["worker_id"], (key, status)


@pytest.mark.parametrize("support", ["disabled", "enabled"])
def test_a_configuration_that_its_topic_does_not_take(
    broker: Kafka, tmp_path: Path, caplog: pytest.LogCaptureFixture, support: str
) -> None:
    """The answer, and one line of the log, name the record, its size and the setting; with that it is taken."""
    group = f"large-{support}"
    config = {**source(name="big"), "file": str(tmp_path / "in.txt"), "more": "x" * 3_900_000}
    with worker(broker, group, tmp_path, exactly__once__source__support=support) as (made, _):
        size = ""
        for method, path, body in (
            ("PUT", "/connectors/big/config", config),
            ("POST", "/connectors", {"name": "big", "config": config}),
        ):
            done("leads", lambda: ask(made, "PUT", "/connectors/small/config", source(name="small"))[0] in (200, 201))
            caplog.clear()
            status, answer = ask(made, method, path, body)
            found = re.fullmatch(
                r"Error writing connector configuration to Kafka: (the record connector-big is too large: .* batch of "
                rf"3,90\d,\d+ bytes.*; after kcli topics alter {group}-config --config max.message.bytes=(390\d+) the "
                r"topic takes it)",
                answer["message"],
            )
            assert found is not None, answer
            assert (status, answer["error_code"]) == (500, 500)
            size = found[2]
            told = [each.message for each in caplog.records if "too large" in each.message]
            assert told == [f"Failed to write connector configuration to Kafka: {found[1]}"]
        assert ask(made, "GET", "/connectors")[1] == ["small"]
        admin = Admin(Connection(broker.bootstrap_servers))
        larger = {"max.message.bytes": str(int(size) + 1000)}  # the task's has its class, too
        assert list(admin.alter_configs([f"{group}-config"], larger, validate_only=False, if_exists=False)) == [
            f"{group}-config"
        ]
        done("taken", lambda: ask(made, "PUT", "/connectors/big/config", config)[0] == 201)
        done("running", lambda: states(made, "big") == ["RUNNING", "RUNNING"])


def test_tasks_whose_configurations_need_several_batches(
    broker: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record of each is taken, as by Kafka's worker; all of them together are more than a batch may have."""
    monkeypatch.setattr(Source, "task_configs", lambda self, tasks_max: [self._properties] * tasks_max)
    config = {**source(name="many", tasks__max="20"), "file": str(tmp_path / "in.txt"), "more": "x" * 100_000}
    with worker(broker, "many", tmp_path) as (made, _):
        done("created", lambda: ask(made, "PUT", "/connectors/many/config", config)[0] == 201)
        done("running", lambda: states(made, "many") == ["RUNNING"] * 21)
