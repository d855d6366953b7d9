"""Hostile clients of `kcli serve`: every request gets a response or a closed connection, and the broker serves as
before.

Requests of every API at every version, with random and absurd values, whole or with mutated bytes; decompression bombs;
names that point out of the directory; clients that announce bytes, stall, or connect in masses. The broker is a child
process: its log is read (a trace is a bug), its memory and its descriptors are measured.
"""

from __future__ import annotations

import re
import signal
import socket
import struct
import threading
import time
import zlib
from base64 import b64decode
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from kio.serial.errors import OutOfBoundValue

from formats.compression import GZIP, LZ4, SNAPPY, ZSTD, compress
from formats.file_name import parse_directory
from formats.kernels.crc import crc32c
from kcli.broker.wire.apis import BROKER_APIS as APIS
from kcli.protocol.error_code import ErrorCode
from tests.broker.hostile import ANYTHING, INT_MAX, INT_MIN, mutated, whole_request
from tests.broker.running import Address, Client, Closed, ServedNode, readable, running_node
from tests.conftest import examples
from tests.log.batches import batch

MIB = 1 << 20
SEEDED = settings(examples(6, soak=400), phases=[Phase.generate], database=None)
"""An example is a list of requests, and the broker keeps the effects of one example for the next: shrinking is of no
use."""
REQUESTS_AT_ONCE, TURNS = 12, 6
ANSWER_S, PATIENCE_S = 0.4, 20.0
RSS_GROWTH_MAX = 150 * MIB
BOMB_BYTES = 256 * MIB
QUICK_DELETION = ("-o", "log.segment.delete.delay.ms=0", "-o", "log.index.size.max.bytes=4096")
UNREGISTER_BROKER = 64
"""The API that takes the only broker out of its cluster, as in Kafka: no test could go on."""
KNOWN = {"known": {}, "compacted": {"cleanup.policy": "compact"}}


class Victim:
    """A broker that is to survive."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.node = ServedNode(directory, *QUICK_DELETION, warm=False)  # its memory is measured
        self.log: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.topic_ids: dict[str, str] = {}
        self.restore()
        self.rss_at_first = self.rss()

    def _read(self) -> None:
        assert self.node.process.stderr is not None, "piped"
        for line in self.node.process.stderr:
            self.log.append(line)

    @property
    def address(self) -> Address:
        return self.node.address

    def client(self) -> Client:
        return Client(self.address)

    def restore(self) -> None:
        """Remove quotas and topics that requests have left, and restore the known topics."""
        self._drop_quotas()
        with self.client() as client:
            there = {each["name"] for each in self.topics(client)}
            strange = [{"name": name, "topic_id": None} for name in there - KNOWN.keys()]
            client.call("delete_topics", 6, topics=strange, timeout=1000)
            for name, configs in KNOWN.items():
                create(client, name, configs=configs)
            self.topic_ids = {each["name"]: each["topic_id"] for each in self.topics(client)}

    def _drop_quotas(self) -> None:
        with self.client() as client:
            entries = client.call("describe_client_quotas", 1, components=[], strict=False)["entries"] or []
            gone = [
                {"entity": entry["entity"], "ops": [{"key": each["key"], "value": 0.0, "remove": True}]}
                for entry in entries
                for each in entry["values"]
            ]
            client.call("alter_client_quotas", 1, entries=gone, validate_only=False)

    def topics(self, client: Client) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = client.call("metadata", 12, topics=None, allow_auto_topic_creation=False)[
            "topics"
        ]
        return found

    def check(self) -> None:
        """Check that the broker answers, has logged no trace, and is within its memory."""
        assert self.node.process.poll() is None, self.tail()
        with self.client() as client:
            assert client.call("api_versions", 0)["error_code"] == 0
        self.check_log()
        assert self.rss() - self.rss_at_first < RSS_GROWTH_MAX
        strangers = {path.name for path in self.directory.parent.iterdir()} - {self.directory.name}
        assert not strangers, "it writes only into its directory"
        for path in self.directory.iterdir():
            assert not path.is_dir() or parse_directory(path.name) is not None, path

    def tail(self) -> str:
        return "".join(self.log[-100:])

    def check_log(self) -> None:
        """Check that the log has no trace since the last call."""
        lines, self.log = self.log, []
        at = next((i for i, line in enumerate(lines) if "Traceback" in line), None)
        assert at is None, "".join(lines[max(0, at - 2) : at + 40])

    def rss(self, what: str = "VmRSS") -> int:
        """Return the broker's memory in bytes; VmHWM: the largest so far."""
        text = Path(f"/proc/{self.node.process.pid}/status").read_text()
        found = re.search(rf"{what}:\s+(\d+) kB", text)
        assert found is not None
        return int(found[1]) << 10

    def descriptors(self) -> int:
        return len(list(Path(f"/proc/{self.node.process.pid}/fd").iterdir()))

    def stop(self) -> None:
        """Stop the broker in order."""
        self.node.process.send_signal(signal.SIGTERM)
        assert self.node.process.wait(PATIENCE_S) == 0, self.tail()
        self._reader.join()
        self.check_log()
        for stream in (self.node.process.stdout, self.node.process.stderr):
            assert stream is not None, "piped"
            stream.close()


