"""Batches behind one that waits for its followers are appended at once, and all responses are in order."""

from __future__ import annotations

import asyncio
from pathlib import Path

from kcli.broker.dispatch.routing import Router
from kcli.broker.network.peers import api_named, new_request, read_response, request_frame
from kcli.broker.network.server import Server
from kcli.broker.wire.messages import messages
from kcli.protocol.error_code import ErrorCode
from tests.broker.replication.brokers import LISTENER, Brokers, run, until
from tests.log.batches import batch

NONE = ErrorCode.NONE


def frame(api: str, version: int, correlation_id: int, **fields: object) -> bytes:
    return request_frame(
        messages(api_named(api).key, version),
        "c",
        correlation_id,
        new_request(messages(api_named(api).key, version), fields),
    )


def produce(correlation_id: int, acks: int = -1, topic: str = "t") -> bytes:
    data = {"name": topic, "partition_data": [{"index": 0, "records": bytes(batch(b"x"))}]}
    return frame("produce", 9, correlation_id, acks=acks, timeout=3000, topic_data=[data])


async def answers(reader: asyncio.StreamReader, count: int) -> list[memoryview]:
    found = []
    for _ in range(count):
        size = int.from_bytes(await reader.readexactly(4))
        found.append(memoryview(await reader.readexactly(size)))
    return found


def test_answers_keep_their_order(tmp_path: Path) -> None:
    async def check(cluster: Brokers) -> None:
        await cluster.start(1, 2)
        cluster.create_topic(replicas=(1, 2))
        assert await cluster.produce(1, b"first") == (NONE, 0)
        server = Server(cluster.nodes[1].config, asyncio.get_running_loop())
        host, port = server.bind("127.0.0.1", 0, LISTENER)
        server.serve(Router(cluster.nodes[1]))
        reader, writer = await asyncio.open_connection(host, port)
        cluster.nodes[2].replicas.stop()
        metadata = frame("api_versions", 3, 5, client_software_name="c", client_software_version="1")
        writer.write(produce(1) + produce(2) + produce(3, topic="none") + produce(4, acks=1) + metadata + produce(6))
        await until(lambda: cluster.partition(1).log.log_end_offset == 4)
        await asyncio.sleep(0.02)
        assert cluster.partition(1).log.log_end_offset == 4  # another request waits for its turn
        cluster.nodes[2].replicas.start()
        found = await asyncio.wait_for(answers(reader, 6), 5)
        assert [int.from_bytes(each[:4]) for each in found] == [1, 2, 3, 4, 5, 6]
        kind = messages(0, 9)
        results = [read_response(kind, found[i]).responses[0].partition_responses[0] for i in (0, 1, 2, 3, 5)]
        assert [(each.error_code, each.base_offset) for each in results] == [
            (NONE, 1),
            (NONE, 2),
            (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
            (NONE, 3),
            (NONE, 4),
        ]
        for i in range(100):
            writer.write(produce(10 + i))
        found = await asyncio.wait_for(answers(reader, 100), 10)
        assert [int.from_bytes(each[:4]) for each in found] == list(range(10, 110))
        assert cluster.partition(1).log.high_watermark == 105
        cluster.nodes[2].replicas.stop()
        writer.write(produce(1))
        await until(lambda: cluster.partition(1).log.log_end_offset == 106)
        writer.close()
        await asyncio.sleep(0.02)
        server.close()

    run(tmp_path, check)
