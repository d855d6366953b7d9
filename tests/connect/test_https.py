"""A REST API of https: Kafka's options for it, and requests between the workers."""

from __future__ import annotations

import datetime as dt
import json
import re
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from kcli.connect.worker.settings import InvalidWorker, read_settings
from kcli.testing import Kafka
from kcli.tls.certificates import Authority, make_authority
from tests.connect.calls import SOURCE
from tests.connect.replaying import Worker
from tests.connect.running import STANDALONE, running
from tests.connect.test_distributed import done, properties

NOW = dt.datetime.now(dt.UTC)
HTTPS = {**STANDALONE, "offset.storage.file.filename": "o", "listeners": "https://127.0.0.1:0"}
KEYS = {"ssl.keystore.type": "PEM", "ssl.keystore.location": "x"}


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """Its certificate and a worker's are in files."""
    made = make_authority("test", NOW)
    (tmp_path / "server.pem").write_bytes(made.server(("127.0.0.1", "localhost"), NOW).pem)
    (tmp_path / "ca.pem").write_bytes(made.certificate_pem)
    return made


def stores(directory: Path, prefix: str = "") -> dict[str, str]:
    """The options of a worker for the files."""
    kinds = (("keystore", "server.pem"), ("truststore", "ca.pem"))
    found = {f"ssl.{kind}.location": str(directory / name) for kind, name in kinds}
    found |= {f"ssl.{kind}.type": "PEM" for kind, _ in kinds}
    return {f"{prefix}{name}": text for name, text in found.items()}


def send(worker: Worker, context: ssl.SSLContext, method: str, path: str, body: object = None) -> Any:
    """Return the answer's status, its Location, and its JSON."""
    data = None if body is None else json.dumps(body).encode()
    url = f"https://127.0.0.1:{worker.port}{path}"
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(request, context=context, timeout=60) as answer:
            return answer.status, answer.headers["Location"], json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, None, json.load(error)


@pytest.mark.usefixtures("authority")
def test_two_workers(tmp_path: Path) -> None:
    """One forwards to the other, and has it write the configurations of tasks."""
    context = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
    (tmp_path / "in").write_text("one\n")
    config = {"connector.class": SOURCE, "file": str(tmp_path / "in"), "topic": "lines"}
    with Kafka.started(config={"group.min.session.timeout.ms": "500"}) as kafka, ExitStack() as stack:
        known = {**properties(kafka, "https", stores(tmp_path, "listeners.https.")), "listeners": HTTPS["listeners"]}
        workers = [stack.enter_context(running(tmp_path, known)) for _ in range(2)]
        for number, worker in enumerate(workers):
            path = f"/connectors/lines-{number}/config"
            found = done("created", lambda: _unless_busy(send(worker, context, "PUT", path, config)))  # noqa: B023
            assert found[0] == 201
            assert found[1] in {f"https://127.0.0.1:{each.port}/connectors/lines-{number}" for each in workers}

        def ids() -> set[str]:
            answers = [send(workers[0], context, "GET", f"/connectors/lines-{number}/status") for number in range(2)]
            return {each["worker_id"] for _, _, found in answers for each in found.get("tasks", ())}

        done("both have a task", lambda: ids() == {f"127.0.0.1:{each.port}" for each in workers})
        with pytest.raises(urllib.error.URLError, match="certificate verify failed"):
            send(workers[0], ssl.create_default_context(), "GET", "/")


def _unless_busy(answer: Any) -> Any:
    return None if answer[0] == 409 else answer


def test_clients_show_a_certificate(authority: Authority, tmp_path: Path) -> None:
    (tmp_path / "client.pem").write_bytes(authority.client("CN=alice", NOW).pem)
    known = {"listeners": HTTPS["listeners"], **stores(tmp_path), "ssl.client.auth": "required"}
    context = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
    with running(tmp_path, known) as worker:
        with pytest.raises((urllib.error.URLError, ssl.SSLError, ConnectionError)):
            send(worker, context, "GET", "/")
        context.load_cert_chain(tmp_path / "client.pem")
        assert send(worker, context, "GET", "/")[2]["version"] == "4.3.0"


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({}, "ssl.keystore.location: a listener of SSL needs a key"),
        ({**KEYS, "listeners.https.ssl.client.auth": "none"}, "listeners.https.ssl.keystore.location: a listener of"),
        ({**KEYS, "ssl.client.auth": "maybe"}, "ssl.client.auth: 'maybe' is none of required"),
        ({**KEYS, "rest.advertised.listener": "http"}, "rest.advertised.listener=http: the REST API listens with ht"),
        ({"listeners": "ftp://127.0.0.1:1"}, "listeners=ftp://127.0.0.1:1: http://HOST:PORT or https://HOST:PORT are"),
        ({"listeners": "http://:1,https://:2"}, "listeners=http://:1,https://:2: one address"),
    ],
)
def test_options_that_are_refused(given: Mapping[str, str], reason: str) -> None:
    with pytest.raises(InvalidWorker, match=re.escape(f"worker: {reason}")):
        read_settings({**HTTPS, **given}, "worker")


def test_options_that_are_taken() -> None:
    """Those behind listeners.https. are the REST API's alone; without any the worker's own are its."""
    own = {f"listeners.https.{name}": text for name, text in KEYS.items()}
    taken = read_settings({**HTTPS, **own, "ssl.truststore.location": "y", "rest.advertised.listener": "HTTPS"}, "w")
    assert (taken.scheme, taken.tls) == ("https", KEYS)
    assert read_settings({**HTTPS, **KEYS}, "worker").tls == KEYS
