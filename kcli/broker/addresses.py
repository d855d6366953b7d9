"""Where a node listens, and what others are told of that."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Final

from kcli.errors import KcliError

if TYPE_CHECKING:
    from kcli.broker.config import BrokerConfig
    from kcli.broker.network.server import Server

Addresses = dict[str, tuple[str, int]]
"""Listener -> host and port."""

PLAINTEXT: Final = "PLAINTEXT"


class CannotServe(KcliError):
    """A configuration that is Kafka's, and more than this broker can do; or an address that cannot be had."""


def bind(server: Server, config: BrokerConfig, *, alone: bool) -> tuple[Addresses, Addresses]:
    """Take the addresses of a node; nobody reaches the controller of one that is alone.

    Returns what clients are told, and where other nodes reach controllers' listeners. Raises CannotServe.
    """
    wanted = {each.listener: (each.host, each.port) for each in config.advertised_listeners}
    told: Addresses = {}
    controllers: Addresses = {}
    for each in config.listeners:
        is_controllers = each.listener in config.controller_listener_names
        if is_controllers and (alone or not config.is_controller):
            continue
        try:
            host, port = server.bind(each.host or "", each.port, each.listener)
        except OSError as error:
            where = f"{each.host or '*'}:{each.port}"
            raise CannotServe(f"cannot listen on {where}: {error.strerror or error}") from error
        wanted_host, wanted_port = wanted.get(each.listener, (None, 0))
        address = wanted_host or each.host or _own_name(host), wanted_port or port
        (controllers if is_controllers else told)[each.listener] = address
    if config.is_broker and not told:
        raise CannotServe("no listener for clients in `listeners`")
    return told, controllers


def _own_name(bound_host: str) -> str:
    """What others are told where all addresses are listened on."""
    return socket.getfqdn() if bound_host in ("0.0.0.0", "::", "") else bound_host  # noqa: S104  (compared, not bound)
