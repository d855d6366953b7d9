"""The messages between a launcher of several nodes (`kcli serve --nodes`) and each of its nodes.

One JSON object a line, over a socket that is open before the node starts:

    {"elect": true}          to the node       stand for election now, without waiting for the election timeout, as all
                                               controllers listen
    {"died": 2}              to the node       the process of node 2 has ended
    {"started": 2}           to the node       the launcher has started the next process of node 2
    {"stop": "broker"}       to the node       controlled shutdown; the controller runs until a signal ends it
    {"listening": true}      to the launcher   the controller listener serves requests
    {"ready": true}          to the launcher   the node is started: its broker is unfenced
    {"broker_stopped": true, "leads": false}   to the launcher; leads: whether the node is the active controller

The socket is closed when the launcher ends: the node then stops as at a signal.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from kcli.broker.process.unattended import begin

LINE_BYTES = 64 << 10


class Member(Protocol):
    """The methods of a node that the launcher's messages call, at any time, even before the node is started."""

    listening: asyncio.Future[None]
    """Done when the controller listener serves requests."""

    @property
    def leads_quorum(self) -> bool:
        """Whether the node is the active controller."""

    def stand_for_election(self) -> None:
        """Stand for election at once if no leader is known."""

    def peer_died(self, node_id: int, /) -> None:
        """Note that the process of another node has ended, so that this node need not wait until requests to that node
        time out."""

    def peer_started(self, node_id: int, /) -> None:
        """Note that the launcher has started a new process of another node."""

    async def stop_broker(self) -> None:
        """Shut the broker down in a controlled way; the controller keeps running."""


class Supervised:
    """The node's end of the socket to the launcher. stop: called when the launcher has ended."""

    def __init__(self, channel: socket.socket, node: Member, stop: Callable[[], None]) -> None:
        """Begin to read the launcher's messages, on the running event loop."""
        self._channel, self._node, self._stop = channel, node, stop
        self._loop = asyncio.get_running_loop()
        self._received = b""
        self._stopping: asyncio.Task[None] | None = None
        channel.setblocking(False)
        self._loop.add_reader(channel.fileno(), self._read)
        node.listening.add_done_callback(lambda _: self._send("listening"))

    def ready(self) -> None:
        """Tell the launcher that the node is started."""
        self._send("ready")

    def _send(self, what: str, **more: bool) -> None:
        with suppress(OSError):  # the launcher has ended, which the closing of the socket reports
            self._channel.send(json.dumps({what: True, **more}).encode() + b"\n")

    def _read(self) -> None:
        try:
            data = self._channel.recv(LINE_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._loop.remove_reader(self._channel.fileno())
            self._stop()
            return
        *lines, self._received = (self._received + data).split(b"\n")
        for line in lines:
            self._handle(json.loads(line))

    def _handle(self, message: dict[str, object]) -> None:
        node = self._node
        match message:
            case {"elect": True}:
                node.stand_for_election()
            case {"died": int(other)}:
                node.peer_died(other)
            case {"started": int(other)}:
                node.peer_started(other)
            case {"stop": "broker"}:
                self._stopping = begin(self._stop_broker(), "the broker is not stopped in order")

    async def _stop_broker(self) -> None:
        try:
            await self._node.stop_broker()
        finally:  # send the message even after an error, as the launcher waits for it
            self._send("broker_stopped", leads=self._node.leads_quorum)
