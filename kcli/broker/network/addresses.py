"""The listeners of a node: the addresses that it binds, and those that it advertises to clients and to other nodes."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from kcli.broker.config.served import CannotServe

if TYPE_CHECKING:
    from kcli.broker.config import BrokerConfig
    from kcli.broker.network.server import Server

Addresses = dict[str, tuple[str, int]]
"""Listener name -> host and port."""


def bind(server: Server, config: BrokerConfig, *, alone: bool) -> tuple[Addresses, Addresses]:
    """Bind the node's `listeners`. Return the advertised addresses of its client listeners, and those of its controller
    listeners. A listener that `advertised.listeners` leaves out is bound and not advertised, as in Kafka.

    alone: whether the node is the only one of its cluster: then its controller listeners are not bound. Raises
    CannotServe if an address cannot be bound, or if a broker has no listener for clients.
    """
    to_advertise = (*config.advertised_listeners, *config.advertised_controller_listeners)
    configured = {each.listener: (each.host, each.port) for each in to_advertise}
    advertised: Addresses = {}
    controllers: Addresses = {}
    for each in config.listeners:
        is_controllers = each.listener in config.controller_listener_names
        if is_controllers and (alone or not config.is_controller):
            continue
        try:
            _, port = server.bind(each.host or "", each.port, each.listener)
        except OSError as error:
            where = f"{each.host or '*'}:{each.port}"
            raise CannotServe(f"cannot listen on {where}: {error.strerror or error}") from error
        if each.listener not in configured:
            continue  # bound, but not advertised
        advertised_host, advertised_port = configured[each.listener]
        address = own_name(advertised_host or ""), advertised_port or port
        (controllers if is_controllers else advertised)[each.listener] = address
    if config.is_broker and not advertised:
        raise CannotServe("no listener for clients in `listeners`")
    return advertised, controllers


def own_name(host: str) -> str:
    """Return the host to advertise for a listener: `host`, or this computer's name if `host` is empty or a wildcard
    address."""
    return socket.getfqdn() if host in ("0.0.0.0", "::", "") else host  # noqa: S104  (compared, not bound)
