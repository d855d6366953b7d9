"""kcli connect: validate and --dry-run without a worker; status and logs of one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from kcli.testing import Kafka
from tests.cli.run import kcli as run
from tests.connect.calls import SOURCE, call
from tests.connect.replaying import Worker
from tests.connect.running import running
from tests.connect.test_distributed import properties

STRING = "org.apache.kafka.connect.storage.StringConverter"


@pytest.fixture(scope="module")
def broker() -> Iterator[Kafka]:
    with Kafka.started() as kafka:
        yield kafka


@pytest.fixture(scope="module")
def worker(broker: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    directory = tmp_path_factory.mktemp("worker")
    (directory / "in.txt").write_text("one\n")
    with running(directory, properties(broker, "cli")) as found:
        for name, file in (("lines", "in.txt"), ("other", "none")):
            config = {"connector.class": SOURCE, "file": str(directory / file), "topic": "lines"}
            while found.send(call("POST", "/connectors", {"name": name, "config": config}))["status"] != 201:
                pass
        sink = {"connector.class": "FileStreamSink", "file": str(directory / "no/out"), "topics": "lines"}
        found.send(call("PUT", "/connectors/bad/config", sink))
        while b"FAILED" not in found.send(call("GET", "/connectors/bad/status"))["body"].encode():
            pass
        yield found


def connector(directory: Path, **more: str) -> Path:
    """Write a connector's configuration."""
    path = directory / "lines.json"
    config = {"connector.class": SOURCE, "file": "in.txt", "topic": "lines", **more}
    path.write_text(json.dumps({"name": "lines", "config": config}))
    return path


def standalone(directory: Path, **more: str) -> Path:
    """Write a standalone worker's configuration."""
    path = directory / "worker.properties"
    known = {"key.converter": STRING, "value.converter": STRING, "offset.storage.file.filename": "offsets", **more}
    path.write_text("".join(f"{key.replace('__', '.')}={text}\n" for key, text in known.items()))
    return path


