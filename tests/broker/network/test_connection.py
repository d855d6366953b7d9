"""Frames: whole, in pieces, many at once, absurd; clients that do not read; connections that are closed or stay."""

from __future__ import annotations

import os
import random
import socket
import struct
import threading
import time
from collections.abc import Coroutine, Iterator
from contextlib import ExitStack
from inspect import CORO_CLOSED, getcoroutinestate
from pathlib import Path
from typing import Any

import pytest

from kcli.broker.network.request_memory import RequestMemory
from kcli.broker.wire.apis import BROKER_APIS as APIS
from kcli.protocol.error_code import ErrorCode
from tests.broker.rounds import rounds_of
from tests.broker.running import Closed, RunningNode, running_node

UNSUPPORTED_VERSION = 35
API_VERSIONS = APIS[18]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    with running_node(tmp_path_factory.mktemp("data"), socket_request_max_bytes="100000") as running:
        yield running


def software(version: int) -> dict[str, str]:
    return {"client_software_name": "a", "client_software_version": "1"} if version >= 3 else {}


@pytest.mark.parametrize("version", range(API_VERSIONS.most + 1))
def test_api_versions(node: RunningNode, version: int) -> None:
    with node.client() as client:
        answer = client.call("api_versions", version, **software(version))
    assert answer["error_code"] == 0
    served = {each["api_key"]: (each["min_version"], each["max_version"]) for each in answer["api_keys"]}
    assert served == {api.key: (0 if api.key == 0 else api.least, api.most) for api in APIS.values()}


def test_newer_version_of_api_versions(node: RunningNode) -> None:
    """The broker answers in version 0, from which the client learns the versions."""
    with node.client() as client:
        client.correlation_id = 7
        client.socket.sendall(struct.pack(">ihhih", 13, 18, 99, 7, 0) + b"\0\0\0")
        answer = client.answer("api_versions", 0)
    assert answer["error_code"] == UNSUPPORTED_VERSION
    assert {"api_key": 18, "min_version": 0, "max_version": 4} in answer["api_keys"]


@pytest.mark.parametrize("name", ["", "-a", "a b", "ü"])
def test_software_names(node: RunningNode, name: str) -> None:
    with node.client() as client:
        answer = client.call("api_versions", 3, client_software_name=name, client_software_version="1")
    assert answer["error_code"] == ErrorCode.INVALID_REQUEST


def test_byte_by_byte(node: RunningNode) -> None:
    with node.client() as client:
        frame = client.frame("api_versions", 4, software(4))
        for i in range(len(frame)):
            client.socket.sendall(frame[i : i + 1])
            time.sleep(0.0005)
        assert client.answer("api_versions", 4)["error_code"] == 0


def test_many_at_once_are_answered_in_order(node: RunningNode) -> None:
    with node.client() as client:
        client.socket.sendall(b"".join(client.frame("api_versions", 2, {}) for _ in range(500)))
        client.correlation_id = 0
        for _ in range(500):
            client.correlation_id += 1
            assert client.answer("api_versions", 2)["error_code"] == 0


