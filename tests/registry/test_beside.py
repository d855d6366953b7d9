"""A registry in a broker's process: of the pytest plugin, and of `kcli serve --registry`."""

from __future__ import annotations

import base64
import json
import re
import signal
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from kcli.log.config import VALUE_SCHEMAS
from kcli.log.log_directory import read_properties
from kcli.security.jaas import login_module
from kcli.testing.kafka import Kafka
from tests.registry.running import TIMEOUT_S, V1, ask, register

SCHEMA = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}


def test_the_registry_of_a_tests_broker() -> None:
    with Kafka.started() as kafka:
        assert "_schemas" not in kafka.topics(), "no registry before it is asked for"
        url = kafka.registry.url
        assert url == kafka.registry.url
        assert register(url, "orders-value", SCHEMA).json["id"] == 1
        kafka.restart()
        assert kafka.registry.url == url
        assert json.loads(ask(url, "GET", "/schemas/ids/1").json["schema"]) == SCHEMA


@pytest.mark.parametrize("security", ["tls", "mtls", "scram", "oauth"])
def test_the_registry_of_a_closed_broker(security: str) -> None:
    with Kafka.started(security=security, acls=[]) as kafka:  # type: ignore[arg-type]
        assert register(kafka.registry.url, "orders-value", SCHEMA).json["id"] == 1


def test_records_without_a_registered_schema_are_refused() -> None:
    with Kafka.started() as kafka:
        schema_id = register(kafka.registry.url, "orders-value", SCHEMA).json["id"]
        other_id = register(kafka.registry.url, "other-value", "string").json["id"]
        assert other_id != schema_id
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
        for topic, config in (("orders", {VALUE_SCHEMAS: "true"}), ("free", {})):
            admin.create_topics([NewTopic(topic, 1, config=config)])[topic].result(TIMEOUT_S)

        def produced(topic: str, value: bytes | None) -> KafkaError | None:
            told: list[KafkaError | None] = []
            producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
            producer.produce(topic, value, key=b"k", on_delivery=lambda error, _: told.append(error))
            assert producer.flush(TIMEOUT_S) == 0
            return told[0]

        assert produced("orders", b"\0" + schema_id.to_bytes(4) + b"\2") is None
        assert produced("orders", None) is None
        for value in (b"\0" + other_id.to_bytes(4) + b"\2", b"plain"):
            refused = produced("orders", value)
            assert refused is not None
            assert refused.code() == KafkaError.INVALID_RECORD
            assert produced("free", value) is None


def test_a_topic_with_schemas_needs_the_registry_at_each_start(tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    node = Served("--data-dir", data, "--registry", "127.0.0.1:0", lines=2)
    found = re.search(r"127\.0\.0\.1:\d+", node.lines[0])
    assert found is not None
    admin = AdminClient({"bootstrap.servers": found[0]})
    admin.create_topics([NewTopic("orders", 1, config={VALUE_SCHEMAS: "true"})])["orders"].result(TIMEOUT_S)
    node.stop()
    closed = Served("--data-dir", data, lines=0)
    _, log = closed.process.communicate(timeout=TIMEOUT_S)
    assert closed.process.returncode == 1, log
    assert f"topic orders has {VALUE_SCHEMAS}=true" in log
    assert "start with --registry" in log
    Served("--data-dir", data, "--registry", "127.0.0.1:0", lines=2).stop()


class Served:
    """`kcli serve` as a process, with its first lines."""

    def __init__(self, *arguments: str, lines: int) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "kcli", "serve", "--listen", "127.0.0.1:0", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.lines = [self.process.stdout.readline() for _ in range(lines)]

    def stop(self) -> str:
        self.process.send_signal(signal.SIGTERM)
        _, log = self.process.communicate(timeout=TIMEOUT_S)
        assert self.process.returncode == 0, log
        return log


def test_serve_with_a_registry_goes_on_with_its_schemas(tmp_path: Path) -> None:
    for number in range(2):
        node = Served("--data-dir", str(tmp_path / "data"), "--registry", "127.0.0.1:0", lines=2)
        found = re.fullmatch(r"  schema registry (http://127\.0\.0\.1:\d+)\n", node.lines[1])
        assert found is not None, node.lines
        assert ask(found[1], "GET", "/subjects").json == ["orders-value"] * number
        assert register(found[1], "orders-value", SCHEMA).json["id"] == 1
        assert "Traceback" not in node.stop()


def test_a_secured_node_has_a_secured_registry(tmp_path: Path) -> None:
    node = Served("--secure", "--data-dir", str(tmp_path / "data"), "--registry", "127.0.0.1:0", lines=3)
    line = next(each for each in node.lines if "schema registry" in each)
    url = line.split()[-1]
    assert url.startswith("https://")
    login = login_module(read_properties(tmp_path / "data-secure" / "client.properties")["sasl.jaas.config"]).options
    context = ssl.create_default_context(cafile=str(tmp_path / "data-secure" / "ca.pem"))

    def status(headers: dict[str, str]) -> int:
        request = urllib.request.Request(
            f"{url}/subjects/orders-value/versions", json.dumps({"schema": json.dumps(SCHEMA)}).encode(), headers
        )
        try:
            with urllib.request.urlopen(request, context=context, timeout=TIMEOUT_S) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            with error:
                return error.code

    token = base64.b64encode(f"{login['username']}:{login['password']}".encode()).decode()
    assert status({"Content-Type": V1}) == 401
    assert status({"Content-Type": V1, "Authorization": f"Basic {token}"}) == 200
    node.stop()


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--registry", "nonsense"], "--registry 'nonsense' is not HOST:PORT"),
        (["--registry", "127.0.0.1:0", "--nodes", "2"], "--registry: in the process of one node"),
        (["--registry-config", __file__], "--registry-config: only with --registry"),
    ],
)
def test_what_cannot_be_served_is_refused(arguments: list[str], reason: str) -> None:
    node = Served(*arguments, lines=0)
    _, log = node.process.communicate(timeout=TIMEOUT_S)
    assert (node.process.returncode, reason in log, "Traceback" in log) == (2, True, False), log


def test_a_configuration_that_is_not_honoured_ends_the_start(tmp_path: Path) -> None:
    path = tmp_path / "registry.properties"
    path.write_text("metadata.encoder.secret=x\n")
    node = Served("--registry", "127.0.0.1:0", "--registry-config", str(path), lines=0)
    _, log = node.process.communicate(timeout=TIMEOUT_S)
    assert node.process.returncode == 2
    assert "metadata.encoder.secret: no configuration of kcli registry" in log
