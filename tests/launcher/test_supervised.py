"""A node's end of the socket between it and its launcher."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from kcli.broker.startup.supervised import Supervised
from kcli.errors import KcliError

WAIT_S = 10.0


class Member:
    """Notes what it is told."""

    def __init__(self, failure: KcliError | None = None) -> None:
        self.listening: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.told: list[object] = []
        self._failure = failure

    @property
    def leads_quorum(self) -> bool:
        return "stop" in self.told

    def stand_for_election(self) -> None:
        self.told.append("elect")

    def peer_died(self, node_id: int, /) -> None:
        self.told.append(("died", node_id))

    def peer_started(self, node_id: int, /) -> None:
        self.told.append(("started", node_id))

    async def stop_broker(self) -> None:
        self.told.append("stop")
        if self._failure is not None:
            raise self._failure


@asynccontextmanager
async def supervised(
    member: Member, stop: Callable[[], None] = lambda: None
) -> AsyncIterator[tuple[Supervised, asyncio.StreamReader, asyncio.StreamWriter]]:
    """Yield the node's end of the socket, and the launcher's as a stream."""
    ours, theirs = socket.socketpair()
    node = Supervised(theirs, member, stop)
    reader, writer = await asyncio.open_connection(sock=ours)
    try:
        yield node, reader, writer
    finally:
        writer.close()
        asyncio.get_running_loop().remove_reader(theirs)
        theirs.close()


def test_what_the_launcher_says() -> None:
    async def run() -> None:
        member = Member()
        async with supervised(member) as (node, reader, writer):
            node.ready()
            writer.write(b'{"elect": true}\n{"died": 2}\n{"sta')
            await asyncio.sleep(0.01)
            writer.write(b'rted": 2}\n{"what is": "this"}\n')
            member.listening.set_result(None)
            writer.write(b'{"stop": "broker"}\n')
            lines = [await asyncio.wait_for(reader.readline(), WAIT_S) for _ in range(3)]
        assert lines == [b'{"ready": true}\n', b'{"listening": true}\n', b'{"broker_stopped": true, "leads": true}\n']
        assert member.told == ["elect", ("died", 2), ("started", 2), "stop"]

    asyncio.run(run())


def test_a_broker_that_does_not_stop_in_order_has_stopped_too(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        async with supervised(Member(KcliError("no quorum"))) as (_, reader, writer):
            writer.write(b'{"stop": "broker"}\n')
            assert (await asyncio.wait_for(reader.readline(), WAIT_S)).startswith(b'{"broker_stopped": true')

    asyncio.run(run())
    assert "not stopped in order: no quorum" in caplog.text


def test_the_end_of_the_launcher() -> None:
    async def run() -> None:
        ended = asyncio.Event()
        async with supervised(Member(), ended.set) as (_, _, writer):
            writer.close()
            await asyncio.wait_for(ended.wait(), WAIT_S)

    asyncio.run(run())
