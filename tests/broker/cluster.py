"""Clusters for tests: nodes run in threads of this process, or as child processes that can be killed; nodes have both
roles, or brokers and controllers are separate."""

from __future__ import annotations

import asyncio
import signal
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kcli.broker.config import BrokerConfig
from kcli.broker.metadata.format import format_directories
from kcli.broker.node import Node
from kcli.log.disk import Disk
from tests.broker.running import TIMEOUT_S, Client, RunningNode
from tests.cli.warm import warm_kcli

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

    def __init__(self, properties: Mapping[str, str], disk: Disk | None = None) -> None:
        """Begins to start; `wait_until_up` waits for it."""
        self.properties = dict(properties)
        self._disk = disk
        self._begin()

    def config(self) -> BrokerConfig:
        return BrokerConfig(self.properties)

    def give_up(self) -> None:
        """Stop the node while it waits for other nodes."""
        self.loop.call_soon_threadsafe(self._starting.cancel)
        self.wait_until_down()

    async def _stop_broker(self) -> None:
        await self.node.stop_broker()

    def begin_to_stop_broker(self) -> None:
        """Begin the shutdown of the broker; the controller goes on."""
        self._stopping = asyncio.run_coroutine_threadsafe(self._stop_broker(), self.loop)

    def wait_for_broker_to_stop(self) -> None:
        """Until it has."""
        self._stopping.result(TIMEOUT_S)


