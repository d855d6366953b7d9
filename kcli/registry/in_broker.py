"""A registry in a broker's process: `kcli serve --registry`, and the registry of a test's broker.

The registry is a client of the broker like any other, over a connection to the broker's own listener: to the listener
between brokers with this node's own login, or as the client whose properties are given (kafkastore.security.protocol
and so on, or the admin's of `kcli serve --secure`). The brokers' SCRAM users come from the node's metadata image.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Final

from kcli.broker.config.security import outgoing_problem, to_brokers
from kcli.broker.network.outbound import Outbound, outbound
from kcli.registry.known import RegisteredSchemas
from kcli.registry.server import RegistryServer
from kcli.service.cluster import Address
from kcli.service.serving import CannotServe

if TYPE_CHECKING:
    from kcli.broker.node import Node
    from kcli.registry.config import RegistryConfig

EVERYWHERE: Final = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}  # noqa: S104  (compared, not bound)


async def start_beside(node: Node, config: RegistryConfig, client: Outbound | None = None) -> RegistryServer:
    """Start a registry that keeps its schemas in a running node's cluster. client: how the registry connects to the
    node; None to connect as the node connects to other brokers. Raises KcliError, OSError."""
    if not node.config.is_broker:
        raise CannotServe("--registry: this node is a controller, and a registry needs a broker")
    if client is None and (problem := outgoing_problem(node.config)) is not None:
        raise CannotServe(
            f"the registry cannot log in to its broker: {problem}; or give kafkastore.security.protocol and so on in "
            f"--registry-config"
        )
    named = node.config.inter_broker_listener if client is None else next(iter(node.addresses))
    way = client or outbound(to_brokers(node.config), dt.datetime.now(dt.UTC))
    own = _own_address(node, named)
    server = RegistryServer(
        config, [own], way, scram=lambda: node.broker.image.scram_credentials, own=(node.broker.node_id, own)
    )
    await server.start()
    node.config.has_registry = True
    node.broker.logs.check_schemas_with(RegisteredSchemas(server))
    return server


def _own_address(node: Node, listener: str) -> Address:
    """Return the address at which this process reaches a listener of its node, whatever the listener advertises."""
    advertised = node.addresses.get(listener, next(iter(node.addresses.values())))
    bound = next((each for each in node.config.listeners if each.listener == listener), None)
    if bound is None:
        return advertised
    host = EVERYWHERE.get(bound.host or "", bound.host or "")
    return host, bound.port or advertised[1]
