"""Create the directory of a cluster on one machine, or open an existing one; kcli.launcher.paths names its files.

The files hold the whole state of the cluster: an existing cluster keeps its nodes, ports and configurations.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from formats.file_name import FileKind
from formats.properties import Properties, build, parse
from kcli.broker.config import BrokerConfig
from kcli.broker.config.served import check_served
from kcli.broker.metadata.format import format_directories, random_id
from kcli.errors import KcliError, UsageError
from kcli.launcher.paths import CONTROL_SOCKET, SERVER_PROPERTIES, data_directory, is_cluster, node_directory
from kcli.launcher.plan import (
    A_NODES_OWN,
    CONTROLLER_HOST,
    Address,
    ListenerNames,
    NodePlan,
    check_options,
    ids,
    listener_names,
    plan,
)
from kcli.launcher.ports import Ports
from kcli.launcher.secured import SECURED_LISTENERS, new_secured, open_secured
from kcli.log.disk import Disk
from kcli.log.log_directory import read_meta_properties, read_properties
from kcli.metadata.image import Record

_NODE = re.compile(r"node-([0-9]{1,9})")


class NotACluster(KcliError):
    """The directory holds no cluster of `kcli serve --nodes`, or one that contradicts the command line."""

    exit_status = 2


@dataclass(frozen=True)
class ClusterRequest:
    """The options of the command line.

    nodes: number of brokers; listen: the first broker's address (host, port); each None if the command line does not
    give it. controllers: number of separate controllers, 0 for combined roles. file: the server.properties of --config,
    which applies to all nodes, except for the configurations that the launcher sets for each node (A_NODES_OWN).
    options: configurations of all nodes, which override those of the file. secure: whether all listeners use SASL_SSL
    (`kcli.launcher.secured`).
    """

    nodes: int | None
    controllers: int
    listen: Address | None
    options: Mapping[str, str]
    file: Mapping[str, str] | None = None
    secure: bool = False

    @property
    def shared(self) -> dict[str, str]:
        """The configurations that --config and the options set for all nodes, by name; an option overrides --config."""
        of_file = {name: text for name, text in (self.file or {}).items() if name not in A_NODES_OWN}
        return {**of_file, **self.options}


@dataclass(frozen=True)
class ClusterDirectory:
    """A cluster on disk: its path, cluster id and nodes. client: path of the admin's client.properties; None without
    --secure."""

    path: Path
    cluster_id: str
    plans: list[NodePlan]
    client: Path | None = None

    @property
    def control_socket(self) -> Path:
        """The path of the launcher's control socket."""
        return self.path / CONTROL_SOCKET

    def properties_of(self, node: int) -> Path:
        """Return the path of a node's server.properties."""
        return node_directory(self.path, node) / SERVER_PROPERTIES


def open_cluster(path: Path, request: ClusterRequest, ports: Ports, disk: Disk) -> ClusterDirectory:
    """Return the cluster in a directory, created if there is none, and reserve its ports. request: the options of the
    command line.

    Raises UsageError, NotACluster, NotSecure, PortTaken, InvalidConfig, CannotServe, UnreadableInput, OSError.
    """
    path = path.absolute()
    check_options(request.options)
    if is_cluster(path):
        return _existing(path, request, ports, disk)
    if (path / FileKind.META_PROPERTIES).exists():
        raise NotACluster(f"{path}: the log directory of one node; --nodes makes the directories of several")
    return _new(path, request, ports, disk)


def _existing(path: Path, request: ClusterRequest, ports: Ports, disk: Disk) -> ClusterDirectory:
    plans = sorted((_read(each) for each in path.glob(f"node-*/{SERVER_PROPERTIES}")), key=lambda each: each.id)
    brokers = [each for each in plans if each.is_broker]
    separate = sum(not each.is_broker for each in plans)
    if request.nodes is not None and (request.nodes, request.controllers) != (len(brokers), separate):
        nodes_text = f"{len(brokers)} nodes" + (f" and {separate} controllers" if separate else "")
        raise NotACluster(f"{path}: has {nodes_text}; start it with as many, or without --nodes")
    if request.listen is not None and request.listen[1] and request.listen not in brokers[0].addresses:
        raise NotACluster(f"{path}: its first node listens on {brokers[0].address}; see {SERVER_PROPERTIES}")
    if request.file is not None:
        _check_listeners(path, plans, listener_names(request.file))
    if request.shared:
        plans = [NodePlan(each.id, {**each.properties, **request.shared}) for each in plans]
    for each in plans:
        check_served(BrokerConfig(each.properties))
    _take_ports(plans, ports)
    cluster_ids = {_cluster_id(each) for each in plans}
    if len(cluster_ids) != 1:
        raise NotACluster(f"{path}: its nodes are of {len(cluster_ids)} clusters")
    client = open_secured(path, plans, datetime.now(UTC)).client if request.secure else None
    found = ClusterDirectory(path, cluster_ids.pop(), plans, client)
    if request.shared:
        _write(found, disk)
    return found


