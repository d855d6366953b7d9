"""Several nodes in this process, each on a thread of its own: combined ones, or controllers and brokers apart."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kcli.broker.config import BrokerConfig
from kcli.broker.metadata.format import format_directories
from kcli.broker.node import Node
from tests.broker.running import TIMEOUT_S, Client, RunningNode

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
QUICK = {
    "controller.quorum.election.timeout.ms": "400",
    "controller.quorum.fetch.timeout.ms": "600",
    "controller.quorum.election.backoff.max.ms": "200",
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "200",
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.min.isr": "2",
    "replica.lag.time.max.ms": "2000",
}
FIRST_CONTROLLER = 3001
BEGUN_MS = 1_795_000_000_000


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class ClusterNode(RunningNode):
    """A node of a cluster."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        """Begins to start; `wait_until_up` waits for it."""
        self.properties = dict(properties)
        self._disk = None
        self._begin()

    def config(self) -> BrokerConfig:
        return BrokerConfig(self.properties)

    def kill(self) -> None:
        """End it as a kill does, as far as that goes within a process: nothing is said, nothing more is written."""
        self.kills = True
        self.stop()


class Cluster:
    """See above. nodes: those that run, by id."""

    def __init__(self, directory: Path, brokers: int = 3, controllers: int = 0, **options: str) -> None:
        """controllers: 0: the brokers are controllers too. options: configurations, with _ for the dots."""
        self.directory = directory
        self.options = QUICK | {name.replace("_", "."): value for name, value in options.items()}
        combined = not controllers
        self.broker_ids = list(range(1, brokers + 1))
        self.controller_ids = self.broker_ids if combined else [FIRST_CONTROLLER + i for i in range(controllers)]
        ports = iter(free_ports(len(self.broker_ids) + len(self.controller_ids)))
        self.client_ports = {each: next(ports) for each in self.broker_ids}
        self.controller_ports = {each: next(ports) for each in self.controller_ids}
        self.nodes: dict[int, ClusterNode] = {}
        for node_id in self.ids:
            path = self.node_directory(node_id)
            if not path.exists():
                format_directories([path], now_ms=BEGUN_MS, node_id=node_id, cluster_id=CLUSTER_ID)

    @property
    def ids(self) -> list[int]:
        """Of all nodes."""
        return sorted({*self.broker_ids, *self.controller_ids})

    def node_directory(self, node_id: int) -> Path:
        """Where a node has its data."""
        return self.directory / f"node-{node_id}"

    def properties(self, node_id: int) -> dict[str, str]:
        """What a node runs with."""
        roles = [("broker", self.broker_ids), ("controller", self.controller_ids)]
        listeners = []
        if node_id in self.client_ports:
            listeners.append(f"PLAINTEXT://127.0.0.1:{self.client_ports[node_id]}")
        if node_id in self.controller_ports:
            listeners.append(f"CONTROLLER://127.0.0.1:{self.controller_ports[node_id]}")
        voters = ",".join(f"{each}@127.0.0.1:{port}" for each, port in self.controller_ports.items())
        return {
            "process.roles": ",".join(role for role, ids in roles if node_id in ids),
            "node.id": str(node_id),
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": voters,
            "listeners": ",".join(listeners),
            "log.dirs": str(self.node_directory(node_id)),
            **self.options,
        }

    def start(self, *ids: int) -> None:
        """Start those nodes, or all; they come up together."""
        begun = {each: ClusterNode(self.properties(each)) for each in ids or self.ids}
        for node_id, node in begun.items():
            self.nodes[node_id] = node
        for node in begun.values():
            node.wait_until_up()

    def stop(self, *ids: int) -> None:
        """Stop those nodes, or all, in order."""
        stopping = [self.nodes.pop(each) for each in ids or list(self.nodes)]
        going = [asyncio.run_coroutine_threadsafe(each.node.stop_broker(), each.loop) for each in stopping]
        for each in going:
            each.result(TIMEOUT_S)
        for node in stopping:
            node.begin_stop()
        for node in stopping:
            node.wait_until_down()

    def kill(self, node_id: int) -> None:
        """End one at once."""
        self.nodes.pop(node_id).kill()

    def client(self, node_id: int) -> Client:
        """A connection to a broker."""
        return self.nodes[node_id].client()

    @property
    def bootstrap(self) -> str:
        """The brokers' addresses as clients take them."""
        return ",".join(f"127.0.0.1:{port}" for port in self.client_ports.values())

    def on(self, node_id: int, look: Callable[[Node], Any]) -> Any:
        """What a look at a node gives, taken on its own thread."""
        node = self.nodes[node_id]
        return node.run(lambda: look(node.node))

    def leader(self) -> int:
        """The active controller's id, once there is one that all running controllers know."""
        found: set[int | None] = set()

        def is_known() -> bool:
            nonlocal found
            running = [each for each in self.controller_ids if each in self.nodes]
            active = {each for each in running if self.on(each, lambda node: node.broker.metadata.is_leader)}
            found = {self.on(each, lambda node: node.broker.metadata.leader_id) for each in running}
            return len(active) == 1 and found == active

        wait_for(is_known, "one active controller")
        (leader,) = found
        assert leader is not None, "it is active"
        return leader


def wait_for(condition: Callable[[], bool], what: str, timeout_s: float = TIMEOUT_S) -> None:
    """Until it is so."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"no {what} within {timeout_s:g} s"
        time.sleep(0.02)


@contextmanager
def running_cluster(directory: Path, brokers: int = 3, controllers: int = 0, **options: str) -> Iterator[Cluster]:
    """A cluster that runs; what still runs at the end is stopped."""
    cluster = Cluster(directory, brokers, controllers, **options)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
