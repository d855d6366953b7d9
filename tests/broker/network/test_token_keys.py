"""Keys of tokens at an endpoint: they are fetched at the start, at intervals, and when a token names an unknown key."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from joserfc.jwk import RSAKey

from kcli.broker.config.served import CannotServe
from kcli.broker.network.token_keys import ALLOWED, DOCUMENT_MAX, allowed_urls
from kcli.tls.certificates import make_authority
from kcli.tls.contexts import listener_context
from tests.broker.cluster import wait_for
from tests.broker.security.sasl_cases import LOGINS
from tests.broker.security.secured import NOW, Secured, secured_node
from tests.security.tokens import Issuer

JWKS = "sasl.oauthbearer.jwks.endpoint"
JAAS = "listener.name.sasl.oauthbearer.sasl.jaas.config"


class Endpoint:
    """An HTTPS server with keys, or with another response that a test sets; of HTTP where it is not secured."""

    def __init__(self, folder: Path, *, is_secured: bool = True) -> None:
        self.scheme = "https" if is_secured else "http"
        authority = make_authority("issuer", NOW)
        self.trust = folder / "issuer.pem"
        self.trust.write_bytes(authority.certificate_pem)
        (folder / "endpoint.pem").write_bytes(authority.server(["127.0.0.1"], NOW).pem)
        self.status, self.document, self.location, self.fetches = 200, b"", "", 0
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        keys = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(folder / "endpoint.pem")}
        context = listener_context(keys, NOW).context
        if is_secured:
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                endpoint.fetches += 1
                self.send_response(endpoint.status)
                if endpoint.location:
                    self.send_header("Location", endpoint.location)
                self.end_headers()
                with suppress(OSError):  # the node has read enough
                    self.wfile.write(endpoint.document)

            def log_message(self, *_: object) -> None:
                pass

        return Handler

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self._server.server_port}/keys"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def options(self, **times: str) -> dict[str, str]:
        """Return the configuration of a listener with these keys. times: refresh_ms and others."""
        trust = f'ssl.truststore.type="PEM" ssl.truststore.location="{self.trust}";'
        login = LOGINS["OAUTHBEARER"].removesuffix(";") + f" {trust}"
        return {f"{JWKS}.url": self.url, JAAS: login} | {
            f"listener.name.sasl.oauthbearer.{JWKS}.{name.replace('_', '.')}": text for name, text in times.items()
        }


@pytest.fixture
def endpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    made = Endpoint(tmp_path)
    monkeypatch.setenv("KAFKA_OPTS", f"-Xmx1G '-D{ALLOWED}=https://elsewhere, {made.url}'")
    yield made
    made.close()


ONE_LISTENER = {
    "listener.name.sasl_ssl.oauthbearer.sasl.oauthbearer.jwks.endpoint.url": "file:///dev/null",
    "listener.name.sasl_ssl.sasl.enabled.mechanisms": "PLAIN",
}
"""The configuration of secured_node's other listener, which has no tokens."""


def token(issuer: Issuer) -> str:
    now_s = int(time.time())
    return issuer.token({"sub": "olga", "iat": now_s, "exp": now_s + 60, "aud": "kafka"})


def is_let_in(secured: Secured, issuer: Issuer) -> bool:
    with secured.connect("SASL") as client:
        assert client.call("sasl_handshake", 1, mechanism="OAUTHBEARER")["error_code"] == 0
        message = f"n,,\x01auth=Bearer {token(issuer)}\x01\x01".encode()
        answer = client.call("sasl_authenticate", 2, auth_bytes=message)
        return answer["error_code"] == 0 and not answer["auth_bytes"]


def test_keys_are_fetched(tmp_path: Path, endpoint: Endpoint, caplog: pytest.LogCaptureFixture) -> None:
    """Keys are fetched at the start, and soon after a token has named an unknown key. A response that is no JWKS
    changes nothing."""
    first, second = Issuer(), Issuer()
    second.rsa = RSAKey.generate_key(2048, {"kid": "newer"})
    endpoint.document = first.jwks().encode()
    with secured_node(tmp_path, endpoint.options(retry_backoff_max_ms="200") | ONE_LISTENER) as secured:
        assert endpoint.fetches == 1
        assert is_let_in(secured, first)
        endpoint.document = b"<html>"
        assert not is_let_in(secured, second)
        wait_for(lambda: "stay as they are" in caplog.text, "warning")
        line = f"the keys of tokens stay as they are: {endpoint.url}: no JWKS: a JSON object with a list of keys"
        assert line in caplog.messages
        assert is_let_in(secured, first)
        fetches = endpoint.fetches
        assert fetches > 2, "tried again and again for retry.backoff.max.ms"
        endpoint.document = second.jwks().encode()
        assert not is_let_in(secured, second)
        time.sleep(0.1)
        assert endpoint.fetches == fetches, "the same name is not asked for again at once"


