"""Run a node in this process until a signal, or an error that leaves nothing to serve with."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import socket
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from kcli.broker.addresses import CannotServe
from kcli.broker.logs.descriptors import raise_limit
from kcli.broker.node import Node, NotInOrder
from kcli.broker.unattended import attend

if TYPE_CHECKING:
    from kcli.broker.config import BrokerConfig
    from kcli.log.disk import Disk

log = logging.getLogger("kcli.broker")
AT_ONCE_STATUS = 130
LOOK_S = 0.05
GARBAGE_OBJECTS = 20_000
FULL_COLLECTION_EVERY = 100
"""Of the second generation: a full one looks at the million objects of a long answer, and holds all clients up."""


def serve(
    config: BrokerConfig,
    ready: Callable[[Node], None],
    *,
    read_only: bool = False,
    joinable: bool = False,
    allow_strays: bool = False,
    launcher: socket.socket | None = None,
    disk: Disk | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT; a second one ends the process at once. Raises KcliError, OSError.

    joinable, allow_strays: see Node. launcher: the socket to it, where there is one (see supervised).
    """
    raise_limit()
    node = partial(_new_node, config, disk, read_only=read_only, joinable=joinable, allow_strays=allow_strays)
    _new_loop().run_until_complete(_serve(config, node, ready, launcher))


def _new_loop() -> asyncio.AbstractEventLoop:
    """uvloop, where there is one for this platform."""
    try:
        from uvloop import new_event_loop
    except ImportError:
        return asyncio.new_event_loop()
    return new_event_loop()


async def _serve(
    config: BrokerConfig,
    new_node: Callable[[], Node],
    ready: Callable[[Node], None],
    launcher: socket.socket | None,
) -> None:
    loop = asyncio.get_running_loop()
    attend(loop)
    signalled: asyncio.Future[None] = loop.create_future()

    def end(reason: str) -> None:
        if signalled.done():
            os._exit(AT_ONCE_STATUS)
        log.info("%s: shutting down", reason)
        signalled.set_result(None)

    def alone() -> None:
        if not signalled.done():
            end("the launcher has gone")

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end, number.name)
    for warning in config.warnings:
        log.warning("%s", warning)
    node = new_node()
    supervised = None
    if launcher is not None:
        from kcli.broker.supervised import Supervised

        supervised = Supervised(launcher, node, alone)
    if not await _started(node, signalled):
        return
    gc.collect()
    gc.freeze()  # what there is stays: a full collection that looks at all of it takes 30 ms
    gc.set_threshold(GARBAGE_OBJECTS, 10, FULL_COLLECTION_EVERY)  # requests leave hardly any cycles
    try:
        ready(node)
        if supervised is not None:
            supervised.ready()
        ends: list[asyncio.Future[Any]] = [signalled, node.ended]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await stop(node)


async def stop(node: Node) -> None:
    """Stop it in order. Raises CannotServe: why it had to end; else NotInOrder."""
    try:
        await node.stop()
    except NotInOrder:
        if not node.ended.done():
            raise
    if node.ended.done():
        raise CannotServe(node.ended.result())


async def _started(node: Node, signalled: asyncio.Future[None]) -> bool:
    """Start it. Is it up? Not where the signal came while it waits for other nodes, which may be for ever."""
    starting = asyncio.ensure_future(node.start())
    awaited: list[asyncio.Future[None]] = [starting, signalled]
    await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)
    while not starting.done():
        if node.is_waiting:
            starting.cancel()
        await asyncio.wait([starting], timeout=LOOK_S)
    if starting.cancelled():
        return False
    starting.result()
    return True


def _new_node(config: BrokerConfig, disk: Disk | None, *, read_only: bool, joinable: bool, allow_strays: bool) -> Node:
    if read_only:
        from kcli.broker.read_only.node import ReadOnlyNode

        return ReadOnlyNode(config)
    return Node(config, disk=disk, joinable=joinable, allow_strays=allow_strays)
