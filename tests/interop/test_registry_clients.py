"""Real, unmodified clients of Confluent's registry on `kcli serve --registry`: they register, evolve and read back
schemas of each format, and write and read values with them.

See clients/README.md. Every client has the same job and must give the same report.
"""

from __future__ import annotations

import json
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from kcli.testing.kafka import Kafka
from tests.interop.clients import registry, toolchains
from tests.interop.clients.registry import AVRO, COUNT, JSON, PROTOBUF

TIMEOUT_S = 180.0
VALUES = frozenset({"orders", "sales"})


@dataclass(frozen=True)
class Client:
    """A client: how it is started, and the formats whose values it does not write and read."""

    name: str
    command: Callable[[], list[str]]
    no_values: frozenset[str] = frozenset()
    marks: tuple[pytest.MarkDecorator, ...] = ()


CLIENTS = [
    Client("confluent-kafka", toolchains.python_registry),
    Client("java", toolchains.java_registry, no_values=frozenset({PROTOBUF, JSON}), marks=(pytest.mark.kafka,)),
    Client("franz-go", toolchains.go),
    Client("kafkajs", lambda: toolchains.node("registry")),
]


class Counted(ThreadingHTTPServer):
    """What stands before a registry, passes requests on, and counts them."""

    def __init__(self, url: str) -> None:
        super().__init__(("127.0.0.1", 0), Passing)
        self.target = urlsplit(url).netloc
        self.requests: Counter[str] = Counter()
        self.url = f"http://127.0.0.1:{self.server_port}"


class Passing(BaseHTTPRequestHandler):
    """Passes a request on, byte for byte but for the headers of the connection."""

    protocol_version = "HTTP/1.1"
    server: Counted

    def pass_on(self) -> None:
        self.server.requests[f"{self.command} {self.path}"] += 1
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        connection = HTTPConnection(self.server.target, timeout=TIMEOUT_S)
        headers = {name: value for name, value in self.headers.items() if name.lower() not in ("host", "connection")}
        connection.request(self.command, self.path, body, headers)
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        self.send_response_only(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("connection", "content-length", "transfer-encoding"):
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_PUT = do_DELETE = pass_on  # noqa: N815  (names of the base class)

    def log_message(self, *_: object) -> None:
        """Stay silent."""


@contextmanager
def counted(url: str) -> Iterator[Counted]:
    """Count the requests to a registry, while clients use the yielded url."""
    with Counted(url) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server
        finally:
            server.shutdown()


@pytest.mark.parametrize("client", [pytest.param(each, id=each.name, marks=each.marks) for each in CLIENTS])
def test_client(client: Client, tmp_path: Path) -> None:
    try:
        command = client.command()
    except toolchains.ToolchainMissing as missing:
        pytest.skip(f"{client.name}: {missing}")
    job = registry.job()
    path = tmp_path / "job.json"
    path.write_text(json.dumps(job), encoding="utf-8")
    with Kafka.started(config={"group.initial.rebalance.delay.ms": "0"}) as kafka:
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
        for future in admin.create_topics([NewTopic(each, 1) for each in registry.topics(job)]).values():
            future.result(TIMEOUT_S)
        with counted(kafka.registry.url) as before:
            program = [*command, kafka.bootstrap_servers, before.url, str(path)]
            done = subprocess.run(program, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr[-5000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["client"].startswith(client.name)
    expected = registry.report(job)
    assert set(found["formats"]) == set(expected) == {AVRO, PROTOBUF, JSON}
    for name, report in found["formats"].items():
        assert set(report) == set(expected[name]) - (VALUES if name in client.no_values else set())
        for key, value in report.items():
            assert value == expected[name][key], (name, key)
    # whoever does not know a schema asks for it, but not for each value
    assert any(each.startswith("GET /schemas/ids/") for each in before.requests)
    assert before.requests.total() < 3 * COUNT, before.requests
