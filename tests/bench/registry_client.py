"""A client that asks a schema registry as fast as it answers: python -m tests.bench.registry_client WHAT HOST PORT ...

    lookups HOST PORT CONNECTIONS SECONDS        GET /schemas/ids/1
    subjects HOST PORT CONNECTIONS COUNT FIRST   registers a schema of its own under each of COUNT new subjects
    versions HOST PORT COUNT FIRST               registers COUNT versions of one subject, each compatible with the last

Each connection has one request on its way. Prints the answers a second, as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Iterator
from functools import partial
from itertools import count
from typing import cast

import uvloop

HEAD_END = b"\r\n\r\n"
LENGTH = b"content-length:"
MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"


class Connection(asyncio.Protocol):
    """One connection. requests: the bytes of the next one; the connection ends with them."""

    def __init__(self, requests: Iterator[bytes], ended: asyncio.Future[None]) -> None:
        self._requests, self._ended = requests, ended
        self._buffer = b""
        self._transport: asyncio.Transport | None = None
        self.answers = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the first request."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's has another base class
        self._send()

    def _send(self) -> None:
        assert self._transport is not None
        request = next(self._requests, None)
        if request is None:
            self._transport.close()
        else:
            self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        """Send the next request once the answer is whole."""
        self._buffer = self._buffer + data if self._buffer else data
        head = self._buffer.find(HEAD_END)
        if head < 0:
            return
        at = self._buffer[:head].lower().index(LENGTH) + len(LENGTH)
        size = int(self._buffer[at : self._buffer.index(b"\r\n", at)])
        if len(self._buffer) < head + len(HEAD_END) + size:
            return
        status = self._buffer[9:12]
        if status != b"200" and not self._ended.done():
            self._ended.set_exception(RuntimeError(self._buffer[: head + 200].decode(errors="replace")))
        self._buffer = b""
        self.answers += 1
        self._send()

    def connection_lost(self, error: Exception | None) -> None:
        """Note the end."""
        if self._ended.done():
            return
        if error is None:
            self._ended.set_result(None)
        else:
            self._ended.set_exception(error)


def lookups(seconds: float) -> Iterator[bytes]:
    """Yield the same request for some seconds."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        yield b"GET /schemas/ids/1 HTTP/1.1\r\nHost: registry\r\nAccept: " + MEDIA_TYPE.encode() + b"\r\n\r\n"


def registration(subject: str, schema: dict[str, object]) -> bytes:
    """Return a request that registers an Avro schema."""
    body = json.dumps({"schema": json.dumps(schema)}).encode()
    head = f"POST /subjects/{subject}/versions HTTP/1.1\r\nHost: registry\r\nContent-Type: {MEDIA_TYPE}\r\n"
    return head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body


def record(name: str, fields: int) -> dict[str, object]:
    """Return a record with fields of several types; the last ones have defaults."""
    kinds = ("long", "string", "double", "boolean", "bytes")
    listed: list[dict[str, object]] = [{"name": f"field_{i}", "type": kinds[i % len(kinds)]} for i in range(10)]
    listed += [{"name": f"added_{i}", "type": ["null", "string"], "default": None} for i in range(fields)]
    return {"type": "record", "name": name, "namespace": "bench", "fields": listed}


def subjects(numbers: Iterator[int], end: int) -> Iterator[bytes]:
    """Yield the registrations of subjects; connections share the numbers."""
    for number in numbers:
        if number >= end:
            return
        yield registration(f"subject-{number}-value", record(f"Record{number}", 0))


def versions(first: int, end: int) -> Iterator[bytes]:
    """Yield the registrations of a subject's versions."""
    for number in range(first, end):
        yield registration("evolving-value", record("Evolving", number))


async def run(host: str, port: int, requests: list[Iterator[bytes]]) -> float:
    """Use a connection for each iterator of requests. Return the answers a second."""
    loop = asyncio.get_running_loop()
    ends, connections = [], []
    started = time.monotonic()
    for each in requests:
        ended: asyncio.Future[None] = loop.create_future()
        _, connection = await loop.create_connection(partial(Connection, each, ended), host, port)
        ends.append(ended)
        connections.append(connection)
    await asyncio.gather(*ends)
    return sum(each.answers for each in connections) / (time.monotonic() - started)


def main() -> None:
    """From the command line."""
    what, host, port, *numbers = sys.argv[1:]
    if what == "lookups":
        requests = [lookups(float(numbers[1])) for _ in range(int(numbers[0]))]
    elif what == "subjects":
        first = int(numbers[2])
        shared = count(first)
        requests = [subjects(shared, first + int(numbers[1])) for _ in range(int(numbers[0]))]
    else:
        requests = [versions(int(numbers[1]), int(numbers[1]) + int(numbers[0]))]
    print(json.dumps(uvloop.run(run(host, int(port), requests))))


if __name__ == "__main__":
    main()
