"""Channels to other nodes: they agree on versions, match responses to requests, do not copy records, and recover from
lost connections."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from formats.batch_writer import write_batch
from kcli.broker.network.client import SocketNetwork
from kcli.broker.network.peers import (
    Unanswered,
    VersionMismatch,
    api_named,
    newest_version,
    read_response,
)
from kcli.broker.wire import fetch_response
from kcli.broker.wire.messages import messages
from kcli.protocol.error_code import ErrorCode
from kcli.testing.wire import message
from tests.broker.running import RunningNode, running_node

Run = Callable[[SocketNetwork], Awaitable[None]]


def talk(run: Run) -> None:
    """Run a coroutine with a network of its own."""

    async def inner() -> None:
        network = SocketNetwork(asyncio.get_running_loop())
        try:
            async with asyncio.timeout(30):
                await run(network)
        finally:
            network.close()

    asyncio.run(inner())


@asynccontextmanager
async def answering(answer: Callable[[int, int], bytes | None]) -> AsyncIterator[int]:
    """Run a server that answers ApiVersions, then with what `answer` returns for key and correlation id. Returns its
    port."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4)))
                key, _, number = struct.unpack_from(">hhi", frame)
                if key == 18:
                    kind = messages(18, 3)
                    keys = [{"api_key": each, "min_version": 0, "max_version": 99} for each in (1, 3, 18)]
                    value = {"error_code": ErrorCode.NONE, "api_keys": keys, "throttle_time": 0}
                    body = message(kind.response_type, value)
                    data = kind.encode(number, body)
                else:
                    found = answer(key, number)
                    if found is None:
                        return
                    data = found
                writer.write(data)
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


@pytest.fixture
def node(tmp_path: Path) -> object:
    with running_node(tmp_path) as running:
        yield running


def test_calls_are_answered_each_with_its_own(node: RunningNode) -> None:
    async def run(network: SocketNetwork) -> None:
        channel = network.channel(*node.address, "test")
        answers = await asyncio.gather(
            channel.call("describe_cluster", None, timeout_s=5, include_cluster_authorized_operations=False),
            channel.call("metadata", 12, timeout_s=5, topics=[]),
            channel.call("describe_cluster", 0, timeout_s=5),
        )
        assert [type(each).__name__ for each in answers] == [
            "DescribeClusterResponse",
            "MetadataResponse",
            "DescribeClusterResponse",
        ]
        assert answers[0].__version__ == api_named("describe_cluster").most
        assert answers[2].__version__ == 0

    talk(run)


def test_records_of_a_fetch_are_views_of_its_frame(node: RunningNode) -> None:
    with node.client() as client:
        client.create_topic("t", 1)
        batches = b"".join(bytes(write_batch([(None, bytes(100_000))], 1)) for _ in range(5))
        topic = node.run(lambda: node.node.broker.image.topics["t"])

    async def run(network: SocketNetwork) -> None:
        channel = network.channel(*node.address, "test")
        for k in range(5):
            each = batches[k * len(batches) // 5 : (k + 1) * len(batches) // 5]
            fields = {"acks": -1, "timeout": 5000, "transactional_id": None}
            data = [{"name": "t", "partition_data": [{"index": 0, "records": each}]}]
            made = await channel.call("produce", 9, timeout_s=5, **fields, topic_data=data)
            assert made.responses[0].partition_responses[0].base_offset == k
        partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
        topics = [{"topic_id": topic.id, "partitions": [partition]}]
        found = await channel.call("fetch", 17, timeout_s=5, max_wait=100, min_bytes=1, topics=topics)
        (data,) = found.responses[0].partitions
        assert found.responses[0].topic_id == topic.id
        assert isinstance(data.records, memoryview)
        assert len(data.records) == len(batches)
        assert (data.high_watermark, data.error_code) == (5, ErrorCode.NONE)

    talk(run)


def test_nobody_there_is_unanswered_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

    async def run(network: SocketNetwork) -> None:
        channel = network.channel("127.0.0.1", port, "test")
        for _ in range(3):
            with pytest.raises(Unanswered, match="refused"):
                await channel.call("metadata", 12, timeout_s=5, topics=[])

    talk(run)


def test_one_that_says_nothing_is_unanswered_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]

        async def run(network: SocketNetwork) -> None:
            channel = network.channel("127.0.0.1", port, "test")
            with pytest.raises(Unanswered, match="within"):
                await channel.call("metadata", 12, timeout_s=0.1, topics=[])

        talk(run)


