"""A node that is one of several under a launcher (`kcli serve --nodes`): what they tell each other.

One JSON object a line, over a socket that is there from before the node starts:

    {"elect": true}          to the node       all controllers listen: stand for election now, rather than wait to
                                               miss a leader
    {"died": 2}              to the node       the process of that node has ended this moment
    {"started": 2}           to the node       there is a new one
    {"stop": "broker"}       to the node       controlled shutdown; the controller goes on until a signal ends it
    {"listening": true}      to the launcher   the controllers' listener answers
    {"ready": true}          to the launcher   the node is started: its broker is unfenced
    {"broker_stopped": true, "leads": false}   whether it is the active controller

The launcher's end is the socket's: the node then stops as at a signal.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from kcli.broker.unattended import begin

LINE_BYTES = 64 << 10


class Member(Protocol):
    """What a node is told. All of it may come at any time, before the node is started too."""

    listening: asyncio.Future[None]
    """Done once the controllers' listener answers."""

    @property
    def leads_quorum(self) -> bool:
        """Is it the active controller?"""

    def stand_for_election(self) -> None:
        """Where no leader is known, ask for votes now."""

    def peer_died(self, node_id: int, /) -> None:
        """The process of another node has ended: it need not be waited for."""

    def peer_started(self, node_id: int, /) -> None:
        """Another node has a new process."""

    async def stop_broker(self) -> None:
        """Controlled shutdown of the broker; the controller goes on."""


class Supervised:
    """The node's end. stop: called when the launcher has gone."""

    def __init__(self, channel: socket.socket, node: Member, stop: Callable[[], None]) -> None:
        """Listen to the launcher, on the running loop."""
        self._channel, self._node, self._stop = channel, node, stop
        self._loop = asyncio.get_running_loop()
        self._received = b""
        self._stopping: asyncio.Task[None] | None = None
        channel.setblocking(False)
        self._loop.add_reader(channel.fileno(), self._read)
        node.listening.add_done_callback(lambda _: self._say("listening"))

    def ready(self) -> None:
        """Tell that the node is started."""
        self._say("ready")

    def _say(self, what: str, **more: bool) -> None:
        with suppress(OSError):  # the launcher has gone: its end is heard of
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
            self._told(json.loads(line))

    def _told(self, told: dict[str, object]) -> None:
        node = self._node
        match told:
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
        finally:  # the launcher waits for it
            self._say("broker_stopped", leads=self._node.leads_quorum)
