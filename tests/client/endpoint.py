"""A token endpoint, for tests: gives tokens for client credentials, and keeps the requests."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.security.tokens import Issuer

HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"


class TokenEndpoint:
    """answer: status and body of the next answers; None: a token of alice's. requests: headers and body of each."""

    def __init__(self, issuer: Issuer) -> None:
        self.issuer = issuer
        self.answer: tuple[int, bytes] | None = None
        self.requests: list[tuple[dict[str, str], str]] = []
        self.url = ""

    def token(self, lasts_s: int = 3600) -> str:
        """A new token of alice's."""
        now_s = int(time.time())
        claims = {"sub": "alice", "aud": "kafka", "iat": now_s - 60, "exp": now_s + lasts_s, "scope": "kafka"}
        return self.issuer.token(claims)

    def answered(self) -> tuple[int, bytes]:
        """Status and body of the next answer."""
        return self.answer or (200, json.dumps({"access_token": self.token(), "token_type": "Bearer"}).encode())


@contextmanager
def token_endpoint(issuer: Issuer) -> Iterator[TokenEndpoint]:
    """An endpoint that answers."""
    endpoint = TokenEndpoint(issuer)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            endpoint.requests.append((dict(self.headers.items()), body))
            status, data = endpoint.answered()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    endpoint.url = f"http://127.0.0.1:{server.server_port}/token"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield endpoint
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def client_properties(url: str, **more: str) -> dict[str, str]:
    """Kafka's client properties for a login with the tokens of an endpoint. more: in place of these."""
    found = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": f"{MODULE} required;",
        "sasl.login.callback.handler.class": HANDLER,
        "sasl.oauthbearer.token.endpoint.url": url,
    }
    if not url.startswith("file:"):
        found |= {
            "sasl.oauthbearer.client.credentials.client.id": "me: & you",
            "sasl.oauthbearer.client.credentials.client.secret": "hush/hush",
            "sasl.oauthbearer.scope": "a b/c",
        }
    return found | more


def as_file(properties: dict[str, str]) -> str:
    """The text of a properties file."""
    return "".join(f"{name}={text}\n" for name, text in properties.items())
