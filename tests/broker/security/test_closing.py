"""The steps of docs/securing.md that close an open cluster while it runs, with the lines that the page shows."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, AdminClient, ResourceType
from confluent_kafka.admin import ResourcePatternType as Pattern

from kcli.security.scram import MECHANISMS
from kcli.tls.certificates import make_authority
from tests.broker.cluster import Cluster, free_ports, wait_for
from tests.broker.running import Client
from tests.broker.security.secured import NOW

PAGE = Path(__file__).parents[3] / "docs/securing.md"
STEPS = 5
MECHANISM = MECHANISMS["SCRAM-SHA-512"]
WAIT_S = 30.0
PASSWORDS = {"node": "node-secret", "admin": "admin-secret", "alice": "alice-secret", "mallory": "mallory-secret"}
OPEN, SECURE = "PLAINTEXT", "SECURE"


def steps() -> list[dict[str, str]]:
    """The lines that each step adds or changes."""
    section = PAGE.read_text().partition("## Closing an open cluster that runs\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"```properties\n(.*?)```", section, re.DOTALL)
    pairs = [[line.strip().partition("=") for line in block.splitlines() if line.strip()] for block in blocks]
    return [{name: value for name, _, value in each} for each in pairs]


class ClosingCluster(Cluster):
    """Three nodes, each a broker and a controller, as far as the page's steps have brought them."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._lines: dict[int, dict[str, str]] = {each: {} for each in self.ids}
        ports = iter(free_ports(2 * len(self.ids)))
        self.secure_ports = {each: next(ports) for each in self.ids}
        self._ports: dict[tuple[int, str], int] = {}
        for each in self.ids:
            known = (self.client_ports[each], self.controller_ports[each], self.secure_ports[each], next(ports))
            self._ports |= {(each, str(9092 + number)): port for number, port in enumerate(known)}
        authority = make_authority("kcli test", NOW)
        (directory / "ca.pem").write_bytes(authority.certificate_pem)
        for each in self.ids:
            (directory / f"node{each}.pem").write_bytes(authority.server([f"node{each}", "127.0.0.1"], NOW).pem)

    def properties(self, node_id: int) -> dict[str, str]:
        lines = {name: self._here(node_id, name, value) for name, value in self._lines[node_id].items()}
        return super().properties(node_id) | lines

    def _here(self, node_id: int, name: str, value: str) -> str:
        """Return a value of the page with this node's addresses and files in place of the page's."""
        if name == "listeners":
            value = value.replace("node1:", f"node{node_id}:")
        value = value.replace("/etc/kafka/node.pem", f"/etc/kafka/node{node_id}.pem")
        value = value.replace("/etc/kafka", str(self.directory))
        return re.sub(r"node(\d):(\d+)", lambda at: f"127.0.0.1:{self._ports[int(at[1]), at[2]]}", value)

    def step(self, lines: dict[str, str]) -> None:
        """Restart the nodes one by one with these lines, each once the one before is in all ISRs."""
        for node_id in self.ids:
            self.stop(node_id)
            self._lines[node_id] |= lines
            self.start(node_id)
            wait_for(self.is_whole, "full ISRs", WAIT_S)

    def is_whole(self) -> bool:
        """Whether each node's image has all replicas in sync."""

        def look(node: Any) -> bool:
            partitions = [part for topic in node.broker.image.topics.values() for part in topic.partitions.values()]
            return all(set(each.isr) == set(each.replicas) and each.leader > 0 for each in partitions)

        return all(self.on(each, look) for each in self.ids)

    def settings(self, user: str | None) -> dict[str, Any]:
        """Return librdkafka's settings: without login for the open listeners, of a user for the closed ones."""
        quiet = {"log_level": 0, "topic.metadata.refresh.interval.ms": 1000}
        if user is None:
            return {"bootstrap.servers": self.bootstrap, **quiet}
        return {
            "bootstrap.servers": ",".join(f"127.0.0.1:{port}" for port in self.secure_ports.values()),
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": user,
            "sasl.password": PASSWORDS[user],
            "ssl.ca.location": str(self.directory / "ca.pem"),
            **quiet,
        }