def test_validate(tmp_path: Path) -> None:
    done = run("connect", "validate", str(connector(tmp_path)))
    assert (done.status, done.stdout) == (0, "valid\n")
    path = connector(tmp_path, **{"tasks.max": "0", "errors.tolerance": "some"})
    done = run("connect", "validate", str(path))
    assert done.status == 1
    assert done.stdout.splitlines() == [
        "tasks.max: Invalid value 0 for configuration tasks.max: Value must be at least 1",
        "errors.tolerance: Invalid value some for configuration errors.tolerance: String must be one of: none, all",
    ]
    assert done.complaint == f"kcli: {path}: 2 errors"
    done = run("connect", "validate", str(path), "--format", "jsonl")
    assert [json.loads(line)["option"] for line in done.stdout.splitlines()] == ["tasks.max", "errors.tolerance"]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "no JSON: Expecting property name"),
        ("[]", "no JSON object of texts"),
        ('{"config": {"a": {}}}', "no JSON object of texts"),
        ('{"name": "a", "config": {"name": "b"}}', "the name a is another than b, that of its config"),
        ('{"a": NaN}', "no JSON: Non-standard token 'NaN'"),
        ('{"a": ' + "9" * 5000 + "}", "no JSON: Number value length (5000) exceeds the maximum allowed (1000, "),
        ("{}", "contains no connector type"),
        ('{"connector.class": "NoSuch"}', "Failed to find any class that implements Connector"),
    ],
)
def test_validate_refuses_what_is_no_configuration(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "c.json"
    path.write_text(text)
    done = run("connect", "validate", str(path))
    assert done.status in (1, 2)
    assert complaint in done.complaint


def test_a_variable_is_no_number_that_is_wrong(tmp_path: Path) -> None:
    """Without a worker's configuration there are no config providers."""
    path = connector(tmp_path, **{"tasks.max": "${file:/run/secrets:tasks}", "topic": "${file:/run/secrets:topic}"})
    done = run("connect", "validate", str(path))
    assert done.stdout == (
        "tasks.max: Invalid value ${file:/run/secrets:tasks} for configuration tasks.max: there are no config "
        "providers, which a worker's configuration has: its value is not known\n"
    )
    assert done.complaint == f"kcli: {path}: 1 error"


def test_secrets_are_never_shown(tmp_path: Path) -> None:
    (tmp_path / "secrets").write_text("password=s3cret\n")
    provider = {
        "config.providers": "file",
        "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
    }
    worker = standalone(tmp_path, **provider)
    path = connector(tmp_path, **{"tasks.max": f"${{file:{tmp_path}/secrets:password}}"})
    done = run("connect", "validate", str(path), "--worker", str(worker))
    assert "Invalid value [hidden] for configuration tasks.max" in done.stdout
    assert "s3cret" not in done.stdout + done.stderr


def test_a_dry_run_starts_nothing(tmp_path: Path) -> None:
    worker = standalone(tmp_path, bootstrap__servers="127.0.0.1:1")
    done = run("connect", "run", str(worker), str(connector(tmp_path)), "--dry-run")
    assert (done.status, done.stdout.splitlines()) == (
        0,
        [
            "a standalone worker at http://*:8083, with the brokers 127.0.0.1:1",
            "offsets: offsets",
            f"lines: {SOURCE}: valid",
            "nothing was started",
        ],
    )
    done = run("connect", "run", str(worker), *[str(connector(tmp_path))] * 2, "--dry-run")
    assert (done.status, done.stdout, done.complaint) == (2, "", "kcli: two files have a connector lines")
    done = run("connect", "run", str(worker), str(connector(tmp_path, topic="")), "--dry-run")
    assert (done.status, done.complaint) == (1, "kcli: 1 error in the configurations of connectors")
    assert not (tmp_path / "offsets").exists()


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        ({"listeners": "https://:8083"}, "ssl.keystore.location: a listener of SSL needs a key"),
        ({"listeners": "http://a:1,http://b:1"}, "one address http://HOST:PORT"),
        (
            {"config.providers": "vault", "config.providers.vault.class": "com.example.VaultConfigProvider"},
            "config.providers.vault.class: only FileConfigProvider, DirectoryConfigProvider, EnvVarConfigProvider of",
        ),
        ({"bootstrap.servers": "nowhere"}, "bootstrap.servers=nowhere: no host:port"),
        ({"bootstrap.servers": ""}, "bootstrap.servers=: no host:port"),
        ({"bootstrap.servers": "a:9092, :9093"}, "bootstrap.servers=:9093: no host:port"),
        ({"bootstrap.servers": "a:99999"}, "bootstrap.servers=a:99999: no host:port"),
        ({"topic.tracking.enable": "x"}, "Expected value to be either true or false"),
        ({"group.id": "g"}, 'Missing required configuration "config.storage.topic"'),
    ],
)
def test_a_worker_with_a_wrong_configuration(tmp_path: Path, more: dict[str, str], complaint: str) -> None:
    done = run("connect", "run", str(standalone(tmp_path, **more)), "--dry-run")
    assert done.status == 2
    assert complaint in done.complaint


def test_status(worker: Worker) -> None:
    url = f"http://127.0.0.1:{worker.port}"
    done = run("connect", "status", "--url", url)
    lines = [line.split()[:4] for line in done.stdout.splitlines()]
    assert lines[0] == ["connector", "type", "state", "tasks"]
    assert ["bad", "sink", "RUNNING", "1"] in lines
    assert ["lines", "source", "RUNNING", "1"] in lines
    done = run("connect", "status", "bad", "--url", url)
    assert done.stdout.splitlines()[-1].startswith("bad-0: ConnectException: no ")
    done = run("connect", "status", "none", "--url", url)
    assert (done.status, done.complaint) == (1, f"kcli: {url} has no connector none")
    done = run("connect", "status", "--url", "http://127.0.0.1:1")
    assert done.complaint == "kcli: http://127.0.0.1:1 does not answer: Connection refused"
    assert run("connect", "status", "--url", "nowhere").status == 2


def test_a_worker_validates(worker: Worker, tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{worker.port}"
    done = run("connect", "validate", str(connector(tmp_path, topic="")), "--url", url)
    assert done.stdout == "topic: Invalid value  for configuration topic: String must be non-empty\n"


def test_logs(worker: Worker, broker: Kafka) -> None:
    assert worker.port
    words = ["connect", "logs", "--topic", "cli-status", "-b", broker.bootstrap_servers]
    done = run(*words, "bad")
    found = [line.split("  ")[1:3] for line in done.stdout.splitlines()]
    assert ["bad", "RUNNING"] in found
    assert ["bad-0", "FAILED"] in found
    done = run(*words, "--format", "jsonl")
    assert {json.loads(line)["connector"] for line in done.stdout.splitlines()} >= {"bad", "lines", "other"}