@pytest.fixture(scope="module")
def victim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Victim]:
    found = Victim(tmp_path_factory.mktemp("victim") / "data")
    try:
        yield found
    finally:
        if found.node.process.poll() is None:
            found.stop()


def create(
    client: Client,
    name: str,
    partitions: int = 1,
    *,
    factor: int = 1,
    assignments: list[tuple[int, list[int]]] | None = None,
    configs: dict[str, str] | None = None,
) -> dict[str, Any]:
    """Create a topic. Returns its part of the response."""
    topic = {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": factor,
        "assignments": [{"partition_index": i, "broker_ids": each} for i, each in assignments or []],
        "configs": [{"name": key, "value": value} for key, value in (configs or {}).items()],
    }
    answer = client.call("create_topics", 7, topics=[topic], timeout=5000, validate_only=False)
    found: dict[str, Any] = answer["topics"][0]
    return found


# requests at random


def hostile_frame(random: Random) -> bytes:
    """Something for the broker to read."""
    choice = random.randrange(12)
    if choice == 0:
        return random.randbytes(random.randrange(200))
    api = random.choice([each for each in APIS.values() if each.key != UNREGISTER_BROKER])
    version = random.randint(api.least, api.most)
    body = whole_request(random, api.key, version)
    if choice == 1:
        other, version = ANYTHING.integer(random, 16, "key"), ANYTHING.integer(random, 16, "version")
        body = struct.pack(">hh", random.choice((api.key, other)), version) + body[4:]
    elif choice > 5:
        body = body[:8] + mutated(random, body[8:])
    size = len(body) if random.random() < 0.95 else ANYTHING.integer(random, 32, "size")
    return struct.pack(">i", size) + body


def exchange(address: Address, frames: list[bytes]) -> list[bytes | None]:
    """Send each frame on a connection of its own. Returns what arrived within a moment: bytes, b"" for a closed
    connection, None for neither."""
    with ExitStack() as stack:
        clients = [stack.enter_context(socket.create_connection(address, PATIENCE_S)) for _ in frames]
        for client, frame in zip(clients, frames, strict=True):
            client.sendall(frame)
        answers: dict[socket.socket, bytes] = {}
        deadline = time.monotonic() + ANSWER_S
        while len(answers) < len(clients) and (left := deadline - time.monotonic()) > 0:
            waiting = [each for each in clients if each not in answers]
            for client in readable(waiting, left):
                try:
                    answers[client] = client.recv(1 << 16)
                except ConnectionError:
                    answers[client] = b""
        return [answers.get(client) for client in clients]


@SEEDED
@given(st.integers(0, 2**32 - 1))
def test_anything(victim: Victim, seed: int) -> None:
    random = Random(seed)
    for _ in range(TURNS):
        exchange(victim.address, [hostile_frame(random) for _ in range(REQUESTS_AT_ONCE)])
        victim.check()
    victim.restore()


