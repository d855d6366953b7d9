"""Requests to a schema registry over HTTP or HTTPS. Source: the REST API of Confluent's Schema Registry.

A registry may be down, and the URL may be that of another program. Each request takes a bounded time and a bounded
memory, and ends with JSON or with an error of one line:

    no answer, or a slow one      a GET is tried three times; then "does not answer", or "takes longer than"
    5xx, 429                      a GET is tried three times; then the answer's message
    3xx                           not followed: a login would go to wherever it leads
    a body above RESPONSE_MAX     not read to its end
    no JSON                       "does not answer with JSON"
"""

from __future__ import annotations

import base64
import http.client
import json
import socket
import ssl
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from urllib.parse import unquote, urlsplit, urlunsplit
from urllib.request import getproxies, proxy_bypass

from kcli.errors import UnreadableInput, UsageError
from kcli.schema_client.errors import RegistryError

MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"
TIMEOUT_S = 10.0
TRIES = 3
PAUSE_S = 0.2
RESPONSE_MAX = 64 * 1024 * 1024
WHOLE_TIMEOUTS = 6
"""A whole answer may take this number of times the timeout of a single read."""
SHOWN_MAX = 2000
"""The largest part of an answer's message that an error shows, in characters."""


class Access(NamedTuple):
    """How to connect to a registry, besides its URL. ca_file: certificates of authorities (PEM), None for the system's.
    login: `user:password`, None for the login in the URL. timeout_s: how long to wait for the next bytes of an
    answer."""

    ca_file: str | None = None
    login: str | None = None
    timeout_s: float = TIMEOUT_S


DEFAULT = Access()


class Transport(Protocol):
    """Sends requests of the REST API to a registry."""

    @property
    def name(self) -> str:
        """The registry's name in errors."""

    def request(self, method: str, path: str, body: Any = None) -> Any:
        """Return the JSON that a registry answers with. path: with its query, percent-encoded. body: becomes JSON; None
        for no body. Raises RegistryError."""


