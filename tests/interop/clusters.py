"""Clusters of real processes for tests, the chaos run and the bench: of real Kafka's (RealCluster) or kcli's nodes.

All take the same properties: nodes 1 to N, each broker and controller, with static voters, formatted as kafka-storage
does (tests/broker/metadata/test_format.py holds kcli to that). A node has a directory:

    node-N/server.properties    what it was started with
    node-N/data                 its log directory
    node-N/log                  all that it has printed, over all its starts
"""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, ClassVar, Self

from kcli.broker.metadata.format import format_directories, random_id
from kcli.launcher.control_client import ask
from kcli.log.log_directory import read_meta_properties
from tests.broker.running import Client, Closed
from tests.cli.run import KCLI
from tests.cli.warm import Forked, warm_kcli

START_S, STOP_S = 90.0, 60.0
FIRST_PORT, PORTS = 12_000, 8_000
"""Ports below the range that Linux gives to clients, and outside of the kit's."""
PROPERTIES = {
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "transaction.state.log.num.partitions": "3",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
    "log.index.size.max.bytes": "65536",
    "log.cleaner.dedupe.buffer.size": "8388608",
}
FIXED = {"process.roles", "controller.listener.names", "listener.security.protocol.map"}
"""Those that `kcli serve --nodes` sets."""
ALL_TOPICS: list[dict[str, Any]] | None = None
QUORUM = [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]


class ClusterError(Exception):
    """A node did not do what it was told; the message has the end of its log."""


@dataclass(frozen=True)
class Place:
    """The addresses of a node, for clients and for controllers."""

    host: str
    port: int
    controller_port: int


@dataclass(frozen=True)
class Partition:
    """What Metadata says of one."""

    topic: str
    index: int
    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...]


def free_ports(count: int) -> list[int]:
    """Ports of this machine where nobody listens."""
    draw = random.Random(os.getpid() * 1000 + time.monotonic_ns() % 1000)
    found: set[int] = set()
    while len(found) < count:
        port = FIRST_PORT + draw.randrange(PORTS)
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                found.add(port)
    return sorted(found)


def local_places(nodes: int) -> list[Place]:
    """All on this machine's own address."""
    ports = free_ports(2 * nodes)
    return [Place("127.0.0.1", *ports[2 * each : 2 * each + 2]) for each in range(nodes)]