def test_keys_are_fetched_again_and_again(tmp_path: Path, endpoint: Endpoint) -> None:
    first, second = Issuer(), Issuer()
    endpoint.document = first.jwks().encode()
    with secured_node(tmp_path, endpoint.options(refresh_ms="50") | ONE_LISTENER) as secured:
        assert is_let_in(secured, first)
        endpoint.document = second.jwks().encode()
        wait_for(lambda: is_let_in(secured, second), "new keys")
        assert not is_let_in(secured, first)


def test_keys_are_fetched_in_the_clear(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Kafka takes http too, where the system property lists the URL; a line warns of it."""
    issuer, endpoint = Issuer(), Endpoint(tmp_path, is_secured=False)
    endpoint.document = issuer.jwks().encode()
    name = f"oauthbearer.{JWKS}.url"
    try:
        with (
            pytest.raises(CannotServe, match="may not be fetched"),
            secured_node(tmp_path, endpoint.options() | ONE_LISTENER),
        ):
            pass
        monkeypatch.setenv("KAFKA_OPTS", f"-D{ALLOWED}={endpoint.url}")
        with secured_node(tmp_path, endpoint.options() | ONE_LISTENER) as secured:
            assert is_let_in(secured, issuer)
    finally:
        endpoint.close()
    assert f"{name}: {endpoint.url}: keys of tokens come over an unsecured connection" in caplog.messages


REFUSED: Mapping[str, tuple[dict[str, object], str]] = {
    "no JWKS": ({"document": b"{}"}, "no JWKS: a JSON object with a list of keys"),
    "an error": ({"status": 503}, "HTTP status 503"),
    "too long": ({"document": b" " * (DOCUMENT_MAX + 1)}, "more than 524,288 bytes"),
    "in the clear": ({"status": 302, "location": "http://127.0.0.1:1/"}, "HTTP status 302"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_start_without_keys_is_refused(name: str, tmp_path: Path, endpoint: Endpoint) -> None:
    answer, reason = REFUSED[name]
    for field, value in answer.items():
        setattr(endpoint, field, value)
    with pytest.raises(CannotServe) as refused, secured_node(tmp_path, endpoint.options() | ONE_LISTENER):
        pass
    assert str(refused.value) == f"{JWKS}.url: {endpoint.url}: {reason}"
    assert endpoint.fetches == 4, "as by Kafka"


def test_an_endpoint_that_is_not_there_or_not_trusted(
    tmp_path: Path, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    for url, options, reason in (
        (endpoint.url, {JAAS: LOGINS["OAUTHBEARER"]}, "the peer's certificate is not accepted: "),
        ("https://127.0.0.1:1/keys", {}, "Connection refused"),
    ):
        monkeypatch.setenv("KAFKA_OPTS", f"-D{ALLOWED}={url}")
        asked = {**endpoint.options(), f"{JWKS}.url": url, **options, **ONE_LISTENER}
        with pytest.raises(CannotServe) as refused, secured_node(tmp_path, asked):
            pass
        assert str(refused.value).startswith(f"{JWKS}.url: {url}: {reason}")


def test_what_may_not_be_fetched_is_not(tmp_path: Path, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    """The URL is not fetched unless Kafka's system property lists it."""
    for java_options in ("", f"-D{ALLOWED}={endpoint.url}/more"):
        monkeypatch.setenv("KAFKA_OPTS", java_options)
        with pytest.raises(CannotServe) as refused, secured_node(tmp_path, endpoint.options() | ONE_LISTENER):
            pass
        assert str(refused.value) == (
            f"listener.name.sasl.oauthbearer.{JWKS}.url: {endpoint.url} may not be fetched: as for Kafka, set the "
            f'environment variable KAFKA_OPTS="-D{ALLOWED}={endpoint.url}"'
        )
    assert endpoint.fetches == 0


def test_a_start_without_a_file_of_keys_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "html").write_text("<html>")
    (tmp_path / "long").write_bytes(bytes(DOCUMENT_MAX + 1))
    for name, reason in (
        ("none", "No such file or directory"),
        ("pipe", "is no regular file"),
        ("html", "no JWKS: a JSON object with a list of keys"),
        ("long", "more than 524,288 bytes"),
    ):
        path = tmp_path / name
        with (
            pytest.raises(CannotServe) as refused,
            secured_node(tmp_path, {f"{JWKS}.url": path.as_uri()} | ONE_LISTENER),
        ):
            pass
        assert str(refused.value) == f"listener.name.sasl.oauthbearer.{JWKS}.url: {path}: {reason}"


def test_the_urls_of_a_jvm() -> None:
    assert allowed_urls(f"-Da=b -D{ALLOWED}=https://a -D{ALLOWED}=https://b,https://c") == {"https://b", "https://c"}
    assert allowed_urls(f"-D{ALLOWED}= '") == frozenset()
