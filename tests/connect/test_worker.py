"""What a worker does with requests that are late, wrong, or meant to do harm."""

from __future__ import annotations

import http.client
import json
import logging
import re
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from kcli.connect.builtin import built_in
from kcli.connect.connectors.file import FileStreamSink
from kcli.connect.connectors.mirror.options import PACKAGE
from kcli.connect.connectors.mirror.policies import DEFAULT, IDENTITY
from kcli.connect.converters.registered import STRATEGIES
from kcli.connect.data.errors import ConnectError
from kcli.connect.plugins import Limits, Line, Listener, OffsetStore, TaskId, TaskStart
from kcli.connect.rest_client import NoWorker, ask
from kcli.connect.worker.herder import Herder
from kcli.connect.worker.offsets import SinkOffsets
from kcli.connect.worker.server import WorkerServer
from kcli.connect.worker.settings import Clients, InvalidWorker, read_settings
from kcli.connect.worker.validation import Defaults, validate
from kcli.connect.worker.variables import Variables
from kcli.service.http_client import NoAnswer
from kcli.service.http_client import ask as ask_other
from kcli.service.messages import Request
from kcli.service.serving import CannotServe
from kcli.testing.kafka import Kafka
from tests.connect.calls import SOURCE, Call, call
from tests.connect.engines import wait_until
from tests.connect.replaying import Worker
from tests.connect.running import STANDALONE, running
from tests.connect.simple import PLUGINS, SimpleEngine, Source
from tests.registry.running import looped


class SlowEngine(SimpleEngine):
    """Takes a second to stop a task, and stores its last offset then."""

    def stop(self, tasks: Sequence[TaskId]) -> None:
        time.sleep(1)
        for each in tasks:
            if each in self.running:
                self.running[each].write(99)
        super().stop(tasks)


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Worker]:
    (tmp_path / "in").write_text("one\n")
    with running(tmp_path, {}, engine=SlowEngine()) as found:
        yield found


def lines(directory: Path) -> dict[str, Any]:
    config = {"connector.class": SOURCE, "file": str(directory / "in"), "topic": "t"}
    return {"name": "lines", "config": config}


def status(worker: Worker, method: str, path: str, body: Any = None) -> int:
    return int(worker.send(call(method, path, body))["status"])


def body(worker: Worker, path: str) -> Any:
    return json.loads(worker.send(call("GET", path))["body"])


def test_offsets_that_are_altered_stay(worker: Worker, tmp_path: Path) -> None:
    """The last turn of the tasks has stored its own before."""
    assert status(worker, "POST", "/connectors", lines(tmp_path)) == 201
    wait_until(lambda: body(worker, "/connectors/lines/offsets")["offsets"])
    assert status(worker, "PUT", "/connectors/lines/stop") == 204
    offsets = {"offsets": [{"partition": {"filename": str(tmp_path / "in")}, "offset": {"position": 2}}]}
    assert status(worker, "PATCH", "/connectors/lines/offsets", offsets) == 200
    time.sleep(1.5)
    assert body(worker, "/connectors/lines/offsets")["offsets"][0]["offset"] == {"position": 2}


@pytest.mark.parametrize("entry", [{"partition": "x"}, {"partition": {"a": 1}, "offset": 5}, {"offset": []}, {}])
def test_offsets_that_are_none(worker: Worker, tmp_path: Path, entry: Mapping[str, Any]) -> None:
    assert status(worker, "POST", "/connectors", lines(tmp_path)) == 201
    assert status(worker, "PUT", "/connectors/lines/stop") == 204
    assert status(worker, "PATCH", "/connectors/lines/offsets", {"offsets": [entry]}) == 400


def test_offsets_of_a_sink_that_are_only_reset(kafka: Kafka) -> None:
    kafka.seed({"t": 2})
    consumer = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": "connect-out"}
    first, second = ({"kafka_topic": "t", "kafka_partition": number} for number in range(2))
    connector, offsets = FileStreamSink({}), SinkOffsets()
    offsets.alter("out", connector, consumer, [(first, {"kafka_offset": 5}), (second, {"kafka_offset": 6})])
    offsets.alter("out", connector, consumer, [(first, None)])
    assert offsets.read(consumer) == [(second, {"kafka_offset": 6})]