ANSWERED = [
    (api.key, version)
    for api in APIS.values()
    for version in range(api.least, api.most + 1)
    if api.key != UNREGISTER_BROKER
]
SILENT = {0, 1}
"""APIs that may leave a client without a response: Produce with acks=0, and Fetch."""


WITHOUT_TIME = {
    "describe_transactions",
    "create_delegation_token",
    "renew_delegation_token",
    "expire_delegation_token",
}
"""APIs whose responses may have a time of -1: of a transaction that has not begun, or of an unknown token."""


@settings(examples(2, soak=100), phases=[Phase.generate], database=None)
@given(st.integers(0, 2**32 - 1))
def test_whatever_reads_well_is_answered(victim: Victim, seed: int) -> None:
    """Every API at every version gets a response of its class, or a closed connection where Kafka closes it."""
    random = Random(seed)
    for key, version in ANSWERED:
        body = whole_request(random, key, version)
        with socket.create_connection(victim.address, PATIENCE_S) as sock:
            client = Client.__new__(Client)
            client.socket, client.client_id, client.correlation_id = sock, None, 1
            if key in SILENT:
                sock.settimeout(ANSWER_S)
            sock.sendall(struct.pack(">i", len(body)) + body)
            try:
                client.answer(APIS[key].name, version)
            except TimeoutError:
                assert key in SILENT, f"{APIS[key].name} {version} is not answered"
            except Closed:
                pass
            except OutOfBoundValue as error:  # kio reads no time before 1970
                if APIS[key].name not in WITHOUT_TIME or str(error) != "Cannot parse negative timestamp":
                    raise
    victim.check()
    victim.restore()


# bombs