class ProcessNode:
    """A node of a cluster as a process: `kcli serve --config`, forked from one that has imported it."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        """Begins to start; `wait_until_up` waits for it."""
        directory = Path(properties["log.dirs"].split(",")[0])
        config, self.log = directory.with_suffix(".properties"), directory.with_suffix(".log")
        config.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        with self.log.open("a") as log:
            self.process = warm_kcli().start(["serve", "--config", str(config)], stderr=log)
        self._listeners = properties["listeners"]

    def wait_until_up(self) -> None:
        """Until it says so."""
        assert self.process.stdout is not None, "piped"
        assert self.process.stdout.readline(), self.log.read_text()

    def begin_to_stop_broker(self) -> None:
        """There is no way to tell it."""

    wait_for_broker_to_stop = begin_to_stop_broker

    def begin_stop(self) -> None:
        """Tell it to stop."""
        self.process.send_signal(signal.SIGTERM)

    def wait_until_down(self) -> None:
        """Until it has stopped."""
        self.process.communicate(timeout=TIMEOUT_S)

    def kill(self) -> None:
        """End it at once."""
        self.process.kill()
        self.process.communicate(timeout=TIMEOUT_S)

    def client(self) -> Client:
        """A new connection."""
        address = next(each for each in self._listeners.split(",") if each.startswith("PLAINTEXT:"))
        host, _, port = address.removeprefix("PLAINTEXT://").partition(":")
        return Client((host, int(port)))


class Cluster:
    """A cluster whose nodes can be started, stopped and killed. nodes: the running ones, by id."""

    def __init__(
        self,
        directory: Path,
        brokers: int = 3,
        controllers: int = 0,
        *,
        processes: bool = False,
        directories: int = 1,
        disk: Disk | None = None,
        **options: str,
    ) -> None:
        """controllers: their number; 0 where the brokers are controllers too. directories: the log directories of each
        node; disk: of nodes in this process; options: configurations, with _ for the dots."""
        self.directory = directory
        self._are_processes, self._directories, self._disk = processes, directories, disk
        self.options = QUICK | {name.replace("_", "."): value for name, value in options.items()}
        combined = not controllers
        self.broker_ids = list(range(1, brokers + 1))
        self.controller_ids = self.broker_ids if combined else [FIRST_CONTROLLER + i for i in range(controllers)]
        ports = iter(free_ports(len(self.broker_ids) + len(self.controller_ids)))
        self.client_ports = {each: next(ports) for each in self.broker_ids}
        self.controller_ports = {each: next(ports) for each in self.controller_ids}
        self.nodes: dict[int, ClusterNode | ProcessNode] = {}
        for node_id in self.ids:
            paths = self.node_directories(node_id)
            if not paths[0].exists():
                format_directories(paths, now_ms=BEGUN_MS, node_id=node_id, cluster_id=CLUSTER_ID)

    @property
    def ids(self) -> list[int]:
        """Of all nodes."""
        return sorted({*self.broker_ids, *self.controller_ids})

    def node_directory(self, node_id: int) -> Path:
        """Where a node has its data."""
        return self.directory / f"node-{node_id}"

    def node_directories(self, node_id: int) -> list[Path]:
        """Return the log directories of a node; the first has the metadata log."""
        more = [self.directory / f"node-{node_id}-{i}" for i in range(2, self._directories + 1)]
        return [self.node_directory(node_id), *more]

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
            "log.dirs": ",".join(map(str, self.node_directories(node_id))),
            **self.options,
        }

    def start(self, *ids: int) -> None:
        """Start these nodes, or all, at the same time."""
        begun = {each: self._begin(self.properties(each)) for each in ids or self.ids}
        for node_id, node in begun.items():
            self.nodes[node_id] = node
        for node in begun.values():
            node.wait_until_up()

    def _begin(self, properties: Mapping[str, str]) -> ClusterNode | ProcessNode:
        return ProcessNode(properties) if self._are_processes else ClusterNode(properties, self._disk)

    def stop(self, *ids: int) -> None:
        """Stop those nodes, or all, in order."""
        stopping = [self.nodes.pop(each) for each in ids or list(self.nodes)]
        for node in stopping:
            node.begin_to_stop_broker()
        for node in stopping:
            node.wait_for_broker_to_stop()
        for node in stopping:
            node.begin_stop()
        for node in stopping:
            node.wait_until_down()

    def kill(self, node_id: int) -> None:
        """End one, a process, at once."""
        node = self.nodes.pop(node_id)
        assert isinstance(node, ProcessNode), "only a process can be killed"
        node.kill()

    def client(self, node_id: int) -> Client:
        """A connection to a broker."""
        return self.nodes[node_id].client()

    @property
    def bootstrap(self) -> str:
        """The brokers' addresses as clients take them."""
        return ",".join(f"127.0.0.1:{port}" for port in self.client_ports.values())

    def on(self, node_id: int, look: Callable[[Node], Any]) -> Any:
        """Call a function on the node's own thread, and return its result."""
        node = self.nodes[node_id]
        assert isinstance(node, ClusterNode), "in this process"
        return node.run(lambda: look(node.node))

    def quorum(self, node_id: int) -> dict[str, Any]:
        """What a broker answers of the quorum."""
        asked = [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]
        with self.client(node_id) as client:
            (topic,) = client.call("describe_quorum", 2, topics=asked)["topics"]
        found: dict[str, Any] = topic["partitions"][0]
        return found

    def leader(self, other_than: int = -1) -> int:
        """Wait for an active controller, and return its id."""
        leaders: list[int] = []

        def is_known() -> bool:
            running = [each for each in self.broker_ids if each in self.nodes]
            leaders[:] = {self.quorum(each)["leader_id"] for each in running}
            return len(leaders) == 1 and leaders[0] not in (0, -1, other_than)

        wait_for(is_known, "one active controller")
        return leaders[0]


def wait_for(condition: Callable[[], bool], what: str, timeout_s: float = TIMEOUT_S) -> None:
    """Until it is so."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"no {what} within {timeout_s:g} s"
        time.sleep(0.02)


@contextmanager
def running_cluster(
    directory: Path,
    brokers: int = 3,
    controllers: int = 0,
    *,
    processes: bool = False,
    directories: int = 1,
    disk: Disk | None = None,
    **options: str,
) -> Iterator[Cluster]:
    """Yield a running cluster; stop all its nodes at the end."""
    cluster = Cluster(
        directory, brokers, controllers, processes=processes, directories=directories, disk=disk, **options
    )
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
