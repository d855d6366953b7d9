"""What a node of a cluster logs about a problem: one line. The node then tries again, or stops where Kafka would."""

from __future__ import annotations

import logging
import re
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from formats.file_name import METADATA_DIRECTORY
from kcli.broker import node as node_module
from kcli.broker.controller.lifecycle import NotRegistered
from kcli.broker.metadata.format import format_directories
from kcli.broker.wire.messages import messages
from kcli.errors import StartRefused
from kcli.protocol.error_code import ErrorCode
from kcli.testing.wire import message
from tests.broker.cluster import BEGUN_MS, CLUSTER_ID, Cluster, ClusterNode, running_cluster, wait_for

OTHER_CLUSTER = "AAAAAAAAAAAAAAAAAAAAAg"


@contextmanager
def coming_up(cluster: Cluster, *ids: int) -> Iterator[None]:
    """Nodes that will not come up."""
    nodes = [ClusterNode(cluster.properties(each)) for each in ids]
    try:
        yield
    finally:
        for node in nodes:
            node.give_up()


def wait_for_line(caplog: pytest.LogCaptureFixture, *parts: str) -> None:
    """Wait until a line with those parts is logged."""
    wait_for(lambda: any(all(part in line for part in parts) for line in list(caplog.messages)), f"line {parts}")


def test_a_node_of_another_cluster(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    format_directories([tmp_path / "node-3"], now_ms=BEGUN_MS, node_id=3, cluster_id=OTHER_CLUSTER)
    cluster = Cluster(tmp_path)
    try:
        with coming_up(cluster, 3):
            cluster.start(1, 2)
            wait_for_line(caplog, "INCONSISTENT_CLUSTER_ID", f"is not of cluster {OTHER_CLUSTER}")
            assert cluster.leader() in (1, 2)
    finally:
        cluster.stop()


def test_a_broker_with_the_id_of_another(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with running_cluster(tmp_path / "one", brokers=1, controllers=1) as cluster:
        other = Cluster(tmp_path / "two", brokers=1, controllers=1, initial_broker_registration_timeout_ms="1500")
        other.controller_ports = cluster.controller_ports
        with pytest.raises(NotRegistered, match="not registered in time"):
            other.start(1)
        wait_for_line(caplog, "DUPLICATE_BROKER_REGISTRATION")


def test_a_voter_alone_has_no_quorum(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_module, "WAITING_LOG_S", 0.5)
    with coming_up(Cluster(tmp_path), 2):
        wait_for_line(caplog, "no quorum yet", "voters: 1, 2, 3")


def test_a_broker_whose_controllers_are_not_there(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    cluster = Cluster(tmp_path, brokers=1, controllers=1)
    with coming_up(cluster, 1):
        port = cluster.controller_ports[3001]
        wait_for_line(caplog, f"the quorum's node at 127.0.0.1:{port} does not answer", "Connection refused")


def test_a_controller_that_speaks_other_versions(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    cluster = Cluster(tmp_path, brokers=1, controllers=1)
    with socket.create_server(("127.0.0.1", cluster.controller_ports[3001])) as server:
        threading.Thread(target=old_controller, args=(server,), daemon=True).start()
        with coming_up(cluster, 1):
            wait_for_line(caplog, "has no common version", "this node wants version 18, the other speaks 4 to 16")


def old_controller(server: socket.socket) -> None:
    """Answer ApiVersions as an old controller while the socket is open."""
    while True:
        try:
            connection, _ = server.accept()
        except OSError:
            return
        with connection:
            frame = connection.recv(1 << 16)
            (number,) = struct.unpack_from(">i", frame, 8)
            kind = messages(18, 3)
            keys = [{"api_key": 1, "min_version": 4, "max_version": 16}]
            value = {"error_code": ErrorCode.NONE, "api_keys": keys, "throttle_time": 0}
            connection.sendall(kind.encode(number, message(kind.response_type, value)))


def test_a_damaged_quorum_state(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    path = cluster.node_directory(1) / METADATA_DIRECTORY
    path.mkdir()
    (path / "quorum-state").write_bytes(b"{leader")
    with pytest.raises(StartRefused, match=r"quorum-state: not a line of JSON.*Next: stop every controller, remove "):
        cluster.start(1)


@pytest.mark.parametrize("controllers", [1, 3])
@pytest.mark.parametrize(
    ("epoch", "reason"),
    [
        (2**31 - 1, "leader epoch 2,147,483,647 is the largest there is, no election can follow it"),
        (2**31, "leaderEpoch is 2147483648, not an integer of 32 bits"),
    ],
)
def test_a_quorum_state_without_an_epoch_left(tmp_path: Path, controllers: int, epoch: int, reason: str) -> None:
    """A Vote with the largest epoch once left such a file; the advice in the message leads to a node that starts."""
    cluster = Cluster(tmp_path, controllers)
    cluster.start()
    cluster.stop()
    paths = [cluster.node_directory(each) / METADATA_DIRECTORY / "quorum-state" for each in cluster.ids]
    for path in paths:
        path.write_text(re.sub(r'"leaderEpoch":\d+', f'"leaderEpoch":{epoch}', path.read_text()))
    with pytest.raises(StartRefused) as refused:
        cluster.start(1)
    path = cluster.node_directory(1) / METADATA_DIRECTORY / "quorum-state"
    assert str(refused.value) == (
        f"{path}: {reason}. Next: stop every controller, remove {path} on each that says this, and start them again"
    )
    for path in paths:
        path.unlink()
    cluster.start()
    assert cluster.leader() in cluster.ids
    cluster.stop()


def test_an_epoch_that_kafka_let_wrap_around(tmp_path: Path) -> None:
    """Kafka's voter accepts epoch 2^31 - 1, writes -2^31 and ends; the log's epoch then counts, also for Kafka."""
    cluster = Cluster(tmp_path, 1)
    cluster.start()
    cluster.stop()
    path = cluster.node_directory(1) / METADATA_DIRECTORY / "quorum-state"
    path.write_text(re.sub(r'"leaderEpoch":\d+', '"leaderEpoch":-2147483648', path.read_text()))
    cluster.start()
    assert cluster.quorum(1)["leader_epoch"] == 2
    cluster.stop()


def test_directories_of_another_node(tmp_path: Path) -> None:
    format_directories([tmp_path / "node-1"], now_ms=BEGUN_MS, node_id=7, cluster_id=CLUSTER_ID)
    with pytest.raises(Exception, match=r"node\.id is 7, not 1|node\.id"):
        Cluster(tmp_path).start(1)


@pytest.fixture(autouse=True)
def _warnings(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
