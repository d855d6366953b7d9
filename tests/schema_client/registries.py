"""A schema registry for tests of its clients: what kcli.registry decides, behind Python's own HTTP server."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from kcli.registry.api import Change, Limits, Request, handle
from kcli.registry.image import Image


class Registry(ThreadingHTTPServer):
    """A registry whose records are kept in a list. asked: method and path of each request. failures: status, body and
    headers of the next answers. log: the records of `_schemas`."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.image = Image()
        self.log: list[tuple[bytes, bytes | None]] = []
        self.asked: list[tuple[str, str]] = []
        self.logins: list[str | None] = []
        self.failures: list[tuple[int, bytes, dict[str, str]]] = []
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def answer(self, method: str, target: str, body: bytes = b"") -> tuple[int, bytes]:
        """Status and body of an answer."""
        path, _, query = target.partition("?")
        headers = {"content-type": "application/json"}
        with self.lock:
            found = handle(self.image, Request(method, path, query, headers, body), Limits())
            if isinstance(found, Change):
                for key, value in found.records:
                    self.image.replay(key, value, len(self.log), 0)
                    self.log.append((key, value))
                found = found.answer
        return found.status, found.body

    def post(self, path: str, **body: Any) -> Any:
        """Answer to a request that succeeds."""
        status, answer = self.answer("POST", path, json.dumps(body).encode())
        assert status == 200, answer
        return json.loads(answer)


class _Handler(BaseHTTPRequestHandler):
    server: Registry
    protocol_version = "HTTP/1.1"

    def _do(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.asked.append((self.command, self.path))
        self.server.logins.append(self.headers.get("Authorization"))
        headers: dict[str, str] = {}
        if self.server.failures:
            status, answer, headers = self.server.failures.pop(0)
        else:
            status, answer = self.server.answer(self.command, self.path, body)
        self.send_response(status)
        for name, value in {"Content-Length": str(len(answer)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(answer)

    do_GET = do_POST = do_PUT = do_DELETE = _do  # noqa: N815 (their names in BaseHTTPRequestHandler)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the signature in BaseHTTPRequestHandler)
        """Quiet."""


@contextmanager
def registry() -> Iterator[Registry]:
    """A registry until the block ends."""
    with Registry() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