def test_a_level_in_small_letters_is_for_all_workers(worker: Worker) -> None:
    """Kafka's workers write it to the topic as it came."""
    assert status(worker, "PUT", "/admin/loggers/a.b?scope=cluster", {"level": "debug"}) == 204
    assert body(worker, "/admin/loggers/a.b")["level"] == "DEBUG"


@pytest.fixture
def secret(tmp_path: Path) -> str:
    """A variable for the text of a file."""
    (tmp_path / "secrets").write_text("password=fish-and-chips\n")
    return f"${{file:{tmp_path / 'secrets'}:password}}"


PROVIDER = {
    "config.providers": "file",
    "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
}


@pytest.mark.parametrize("config", [{}, {"connector.class": ""}, {"connector.class": SOURCE, "tasks.max": ""}])
def test_an_error_of_a_configuration_shows_no_secret(
    tmp_path: Path, secret: str, config: Mapping[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    given = {key: text or secret for key, text in config.items()} | {"a": secret}
    with running(tmp_path, PROVIDER) as worker:
        for method, path, sent in (
            ("PUT", f"/connector-plugins/{SOURCE}/config/validate", given),
            ("PUT", "/connectors/lines/config", given),
            ("POST", "/connectors", {"name": "lines", "config": given}),
        ):
            assert "fish-and-chips" not in worker.send(call(method, path, sent))["body"]
    assert "fish-and-chips" not in caplog.text


class TellingEngine(SimpleEngine):
    """Tells of each task all that an engine may: with values of its configuration."""

    def start(self, tasks: Sequence[TaskStart], offsets: OffsetStore, listener: Listener, *, paused: bool) -> None:
        del offsets, paused
        for each in tasks:
            text = each.task["file"]
            listener.logged(each.id, Line("kcli.connect", logging.WARNING, f"{each.id} is interrupted: {text}"))
            listener.failed(each.id, f"ConnectException: {text}")


def test_what_is_told_of_a_task_shows_no_secret(tmp_path: Path, secret: str, caplog: pytest.LogCaptureFixture) -> None:
    with running(tmp_path, PROVIDER, engine=TellingEngine()) as worker:
        status(worker, "PUT", "/connectors/lines/config", {**lines(tmp_path)["config"], "file": secret})
        wait_until(lambda: "FAILED" in worker.send(call("GET", "/connectors/lines/status"))["body"])
        assert body(worker, "/connectors/lines/status")["tasks"][0]["trace"] == "ConnectException: [hidden]"
    assert "lines-0 is interrupted: [hidden]" in caplog.messages
    assert "fish-and-chips" not in caplog.text


def test_a_bug_shows_no_secret(
    tmp_path: Path, secret: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> None:
        raise ValueError("fish-and-chips")

    with running(tmp_path, PROVIDER) as worker:
        given = {"connector.class": SOURCE, "topic": "t", "file": secret}
        worker.send(call("PUT", f"/connector-plugins/{SOURCE}/config/validate", given))
        monkeypatch.setattr(Herder, "names", broken)
        assert worker.send(call("GET", "/connectors"))["status"] == 500
    assert "GET /connectors: builtins.ValueError: [hidden]" in caplog.text
    assert "fish-and-chips" not in caplog.text


@pytest.mark.parametrize("written", ["fish-and-chips", "fish, chips ,x"])
def test_an_alias_that_is_secret_is_no_name(tmp_path: Path, secret: str, written: str) -> None:
    Path(secret.split(":")[1]).write_text(f"password={written}\n")
    given = {
        "connector.class": SOURCE,
        "topic": "t",
        "name": "lines",
        "transforms": f"own,{secret}",
        "predicates": secret,
    }
    given |= {"transforms.own.type": "org.apache.kafka.connect.transforms.DropHeaders"}
    with running(tmp_path, PROVIDER) as worker:
        found = worker.send(call("PUT", f"/connector-plugins/{SOURCE}/config/validate", given))
    assert found["status"] == 200
    assert "fish" not in found["body"]
    assert "chips" not in found["body"]
    options = {each["value"]["name"] for each in json.loads(found["body"])["configs"]}
    assert {"transforms.own.type", "transforms.[hidden].type", "predicates.[hidden].type"} <= options
    assert {"Transforms: own", "Transforms: [hidden]"} <= set(json.loads(found["body"])["groups"])


def test_a_connector_brings_no_config_providers(tmp_path: Path, secret: str) -> None:
    """It reads files of the worker only as far as the worker's own providers allow it."""
    given = {"connector.class": SOURCE, "topic": secret, "name": "lines", **PROVIDER}
    (tmp_path / "other").mkdir()
    none: dict[str, str] = {}
    for own in (none, {**PROVIDER, "config.providers.file.param.allowed.paths": str(tmp_path / "other")}):
        with pytest.raises(ConnectError, match="topic: "):
            Variables(own)(given)
    assert Variables(PROVIDER)(given) == {**given, "topic": "fish-and-chips"}


@pytest.mark.parametrize(
    ("kind", "option", "name", "unknown"),
    [
        ("Source", "replication.policy.class", IDENTITY, "x.Policy"),
        ("Source", "topic.filter.class", f"{PACKAGE}.DefaultTopicFilter", SOURCE + "X"),
        ("Checkpoint", "group.filter.class", f"{PACKAGE}.DefaultGroupFilter", "x.Filter"),
        ("Heartbeat", "replication.policy.class", DEFAULT, "x.Policy"),
        ("Source", "value.converter.value.subject.name.strategy", f"{STRATEGIES}RecordNameStrategy", "x.Strategy"),
    ],
)
def test_options_name_the_classes_that_their_owner_knows(kind: str, option: str, name: str, unknown: str) -> None:
    config = {
        "name": "mirror",
        "connector.class": f"{PACKAGE}.Mirror{kind}Connector",
        "source.cluster.alias": "A",
        "target.cluster.alias": "B",
        "value.converter": "io.confluent.connect.avro.AvroConverter",
        "value.converter.schema.registry.url": "http://r",
    }
    for given, count in ((name, 0), (unknown, 1)):
        found = validate(built_in(), config | {option: given}, Defaults())
        assert {each.name: len(each.errors) for _, each in found.configs if each is not None}[option] == count, given


@pytest.mark.parametrize(
    ("kind", "option", "text", "error"),
    [
        ("Source", "topics", "orders, (", "Invalid regex: missing )"),
        ("Source", "topics", "(a,b)", None),
        ("Source", "topics.exclude", "*", "Invalid regex: Dangling meta character '*'"),
        ("Source", "config.properties.exclude", "(", "Invalid regex: missing )"),
        ("Checkpoint", "groups", "(", "Invalid regex: missing )"),
        ("Checkpoint", "groups.exclude", "(", "Invalid regex: missing )"),
        ("Checkpoint", "topics", "(", "Invalid regex: missing )"),
        ("Heartbeat", "topics", "(", "Invalid regex: missing )"),
        ("Heartbeat", "groups", "(", None),
    ],
)
def test_patterns_of_mirrors_are_validated(kind: str, option: str, text: str, error: str | None) -> None:
    """Kafka's connectors take them, and fail. Several are one pattern, with | for the commas."""
    config = {"name": "mirror", "connector.class": f"{PACKAGE}.Mirror{kind}Connector", option: text}
    config |= {"source.cluster.alias": "A", "target.cluster.alias": "B"}
    found = validate(built_in(), config, Defaults())
    errors = [reason for _, each in found.configs if each is not None for reason in each.errors]
    assert errors == ([] if error is None else [f"Invalid value {text} for configuration {option}: {error}"])


def test_a_connector_that_is_stopped_gets_no_tasks(
    worker: Worker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its configurations of tasks were being made when it was stopped."""
    assert status(worker, "POST", "/connectors", lines(tmp_path)) == 201
    task_configs, begun = Source.task_configs, threading.Event()

    def slow(self: Source, tasks_max: int) -> Sequence[Mapping[str, str]]:
        begun.set()
        time.sleep(1)
        return task_configs(self, tasks_max)

    monkeypatch.setattr(Source, "task_configs", slow)
    changed = {**lines(tmp_path)["config"], "batch.size": "3", "name": "lines"}
    changing = threading.Thread(target=status, args=(worker, "PUT", "/connectors/lines/config", changed))
    changing.start()
    assert begun.wait(10)
    assert status(worker, "PUT", "/connectors/lines/stop") == 204
    changing.join()
    assert body(worker, "/connectors/lines/tasks") == []


def test_a_name_that_the_group_s_protocol_does_not_hold(worker: Worker, tmp_path: Path) -> None:
    assert status(worker, "POST", "/connectors", lines(tmp_path) | {"name": "ä" * 16_384}) == 400
    assert status(worker, "POST", "/connectors", lines(tmp_path) | {"name": "n" * 20_000}) == 201


@pytest.mark.parametrize(
    ("method", "path", "text", "answer"),
    [
        ("POST", "/connectors", '{"name":"x","config":{"connector.class":"FileStreamSink"}}', 415),
        ("PUT", "/connectors/lines/config", "{}", 415),
        ("PATCH", "/connectors/lines/config", "{}", 415),
        ("PATCH", "/connectors/lines/offsets", "{}", 415),
        ("PUT", "/connector-plugins/FileStreamSource/config/validate", "{}", 415),
        ("PUT", "/admin/loggers/x", '{"level":"INFO"}', 415),
        ("POST", "/connectors", "", 500),
        ("PUT", "/connectors/lines/pause", "{}", 202),
        ("POST", "/connectors/lines/restart", "{}", 204),
        ("GET", "/connectors", "{}", 200),
    ],
)
def test_a_body_without_its_type(
    worker: Worker, tmp_path: Path, method: str, path: str, text: str, answer: int
) -> None:
    """The statuses are those of Kafka's worker: it looks where it reads the body."""
    assert status(worker, "POST", "/connectors", lines(tmp_path)) == 201
    found = worker.send(Call(method, path, text))
    assert found["status"] == answer
    if answer == 415:
        assert found["body"] == '{"error_code":415,"message":"HTTP 415 Unsupported Media Type"}'
        assert body(worker, "/connectors") == ["lines"]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le"])
def test_a_body_in_other_encodings(worker: Worker, encoding: str) -> None:
    """Kafka's worker takes them all: Windows writes the mark."""

    def answer(data: bytes) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", worker.port, timeout=60)
        try:
            connection.request("PUT", "/admin/loggers/x", data, {"Content-Type": "application/json"})
            return connection.getresponse().status
        finally:
            connection.close()

    text = '{"level":"INFO","of":"\u00e4"}'
    assert answer(text.encode(encoding)) == 200
    assert answer(b"\xef\xbb\xbf" * 2 + text.encode()) == answer(b"\xef\xbb\xbf") == 500
    assert answer(text.encode("utf-16") + b"x") == 500


def test_connectors_of_the_command_line(tmp_path: Path) -> None:
    """Their names may have slashes, and may not be empty."""
    properties = {**STANDALONE, "offset.storage.file.filename": str(tmp_path / "offsets")}

    async def created(name: str) -> list[str]:
        server = WorkerServer(read_settings(properties, "worker"), PLUGINS, SimpleEngine())
        await server.start()
        try:
            await server.create(name, lines(tmp_path)["config"])
            answer = await server.answer(Request("GET", "/connectors", "", {}, b""), "")
            return list(json.loads(answer.body))
        finally:
            await server.stop()

    with looped() as loop:
        assert loop.run(created("a/b c")) == ["a/b c"]
        with pytest.raises(CannotServe, match="has no name"):
            loop.run(created(""))


def test_a_host_that_is_no_name_does_not_answer() -> None:
    with pytest.raises(NoWorker, match=r"http://a\.\.b:80 does not answer"):
        ask("http://a..b:80", "GET", "/connectors")
    with looped() as loop, pytest.raises(NoAnswer, match=r"http://a\.\.b:80"):
        loop.run(ask_other("http://a..b:80", Request("GET", "/", "", {}, b""), None, 5))


def test_a_worker_does_not_serve_what_was_restricted() -> None:
    """An option that restricts clients of the REST API is refused, but for the value that restricts nothing."""
    policy = "connector.client.config.override.policy"
    for given in ({"rest.extension.classes": "org.apache.kafka.connect.rest.basic.auth.extension.X"}, {policy: "None"}):
        with pytest.raises(InvalidWorker, match="does not restrict its clients"):
            read_settings({**STANDALONE, "offset.storage.file.filename": "o", **given}, "worker")
    read_settings({**STANDALONE, "offset.storage.file.filename": "o", policy: "All"}, "worker")


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("access.control.allow.origin", "*", "kcli's REST API does not honour it"),
        ("admin.listeners", "http://localhost:8080", "kcli's REST API does not honour it"),
        ("producer.acks", "1", "kcli's producer has all or -1"),
        ("producer.enable.idempotence", "true", "kcli's producer has false"),
        ("consumer.interceptor.classes", "x.Y", "kcli's consumer does not honour it"),
        ("admin.x", "y", "kcli's admin does not honour it"),
        ("inter.worker.signature.algorithm", "HmacSHA512", "kcli's workers have HmacSHA256"),
    ],
)
def test_a_worker_does_not_start_with_what_it_does_not_honour(name: str, value: str, reason: str) -> None:
    standalone = {**STANDALONE, "offset.storage.file.filename": "o"}
    with pytest.raises(InvalidWorker, match=f"{name}={re.escape(value)}: {reason}"):
        read_settings({**standalone, name: value}, "worker")
    taken = {"producer.linger.ms": "5", "consumer.max.poll.records": "10", "producer.ssl.keystore.location": "x"}
    read_settings({**standalone, **taken, "access.control.allow.origin": ""}, "worker")


def test_what_a_worker_says_of_its_tasks() -> None:
    given = {"offset.flush.interval.ms": "500", "task.shutdown.graceful.timeout.ms": "100"}
    standalone = {**STANDALONE, "offset.storage.file.filename": "o"}
    assert Clients(read_settings(standalone, "worker")).limits == Limits(60, 5, creates_topics=True)
    made = read_settings({**standalone, **given, "topic.creation.enable": "false"}, "worker")
    assert Clients(made).limits == Limits(0.5, 0.1, creates_topics=False)


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"default.partitions": "many", "default.replication.factor": "1"}, "topic.creation.default.partitions: Not a"),
        ({"default.partitions": "1"}, 'Missing required configuration "topic.creation.default.replication.factor"'),
        ({"default.partitions": "0", "default.replication.factor": "1"}, "configuration partitions: Number of part"),
        (
            {"default.partitions": "1", "default.replication.factor": "1", "groups": "a", "a.include": "("},
            "Syntax error in regular expression",
        ),
    ],
)
def test_a_source_that_cannot_create_topics_fails(tmp_path: Path, more: Mapping[str, str], reason: str) -> None:
    """As with Kafka's worker: when it starts. A worker that creates no topics does not look."""
    config = {f"topic.creation.{name}": text for name, text in more.items()}
    (tmp_path / "in").write_text("one\n")
    given = lines(tmp_path)
    for creates, state in (("true", "FAILED"), ("false", "RUNNING")):
        with running(tmp_path, {"topic.creation.enable": creates}) as worker:
            assert status(worker, "POST", "/connectors", given | {"config": given["config"] | config}) == 201
            wait_until(lambda: body(worker, "/connectors/lines/status")["connector"]["state"] == state)  # noqa: B023
            trace = body(worker, "/connectors/lines/status")["connector"].get("trace", "")
            assert (reason in trace) is (state == "FAILED"), trace


@pytest.mark.parametrize("method", ["__init__", "task_configs"])
def test_whatever_a_connector_raises_is_its_state(
    worker: Worker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    def broken(*_: Any) -> None:
        raise ValueError("broken")

    monkeypatch.setattr(Source, method, broken)
    assert status(worker, "POST", "/connectors", lines(tmp_path)) == 201
    wait_until(lambda: body(worker, "/connectors/lines/status")["connector"]["state"] == "FAILED")
    assert body(worker, "/connectors/lines/status")["connector"]["trace"] == "builtins.ValueError: broken\n"