class Writing:
    """A program that produces without a pause; all replicas must acknowledge each record."""

    def __init__(self, settings: dict[str, Any], values: list[bytes]) -> None:
        """values: takes those that were acknowledged."""
        self._producer = Producer({**settings, "acks": "all", "enable.idempotence": True})
        self._values = values
        self._failures: list[object] = []
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._ends.wait(0.01):
            value = b"%d-%d" % (id(self), number)
            self._producer.produce("orders", value, on_delivery=self._delivered)
            self._producer.poll(0)
            number += 1

    def _delivered(self, error: object, message: Any) -> None:
        if error is None:
            self._values.append(message.value())
        else:
            self._failures.append(error)

    def end(self) -> None:
        """Stop, once all records are acknowledged."""
        self._ends.set()
        self._thread.join()
        assert self._producer.flush(WAIT_S) == 0
        assert not self._failures


@contextmanager
def writing(settings: dict[str, Any], values: list[bytes]) -> Iterator[None]:
    """While a program produces."""
    program = Writing(settings, values)
    try:
        yield
    finally:
        program.end()


def read(settings: dict[str, Any], count: int) -> list[bytes]:
    """Read up to `count` records of the topic as a member of a group."""
    consumer = Consumer({**settings, "group.id": "billing", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    found: list[bytes] = []

    def is_done() -> bool:
        for each in consumer.consume(1000, 0.5):
            error, value = each.error(), each.value()
            if error is not None and not error.retriable():
                raise KafkaException(error)
            if error is None and value is not None:
                found.append(value)
        return len(found) >= count

    try:
        wait_for(is_done, "records", WAIT_S)
    finally:
        consumer.close()
    return found


def add_users(client: Client) -> None:
    """As `kcli users add`."""
    added = [
        {"name": name, "mechanism": MECHANISM.code, "iterations": 4096, "salt": b"salt"}
        | {"salted_password": MECHANISM.salted(password, b"salt", 4096)}
        for name, password in PASSWORDS.items()
    ]
    answer = client.call("alter_user_scram_credentials", 0, deletions=[], upsertions=added)
    assert [each["error_code"] for each in answer["results"]] == [0] * len(PASSWORDS)


def add_acls(admin: AdminClient) -> None:
    """Allow alice to write the topic orders, and to read it in the group billing."""
    resources = ((ResourceType.TOPIC, "orders"), (ResourceType.GROUP, "billing"))
    acls = [
        AclBinding(kind, name, Pattern.LITERAL, "User:alice", "*", AclOperation.ALL, AclPermissionType.ALLOW)
        for kind, name in resources
    ]
    for each in admin.create_acls(acls).values():
        each.result(WAIT_S)


def test_an_open_cluster_is_closed_while_it_runs(tmp_path: Path) -> None:
    """No record is lost or refused meanwhile; at the end only users whom an ACL names have access."""
    shown = steps()
    assert len(shown) == STEPS
    open_too, nodes_moved, authorized, no_acl_no_access, closed = shown
    values: list[bytes] = []
    cluster = ClosingCluster(tmp_path)
    try:
        cluster.start()
        with cluster.client(1) as client:
            sizes = {"num_partitions": 6, "replication_factor": 3, "assignments": (), "configs": ()}
            client.call("create_topics", 7, topics=[{"name": "orders", **sizes}], timeout=10_000, validate_only=False)
            add_users(client)
        with writing(cluster.settings(None), values):
            cluster.step(open_too)
        mine = cluster.settings("alice")
        with writing(mine, values):
            cluster.step(nodes_moved)
            cluster.step(authorized)
            add_acls(AdminClient(cluster.settings("admin")))
            cluster.step(no_acl_no_access)
            cluster.step(closed)
        assert set(read(mine, len(values))) == set(values)
        with pytest.raises(KafkaException) as refused:
            read(cluster.settings("mallory"), 1)
        assert refused.value.args[0].name() in ("TOPIC_AUTHORIZATION_FAILED", "GROUP_AUTHORIZATION_FAILED")
        for port in cluster.client_ports.values():
            with pytest.raises(ConnectionRefusedError):
                Client(("127.0.0.1", port))
    finally:
        cluster.stop()