class HttpTransport:
    """A registry's URL, which may contain user and password, and one connection to it at a time. It can be pickled."""

    def __init__(self, url: str, access: Access = DEFAULT) -> None:
        """Make no request yet. Raises UsageError for an invalid URL, UnreadableInput for the file of authorities."""
        self._connection: http.client.HTTPConnection | None = None
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError as error:
            raise UsageError(f"not a registry's URL: {error}") from error
        if parts.scheme not in {"http", "https"} or not host or not url.isprintable() or " " in url:
            raise UsageError(f"not a registry's URL: {parts.scheme}://{host or ''}: http or https, and a host")
        place = parts.netloc.rpartition("@")[2]
        self.name = urlunsplit((parts.scheme, place, parts.path.rstrip("/"), "", ""))
        self._host, self._port = host, port or (443 if parts.scheme == "https" else 80)
        self._is_tls = parts.scheme == "https"
        self._prefix = parts.path.rstrip("/")
        self._access = access
        self._headers = {"Accept": f"{MEDIA_TYPE}, application/json"}
        login = access.login
        if login is None and parts.username is not None:
            login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        if login is not None:
            self._headers["Authorization"] = "Basic " + base64.b64encode(login.encode()).decode()
        if access.ca_file is not None:
            _trusting(access.ca_file)

    def __del__(self) -> None:
        self._close()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_connection": None}

    def request(self, method: str, path: str, body: Any = None) -> Any:
        """Return the JSON of an answer, as Transport.request."""
        data = None if body is None else json.dumps(body).encode()
        for attempt in range(1, TRIES + 1):
            try:
                answer = self._try(method, path, data)
                break
            except RegistryError as error:
                passing = error.status is None or error.status >= 500 or error.status == 429
                if not passing or method != "GET" or attempt == TRIES:
                    raise
                time.sleep(PAUSE_S * attempt)
        try:
            return json.loads(answer)
        except (ValueError, RecursionError) as error:
            raise RegistryError(f"{self.name}{path} does not answer with JSON: {error}", 200) from None

    def _try(self, method: str, path: str, data: bytes | None) -> bytes:
        """Send one request; return the body of an answer without an error. Raises RegistryError."""
        headers = self._headers if data is None else {**self._headers, "Content-Type": MEDIA_TYPE}
        limit_s = self._access.timeout_s * WHOLE_TIMEOUTS
        overdue = threading.Event()
        try:
            connection = self._opened(method)
            watch = threading.Timer(limit_s, _cut_off, (connection, overdue))
            watch.daemon = True
            watch.start()
            try:
                connection.request(method, self._target(path), data, headers)
                with connection.getresponse() as response:
                    body = response.read(RESPONSE_MAX + 1)
                    status, phrase, place = response.status, response.reason, response.getheader("Location")
            finally:
                watch.cancel()
        except (http.client.HTTPException, OSError, ValueError) as error:
            self._close()
            if overdue.is_set():
                raise RegistryError(f"the schema registry {self.name} takes longer than {limit_s:g} s") from None
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise RegistryError(
                f"the schema registry {self.name} does not answer: {(reason or type(error).__name__)[:SHOWN_MAX]}"
            ) from None
        if len(body) > RESPONSE_MAX:
            self._close()
            raise RegistryError(f"{self.name}{path} answers with more than {RESPONSE_MAX:,} bytes", status)
        if overdue.is_set():
            self._close()
            raise RegistryError(f"the schema registry {self.name} takes longer than {limit_s:g} s")
        if 300 <= status < 400:
            raise RegistryError(f"{self.name}{path} answers {status}: it redirects to {(place or '')[:200]!r}", status)
        if not 200 <= status < 300:
            code, message = _error(body)
            raise RegistryError(f"{self.name}{path} answers {status} {message or phrase}", status, code, message)
        return body

    def _opened(self, method: str) -> http.client.HTTPConnection:
        """Return a connection. A request that changes something gets a new connection: if the registry closed an idle
        one just then, it would be unknown whether it has taken the request."""
        if self._connection is None or method != "GET" or _has_ended(self._connection):
            self._close()
            self._connection = self._connected()
        return self._connection

    def _connected(self) -> http.client.HTTPConnection:
        host, port, timeout_s = self._host, self._port, self._access.timeout_s
        scheme = "https" if self._is_tls else "http"
        proxy = None if proxy_bypass(f"{host}:{port}") else getproxies().get(scheme)
        if proxy is not None:
            parts = urlsplit(proxy if "//" in proxy else f"//{proxy}")
            host, port = parts.hostname or host, parts.port or 80
        connection: http.client.HTTPConnection
        if self._is_tls:
            context = ssl.create_default_context() if self._access.ca_file is None else _trusting(self._access.ca_file)
            connection = http.client.HTTPSConnection(host, port, timeout=timeout_s, context=context)
            if proxy is not None:
                connection.set_tunnel(self._host, self._port)
        else:
            connection = http.client.HTTPConnection(host, port, timeout=timeout_s)
        self._is_by_proxy = proxy is not None and not self._is_tls
        connection.connect()
        return connection

    def _target(self, path: str) -> str:
        return self.name + path if self._is_by_proxy else self._prefix + path

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _has_ended(connection: http.client.HTTPConnection) -> bool:
    """Whether the server has closed an idle connection, or has sent bytes without a request."""
    if connection.sock is None:
        return True
    try:
        connection.sock.setblocking(False)  # noqa: FBT003 (the socket's own method)
        try:
            return connection.sock.recv(1) is not None
        except (BlockingIOError, ssl.SSLWantReadError):
            return False
        finally:
            connection.sock.settimeout(connection.timeout)
    except OSError:
        return True


def _cut_off(connection: http.client.HTTPConnection, overdue: threading.Event) -> None:
    overdue.set()
    if connection.sock is not None:
        try:
            socket.socket.shutdown(connection.sock, socket.SHUT_RDWR)
        except OSError:
            return


def _trusting(ca_file: str) -> ssl.SSLContext:
    """Return a context that trusts the authorities in a file. Raises UnreadableInput."""
    try:
        authorities = Path(ca_file).read_text(encoding="ascii")
        # without any text, Python would trust the system's authorities instead
        return ssl.create_default_context(cadata=authorities or "none")
    except OSError as error:
        if isinstance(error, ssl.SSLError):
            raise UnreadableInput(ca_file, "no certificate of an authority (PEM) in it") from None
        raise UnreadableInput.of(ca_file, error) from None
    except ValueError:
        raise UnreadableInput(ca_file, "no certificate of an authority (PEM) in it") from None


def _error(body: bytes) -> tuple[int, str]:
    """Return `error_code` and `message` of an answer with an error; 0 and "" if they are missing."""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return 0, ""
    if not isinstance(answer, dict):
        return 0, ""
    code, message = answer.get("error_code"), answer.get("message")
    return code if isinstance(code, int) else 0, str(message or "")[:SHOWN_MAX]