def test_floods_of_requests_leave_turns_to_others(tmp_path: Path) -> None:
    """However many requests arrive on some connections, each connection gets a few milliseconds in a round."""
    names = [f"t{i}" for i in range(100)]
    with running_node(tmp_path / "data") as node, ExitStack() as stack:
        clients = [stack.enter_context(node.client()) for _ in range(8)]
        new = {"num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
        topics = [{"name": each, **new} for each in names]
        clients[0].call("create_topics", 7, topics=topics, timeout=10_000, validate_only=False)
        clients[0].wait_for_leaders(names[-1])
        asked = [clients[0].frame("metadata", 12, {"topics": None})] * 64
        with rounds_of(node) as rounds:
            for each in clients:
                each.socket.sendall(b"".join(asked))
            for each in clients:
                assert all(each.read_frame() for _ in asked)
    assert rounds.are_even, rounds


def test_client_id_null(node: RunningNode) -> None:
    with node.client(client_id=None) as client:
        assert client.call("api_versions", 0)["error_code"] == 0


@pytest.mark.parametrize("client_id", [b"\xff\xfe", b"a\xed\xa0\x80b", b"\xc3"])
def test_client_id_not_utf8(node: RunningNode, client_id: bytes) -> None:
    """Kafka decodes every string with replacement characters, and answers."""
    with node.client() as client:
        client.correlation_id = 1
        client.socket.sendall(struct.pack(">ihhih", 10 + len(client_id), 18, 0, 1, len(client_id)) + client_id)
        assert client.answer("api_versions", 0)["error_code"] == 0


@pytest.mark.parametrize(
    "frame",
    [
        struct.pack(">i", -1),
        struct.pack(">i", 100_001) + bytes(10),
        struct.pack(">i", 2**31 - 1),
        struct.pack(">i", 0),
        struct.pack(">i", 3) + bytes(3),
        struct.pack(">ihhih", 10, 999, 0, 1, -1),  # an API that there is not
        struct.pack(">ihhih", 10, 3, 99, 1, -1),  # a version that there is not
        struct.pack(">ihhih", 10, 0, 2, 1, -1),  # Produce 2, advertised for old clients only
        struct.pack(">ihhih", 10, 18, 0, 1, -2),  # a client id of length -2
        struct.pack(">ihhih", 10, 18, 0, 1, 500),
        struct.pack(">ihhih", 15, 18, 4, 1, -1) + b"\xff\xff\xff\xff\xff",  # endless tagged fields
        struct.pack(">ihhih", 12, 18, 4, 1, -1) + b"\x01\x00",
        struct.pack(">ihhih", 14, 3, 1, 1, -1) + struct.pack(">i", 2**31 - 1),  # 2 G topics
        struct.pack(">ihhih", 14, 3, 1, 1, -1) + struct.pack(">i", -5),
    ],
)
def test_what_is_no_request_closes_the_connection(node: RunningNode, frame: bytes) -> None:
    with node.client() as client:
        client.socket.sendall(frame)
        assert client.is_closed()
    with node.client() as client:
        assert client.call("api_versions", 0)["error_code"] == 0


def test_random_bytes(node: RunningNode) -> None:
    """Frames with a request's header and random bytes behind it get a response or a closed connection."""
    draw = random.Random(4)
    for _ in range(300):
        api = draw.choice(list(APIS.values()))
        body = struct.pack(">hhih", api.key, draw.randint(api.least, api.most), 1, -1) + draw.randbytes(
            draw.choice((0, 1, 5, 20, 100, 1000))
        )
        with node.client() as client:
            client.socket.settimeout(0.3)
            client.socket.sendall(struct.pack(">i", len(body)) + body)
            try:
                client.read_frame()
            except (Closed, TimeoutError):
                continue
    with node.client() as client:
        assert client.call("api_versions", 0)["error_code"] == 0


def test_half_open_connections_cost_no_memory(node: RunningNode) -> None:
    """A hundred clients announce 100 kB each and send nothing more; other clients are answered."""
    waiting = [socket.create_connection(node.address) for _ in range(100)]
    for each in waiting:
        each.sendall(struct.pack(">i", 100_000))
    with node.client() as client:
        assert client.call("api_versions", 0)["error_code"] == 0
    for each in waiting:
        each.close()


def test_few_long_requests_are_decoded_at_the_same_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each lists 20,000 unknown partitions in 160 kB; decoded, and with their responses, they take forty times that."""
    partitions = [{"index": number, "records": b""} for number in range(20_000)]
    body: dict[str, Any] = {"transactional_id": None, "acks": 1, "timeout": 1000}
    body |= {"topic_data": [{"name": "none", "partition_data": partitions}]}
    with running_node(tmp_path / "data") as node, ExitStack() as stack:
        clients = [stack.enter_context(node.client()) for _ in range(6)]
        frame = clients[0].frame("produce", 7, body)
        assert len(frame) > 150_000
        free: list[int] = []
        memory = RequestMemory(200_000)
        take = memory.take
        node.node.server._decoded["produce"] = memory

        def noted(count: int) -> bool:
            taken = take(count)
            assert memory.free_bytes is not None
            free.append(memory.free_bytes)
            return taken

        monkeypatch.setattr(memory, "take", noted)
        for client in clients:
            client.socket.sendall(frame)
        gone = node.client()
        gone.socket.sendall(frame)
        gone.socket.close()
        with node.client() as other:
            assert other.call("api_versions", 0)["error_code"] == 0
        for client in clients:
            client.correlation_id += client is not clients[0]
            answer = client.answer("produce", 7)
            assert len(answer["responses"][0]["partition_responses"]) == 20_000
        assert -2 * len(frame) < min(free) < 0, "one begins while a byte is free"


def test_requests_of_all_connections_share_their_memory(tmp_path: Path) -> None:
    """The limit is Kafka's queued.max.request.bytes: a request that does not fit waits in its socket, and small ones
    are served."""
    size = 1_000_000
    with (
        running_node(tmp_path / "data", socket_request_max_bytes=str(size), queued_max_request_bytes=str(size)) as node,
        ExitStack() as stack,
    ):
        first, second, small = (stack.enter_context(node.client()) for _ in range(3))
        first.socket.sendall(struct.pack(">i", size))
        assert small.call("api_versions", 2)["error_code"] == 0
        topics = [{"topic_id": None, "name": f"topic-{i:06}"} for i in range(30_000)]
        body = {"topics": topics, "allow_auto_topic_creation": False, "include_topic_authorized_operations": False}
        second.socket.sendall(second.frame("metadata", 12, body))
        second.socket.settimeout(0.5)
        with pytest.raises(TimeoutError):
            second.answer("metadata", 12)
        assert small.call("api_versions", 2)["error_code"] == 0
        first.socket.close()
        second.socket.settimeout(30)
        assert len(second.answer("metadata", 12)["topics"]) == len(topics)


def test_client_that_does_not_read(node: RunningNode) -> None:
    """Its requests stay in the socket once its responses fill the send buffer; the broker keeps only what it reads at
    once."""
    with node.client() as client:
        client.socket.settimeout(0)
        frames = client.frame("api_versions", 2, {}) * 2000
        sent = 0
        try:
            while sent < 200 << 20:
                sent += client.socket.send(frames)
        except BlockingIOError:
            pass
        with node.client() as other:
            assert other.call("api_versions", 0)["error_code"] == 0
        waiting = node.run(lambda: [each._out.size_bytes for each in node.node._server.connections])  # type: ignore[union-attr]
        assert max(waiting) < 2 << 20


def test_an_answer_that_is_not_begun_when_the_connection_goes(
    node: RunningNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python must not warn of a coroutine that was never awaited."""
    answers: list[Coroutine[None, None, None]] = []
    server = node.node.server

    async def answer() -> None:
        raise AssertionError("nobody waits for it")

    def handle(*_: object) -> Coroutine[None, None, None]:
        for each in server.connections:
            server.loop.call_soon(each.close)
        answers.append(answer())
        return answers[-1]

    monkeypatch.setattr(server, "handle", handle)
    with node.client() as client:
        client.socket.sendall(client.frame("api_versions", 0, {}))
        assert client.is_closed()
    until = time.monotonic() + 10
    while getcoroutinestate(answers[0]) != CORO_CLOSED and time.monotonic() < until:
        time.sleep(0.01)  # the broker's thread may still be busy with it
    assert {getcoroutinestate(each) for each in answers} == {CORO_CLOSED}


def test_limits_of_connections(tmp_path: Path) -> None:
    with running_node(tmp_path, max_connections="3", max_connections_per_ip="2") as node:
        first, second = node.client(), node.client()
        assert first.call("api_versions", 0)["error_code"] == 0
        assert second.call("api_versions", 0)["error_code"] == 0
        third = node.client()
        assert third.is_closed()
        third.socket.close()
        second.socket.close()
        time.sleep(0.1)
        with node.client() as again:
            assert again.call("api_versions", 0)["error_code"] == 0
        first.socket.close()


def test_a_burst_of_connections_waits_in_the_backlog(tmp_path: Path) -> None:
    """A busy broker accepts connections late: a client that finds no room in the backlog tries again after a second."""
    most = Path("/proc/sys/net/core/somaxconn")
    if not most.exists() or int(most.read_text()) < 1000:
        pytest.skip("this system has no backlog of 1,000")
    with running_node(tmp_path / "data", socket_listen_backlog_size="1000") as node, ExitStack() as stack:
        stopped, go_on = threading.Event(), threading.Event()

        def be_busy() -> None:
            stopped.set()
            go_on.wait(10)

        node.loop.call_soon_threadsafe(be_busy)
        assert stopped.wait(10)
        clients = [stack.enter_context(socket.socket()) for _ in range(600)]
        for client in clients:
            client.settimeout(0.9)
            client.connect(node.address)
        go_on.set()
        frame = struct.pack(">ihhih", 10, 18, 0, 1, -1)
        for client in clients:
            client.settimeout(10)
            client.sendall(frame)
        assert all(client.recv(4) for client in clients)


@pytest.mark.parametrize(("configured", "expected"), [("102400", 204_800), ("30000", 60_000), ("-1", None)])
def test_the_send_buffer_of_a_connection(configured: str, expected: int | None, tmp_path: Path) -> None:
    """socket.send.buffer.bytes, of which Linux reserves twice as much; -1 leaves it to the system."""
    with running_node(tmp_path / "data", socket_send_buffer_bytes=configured) as node, node.client() as client:
        client.call("api_versions", 0)
        (connection,) = node.run(lambda: list(node.node.server.connections))
        with socket.socket(fileno=os.dup(connection._socket.fileno())) as accepted:
            found = accepted.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
    assert found == expected or (expected is None and found > 204_800)


def test_idle_connections_are_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kcli.broker.network.server.IDLE_CHECK_S", 0.1)
    with running_node(tmp_path, connections_max_idle_ms="300") as node, node.client() as client:
        assert client.call("api_versions", 0)["error_code"] == 0
        began = time.monotonic()
        assert client.is_closed()
        assert 0.1 < time.monotonic() - began < 5