def _check_listeners(path: Path, plans: list[NodePlan], names: ListenerNames) -> None:
    """Raises NotACluster unless the listener names of `plans`, the nodes of an existing cluster, are exactly `names`,
    those that the command line asks for. path: the cluster's directory."""
    known, asked = set[str]().union(*(each.listeners for each in plans)), {*names.brokers, *names.controllers}
    if known != asked:
        reason = f"its nodes have the listeners {', '.join(sorted(known))}, and --config has {', '.join(sorted(asked))}"
        raise NotACluster(f"{path}: {reason}")


def _read(file: Path) -> NodePlan:
    name = _NODE.fullmatch(file.parent.name)
    properties = read_properties(file)
    if name is None or properties.get("node.id") != name[1] or not {"process.roles", "listeners"} <= properties.keys():
        raise NotACluster(f"{file}: not what `kcli serve --nodes` writes: node.id, process.roles or listeners")
    return NodePlan(int(name[1]), properties)


def _cluster_id(node: NodePlan) -> str:
    data = Path(node.properties.get("log.dirs", "").partition(",")[0])
    meta = read_meta_properties(data)
    if meta is None or meta.cluster_id is None:
        raise NotACluster(f"{data}: node {node.id} has log.dirs there, and nothing of a cluster is in it")
    return meta.cluster_id


def _take_ports(plans: list[NodePlan], ports: Ports) -> None:
    for each in plans:
        for host, port in each.addresses:
            ports.take(host, port)


def _new(path: Path, request: ClusterRequest, ports: Ports, disk: Disk) -> ClusterDirectory:
    if request.nodes is None:
        raise UsageError(f"{path}: no cluster is there; --nodes makes one")
    host, first = request.listen or ("127.0.0.1", 9092)
    broker_ids, controller_ids = ids(request.nodes, request.controllers)
    names = SECURED_LISTENERS if request.secure else listener_names(request.file or {})
    count = len(broker_ids) * len(names.brokers) + len(controller_ids) * len(names.controllers)
    next_port = iter(range(first, first + count))

    def taken(ids: list[int], host: str, names: tuple[str, ...]) -> dict[int, list[Address]]:
        found: dict[int, list[Address]] = {each: [] for each in ids}
        for _ in names:
            for each in ids:
                found[each].append((host, ports.take(host, first and next(next_port))))
        return found

    brokers = taken(broker_ids, host, names.brokers)
    controllers = taken(controller_ids, CONTROLLER_HOST, names.controllers)
    plans, client, users = plan(path, brokers, controllers, names, request.shared), None, list[Record]()
    now = datetime.now(UTC)
    if request.secure:
        secured = new_secured(path, plans, now)
        plans, client, users = secured.plans, secured.client, [secured.admin]
    found = ClusterDirectory(path, random_id(), plans, client)
    for each in found.plans:
        check_served(BrokerConfig(each.properties))
    for each in found.plans:
        format_directories(
            [data_directory(path, each.id)],
            now_ms=int(now.timestamp() * 1000),
            node_id=each.id,
            cluster_id=found.cluster_id,
            users=users,
            disk=disk,
        )
    _write(found, disk)
    return found


def _write(cluster: ClusterDirectory, disk: Disk) -> None:
    """Write the server.properties of all nodes. This is the last step of `_new`: a directory with these files counts
    as a cluster (`is_cluster`)."""
    for each in cluster.plans:
        lines = [b"# kcli serve --nodes made this; a change holds from the node's next start\n"]
        lines += [_line(name, value) for name, value in each.properties.items()]
        disk.write_private_file(cluster.properties_of(each.id), b"".join(lines))


def _line(name: str, value: str) -> bytes:
    """Return the line `name=value`, with Java's escapes if a reader of the plain line would find another name or
    value."""
    plain = f"{name}={value}\n".encode("latin-1", "replace")
    same = {name: value}
    return plain if parse(plain).entries == same else build(Properties(same))
