"""The launcher's end of its socket to a node: one JSON object a line. kcli.broker.startup.supervised lists the
objects."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any

LINE_BYTES = 64 << 10


class Channel:
    """The launcher's end of the socket to one node. hear: called with each object that the node sends. theirs: the
    node's end of the socket."""

    def __init__(self, hear: Callable[[dict[str, Any]], None]) -> None:
        self._socket, self.theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.setblocking(False)
        self._received = b""
        self._hear = hear
        asyncio.get_running_loop().add_reader(self._socket, self._read)

    def say(self, **said: object) -> None:
        """Send one object to the node. It is lost if the node has ended, or is paused and its socket buffer is full."""
        with suppress(OSError):
            self._socket.send((json.dumps(said) + "\n").encode())

    def close(self) -> None:
        """Close the launcher's end, after the node has ended."""
        if self._socket.fileno() >= 0:
            asyncio.get_running_loop().remove_reader(self._socket)
            self._socket.close()

    def _read(self) -> None:
        try:
            data = self._socket.recv(LINE_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.close()
            return
        *lines, self._received = (self._received + data).split(b"\n")
        for line in lines:
            self._hear(json.loads(line))
