"""Registries for tests: on an event loop of their own thread, or as processes; and requests to them."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPResponse
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

import uvloop

from kcli.broker.network.outbound import IN_THE_CLEAR, Outbound
from kcli.registry.config import registry_config
from kcli.registry.server import RegistryServer

T = TypeVar("T")
TIMEOUT_S = 30.0
V1 = "application/vnd.schemaregistry.v1+json"


class Answered(NamedTuple):
    """An answer: its status, its JSON (None for what is none) and its headers in lower case."""

    status: int
    json: Any
    headers: Mapping[str, str]


def ask(url: str, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Answered:
    """Send one request to a registry. body: bytes, or what JSON can write; None for none."""
    parts = urlsplit(url)
    connection = HTTPConnection(parts.hostname or "", parts.port, timeout=TIMEOUT_S)
    data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    given = {"Content-Type": V1} if body is not None else {}
    try:
        connection.request(method, path, data, {**given, **(headers or {})})
        return answered(connection.getresponse())
    finally:
        connection.close()


def answered(response: HTTPResponse) -> Answered:
    """Read an answer to its end."""
    text = response.read()
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    return Answered(response.status, found, {name.lower(): value for name, value in response.getheaders()})


def register(url: str, subject: str, schema: Any, headers: Mapping[str, str] | None = None) -> Answered:
    """Register an Avro schema."""
    return ask(url, "POST", f"/subjects/{subject}/versions", {"schema": json.dumps(schema)}, headers)


class Loop:
    """An event loop on a thread."""

    def __init__(self) -> None:
        self.loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="registry", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine there, and return its result."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(TIMEOUT_S)

    def close(self) -> None:
        """End the thread."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(TIMEOUT_S)
        self.loop.close()


@contextmanager
def looped() -> Iterator[Loop]:
    """Yield an event loop on a thread."""
    loop = Loop()
    try:
        yield loop
    finally:
        loop.close()


@contextmanager
def served(
    loop: Loop, bootstrap: str, properties: Mapping[str, str] | None = None, outbound: Outbound = IN_THE_CLEAR
) -> Iterator[RegistryServer]:
    """Yield a registry on a free port of 127.0.0.1."""
    host, _, port = bootstrap.rpartition(":")
    config = registry_config({"listeners": "http://127.0.0.1:0", **(properties or {})})

    async def new() -> RegistryServer:
        server = RegistryServer(config, [(host, int(port))], outbound)
        await server.start()
        return server

    server = loop.run(new())
    try:
        yield server
    finally:
        loop.run(server.stop())


class Process:
    """`kcli registry` as a process. Its first line says where it serves."""

    def __init__(self, bootstrap: str, options: Sequence[str] = (), port: int = 0) -> None:
        arguments = ["registry", "-b", bootstrap, "--listeners", f"http://127.0.0.1:{port}"]
        for each in options:
            arguments += ["-o", each]
        # a pipe that nobody reads would stop the process when it is full
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115  (closed by `end`)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "kcli", *arguments], stdout=subprocess.PIPE, stderr=self._log, text=True
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:\d+", line)
        if found is None:
            raise AssertionError(line + self.end(signal.SIGKILL))
        self.url = found[0]

    def end(self, number: signal.Signals = signal.SIGTERM) -> str:
        """Send the process a signal, and wait for its end. Return what it has logged."""
        self.process.send_signal(number)
        self.process.communicate(timeout=TIMEOUT_S)
        with self._log as log:
            log.seek(0)
            return log.read()
