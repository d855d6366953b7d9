"""The directory of a cluster on one machine, see paths: made, or found.

The files are all there is to know: nodes, ports and configurations of a cluster that is there are gone on with.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from formats.file_name import FileKind
from formats.properties import Properties, build, parse
from kcli.broker.config import BrokerConfig
from kcli.broker.config.served import check_served
from kcli.broker.metadata.format import format_directories, random_id
from kcli.errors import KcliError, UsageError
from kcli.launcher.paths import CONTROL_SOCKET, SERVER_PROPERTIES, data_directory, is_cluster, node_directory
from kcli.launcher.plan import (
    CONTROLLER_HOST,
    Address,
    NodePlan,
    check_options,
    ids,
    plan,
)
from kcli.launcher.ports import Ports
from kcli.log.disk import Disk
from kcli.log.log_directory import read_meta_properties, read_properties

_NODE = re.compile(r"node-([0-9]{1,9})")


class NotACluster(KcliError):
    """A directory that holds something else, or a cluster that does not fit what is asked for."""

    exit_status = 2


@dataclass(frozen=True)
class Wanted:
    """What the command line asks for. nodes, listen: None where it does not say; controllers: 0 for combined roles."""

    nodes: int | None
    controllers: int
    listen: Address | None
    options: Mapping[str, str]


@dataclass(frozen=True)
class ClusterDirectory:
    """A cluster on disk, ready to be started."""

    path: Path
    cluster_id: str
    plans: list[NodePlan]

    @property
    def control_socket(self) -> Path:
        """Where the launcher is talked to."""
        return self.path / CONTROL_SOCKET

    def properties_of(self, node: int) -> Path:
        """A node's server.properties."""
        return node_directory(self.path, node) / SERVER_PROPERTIES


def open_cluster(path: Path, wanted: Wanted, ports: Ports, disk: Disk) -> ClusterDirectory:
    """The cluster in the directory, made if there is none. Its ports are taken.

    Raises UsageError, NotACluster, PortTaken, InvalidConfig, CannotServe, UnreadableInput, OSError.
    """
    path = path.absolute()
    check_options(wanted.options)
    if is_cluster(path):
        return _existing(path, wanted, ports, disk)
    if (path / FileKind.META_PROPERTIES).exists():
        raise NotACluster(f"{path}: the log directory of one node; --nodes makes the directories of several")
    return _new(path, wanted, ports, disk)


def _existing(path: Path, wanted: Wanted, ports: Ports, disk: Disk) -> ClusterDirectory:
    plans = sorted((_read(each) for each in path.glob(f"node-*/{SERVER_PROPERTIES}")), key=lambda each: each.id)
    brokers = [each for each in plans if each.is_broker]
    separate = sum(not each.is_broker for each in plans)
    if wanted.nodes is not None and (wanted.nodes, wanted.controllers) != (len(brokers), separate):
        there = f"{len(brokers)} nodes" + (f" and {separate} controllers" if separate else "")
        raise NotACluster(f"{path}: has {there}; start it with as many, or without --nodes")
    if wanted.listen is not None and wanted.listen[1] and wanted.listen not in brokers[0].addresses:
        raise NotACluster(f"{path}: its first node listens on {brokers[0].address}; see {SERVER_PROPERTIES}")
    if wanted.options:
        plans = [NodePlan(each.id, {**each.properties, **wanted.options}) for each in plans]
    for each in plans:
        check_served(BrokerConfig(each.properties))
    _take_ports(plans, ports)
    cluster_ids = {_cluster_id(each) for each in plans}
    if len(cluster_ids) != 1:
        raise NotACluster(f"{path}: its nodes are of {len(cluster_ids)} clusters")
    found = ClusterDirectory(path, cluster_ids.pop(), plans)
    if wanted.options:
        _write(found, disk)
    return found


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


def _new(path: Path, wanted: Wanted, ports: Ports, disk: Disk) -> ClusterDirectory:
    if wanted.nodes is None:
        raise UsageError(f"{path}: no cluster is there; --nodes makes one")
    host, first = wanted.listen or ("127.0.0.1", 9092)
    broker_ids, controller_ids = ids(wanted.nodes, wanted.controllers)
    next_port = iter(range(first, first + 2 * len(broker_ids) + len(controller_ids)))
    brokers = {each: (host, ports.take(host, first and next(next_port))) for each in broker_ids}
    controllers = {
        each: (CONTROLLER_HOST, ports.take(CONTROLLER_HOST, first and next(next_port))) for each in controller_ids
    }
    found = ClusterDirectory(path, random_id(), plan(path, brokers, controllers, wanted.options))
    for each in found.plans:
        check_served(BrokerConfig(each.properties))
    now_ms = int(time.time() * 1000)
    for each in found.plans:
        format_directories(
            [data_directory(path, each.id)], now_ms=now_ms, node_id=each.id, cluster_id=found.cluster_id, disk=disk
        )
    _write(found, disk)
    return found


def _write(cluster: ClusterDirectory, disk: Disk) -> None:
    """Last of all: until then there is no cluster."""
    for each in cluster.plans:
        lines = [b"# kcli serve --nodes made this; a change holds from the node's next start\n"]
        lines += [_line(name, value) for name, value in each.properties.items()]
        disk.write_file(cluster.properties_of(each.id), b"".join(lines))


def _line(name: str, value: str) -> bytes:
    """As people write it, where that means the same; else with Java's escapes."""
    plain = f"{name}={value}\n".encode("latin-1", "replace")
    same = {name: value}
    return plain if parse(plain).entries == same else build(Properties(same))
