"""The directory of a cluster: the files that are written, used again, or refused."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from kcli.broker.config import BrokerConfig
from kcli.broker.metadata.format import format_directories
from kcli.errors import UsageError
from kcli.launcher.directory import ClusterDirectory, ClusterRequest, NotACluster, open_cluster
from kcli.launcher.plan import bootstrap
from kcli.launcher.ports import Ports, PortTaken
from kcli.log.config import InvalidConfig
from kcli.log.disk import Disk
from kcli.log.log_directory import read_meta_properties, read_properties
from tests.interop import kit

ANY = ("127.0.0.1", 0)


@pytest.fixture
def ports() -> Iterator[Ports]:
    found = Ports()
    yield found
    found.close()


def opened(path: Path, ports: Ports, nodes: int | None = 3, controllers: int = 0, **options: str) -> ClusterDirectory:
    named = {name.replace("_", "."): value for name, value in options.items()}
    return open_cluster(path, ClusterRequest(nodes, controllers, ANY, named), ports, Disk())


def test_combined(tmp_path: Path, ports: Ports) -> None:
    cluster = opened(tmp_path / "c", ports, num_partitions="3")
    assert [each.id for each in cluster.plans] == [1, 2, 3]
    every = [address for each in cluster.plans for address in each.addresses]
    assert len({port for _, port in every}) == 6
    voters = ",".join(f"{each.id}@127.0.0.1:{each.addresses[1][1]}" for each in cluster.plans)
    for each in cluster.plans:
        entries = read_properties(cluster.properties_of(each.id))
        assert entries == each.properties
        assert entries["controller.quorum.voters"] == voters
        assert entries["num.partitions"] == "3"
        assert (entries["offsets.topic.replication.factor"], entries["transaction.state.log.min.isr"]) == ("3", "2")
        assert not BrokerConfig(entries).warnings
        meta = read_meta_properties(Path(entries["log.dirs"]))
        assert meta is not None
        assert (meta.node_id, meta.cluster_id) == (each.id, cluster.cluster_id)
    assert f"\nlisteners=PLAINTEXT://{cluster.plans[0].address}," in cluster.properties_of(1).read_text()


def test_separate(tmp_path: Path, ports: Ports) -> None:
    cluster = opened(tmp_path / "c", ports, nodes=2, controllers=3)
    assert [(each.id, each.roles) for each in cluster.plans] == [
        (1, ("broker",)),
        (2, ("broker",)),
        (3001, ("controller",)),
        (3002, ("controller",)),
        (3003, ("controller",)),
    ]
    assert len(bootstrap(cluster.plans).split(",")) == 2
    for each in cluster.plans:
        BrokerConfig(each.properties)


def test_one_node_has_one_replica_of_everything(tmp_path: Path, ports: Ports) -> None:
    (node,) = opened(tmp_path / "c", ports, nodes=1).plans
    assert node.properties["transaction.state.log.min.isr"] == "1"


def test_ports_from_the_first_on(tmp_path: Path, ports: Ports) -> None:
    for first in range(20_000 + os.getpid() % 10_000, 65_000, 10):
        with suppress(PortTaken):
            cluster = open_cluster(tmp_path / "c", ClusterRequest(2, 0, ("127.0.0.1", first), {}), ports, Disk())
            break
    assert [each.addresses for each in cluster.plans] == [
        (("127.0.0.1", first), ("127.0.0.1", first + 2)),
        (("127.0.0.1", first + 1), ("127.0.0.1", first + 3)),
    ]


FILE = {
    "node.id": "7",
    "process.roles": "controller",
    "listeners": "CLIENTS://:9092,BROKERS://:9094,QUORUM://:9093",
    "controller.listener.names": "QUORUM",
    "listener.security.protocol.map": "CLIENTS:PLAINTEXT,BROKERS:PLAINTEXT,QUORUM:PLAINTEXT",
    "inter.broker.listener.name": "BROKERS",
    "log.dirs": "/elsewhere",
    "num.partitions": "3",
    "log.retention.hours": "5",
}


def from_file(path: Path, ports: Ports, controllers: int = 0, **changed: str) -> ClusterDirectory:
    options = {"num.partitions": "4"}
    return open_cluster(path, ClusterRequest(2, controllers, ANY, options, {**FILE, **changed}), ports, Disk())


@pytest.mark.parametrize("controllers", [0, 1])
def test_the_listeners_of_a_file(tmp_path: Path, ports: Ports, controllers: int) -> None:
    """Each node has all listeners of its role, at its own ports; a node's own configurations are not taken from the
    file."""
    cluster = from_file(tmp_path / "c", ports, controllers)
    every = [address for each in cluster.plans for address in each.addresses]
    assert len(set(every)) == len(every) == (6 if controllers == 0 else 5)
    for each in cluster.plans:
        names = ({"CLIENTS", "BROKERS"} if each.is_broker else set()) | ({"QUORUM"} if each.is_controller else set())
        assert each.listeners == names
        config = BrokerConfig(each.properties)
        assert (config.node_id, config.inter_broker_listener, config.num_partitions) == (each.id, "BROKERS", 4)
        assert config.controller_listener_names == ("QUORUM",)
        assert each.properties["log.retention.hours"] == "5"
        assert Path(config.log_dirs[0]).is_relative_to(tmp_path)
        assert cluster.properties_of(each.id).stat().st_mode & 0o777 == 0o600, "it may have passwords"
    assert {port for _, port in every[: len(every)]} >= {int(each.rpartition(":")[2]) for each in _voters(cluster)}
    ports.close()
    again = from_file(tmp_path / "c", ports, controllers, **{"log.retention.hours": "6"})
    assert {each.properties["log.retention.hours"] for each in again.plans} == {"6"}
    assert [each.addresses for each in again.plans] == [each.addresses for each in cluster.plans]
    ports.close()
    with pytest.raises(NotACluster, match="BROKERS, CLIENTS, QUORUM, and --config has CONTROLLER, SECURE"):
        from_file(tmp_path / "c", ports, controllers, listeners="SECURE://:1", **{"controller.listener.names": ""})


def _voters(cluster: ClusterDirectory) -> list[str]:
    return cluster.plans[0].properties["controller.quorum.voters"].split(",")


def test_gone_on_with(tmp_path: Path, ports: Ports) -> None:
    first = opened(tmp_path / "c", ports)
    ports.close()
    again = opened(tmp_path / "c", ports, nodes=None, log_retention_hours="1")
    assert again.cluster_id == first.cluster_id
    assert [each.addresses for each in again.plans] == [each.addresses for each in first.plans]
    assert read_properties(again.properties_of(3))["log.retention.hours"] == "1"


def test_a_taken_port(tmp_path: Path, ports: Ports) -> None:
    with socket.create_server(ANY) as other:
        request = ClusterRequest(1, 0, other.getsockname()[:2], {})
        with pytest.raises(PortTaken, match="Address already in use"):
            open_cluster(tmp_path / "c", request, ports, Disk())
    assert not (tmp_path / "c").exists(), "found out before anything is made"


def test_refused(tmp_path: Path, ports: Ports) -> None:
    with pytest.raises(UsageError, match="no cluster is there"):
        opened(tmp_path / "c", ports, nodes=None)
    with pytest.raises(UsageError, match="each node has its own"):
        opened(tmp_path / "c", ports, listeners="PLAINTEXT://:1")
    with pytest.raises(InvalidConfig):
        opened(tmp_path / "c", ports, num_partitions="many")
    assert not (tmp_path / "c").exists()
    cluster = opened(tmp_path / "c", ports)
    with pytest.raises(NotACluster, match="has 3 nodes; start it with as many"):
        opened(tmp_path / "c", ports, nodes=4)
    with pytest.raises(NotACluster, match="its first node listens on"):
        open_cluster(tmp_path / "c", ClusterRequest(None, 0, ("127.0.0.1", 9), {}), ports, Disk())
    ports.close()
    (tmp_path / "c").rename(tmp_path / "moved")
    with pytest.raises(NotACluster, match="nothing of a cluster is in it"):
        opened(tmp_path / "moved", ports)
    format_directories([tmp_path / "single"], now_ms=0)
    with pytest.raises(NotACluster, match="the log directory of one node"):
        opened(tmp_path / "single", ports)
    (tmp_path / "moved" / "node-1" / "server.properties").write_text("node.id=2\n")
    with pytest.raises(NotACluster, match="not what"):
        opened(tmp_path / "moved", ports)
    assert cluster.plans


@pytest.mark.kafka
def test_kafka_finds_the_directories_formatted(tmp_path: Path, ports: Ports) -> None:
    try:
        kit.set_up()
    except kit.KafkaUnavailableError as unavailable:
        pytest.skip(f"real Kafka: {unavailable}")
    cluster = opened(tmp_path / "c", ports, nodes=1, controllers=1)
    for each in cluster.plans:
        file = cluster.properties_of(each.id)
        command = [str(kit.SCRIPT), "format", "info", "-c", str(file)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stderr
        assert f"cluster.id={cluster.cluster_id}" in done.stdout
        assert f"node.id={each.id}" in done.stdout