class Cluster(ABC):
    """The nodes 1 to N. At the end of the `with` they are killed; their directories stay."""

    name: ClassVar[str]

    def __init__(
        self,
        directory: Path,
        options: Mapping[str, str] | None = None,
        *,
        nodes: int = 3,
        places: Sequence[Place] | None = None,
        enter: Callable[[int], list[str]] | None = None,
        warm: bool = True,
    ) -> None:
        """options: properties of all nodes. enter: words in front of a node's command, such as ip netns exec NAME.
        warm: nodes of kcli are forked from a process that has imported it, where nothing is in front of the command."""
        self.directory, self.ids = directory, list(range(1, nodes + 1))
        self.places = dict(zip(self.ids, places or local_places(nodes), strict=True))
        self.options = {**PROPERTIES, **(options or {})}
        self.processes: dict[int, subprocess.Popen[bytes] | Forked] = {}
        self._enter, self._warm = enter or (lambda _: []), warm

    @abstractmethod
    def _command(self, node: int) -> list[str]:
        """Return the command of this node with its properties."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for node in self.ids:
            self.kill(node)

    # where things are

    def place(self, node: int) -> Path:
        """A node's directory."""
        return self.directory / f"node-{node}"

    def data(self, node: int) -> Path:
        """Its log directory."""
        return self.place(node) / "data"

    @property
    def bootstrap(self) -> str:
        """All nodes, as clients take them."""
        return ",".join(f"{each.host}:{each.port}" for each in self.places.values())

    def address(self, node: int) -> tuple[str, int]:
        """Where a node listens for clients."""
        return self.places[node].host, self.places[node].port

    def properties(self, node: int) -> dict[str, str]:
        """Those of a node."""
        place = self.places[node]
        voters = ",".join(f"{number}@{each.host}:{each.controller_port}" for number, each in self.places.items())
        return {
            "node.id": str(node),
            "controller.quorum.voters": voters,
            "listeners": f"PLAINTEXT://{place.host}:{place.port},CONTROLLER://{place.host}:{place.controller_port}",
            "advertised.listeners": f"PLAINTEXT://{place.host}:{place.port}",
            "log.dirs": str(self.data(node)),
            **self.options,
        }

    def format(self, cluster_id: str | None = None) -> None:
        """Write the properties, and format new log directories."""
        known = [each for each in map(read_meta_properties, map(self.data, self.ids)) if each is not None]
        cluster_id = cluster_id or (known[0].cluster_id if known else random_id())
        for node in self.ids:
            self.place(node).mkdir(parents=True, exist_ok=True)
            self.write_properties(node)
            format_directories([self.data(node)], now_ms=int(time.time() * 1000), node_id=node, cluster_id=cluster_id)

    def write_properties(self, node: int) -> None:
        """What the next start is told."""
        lines = [f"{name}={value}\n" for name, value in self.properties(node).items()]
        (self.place(node) / "server.properties").write_text("".join(lines))

    # processes

    def start(self, *nodes: int) -> None:
        """Start these nodes, or all; `wait_ready` waits for them."""
        for node in nodes or self.ids:
            assert not self.is_running(node), f"node {node} runs"
            with (self.place(node) / "log").open("ab") as log:
                self.processes[node] = self._spawn(node, log)

    def _spawn(self, node: int, log: IO[bytes]) -> subprocess.Popen[bytes] | Forked:
        command, place = [*self._enter(node), *self._command(node)], self.place(node)
        if self._warm and command[: len(KCLI)] == KCLI:
            return warm_kcli().start(command[len(KCLI) :], cwd=place, stdout=log, stderr=log)
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=place)

    def is_running(self, node: int) -> bool:
        """It was started and has not ended."""
        process = self.processes.get(node)
        return process is not None and process.poll() is None

    def pid(self, node: int) -> int | None:
        """Return the pid of a node's process; None where it is down."""
        return self.processes[node].pid if self.is_running(node) else None

    def _has_ended(self, node: int) -> bool:
        """Nobody starts it again by himself."""
        return not self.is_running(node)

    def signal(self, node: int, number: signal.Signals) -> None:
        """Send a signal to a running node."""
        if (pid := self.pid(node)) is not None:
            os.kill(pid, number)

    def kill(self, node: int) -> None:
        """kill -9, where it runs."""
        if self.is_running(node):
            self.processes[node].kill()
            self.processes[node].wait(STOP_S)

    def stop(self, *nodes: int) -> None:
        """Stop these nodes, or all, in order and at the same time. Raises ClusterError."""
        wanted = [each for each in nodes or self.ids if self.is_running(each)]
        for node in wanted:
            self.processes[node].terminate()
        for node in wanted:
            try:
                self.processes[node].wait(STOP_S)
            except subprocess.TimeoutExpired:
                raise ClusterError(self._complaint(node, f"does not stop within {STOP_S:.0f} s")) from None

    def restart(self, node: int) -> None:
        """Stop and start a node; `wait_ready` waits for it."""
        self.stop(node)
        self.start(node)

    # what the cluster says

    def client(self, node: int) -> Client:
        """A connection to a node."""
        return Client(self.address(node))

    def brokers_seen(self, node: int) -> set[int]:
        """Return the brokers that are not fenced, from one node's metadata; none where it does not respond."""
        try:
            with self.client(node) as client:
                client.socket.settimeout(5)
                answer = client.call("metadata", 12, topics=[], allow_auto_topic_creation=False)
        except (OSError, Closed):
            return set()
        return {each["node_id"] for each in answer["brokers"]}

    def wait_ready(self, nodes: Iterable[int] | None = None, timeout_s: float = START_S) -> None:
        """Wait until each of these nodes (or all) has all of them as brokers in its metadata. Raises ClusterError."""
        wanted = set(self.ids if nodes is None else nodes)
        deadline = time.monotonic() + timeout_s
        for node in sorted(wanted):
            while not wanted <= self.brokers_seen(node):
                if self._has_ended(node):
                    raise ClusterError(self._complaint(node, "ended while starting"))
                if time.monotonic() > deadline:
                    raise ClusterError(self._complaint(node, f"is not ready after {timeout_s:.0f} s"))
                time.sleep(0.05)

    def partitions(self, node: int | None = None) -> list[Partition]:
        """Return all partitions in the metadata of a node, by default of any that responds."""
        for each in self.ids if node is None else [node]:
            try:
                with self.client(each) as client:
                    client.socket.settimeout(5)
                    answer = client.call("metadata", 12, topics=ALL_TOPICS, allow_auto_topic_creation=False)
            except (OSError, Closed):
                continue
            return [_partition(topic["name"], one) for topic in answer["topics"] for one in topic["partitions"]]
        raise ClusterError("no node answers")

    def wait_in_sync(self, timeout_s: float = START_S, topics: Collection[str] = ()) -> None:
        """Wait until all running nodes have the same metadata: these topics exist, and every partition has a leader and
        all its replicas in the ISR. Raises ClusterError."""
        deadline = time.monotonic() + timeout_s
        while late := self._late(set(topics)):
            if time.monotonic() > deadline:
                raise ClusterError(f"not in sync after {timeout_s:.0f} s: {late}")
            time.sleep(0.2)

    def _late(self, topics: set[str]) -> str:
        """Return a description of the partitions that are not in sync; empty if all are."""
        for node in self.ids:
            if self.is_running(node):
                try:
                    known = self.partitions(node)
                except ClusterError:
                    return f"node {node} does not answer"
                late = [each for each in known if each.leader < 0 or set(each.isr) != set(each.replicas)]
                if late:
                    return f"node {node} says {late[:3]}"
                if unknown := topics - {each.topic for each in known}:
                    return f"node {node} does not know {unknown}"
        return ""

    def wait_heard(self, timeout_s: float = START_S) -> None:
        """Wait until all running nodes have applied the records that the controller had committed at the call. Raises
        ClusterError."""
        deadline = time.monotonic() + timeout_s
        running = [node for node in self.ids if self.is_running(node)]
        with self.client(running[0]) as client:
            (quorum,) = client.call("describe_quorum", 2, topics=QUORUM)["topics"]
            committed = quorum["partitions"][0]["high_watermark"] - 1
        for node in running:
            with self.client(node) as client:
                while applied_offset(client) < committed:
                    if time.monotonic() > deadline:
                        raise ClusterError(self._complaint(node, f"has not applied offset {committed}"))
                    time.sleep(0.01)

    def controller(self) -> int | None:
        """Return the active controller, from the first node that responds."""
        for node in self.ids:
            try:
                with self.client(node) as client:
                    client.socket.settimeout(2)
                    (topic,) = client.call("describe_quorum", 2, topics=QUORUM)["topics"]
            except (OSError, Closed):
                continue
            leader: int = topic["partitions"][0]["leader_id"]
            if leader in self.ids:
                return leader
        return None

    def log_text(self, node: int) -> str:
        """All it has printed."""
        path = self.place(node) / "log"
        return path.read_text(errors="replace") if path.exists() else ""

    def _complaint(self, node: int, what: str) -> str:
        return f"{self.name} node {node} {what}; the end of its log:\n{self.log_text(node)[-3000:]}"


