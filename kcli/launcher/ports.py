"""Ports for the nodes of a cluster: taken before there is a node, kept while one is down.

A socket that is bound and does not listen keeps a port from being given to somebody who asks for any; the node binds
the same port beside it (SO_REUSEADDR on both) and listens.
"""

from __future__ import annotations

import socket

from kcli.errors import KcliError


class PortTaken(KcliError):
    """Somebody listens there already."""


class Ports:
    """Addresses that are kept until `close`."""

    def __init__(self) -> None:
        self._sockets: list[socket.socket] = []

    def take(self, host: str, port: int) -> int:
        """Keep a port, any free one for 0. Returns it. Raises PortTaken."""
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
        """Give them back."""
        for each in self._sockets:
            each.close()
        self._sockets.clear()
