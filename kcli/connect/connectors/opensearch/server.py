"""Requests of the REST API of OpenSearch and Elasticsearch, to one node after another until one answers."""

from __future__ import annotations

import asyncio
import json
import ssl
from base64 import b64encode
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from kcli.connect.data.errors import ConnectError, RetriableError
from kcli.service.http_client import NoAnswer, ask
from kcli.service.messages import ERROR_STATUS, JSON, Request

NDJSON: Final = "application/x-ndjson"
PASSING: Final = (429, 502, 503, 504)
NOT_FOUND: Final = 404
SHOWN: Final = 300


class Refused(ConnectError):
    """The server has answered with an error. status: HTTP's. kind: the error's type."""

    def __init__(self, message: str, status: int, kind: str) -> None:
        super().__init__(message)
        self.status, self.kind = status, kind


class Server:
    """The nodes of a cluster. login: user and password."""

    def __init__(self, urls: Sequence[str], login: tuple[str, str] | None, timeout_s: float) -> None:
        self._urls, self._timeout_s = list(urls), timeout_s
        self._headers = {"accept": JSON}
        if login is not None:
            self._headers["authorization"] = "Basic " + b64encode(":".join(login).encode()).decode()
        self._tls = ssl.create_default_context() if any(each.startswith("https:") for each in urls) else None

    def send(self, method: str, path: str, body: bytes = b"", kind: str = JSON) -> Any:
        """Return the JSON of an answer. path: with its slash, percent-encoded. Raises RetriableError if no node answers
        now, Refused, ConnectError."""
        reason = ""
        for _ in range(len(self._urls)):
            url = self._urls[0]
            own = urlsplit(url).path
            request = Request(method, own + path, "", {**self._headers, "content-type": kind}, body)
            try:
                answer = asyncio.run(
                    ask(url, request, self._tls if url.startswith("https:") else None, self._timeout_s)
                )
            except NoAnswer as error:
                reason = str(error)
            else:
                if answer.status not in PASSING:
                    return _read(f"{url}{path}", answer.status, answer.body)
                reason = f"{url}{path}: HTTP {answer.status}: {_error(answer.body)[1]}"
            self._urls.append(self._urls.pop(0))
        raise RetriableError(reason)


def _read(where: str, status: int, body: bytes) -> Any:
    if status >= ERROR_STATUS:
        kind, reason = _error(body)
        raise Refused(f"{where}: HTTP {status}: {reason}", status, kind)
    try:
        return json.loads(body) if body else None
    except (ValueError, RecursionError):
        raise ConnectError(f"{where}: the answer is no JSON: {body[:100]!r}") from None


def _error(body: bytes) -> tuple[str, str]:
    """Return the type and the text of an answer's error."""
    try:
        found = json.loads(body)["error"]
        return (str(found["type"]), reason_of(found)) if isinstance(found, dict) else ("", str(found)[:SHOWN])
    except (ValueError, KeyError, TypeError, RecursionError):
        return "", body[:100].decode(errors="replace") or "no reason is given"


def reason_of(error: Any) -> str:
    """Return the text of an error, with its cause."""
    if not isinstance(error, dict):
        return str(error)[:SHOWN]
    cause = error.get("caused_by")
    text = f"{error.get('type')}: {error.get('reason')}"
    return f"{text} ({cause.get('type')}: {cause.get('reason')})"[:SHOWN] if isinstance(cause, dict) else text[:SHOWN]