def bomb(codec: int, count: int, *, size: int = BOMB_BYTES) -> bytes:
    """Return a batch whose small payload decompresses to much. count: the number of records that it claims."""
    if codec == GZIP:
        packer = zlib.compressobj(9, zlib.DEFLATED, 31)
        payload = b"".join(packer.compress(bytes(MIB)) for _ in range(size // MIB)) + packer.flush()
    elif codec == ZSTD:
        import zstandard

        payload = zstandard.ZstdCompressor().compress(bytes(size))
    else:
        payload = compress(codec, bytes(size))
    data = bytearray(batch(b"", codec=codec)[:61] + payload)
    struct.pack_into(">i", data, 8, len(data) - 12)
    struct.pack_into(">i", data, 23, count - 1)
    struct.pack_into(">i", data, 57, count)
    struct.pack_into(">I", data, 17, crc32c(memoryview(data)[21:]))
    return bytes(data)


@pytest.mark.parametrize("count", [1, INT_MAX])
@pytest.mark.parametrize(
    ("codec", "size"), [(GZIP, 256 * MIB), (SNAPPY, 20 * MIB), (LZ4, 200 * MIB), (ZSTD, 1024 * MIB)]
)
def test_bombs(victim: Victim, codec: int, size: int, count: int) -> None:
    """Batches within max.message.bytes whose decompressed records would fill the memory."""
    data = bomb(codec, count, size=size)
    began = time.monotonic()
    for topic in KNOWN:
        with victim.client() as client:
            partitions = [{"index": 0, "records": data}]
            topics = [{"name": topic, "partition_data": partitions}]
            answer = client.call("produce", 9, acks=-1, timeout=1000, topic_data=topics)
        assert answer["responses"][0]["partition_responses"][0]["error_code"] in (
            ErrorCode.CORRUPT_MESSAGE,
            ErrorCode.MESSAGE_TOO_LARGE,
            ErrorCode.INVALID_RECORD,
        )
    assert time.monotonic() - began < PATIENCE_S
    assert victim.rss("VmHWM") - victim.rss_at_first < 2 * RSS_GROWTH_MAX
    victim.check()


def test_records_claimed_without_any(victim: Victim) -> None:
    """A batch that is not compressed claims 2^31 records without room for one."""
    data = bytearray(batch(b"value"))
    struct.pack_into(">i", data, 57, INT_MAX)
    struct.pack_into(">i", data, 23, INT_MAX - 1)
    struct.pack_into(">I", data, 17, crc32c(memoryview(data)[21:]))
    with victim.client() as client:
        topics = [{"name": "known", "partition_data": [{"index": 0, "records": bytes(data)}]}]
        answer = client.call("produce", 9, acks=-1, timeout=1000, topic_data=topics)
    assert answer["responses"][0]["partition_responses"][0]["error_code"] in (
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.INVALID_RECORD,
    )
    victim.check()


# names, numbers


INVALID_TOPIC = 17
ILLEGAL = [
    "",
    ".",
    "..",
    "a/b",
    "../x",
    "/etc/passwd",
    "a\0b",
    "a b",
    "é",
    "\U0001f600",
    "x" * 250,
    "a\\b",
    "a\n",
    "-\u0661",
]


@pytest.mark.parametrize("name", ILLEGAL)
def test_illegal_names(victim: Victim, name: str) -> None:
    with victim.client() as client:
        assert create(client, name)["error_code"] == INVALID_TOPIC
        asked = [{"topic_id": None, "name": name}]
        answer = client.call("metadata", 12, topics=asked, allow_auto_topic_creation=True)
        assert answer["topics"][0]["error_code"] == INVALID_TOPIC
        topics = [{"name": name, "partition_data": [{"index": 0, "records": bytes(batch(b"a"))}]}]
        answer = client.call("produce", 9, acks=-1, timeout=1000, topic_data=topics)
        assert answer["responses"][0]["partition_responses"][0]["error_code"] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert (
            client.call("delete_topics", 5, topic_names=[name], timeout=1000)["responses"][0]["error_code"]
            == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        )
    victim.check()


def test_longest_name(victim: Victim) -> None:
    """A name of 249 characters, to which a partition's number and the suffix of a deleted directory are added."""
    name = "x" * 249
    with victim.client() as client:
        assert create(client, name)["error_code"] == 0
        topics = [{"name": name, "partition_data": [{"index": 0, "records": bytes(batch(b"a"))}]}]
        answer = client.call("produce", 9, acks=-1, timeout=1000, topic_data=topics)
        assert answer["responses"][0]["partition_responses"][0]["error_code"] == 0
        assert client.call("delete_topics", 5, topic_names=[name], timeout=1000)["responses"][0]["error_code"] == 0
    victim.check()


INVALID_PARTITIONS, INVALID_FACTOR, INVALID_ASSIGNMENT, INVALID_REQUEST, POLICY = 37, 38, 39, 42, 44


@pytest.mark.parametrize(
    ("partitions", "factor", "assignments", "code"),
    [
        (INT_MAX, 1, [], POLICY),
        (10_001, 1, [], POLICY),
        (INT_MIN, 1, [], INVALID_PARTITIONS),
        (0, 1, [], INVALID_PARTITIONS),
        (1, 32_767, [], INVALID_FACTOR),
        (1, -32_768, [], INVALID_FACTOR),
        (INT_MAX, 1, [(0, [1])], INVALID_REQUEST),
        (-1, -1, [(INT_MAX, [1])], INVALID_ASSIGNMENT),
        (-1, -1, [(0, [1] * 100_000)], INVALID_ASSIGNMENT),
        (-1, -1, [(0, [INT_MIN, INT_MAX])], INVALID_ASSIGNMENT),
        (-1, -1, [(0, [])], INVALID_ASSIGNMENT),
        (-1, -1, [(i, [1]) for i in range(10_001)], POLICY),
    ],
)
def test_absurd_numbers_of_partitions(
    victim: Victim, partitions: int, factor: int, assignments: list[tuple[int, list[int]]], code: int
) -> None:
    began = time.monotonic()
    with victim.client() as client:
        assert create(client, "absurd", partitions, factor=factor, assignments=assignments)["error_code"] == code
    assert time.monotonic() - began < PATIENCE_S
    victim.check()


@pytest.mark.parametrize(("count", "code"), [(INT_MAX, -1), (20_000, -1), (INT_MIN, INVALID_PARTITIONS), (1, 37)])
def test_absurd_numbers_of_more_partitions(victim: Victim, count: int, code: int) -> None:
    """A request whose change needs more than 10,000 records is refused, by CreatePartitions with
    UNKNOWN_SERVER_ERROR."""
    began = time.monotonic()
    with victim.client() as client:
        topics = [{"name": "known", "count": count, "assignments": None}]
        answer = client.call("create_partitions", 3, topics=topics, timeout=1000, validate_only=False)
        assert answer["results"][0]["error_code"] == code
    assert time.monotonic() - began < PATIENCE_S
    victim.check()


# clients that stall, promise, storm


def test_slow_readers(victim: Victim) -> None:
    """Fifty clients fetch megabytes and read nothing; the broker keeps files open, and no bytes in memory."""
    with victim.client() as client:
        topics = [{"name": "known", "partition_data": [{"index": 0, "records": bytes(batch(bytes(900_000)))}]}]
        for _ in range(10):
            answer = client.call("produce", 9, acks=-1, timeout=1000, topic_data=topics)
            assert answer["responses"][0]["partition_responses"][0]["error_code"] == 0
        end = answer["responses"][0]["partition_responses"][0]["base_offset"]
        wanted = {"partition": 0, "fetch_offset": end - 9, "partition_max_bytes": 10 * MIB}
        body = {"replica_id": -1, "max_wait": 0, "min_bytes": 1, "max_bytes": 10 * MIB, "isolation_level": 0}
        session = {"session_id": 0, "session_epoch": -1, "forgotten_topics_data": [], "rack_id": ""}
        asked = client.frame("fetch", 11, {**body, **session, "topics": [{"topic": "known", "partitions": [wanted]}]})
        with ExitStack() as stack:
            slow = [stack.enter_context(victim.client()) for _ in range(50)]
            for each in slow:
                each.socket.sendall(asked * 20)
            time.sleep(0.5)
            victim.check()
            slow[0].correlation_id = client.correlation_id
            answer = slow[0].answer("fetch", 11)
            assert len(b64decode(answer["responses"][0]["partitions"][0]["records"])) > 5 * MIB
    victim.check()


def test_promises(victim: Victim) -> None:
    """Three hundred clients announce 100 MB and send one byte."""
    with ExitStack() as stack:
        for _ in range(300):
            each = stack.enter_context(socket.create_connection(victim.address, PATIENCE_S))
            each.sendall(struct.pack(">i", 100_000_000) + b"\0")
        victim.check()
    victim.check()


def test_storm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Five hundred connections open and close at once, some in the middle of a request, some with a reset."""
    monkeypatch.setattr("kcli.broker.network.server.IDLE_CHECK_S", 0.2)
    random = Random(7)
    reset = struct.pack("ii", 1, 0)
    with running_node(tmp_path, auto_create_topics_enable="false") as node:
        for _ in range(500):
            with socket.create_connection(node.address, PATIENCE_S) as each:
                each.sendall(hostile_frame(random)[: random.randrange(60)])
                if random.random() < 0.5:
                    each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
        server = node.node._server
        assert server is not None
        deadline = time.monotonic() + PATIENCE_S
        while server.connections and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not server.connections
        with node.client() as client:
            assert client.call("api_versions", 0)["error_code"] == 0


def test_half_closed(victim: Victim) -> None:
    """A client that has closed its end for writing still gets its response."""
    with victim.client() as client:
        client.socket.sendall(client.frame("api_versions", 0, {}))
        client.socket.shutdown(socket.SHUT_WR)
        assert client.answer("api_versions", 0)["error_code"] == 0
        assert client.is_closed()


def test_it_stops_and_starts_in_order(victim: Victim) -> None:
    """After all requests the broker stops in order and starts with the known topics."""
    victim.restore()
    with victim.client() as client:
        before = {each["topic_id"] for each in victim.topics(client)}
    victim.stop()
    again = Victim(victim.directory)
    with again.client() as client:
        assert {each["topic_id"] for each in again.topics(client)} == before
    again.stop()
