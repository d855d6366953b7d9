"""Requests of commands to a worker's REST API."""

from __future__ import annotations

import http.client
import json
from typing import Any, Final
from urllib.parse import urlsplit

from kcli.errors import KcliError, UsageError
from kcli.service.messages import ERROR_STATUS

TIMEOUT_S: Final = 90.0


class NoWorker(KcliError):
    """No worker answers at an address, or it answers with an error."""


class RefusedByWorker(NoWorker):
    """A worker answers with an error. status: of HTTP."""

    def __init__(self, reason: str, status: int) -> None:
        super().__init__(reason)
        self.status = status


def ask(url: str, method: str, path: str, body: object = None, timeout_s: float = TIMEOUT_S) -> Any:
    """Return the JSON of a worker's answer; None if it has no body. Raises RefusedByWorker, NoWorker, UsageError."""
    try:
        where = urlsplit(url)
        host, port = where.hostname, where.port
    except ValueError as error:
        raise UsageError(f"{url}: {error}") from None
    if where.scheme not in ("http", "https") or not host:
        raise UsageError(f"{url}: no address http://HOST:PORT of a worker")
    kind = http.client.HTTPSConnection if where.scheme == "https" else http.client.HTTPConnection
    connection = kind(host, port, timeout=timeout_s)
    try:
        text = None if body is None else json.dumps(body)
        connection.request(method, path, text, {"Content-Type": "application/json", "Accept": "application/json"})
        answer = connection.getresponse()
        data = answer.read()
    except (OSError, UnicodeError, http.client.HTTPException) as error:  # UnicodeError: of a host's name
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise NoWorker(f"{url} does not answer: {reason}") from None
    finally:
        connection.close()
    try:
        found = json.loads(data) if data else None
    except ValueError:
        raise NoWorker(f"{url}{path}: the answer is no JSON: {data[:100]!r}") from None
    if answer.status >= ERROR_STATUS:
        message = found.get("message") if isinstance(found, dict) else None
        raise RefusedByWorker(f"{url}: {message or answer.status}", answer.status)
    return found
