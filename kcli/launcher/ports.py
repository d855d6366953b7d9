"""Reserve the ports of a cluster's nodes: before a node starts, and while it is down.

The launcher binds a socket to each port and does not listen on it, so the system does not give the port to a program
that binds to any free port. The node binds a second socket to the port (SO_REUSEADDR on both) and listens.
"""

from __future__ import annotations

import socket

from kcli.errors import KcliError


class PortTaken(KcliError):
    """Another program listens on the port already."""


class Ports:
    """The reserved ports; `close` releases them."""

    def __init__(self) -> None:
        self._sockets: list[socket.socket] = []

    def take(self, host: str, port: int) -> int:
        """Reserve a port, or with `port` 0 any free one, and return its number. host: the IP address or host name to
        bind; "" for all addresses. Raises PortTaken."""
        sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind((host, port))
        except OSError as error:
            sock.close()
            raise PortTaken(f"cannot listen on {host or '*'}:{port}: {error.strerror or error}") from error
        self._sockets.append(sock)
        taken: int = sock.getsockname()[1]
        return taken

    def close(self) -> None:
        """Release all ports."""
        for each in self._sockets:
            each.close()
        self._sockets.clear()