def applied_offset(client: Client) -> int:
    """Return the offset up to which a node has applied the metadata log: ApiVersions has it as the epoch of the
    finalized features."""
    answer = client.call("api_versions", 3, client_software_name="test", client_software_version="1")
    offset: int = answer["finalized_features_epoch"]
    return offset


def _partition(topic: str, value: dict[str, Any]) -> Partition:
    replicas, isr, offline = (tuple(value[key]) for key in ("replica_nodes", "isr_nodes", "offline_replicas"))
    return Partition(topic, value["partition_index"], value["leader_id"], replicas, isr, offline)


class KcliCluster(Cluster):
    """Of nodes that run `kcli serve --config`."""

    name = "kcli"

    def _command(self, node: int) -> list[str]:
        return [*KCLI, "serve", "--config", str(self.place(node) / "server.properties")]


class LaunchedCluster(Cluster):
    """The nodes of `kcli serve --nodes`, whose launcher starts them, and starts dead ones again."""

    name = "kcli --nodes"

    def _command(self, node: int) -> list[str]:
        raise AssertionError(f"the launcher starts node {node}")

    def place(self, node: int) -> Path:
        """Return a node's directory below the launcher's."""
        return self.directory / "cluster" / f"node-{node}"

    def format(self, cluster_id: str | None = None) -> None:
        """The launcher formats."""
        assert cluster_id is None, "it chooses the id"

    def start(self, *nodes: int) -> None:
        """Start all nodes, or one that is down, and wait until it is ready."""
        data = self.directory / "cluster"
        if nodes:
            for node in nodes:
                ask(data, "start", node=node)
            return
        self.directory.mkdir(parents=True, exist_ok=True)
        given = {name: value for name, value in self.options.items() if name not in FIXED}
        options = [word for name, value in given.items() for word in ("-o", f"{name}={value}")]
        serve = [*KCLI, "serve", "--nodes", str(len(self.ids)), "--data-dir", str(data)]
        with (self.directory / "log").open("ab") as log:
            self._launcher = subprocess.Popen(
                [*serve, "--listen", "127.0.0.1:0", *options], stdout=subprocess.PIPE, stderr=log
            )
        assert self._launcher.stdout is not None, "piped"
        if not self._launcher.stdout.readline():
            raise ClusterError(f"kcli serve --nodes ended: {(self.directory / 'log').read_text()[-3000:]}")
        for each in ask(data, "status")["nodes"]:
            host, _, port = each["address"].rpartition(":")
            self.places[each["id"]] = Place(host, int(port), 0)

    def pid(self, node: int) -> int | None:
        """Return the pid of a node's process; None where it is down."""
        nodes = ask(self.directory / "cluster", "status")["nodes"]
        found: int | None = next(each["pid"] for each in nodes if each["id"] == node)
        return found

    def _has_ended(self, node: int) -> bool:
        return self._launcher.poll() is not None and not self.is_running(node)

    def is_running(self, node: int) -> bool:
        """It has a process."""
        return self._launcher.poll() is None and self.pid(node) is not None

    def kill(self, node: int) -> None:
        """kill -9, behind the launcher's back."""
        if (pid := self.pid(node)) is not None:
            os.kill(pid, signal.SIGKILL)

    def stop(self, *nodes: int) -> None:
        """Nodes, or the whole cluster."""
        for node in nodes:
            ask(self.directory / "cluster", "stop", node=node)
        if not nodes and self._launcher.poll() is None:
            self._launcher.terminate()
            self._launcher.communicate(timeout=STOP_S)

    def __exit__(self, *_: object) -> None:
        self.stop()
