"""Run a node in this process until a signal, or until an error after which it cannot serve."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from kcli.broker.config.served import CannotServe
from kcli.broker.dispatch.preload import preloading
from kcli.broker.node import Node, NotInOrder
from kcli.broker.process.descriptors import raise_limit
from kcli.broker.process.memory import return_large_buffers
from kcli.broker.process.unattended import attend
from kcli.broker.process.uuid_hashes import guard_uuid_hashes

if TYPE_CHECKING:
    from kcli.broker.config import BrokerConfig
    from kcli.log.disk import Disk
    from kcli.metadata.image import Record

log = logging.getLogger("kcli.broker")
AT_ONCE_STATUS = 130
LOOK_S = 0.05
THREAD_SWITCH_S = 0.0005
"""The interval, in seconds, after which a thread that works on a long request has to yield the interpreter's lock to
the event loop (sys.setswitchinterval). It is short because the event loop gives up the lock at each system call, and so
has to get the lock back several times for one response."""
GARBAGE_OBJECTS = 20_000
YOUNG_COLLECTIONS = 2
"""The number of garbage collections of the first generation between two of the second. A collection of the second
generation visits all objects that were made since the last one, and delays all clients for 10 ms."""
FULL_COLLECTION_EVERY = 400
"""The number of garbage collections of the second generation between two full collections. A full collection visits the
million objects of a long response, and delays all clients."""


class Companion(Protocol):
    """A service that runs beside the node in its process, on its event loop: a schema registry."""

    async def stop(self) -> None:
        """Stop the service. Called before the node stops, so that the service can still send it requests."""


def serve(  # noqa: PLR0913 (what Node takes, and the process's own)
    config: BrokerConfig,
    ready: Callable[[Node], None],
    *,
    read_only: bool = False,
    joinable: bool = False,
    allow_strays: bool = False,
    users: Sequence[Record] = (),
    launcher: socket.socket | None = None,
    disk: Disk | None = None,
    leave: Callable[[int], object] = os._exit,
    beside: Callable[[Node], Awaitable[Companion]] | None = None,
) -> None:
    """Start a node, and serve until SIGTERM or SIGINT. A second signal ends the process at once, by leave(status).

    Raises KcliError, OSError.

    ready: called with the node once it serves clients. read_only: whether to start a ReadOnlyNode. joinable,
    allow_strays, users, disk: see Node. launcher: the socket to the launcher, None without one (see supervised).
    beside: starts a companion of the node after `ready`, None for none.
    """
    config.has_registry = beside is not None
    raise_limit()
    guard_uuid_hashes()
    if read_only:
        node: Callable[[], Node] = partial(_read_only_node, config)
    else:
        node = partial(Node, config, disk=disk, joinable=joinable, allow_strays=allow_strays, users=users)
    _new_loop().run_until_complete(_serve(config, node, ready, launcher, leave, beside))


def _new_loop() -> asyncio.AbstractEventLoop:
    """Return a new event loop: uvloop's if uvloop is installed, else asyncio's."""
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
    leave: Callable[[int], object],
    beside: Callable[[Node], Awaitable[Companion]] | None,
) -> None:
    loop = asyncio.get_running_loop()
    attend(loop)
    signalled: asyncio.Future[None] = loop.create_future()

    def end(reason: str) -> None:
        if signalled.done():
            leave(AT_ONCE_STATUS)
        log.info("%s: shutting down", reason)
        signalled.set_result(None)

    def alone() -> None:
        if not signalled.done():
            end("the launcher has ended")

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end, number.name)
    for warning in config.warnings:
        log.warning("%s", warning)
    node = new_node()
    supervised = None
    if launcher is not None:
        from kcli.broker.startup.supervised import Supervised

        supervised = Supervised(launcher, node, alone)
    if not await _started(node, signalled):
        return
    return_large_buffers()
    gc.collect()
    gc.freeze()  # objects made at the start are never freed, and a full collection of them would take 30 ms
    sys.setswitchinterval(THREAD_SWITCH_S)
    # garbage collections can be rare, as requests leave hardly any objects in reference cycles
    gc.set_threshold(GARBAGE_OBJECTS, YOUNG_COLLECTIONS, FULL_COLLECTION_EVERY)
    companion = None
    try:
        ready(node)
        if beside is not None:
            companion = await beside(node)
        if supervised is not None:
            supervised.ready()
        ends: list[asyncio.Future[Any]] = [signalled, node.ended]
        with preloading():
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    finally:
        if companion is not None:
            await companion.stop()
        await stop(node)


async def stop(node: Node) -> None:
    """Stop the node in order. Raises CannotServe if an error has ended the node, else NotInOrder if a step of the stop
    has failed."""
    try:
        await node.stop()
    except NotInOrder:
        if not node.ended.done():
            raise
    if node.ended.done():
        raise CannotServe(node.ended.result())


async def _started(node: Node, signalled: asyncio.Future[None]) -> bool:
    """Start the node. Return True once it has started. If `signalled` is done before that, the start continues, but is
    given up as soon as the node waits for other nodes; False is returned then."""
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


def _read_only_node(config: BrokerConfig) -> Node:
    from kcli.broker.read_only.node import ReadOnlyNode

    return ReadOnlyNode(config)
