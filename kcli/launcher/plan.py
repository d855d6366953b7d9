"""The nodes of a cluster on one machine, and the server.properties of each.

    combined    nodes 1..N, each of which is broker and controller
    separate    brokers 1..N, controllers 3001..3000+M

Each broker has every listener for clients and brokers, each controller every controller listener: PLAINTEXT and
CONTROLLER, or those that the server.properties of --config names. The voters are static (controller.quorum.voters).
Names and values are Kafka's: Kafka can start a node from its file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kcli.broker.config.listeners import listener_name
from kcli.errors import UsageError
from kcli.java.values import comma_list
from kcli.launcher.paths import data_directory

FIRST_CONTROLLER = 3001
CONTROLLER_HOST = "127.0.0.1"
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
class ListenerNames:
    """Names of listeners. brokers: the listeners of each broker, first the one for clients; controllers: those of each
    controller."""

    brokers: tuple[str, ...] = ("PLAINTEXT",)
    controllers: tuple[str, ...] = ("CONTROLLER",)


def listener_names(file: Mapping[str, str]) -> ListenerNames:
    """Return the listener names that a server.properties file sets; PLAINTEXT for brokers and CONTROLLER for
    controllers where it sets none. file: the entries of the file. Raises InvalidConfig."""
    default = ListenerNames()
    controllers = tuple(each.upper() for each in comma_list(file.get("controller.listener.names", "")) if each)
    listening = tuple(listener_name(each) for each in comma_list(file.get("listeners", "")) if each)
    brokers = tuple(each for each in listening if each not in (controllers or default.controllers))
    return ListenerNames(brokers or default.brokers, controllers or default.controllers)


@dataclass(frozen=True)
class NodePlan:
    """A node: its id and the entries of its server.properties."""

    id: int
    properties: Mapping[str, str]

    @property
    def roles(self) -> tuple[str, ...]:
        """The roles of the node: "broker", "controller", or both."""
        return tuple(each.strip() for each in self.properties["process.roles"].split(","))

    @property
    def is_broker(self) -> bool:
        """Whether the node is a broker."""
        return "broker" in self.roles

    @property
    def is_controller(self) -> bool:
        """Whether the node is a controller, and so a voter."""
        return "controller" in self.roles

    @property
    def addresses(self) -> tuple[Address, ...]:
        """The addresses of the node's listeners; a broker's listener for clients comes first."""
        return tuple(_address(each) for each in self.properties["listeners"].split(","))

    @property
    def listeners(self) -> set[str]:
        """The names of the node's listeners."""
        return {each.strip().partition("://")[0].upper() for each in self.properties["listeners"].split(",")}

    @property
    def address(self) -> str:
        """The node's first listener as "host:port": a broker's is for clients, a separate controller's for nodes."""
        host, port = self.addresses[0]
        return f"{host or '127.0.0.1'}:{port}"


def _address(listener: str) -> Address:
    host, _, port = listener.strip().partition("://")[2].rpartition(":")
    return host, int(port)


def ids(nodes: int, controllers: int) -> tuple[list[int], list[int]]:
    """Return the ids of the brokers and of the controllers; both lists are the same if nodes have combined roles.
    nodes: the number of brokers. controllers: the number of separate controllers, 0 for combined roles."""
    brokers = list(range(1, nodes + 1))
    return brokers, list(range(FIRST_CONTROLLER, FIRST_CONTROLLER + controllers)) if controllers else brokers


def plan(
    home: Path,
    brokers: Mapping[int, Sequence[Address]],
    controllers: Mapping[int, Sequence[Address]],
    names: ListenerNames,
    options: Mapping[str, str],
) -> list[NodePlan]:
    """Return the nodes, in the order of their ids.

    home: the cluster's directory. brokers, controllers: node id -> an address for each of the listeners in `names`.
    options: configurations of all nodes.
    """
    voters = ",".join(f"{each}@{_joined(addresses[0])}" for each, addresses in controllers.items())
    replicas, in_sync = min(3, len(brokers)), min(2, len(brokers))
    shared = {
        "controller.listener.names": ",".join(names.controllers),
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
        for role, of, named in (("broker", brokers, names.brokers), ("controller", controllers, names.controllers)):
            if node in of:
                roles.append(role)
                listeners += [f"{name}://{_joined(each)}" for name, each in zip(named, of[node], strict=True)]
        own = {
            "process.roles": ",".join(roles),
            "node.id": str(node),
            "listeners": ",".join(listeners),
            "log.dirs": str(data_directory(home, node)),
        }
        found.append(NodePlan(node, {**own, **shared}))
    return found


def check_options(options: Mapping[str, str]) -> None:
    """Check the configurations that all nodes are to share. Raises UsageError for a configuration that the launcher
    sets for each node, such as listeners (A_NODES_OWN)."""
    for name in options:
        if name in A_NODES_OWN:
            raise UsageError(f"-o {name}: each node has its own; --nodes sets it")


def bootstrap(plans: Sequence[NodePlan]) -> str:
    """Return the bootstrap servers for clients: the addresses of all brokers."""
    return ",".join(each.address for each in plans if each.is_broker)


def _joined(address: Address) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
