"""What each service does at its start and end: listen, and wait for the signals that end it."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from typing import Final

from kcli.errors import KcliError

BACKLOG: Final = 512
AT_ONCE_STATUS: Final = 130


class CannotServe(KcliError):
    """A service cannot start, or cannot continue to serve."""


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; without a host, one for all addresses of IPv4 and IPv6. Raises CannotServe."""
    try:
        if not host:
            return (
                socket.create_server(("", port), family=socket.AF_INET6, backlog=BACKLOG, dualstack_ipv6=True)
                if socket.has_dualstack_ipv6()
                else socket.create_server(("", port), backlog=BACKLOG)
            )
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family, backlog=BACKLOG)
    except OSError as error:
        raise CannotServe(f"cannot listen on {host or '*'}:{port}: {error.strerror or error}") from error


def until_signalled() -> asyncio.Event:
    """Return an event of the running loop that SIGTERM and SIGINT set; the second signal ends the process at once."""
    loop = asyncio.get_running_loop()
    signalled = asyncio.Event()

    def end() -> None:
        if signalled.is_set():
            os._exit(AT_ONCE_STATUS)
        signalled.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end)
    return signalled