def test_a_request_without_its_answer_ends_the_connection() -> None:
    async def run(network: SocketNetwork) -> None:
        async with answering(lambda _, __: b"") as port:
            channel = network.channel("127.0.0.1", port, "test")
            waiting = asyncio.create_task(channel.call("metadata", 12, timeout_s=5, topics=[]))
            with pytest.raises(Unanswered, match="in time"):
                await channel.call("metadata", 12, timeout_s=0.1, topics=[])
            with pytest.raises(Unanswered, match="in time"):
                await waiting

    talk(run)


def test_one_that_is_not_known_yet_takes_no_memory() -> None:
    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((1 << 30).to_bytes(4))
        writer.close()

    async def run(network: SocketNetwork) -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            channel = network.channel("127.0.0.1", server.sockets[0].getsockname()[1], "test")
            with pytest.raises(Unanswered, match="an answer of 1,073,741,824 bytes"):
                await channel.call("metadata", 12, timeout_s=5, topics=[])

    talk(run)


def test_a_lost_connection_is_made_again(tmp_path: Path) -> None:
    async def run(network: SocketNetwork) -> None:
        calls = 0

        def answer(_: int, number: int) -> bytes | None:
            nonlocal calls
            calls += 1
            if calls == 1:
                return None
            kind = messages(3, 12)
            body = {"brokers": [], "topics": [], "throttle_time": 0, "controller_id": 1}
            return kind.encode(number, message(kind.response_type, body))

        async with answering(answer) as port:
            channel = network.channel("127.0.0.1", port, "test")
            with pytest.raises(Unanswered, match="the other side has closed the connection"):
                await channel.call("metadata", 12, timeout_s=5, topics=[])
            found = await channel.call("metadata", 12, timeout_s=5, topics=[])
            assert found.controller_id == 1
            channel.close()
            with pytest.raises(Unanswered, match="closed"):
                await channel.call("metadata", 12, timeout_s=5, topics=[])

    talk(run)


def test_versions_are_those_that_both_speak() -> None:
    fetch = api_named("fetch")
    assert newest_version(fetch, {1: (4, 17)}) == 17
    assert newest_version(fetch, {1: (4, 99)}) == fetch.most
    with pytest.raises(VersionMismatch, match="speaks versions 4 to 18, the other 1 to 3"):
        newest_version(fetch, {1: (1, 3)})
    with pytest.raises(VersionMismatch, match="none"):
        newest_version(fetch, {})


def test_fetch_responses_are_read_as_kio_reads_them() -> None:
    partition = {
        "partition_index": 3,
        "error_code": ErrorCode.OFFSET_OUT_OF_RANGE,
        "high_watermark": 9,
        "last_stable_offset": 8,
        "log_start_offset": 1,
        "diverging_epoch": {"epoch": 4, "end_offset": 7},
        "current_leader": {"leader_id": 2, "leader_epoch": 5},
        "snapshot_id": {"end_offset": 6, "epoch": 3},
        "aborted_transactions": [{"producer_id": 11, "first_offset": 12}],
        "records": b"abc",
    }
    empty = {
        "partition_index": 4,
        "error_code": ErrorCode.NONE,
        "high_watermark": 0,
        "aborted_transactions": None,
        "records": None,
    }
    endpoints = [{"node_id": 1, "host": "here", "port": 9092, "rack": None}]
    for version in (13, 16, 17, 18):
        kind = messages(1, version)
        topics = [{"topic_id": "AAAAAAAAAAAAAAAAAAAAAQ", "partitions": [partition, empty]}]
        value = {"throttle_time": 0, "error_code": ErrorCode.NONE, "session_id": 5, "responses": topics}
        response = message(kind.response_type, value | ({"node_endpoints": endpoints} if version >= 16 else {}))
        frame = kind.encode(7, response)
        found = read_response(kind, memoryview(frame)[4:])
        assert isinstance(found, fetch_response.FetchResponse)
        full, nothing = found.responses[0].partitions
        expected = response.responses[0].partitions[0]
        for name in ("diverging_epoch", "current_leader", "snapshot_id"):
            theirs = getattr(expected, name)
            assert getattr(full, name)._asdict() == {each: getattr(theirs, each) for each in theirs.__slots__}
        assert full.records is not None
        assert bytes(full.records) == b"abc"
        assert (full.error_code, full.log_start_offset) == (ErrorCode.OFFSET_OUT_OF_RANGE, 1)
        assert full.aborted_transactions is not None
        assert [tuple(each) for each in full.aborted_transactions] == [(11, 12)]
        assert (nothing.records, nothing.aborted_transactions) == (None, None)
        assert [each.host for each in found.node_endpoints] == (["here"] if version >= 16 else [])
        for size in range(4, len(frame) - 4):
            with pytest.raises(Unanswered):
                read_response(kind, memoryview(frame)[4 : 4 + size])
