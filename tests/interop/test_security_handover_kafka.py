"""A node goes from kcli to real Kafka and back with its users, ACLs, delegation tokens and client quotas.

Each leg, on the same directory: all is described as before, and holds as before (logins by SCRAM and with tokens, what
ACLs allow and deny, by host too, how long quotas throttle); then more is added, changed and taken away. A leg ends with
a stop or with kill -9, with snapshots of the metadata log or without.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kcli.broker.config.security import SCRAM_LOGIN
from kcli.security.authorizer import CLASS_NAME
from kcli.security.plain import LOGIN_MODULE
from kcli.security.scram import MECHANISMS
from tests.broker.cluster import wait_for
from tests.broker.running import Address, Client
from tests.cli import run
from tests.interop.clusters import QUORUM, local_places
from tests.interop.complaints import complaints
from tests.interop.real_cluster import RealCluster
from tests.interop.security_state import HOST, Security
from tests.interop.test_cluster_handover_kafka import MOVING

NODE = 1
ADMIN, PASSWORD = "admin", "admins"
JAAS = f'{LOGIN_MODULE} required username="{ADMIN}" password="{PASSWORD}" user_{ADMIN}="{PASSWORD}";'
SCRAM_JAAS = f"{SCRAM_LOGIN} required;"
SHA_256, SHA_512 = MECHANISMS
PROPERTIES = {
    "listener.security.protocol.map": "SASL:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
    "inter.broker.listener.name": "SASL",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "sasl.mechanism.controller.protocol": "PLAIN",
    "listener.name.sasl.sasl.enabled.mechanisms": f"PLAIN,{SHA_256},{SHA_512}",
    "listener.name.sasl.plain.sasl.jaas.config": JAAS,
    f"listener.name.sasl.{SHA_256.lower()}.sasl.jaas.config": SCRAM_JAAS,
    f"listener.name.sasl.{SHA_512.lower()}.sasl.jaas.config": SCRAM_JAAS,
    "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
    "listener.name.controller.plain.sasl.jaas.config": JAAS,
    "authorizer.class.name": CLASS_NAME,
    "super.users": f"User:{ADMIN}",
    "delegation.token.secret.key": "secret",
    "default.replication.factor": "1",
    "min.insync.replicas": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
}


class Node(RealCluster):
    """A node, of real Kafka or of kcli."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, PROPERTIES, nodes=1, places=local_places(1))
        self.is_kcli = False

    def _command(self, node: int) -> list[str]:
        if not self.is_kcli:
            return super()._command(node)
        return [*run.KCLI, "serve", "--config", str(self.place(node) / "server.properties")]

    def properties(self, node: int) -> dict[str, str]:
        found = super().properties(node)
        return found | {
            name: found[name].replace("PLAINTEXT", "SASL") for name in ("listeners", "advertised.listeners")
        }

    @property
    def listener(self) -> Address:
        """Where it listens for clients."""
        return self.address(NODE)

    def client(self, node: int = NODE) -> Client:
        """A connection of the super user."""
        client = Client(self.address(node))
        assert client.call("sasl_handshake", 1, mechanism="PLAIN")["error_code"] == 0
        login = f"\0{ADMIN}\0{PASSWORD}".encode()
        assert client.call("sasl_authenticate", 2, auth_bytes=login)["error_code"] == 0
        return client

    def connect(self, host: str = HOST, client_id: str = "test") -> Client:
        """Return a connection without login from one of this machine's addresses."""
        return Client(self.listener, client_id, from_host=host)

    @property
    def committed(self) -> int:
        """The last offset of the metadata log."""
        with self.client() as client:
            (quorum,) = client.call("describe_quorum", 2, topics=QUORUM)["topics"]
        end: int = quorum["partitions"][0]["high_watermark"]
        return end - 1

    @property
    def snapshot_end(self) -> int:
        """Return the offset behind the last record in the newest snapshot of the metadata log."""
        found = (self.data(NODE) / "__cluster_metadata-0").glob("*-*.checkpoint")
        return max((int(each.name[:20]) for each in found), default=0)


KINDS = {"kcli": True, "Kafka": False}
LEGS = {
    "from kcli": (("kcli", "snapshot", "stop"), ("Kafka", "", "kill"), ("kcli", "", "stop")),
    "from Kafka": (("Kafka", "snapshot", "stop"), ("kcli", "", "kill"), ("Kafka", "", "stop")),
}
"""The node of each leg, whether it writes snapshots, and how it ends: each kind must read the other's log and
snapshots."""


@pytest.fixture
def node(kafka_jars: Path, tmp_path: Path) -> Iterator[Node]:
    with Node(tmp_path) as running:
        yield running


@pytest.mark.kafka
@pytest.mark.parametrize("name", LEGS)
def test_who_may_what_changes_hands(node: Node, name: str) -> None:
    security = Security()
    node.format()
    for leg, (kind, snapshot, end) in enumerate(LEGS[name]):
        node.is_kcli = KINDS[kind]
        node.options["metadata.log.max.record.bytes.between.snapshots"] = "1" if snapshot else str(20 << 20)
        node.write_properties(NODE)
        said = len(node.log_text(NODE))
        node.start(NODE)
        node.wait_ready()
        if leg:
            security.check(node)
            security.check_quotas(node, security.cases)
            security.check_slow_host(node)
        security.add(node, leg)
        time.sleep(1)  # Kafka's broker learns of it after the response is sent
        security.check(node)
        security.check_quotas(node, [leg])
        security.keep(node)
        if snapshot:
            wait_for(lambda end=node.committed: node.snapshot_end > end, "snapshot")  # type: ignore[misc]
        log = node.log_text(NODE)[said:]
        assert "Traceback" not in log
        if not node.is_kcli:
            assert not complaints(log, "ERROR|FATAL", MOVING)
        (node.stop if end == "stop" else node.kill)(NODE)
