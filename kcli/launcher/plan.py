"""What nodes a cluster on one machine has, and each one's server.properties.

    combined    nodes 1..N, each broker and controller
    separate    brokers 1..N, controllers 3001..3000+M

The voters are static (controller.quorum.voters), names and values Kafka's: each file starts that node of real Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kcli.errors import UsageError
from kcli.launcher.paths import data_directory

FIRST_CONTROLLER = 3001
CONTROLLER_HOST = "127.0.0.1"
PLAINTEXT, CONTROLLER = "PLAINTEXT", "CONTROLLER"
A_NODES_OWN = {
    "node.id",
    "broker.id",
    "process.roles",
    "listeners",
    "advertised.listeners",
    "log.dir",
    "log.dirs",
    "metadata.log.dir",
    "controller.quorum.voters",
    "controller.quorum.bootstrap.servers",
    "controller.listener.names",
}

Address = tuple[str, int]


@dataclass(frozen=True)
class NodePlan:
    """A node: its id and what its server.properties says."""

    id: int
    properties: Mapping[str, str]

    @property
    def roles(self) -> tuple[str, ...]:
        """broker, controller, or both."""
        return tuple(each.strip() for each in self.properties["process.roles"].split(","))

    @property
    def is_broker(self) -> bool:
        """Do clients talk to it?"""
        return "broker" in self.roles

    @property
    def is_controller(self) -> bool:
        """Has it a vote?"""
        return "controller" in self.roles

    @property
    def addresses(self) -> tuple[Address, ...]:
        """What it listens on, clients' first."""
        return tuple(_address(each) for each in self.properties["listeners"].split(","))

    @property
    def address(self) -> str:
        """Where it is: for clients, or for other controllers where it is no broker's."""
        host, port = self.addresses[0]
        return f"{host or '127.0.0.1'}:{port}"


def _address(listener: str) -> Address:
    host, _, port = listener.strip().partition("://")[2].rpartition(":")
    return host, int(port)


def ids(nodes: int, controllers: int) -> tuple[list[int], list[int]]:
    """The ids of brokers and of controllers; the same where no controllers are separate."""
    brokers = list(range(1, nodes + 1))
    return brokers, list(range(FIRST_CONTROLLER, FIRST_CONTROLLER + controllers)) if controllers else brokers


def plan(
    home: Path, brokers: Mapping[int, Address], controllers: Mapping[int, Address], options: Mapping[str, str]
) -> list[NodePlan]:
    """The nodes, by id. brokers, controllers: id -> address; home: their directories are made below it; options: of
    all nodes. Raises UsageError."""
    check_options(options)
    voters = ",".join(f"{each}@{_joined(address)}" for each, address in controllers.items())
    replicas, in_sync = min(3, len(brokers)), min(2, len(brokers))
    shared = {
        "controller.listener.names": CONTROLLER,
        "controller.quorum.voters": voters,
        "offsets.topic.replication.factor": str(replicas),
        "transaction.state.log.replication.factor": str(replicas),
        "transaction.state.log.min.isr": str(in_sync),
        "share.coordinator.state.topic.replication.factor": str(replicas),
        "share.coordinator.state.topic.min.isr": str(in_sync),
        **options,
    }
    found = []
    for node in sorted({*brokers, *controllers}):
        listeners, roles = [], []
        if node in brokers:
            roles.append("broker")
            listeners.append(f"{PLAINTEXT}://{_joined(brokers[node])}")
        if node in controllers:
            roles.append("controller")
            listeners.append(f"{CONTROLLER}://{_joined(controllers[node])}")
        own = {
            "process.roles": ",".join(roles),
            "node.id": str(node),
            "listeners": ",".join(listeners),
            "log.dirs": str(data_directory(home, node)),
        }
        found.append(NodePlan(node, {**own, **shared}))
    return found


def check_options(options: Mapping[str, str]) -> None:
    """Raises UsageError where one cannot be all nodes'."""
    for name in options:
        if name in A_NODES_OWN:
            raise UsageError(f"-o {name}: each node has its own; --nodes sets it")


def bootstrap(plans: Sequence[NodePlan]) -> str:
    """What clients begin with."""
    return ",".join(each.address for each in plans if each.is_broker)


def _joined(address: Address) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
