"""Requests to a registry that is down, slow, endless, or something else."""

from __future__ import annotations

import pickle
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kcli.errors import KcliError, UnreadableInput, UsageError
from kcli.schema_client import http
from kcli.schema_client.errors import RegistryError
from kcli.schema_client.http import Access, HttpTransport
from tests.schema_client.registries import Registry, registry


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    monkeypatch.setattr(http, "PAUSE_S", 0.01)
    with registry() as found:
        yield found


@pytest.mark.parametrize(
    ("failure", "message"),
    [
        ((500, b"oops", {}), "answers 500 Internal Server Error"),
        ((503, b'{"error_code": 50301, "message": "no leader"}', {}), "answers 503 no leader"),
        ((401, b"<html>", {}), "answers 401 Unauthorized"),
        ((302, b"", {"Location": "http://elsewhere/"}), "answers 302: it redirects to 'http://elsewhere/'"),
        ((200, b"<html>", {}), "does not answer with JSON"),
        ((200, b"", {}), "does not answer with JSON"),
        ((200, b"[" * 100_000, {}), "does not answer with JSON"),
        ((200, b"\xff", {}), "does not answer with JSON"),
        ((400, b'{"message": "' + b"x" * 100_000 + b'"}', {}), "answers 400 xxx"),
        ((200, b"{}", {"Content-Length": "-1"}), "does not answer"),
        ((200, b"{}", {"Content-Length": "99999999999"}), "does not answer"),
        ((200, b"{}", {"Transfer-Encoding": "chunked"}), "does not answer"),
        ((204, b"", {"X": "y" * 100_000}), "does not answer: got more than 65536 bytes"),
    ],
)
def test_an_answer_that_is_none(served: Registry, failure: tuple[int, bytes, dict[str, str]], message: str) -> None:
    served.failures = [failure] * 3
    with pytest.raises(RegistryError) as raised:
        HttpTransport(served.url, Access(timeout_s=0.1)).request("GET", "/subjects")
    assert message in str(raised.value)
    assert len(str(raised.value)) < 3000
    assert "\n" not in str(raised.value)


def test_a_get_is_repeated_and_nothing_else(served: Registry) -> None:
    transport = HttpTransport(served.url)
    served.failures = [(500, b"", {}), (503, b"", {})]
    assert transport.request("GET", "/subjects") == []
    served.failures = [(500, b"", {})]
    with pytest.raises(RegistryError):
        transport.request("DELETE", "/subjects/a")
    assert [each for each, _ in served.asked] == ["GET", "GET", "GET", "DELETE"]


@contextmanager
def raw(speak: Callable[[socket.socket], None]) -> Iterator[str]:
    """The URL of a server that says to each connection what a function sends."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        stop = threading.Event()

        def serve() -> None:
            listening.settimeout(0.05)
            while not stop.is_set():
                try:
                    connection, _ = listening.accept()
                except TimeoutError:
                    continue
                with connection:
                    try:
                        connection.recv(65536)
                        speak(connection)
                    except OSError:
                        continue

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            stop.set()
            thread.join()


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


def drip(connection: socket.socket) -> None:
    """Send a body byte by byte, each in time."""
    connection.sendall(HEAD + b"Content-Length: 1000\r\n\r\n")
    while True:
        connection.sendall(b" ")
        threading.Event().wait(0.02)


def drip_headers(connection: socket.socket) -> None:
    """Send a header byte by byte."""
    connection.sendall(HEAD + b"X: ")
    while True:
        connection.sendall(b"x")
        threading.Event().wait(0.02)


def endless(connection: socket.socket) -> None:
    """Send a body without an end."""
    connection.sendall(HEAD + b"\r\n[")
    while True:
        connection.sendall(b"1," * 50_000)


def silent(connection: socket.socket) -> None:
    """Say nothing for a while."""
    threading.Event().wait(0.3)


def garbage(connection: socket.socket) -> None:
    """Answer as another protocol does."""
    connection.sendall(b"SSH-2.0-OpenSSH_9.2\r\n\x00\xff")


@pytest.mark.parametrize(
    ("speak", "message"),
    [
        (drip, "takes longer than 0.6 s"),
        (drip_headers, "takes longer than 0.6 s"),
        (endless, "answers with more than 300,000 bytes"),
        (silent, "does not answer: timed out"),
        (garbage, "does not answer: "),
    ],
)
def test_a_server_that_is_no_registry(
    speak: Callable[[socket.socket], None], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "PAUSE_S", 0.01)
    monkeypatch.setattr(http, "TRIES", 1)
    monkeypatch.setattr(http, "RESPONSE_MAX", 300_000)
    with raw(speak) as url, pytest.raises(RegistryError, match=message):
        HttpTransport(url, Access(timeout_s=0.1)).request("GET", "/subjects")


def test_one_connection_is_used_again_and_not_pickled(served: Registry) -> None:
    transport = HttpTransport(served.url)
    for _ in range(3):
        assert transport.request("GET", "/subjects") == []
    assert pickle.loads(pickle.dumps(transport)).request("GET", "/subjects") == []


def test_a_login_is_sent_and_never_shown(served: Registry) -> None:
    url = served.url.replace("http://", "http://reader:s%20cret@")
    transport = HttpTransport(url)
    transport.request("GET", "/subjects")
    HttpTransport(url, Access(login="ann:pw")).request("GET", "/subjects")
    assert served.logins == ["Basic cmVhZGVyOnMgY3JldA==", "Basic YW5uOnB3"]
    assert transport.name == served.url


@pytest.mark.parametrize(
    "url",
    ["ftp://host", "file:///etc/passwd", "http://", "http://[", "http://host:port", "http://a b/", "http://a\r\nb"],
)
def test_a_url_that_is_none(url: str) -> None:
    with pytest.raises(UsageError):
        HttpTransport(url)


@pytest.mark.parametrize("text", ["", "no certificate", "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n"])
def test_authorities_that_are_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "ca.pem").write_text(text)
    with pytest.raises(KcliError, match=r"ca.pem: no certificate of an authority"):
        HttpTransport("https://host", Access(ca_file=str(tmp_path / "ca.pem")))
    with pytest.raises(UnreadableInput, match="No such file"):
        HttpTransport("https://host", Access(ca_file=str(tmp_path / "none.pem")))
