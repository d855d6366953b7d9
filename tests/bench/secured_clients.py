"""Clients of a secured broker that cost little themselves: requests are made before the clock runs, answers are not
decoded beyond the error codes.

Versions: Produce 11, as a client of Kafka 3.9 sends; before the flexible ones Fetch 11, ApiVersions 0, SaslHandshake 1
and SaslAuthenticate 1.
"""

from __future__ import annotations

import socket
import ssl
import struct
import threading
import time
from collections.abc import Sequence
from functools import cache
from typing import Final

from kcli.security.sasl import Conversation
from kcli.security.scram import ScramMechanism
from kcli.security.scram_client import converse
from tests.bench.measure import BenchError
from tests.broker.running import Address, Client, Closed
from tests.log.batches import batch

PARTITIONS: Final = 6
RECORD_BYTES: Final = 1000
BATCH_RECORDS: Final = 16
"""The number of records of that size for which batch.size has room by default."""
IN_FLIGHT: Final = 5
"""max.in.flight.requests.per.connection, as it is by default."""
PARTITION_BYTES_MAX: Final = 1 << 20
FETCH_BYTES_MAX: Final = 50 << 20
"""The defaults of max.partition.fetch.bytes and fetch.max.bytes."""
RECEIVED_AT_ONCE: Final = 256 << 10
BATCH: Final = bytes(batch(*[bytes(range(250)) * (RECORD_BYTES // 250)] * BATCH_RECORDS))
REQUEST_BYTES: Final = PARTITIONS * len(BATCH)
API_VERSIONS: Final = struct.pack(">ihhih", 10, 18, 0, 1, -1)


def connected(address: Address, context: ssl.SSLContext | None) -> Client:
    """A new connection, through TLS where there is a context."""
    client = Client(address)
    if context is not None:
        client.socket = context.wrap_socket(client.socket, server_hostname=address[0])
    return client


# produce, consume


def produce(client: Client, topic: str, requests: int) -> float:
    """Send `requests` requests, each with a batch for every partition, IN_FLIGHT at a time, with acks=all. Returns the
    seconds."""
    parts = [{"index": index, "records": BATCH} for index in range(PARTITIONS)]
    sent = [{"name": topic, "partition_data": parts}]
    fields = {"transactional_id": None, "acks": -1, "timeout": 30_000, "topic_data": sent}
    frame = client.frame("produce", 11, fields)
    began, asked = time.perf_counter(), 0
    for answered in range(requests):
        while asked < min(requests, answered + IN_FLIGHT):
            client.socket.sendall(frame)
            asked += 1
        _check_produced(client.read_frame(), topic)
    return time.perf_counter() - began


def _check_produced(answer: bytes, topic: str) -> None:
    at = 5 + 1 + 1 + len(topic) + 1
    for _ in range(PARTITIONS):
        partition, code = struct.unpack_from(">ih", answer, at)
        if code:
            raise BenchError(f"Produce to partition {partition} answers error {code}")
        at += 33


def consume(client: Client, topic: str, batches: int) -> float:
    """Fetch `batches` batches of each partition from its beginning, one Fetch at a time. Returns the seconds."""
    buffer = memoryview(bytearray(PARTITIONS * (PARTITION_BYTES_MAX + (1 << 10))))
    done = dict.fromkeys(range(PARTITIONS), 0)
    began = time.perf_counter()
    while any(each < batches for each in done.values()):
        parts = [
            {
                "partition": partition,
                "current_leader_epoch": -1,
                "fetch_offset": each * BATCH_RECORDS,
                "log_start_offset": -1,
                "partition_max_bytes": PARTITION_BYTES_MAX,
            }
            for partition, each in done.items()
            if each < batches
        ]
        limits = {"max_wait": 500, "min_bytes": 1, "max_bytes": FETCH_BYTES_MAX, "isolation_level": 0, "rack_id": ""}
        session = {"session_id": 0, "session_epoch": -1, "forgotten_topics_data": []}
        asked = {"replica_id": -1, **limits, **session, "topics": [{"topic": topic, "partitions": parts}]}
        client.socket.sendall(client.frame("fetch", 11, asked))
        _take_fetched(_received(client.socket, buffer), topic, done)
    return time.perf_counter() - began


def _received(sock: socket.socket, buffer: memoryview) -> memoryview:
    """The next answer, behind its size."""
    size, count = 4, 0
    while count < size:
        got = sock.recv_into(buffer[count : count + RECEIVED_AT_ONCE])
        if got == 0:
            raise BenchError("the broker has hung up")
        count += got
        if size == 4 and count >= 4:
            size += int.from_bytes(buffer[:4])
    return buffer[4:size]


def _take_fetched(answer: memoryview, topic: str, done: dict[int, int]) -> None:
    at = 4 + 4 + 2 + 4 + 4 + 2 + len(topic)
    (count,) = struct.unpack_from(">i", answer, at)
    at += 4
    for _ in range(count):
        partition, code, aborted = struct.unpack_from(">ih24xi", answer, at)
        at += 34 + 16 * max(0, aborted) + 4
        (size,) = struct.unpack_from(">i", answer, at)
        at += 4 + max(0, size)
        if code:
            raise BenchError(f"Fetch from partition {partition} answers error {code}")
        done[partition] += max(0, size) // len(BATCH)


# connections


def handshakes(address: Address, context: ssl.SSLContext, count: int, clients: int) -> float:
    """Connect, make the TLS handshake and send one request, repeatedly, with several clients at the same time. Returns
    the seconds."""
    failed: list[Exception] = []

    def connect() -> None:
        try:
            for _ in range(count // clients):
                with connected(address, context) as client:
                    client.socket.sendall(API_VERSIONS)
                    client.read_frame()
        except (OSError, Closed) as error:
            failed.append(error)

    threads = [threading.Thread(target=connect) for _ in range(clients)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise BenchError(f"TLS handshakes: {failed[0]}")
    return time.perf_counter() - began


class _Remembering(ScramMechanism):
    """A SCRAM mechanism that salts the password only once, so that the client's own computation is not measured."""

    __slots__ = ()

    salted = cache(ScramMechanism.salted)


def logins(address: Address, mechanism: ScramMechanism, user: tuple[str, str], rounds: int, clients: int) -> float:
    """Log in by SCRAM on new connections, with several clients at the same time, repeatedly. user: name and password.
    Returns the seconds of a round."""
    remembering = _Remembering(mechanism.name, mechanism.code, mechanism.algorithm)
    began = time.perf_counter()
    for _ in range(rounds):
        connections = [connected(address, None) for _ in range(clients)]
        try:
            _log_in(connections, mechanism.name, [converse(remembering, *user, f"r{i}") for i in range(clients)])
        finally:
            for each in connections:
                each.socket.close()
    return (time.perf_counter() - began) / rounds


def _log_in(connections: Sequence[Client], mechanism: str, conversations: Sequence[Conversation]) -> None:
    handshake = struct.pack(">hhihh", 17, 1, 1, -1, len(mechanism)) + mechanism.encode()
    for each in connections:
        each.socket.sendall(len(handshake).to_bytes(4) + handshake)
    for each in connections:
        _check_step(each.read_frame())
    said = [next(each) for each in conversations]
    while any(said):
        for each, message in zip(connections, said, strict=True):
            step = struct.pack(">hhihi", 36, 1, 1, -1, len(message)) + message
            each.socket.sendall(len(step).to_bytes(4) + step)
        for i, each in enumerate(connections):
            try:
                said[i] = conversations[i].send(_said(each.read_frame()))
            except StopIteration:
                said[i] = b""


def _check_step(answer: bytes) -> None:
    (code,) = struct.unpack_from(">h", answer, 4)
    if code:
        raise BenchError(f"a login by SCRAM answers error {code}")


def _said(answer: bytes) -> bytes:
    """What the answer to SaslAuthenticate says."""
    _check_step(answer)
    (length,) = struct.unpack_from(">h", answer, 6)
    at = 8 + max(0, length)
    (size,) = struct.unpack_from(">i", answer, at)
    return answer[at + 4 : at + 4 + size]


def log_in(client: Client, mechanism: ScramMechanism, user: tuple[str, str]) -> None:
    """Log in on a connection. user: name and password."""
    _log_in([client], mechanism.name, [converse(mechanism, *user, "r")])
