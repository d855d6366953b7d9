"""What a node tells others of its listeners: the hosts of advertised.listeners, those of controllers too, and never
0.0.0.0. Kafka answers DescribeQuorum, and writes RegisterControllerRecord, with the same hosts."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING, cast
from uuid import UUID

import pytest

from kcli.broker.config import BrokerConfig
from kcli.broker.metadata.quorum_config import raft_config
from kcli.broker.metadata.storage_tool import FormatOptions, _voters
from kcli.broker.network.addresses import bind
from kcli.log.config import InvalidConfig

if TYPE_CHECKING:
    from kcli.broker.network.server import Server

NODE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.bootstrap.servers": "localhost:9093",
    "controller.listener.names": "CONTROLLER",
    "log.dirs": "/data",
}
OWN_NAME = socket.getfqdn()

ADVERTISED: Mapping[str, tuple[str, str, str, str]] = {
    # listeners' host, controller in advertised.listeners -> the host that raft has, and that of a format
    "advertised": ("0.0.0.0", ",CONTROLLER://127.0.0.2:9095", "127.0.0.2:9095", "127.0.0.2:9095"),
    "advertised without a host": ("127.0.0.1", ",CONTROLLER://:9095", f"{OWN_NAME}:9095", "localhost:9095"),
    "all of IPv4": ("0.0.0.0", "", f"{OWN_NAME}:9093", "localhost:9093"),
    "all": ("", "", f"{OWN_NAME}:9093", "localhost:9093"),
    "a host": ("127.0.0.3", "", "127.0.0.3:9093", "127.0.0.3:9093"),
}


def test_controllers_are_not_told_a_meta_address() -> None:
    """Kafka refuses it in advertised.listeners, also for a controller's listener."""
    advertised = {"advertised.listeners": "PLAINTEXT://a:9094,CONTROLLER://0.0.0.0:9093"}
    with pytest.raises(InvalidConfig, match=r"advertised.listeners cannot use the nonroutable meta-address 0\.0\.0\.0"):
        BrokerConfig(NODE | {"listeners": "PLAINTEXT://:9092,CONTROLLER://:9093"} | advertised)


class Bound:
    """A server that has bound what it was asked to."""

    def __init__(self) -> None:
        self.listeners: list[str] = []

    def bind(self, host: str, port: int, listener: str) -> tuple[str, int]:
        self.listeners.append(listener)
        return host or "::", port


@pytest.mark.parametrize("name", ADVERTISED)
def test_controllers_are_told_where_a_controller_is(name: str) -> None:
    host, more, raft, formatted = ADVERTISED[name]
    listeners = f"PLAINTEXT://0.0.0.0:9092,CONTROLLER://{host}:9093"
    config = BrokerConfig(NODE | {"listeners": listeners, "advertised.listeners": f"PLAINTEXT://a:9094{more}"})
    clients, controllers = bind(cast("Server", Bound()), config, alone=False)
    assert clients == {"PLAINTEXT": ("a", 9094)}
    (found,) = raft_config(config, UUID(int=1), "id", controllers).endpoints
    assert (found.listener, f"{found.host}:{found.port}") == ("CONTROLLER", raft)
    voters = _voters(config, FormatOptions("id", standalone=True))
    assert voters is not None
    ((first,),) = (each.endpoints for each in voters.nodes.values())
    assert f"{first.host}:{first.port}" == formatted


def test_a_listener_that_is_not_advertised_is_bound() -> None:
    listeners = "PLAINTEXT://127.0.0.1:9092,INSIDE://127.0.0.1:9094,CONTROLLER://127.0.0.1:9093"
    protocols = "PLAINTEXT:PLAINTEXT,INSIDE:PLAINTEXT,CONTROLLER:PLAINTEXT"
    config = BrokerConfig(
        NODE
        | {"listeners": listeners, "listener.security.protocol.map": protocols}
        | {"advertised.listeners": "PLAINTEXT://a:9192", "inter.broker.listener.name": "PLAINTEXT"}
    )
    server = Bound()
    clients, controllers = bind(cast("Server", server), config, alone=False)
    assert (clients, controllers) == ({"PLAINTEXT": ("a", 9192)}, {"CONTROLLER": ("127.0.0.1", 9093)})
    assert server.listeners == ["PLAINTEXT", "INSIDE", "CONTROLLER"]
