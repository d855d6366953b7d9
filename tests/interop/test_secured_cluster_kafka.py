"""Clusters of kcli's and Kafka's nodes, with every listener secured: one node of one kind, two of the other.

They log in to each other in every direction; users, ACLs, tokens and quotas that one node creates apply on all nodes.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, AdminClient, ResourceType
from confluent_kafka.admin import ResourcePatternType as Pattern

from kcli.broker.config.security import SCRAM_LOGIN
from kcli.broker.network.client import SocketNetwork
from kcli.broker.network.outbound import Outbound
from kcli.protocol.error_code import ErrorCode
from kcli.security.client_login import client_login
from kcli.security.scram import MECHANISMS
from kcli.tls.certificates import make_authority
from kcli.tls.contexts import client_context
from tests.broker.cluster import wait_for
from tests.broker.running import Address, Client
from tests.broker.security.access import compared
from tests.broker.security.access_cases import Question
from tests.broker.security.node_requests import (
    Target,
    answers,
    at_controllers,
    node_requests,
    of_few_rights,
    of_listener,
)
from tests.broker.security.secured import NOW
from tests.broker.security.secured_cluster import (
    PASSWORDS,
    REAUTH_MS,
    librdkafka,
    logged_in,
    secured_properties,
    through_tls,
    write_certificates,
)
from tests.cli import run
from tests.conftest import is_soak
from tests.interop.clusters import ClusterError
from tests.interop.complaints import complaints
from tests.interop.real_cluster import RealCluster
from tests.interop.security_state import HOST, Door, Security
from tests.interop.test_cluster_handover_kafka import MOVING

FEW, MANY = 1, (2, 3)
"""The ids of the one node of one kind, and of the two of the other kind."""
KCLI, KAFKA = FEW, MANY
"""The ids of each kind, except in the cluster with a majority of kcli."""
WAIT_S = 60.0
RECORDS = 100
BY_CERTIFICATE = {
    "listener.security.protocol.map": "SECURE:SASL_SSL,CONTROLLER:SSL",
    "listener.name.controller.ssl.client.auth": "required",
    "listener.name.controller.ssl.principal.mapping.rules": "RULE:^.*$/admin/",
}
"""Certificates in place of passwords at the controller listener."""


LOGGED_IN = {
    "listener.name.secure.sasl.enabled.mechanisms": ",".join(["PLAIN", *MECHANISMS]),
    **{f"listener.name.secure.{name.lower()}.sasl.jaas.config": f"{SCRAM_LOGIN} required;" for name in MECHANISMS},
    "delegation.token.secret.key": "secret",
    "connections.max.reauth.ms": str(REAUTH_MS),
}
"""Logins with SCRAM and tokens, besides the nodes' passwords."""


class MixedCluster(RealCluster):
    """A cluster in which node 1 is the only one of its kind. Node 1 stands for election at once, the others after ten
    seconds."""

    def __init__(self, directory: Path, options: Mapping[str, str], kcli: Collection[int]) -> None:
        super().__init__(directory, options)
        self.kcli = frozenset(kcli)

    def _command(self, node: int) -> list[str]:
        if node not in self.kcli:
            return super()._command(node)
        return [*run.KCLI, "serve", "--config", str(self.place(node) / "server.properties")]

    def properties(self, node: int) -> dict[str, str]:
        found = super().properties(node)
        for name in ("listeners", "advertised.listeners"):
            found[name] = found[name].replace("PLAINTEXT", "SECURE")
        return found | {"controller.quorum.election.timeout.ms": "300" if node == FEW else "10000"}

    def client(self, node: int, user: str = "admin") -> Client:
        return logged_in(self.address(node), self.directory, user)

    def door(self, node: int) -> Door:
        """What security_state.py asks of a node."""
        return _Door(self, node)

    def settings(self, user: str) -> dict[str, Any]:
        """Of a client of librdkafka."""
        return librdkafka(self.bootstrap, self.directory, user)


@dataclass(frozen=True)
class _Door:
    """A node's listener for clients."""

    cluster: MixedCluster
    node: int

    @property
    def listener(self) -> Address:
        return self.cluster.address(self.node)

    def client(self) -> Client:
        return self.cluster.client(self.node)

    def connect(self, host: str = HOST, client_id: str = "test") -> Client:
        return through_tls(self.listener, self.cluster.directory, host, client_id)


KINDS = {"SASL_SSL": (KCLI,), "SSL": (KCLI,), "majority": MANY}
"""The nodes' login at the controller listener (by certificate for SSL), and which nodes are kcli's."""


@contextmanager
def started(folder: Path, kind: str) -> Iterator[MixedCluster]:
    """Start a cluster in which alice has all rights on topics that begin with a, and mallory none."""
    write_certificates(folder, make_authority("kcli test", NOW))
    options = {**secured_properties(folder), **LOGGED_IN}
    if kind == "SSL":
        del options["listener.name.controller.plain.sasl.jaas.config"]
        options |= BY_CERTIFICATE
    with MixedCluster(folder, options, KINDS[kind]) as running:
        running.format()
        running.start()
        running.wait_ready()
        admin = AdminClient(running.settings("admin"))
        allow = (AclOperation.ALL, AclPermissionType.ALLOW)
        kinds = (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID)
        acls = [AclBinding(kind, "a", Pattern.PREFIXED, "User:alice", "*", *allow) for kind in kinds]
        for each in admin.create_acls(acls).values():
            each.result(WAIT_S)
        running.wait_heard()
        yield running
        running.stop(*sorted(running.kcli))  # real Kafka waits five minutes for a quorum that is gone


class SharedCluster:
    """One cluster for the tests of this module, and a new one for a test that is repeated, as its first run may have
    left it broken."""

    def __init__(self, factory: pytest.TempPathFactory, kind: str) -> None:
        self._factory = factory
        self._kind = kind
        self._stack = ExitStack()
        self.cluster = self._start()

    def replace(self) -> None:
        self.close()
        self.cluster = self._start()

    def close(self) -> None:
        self._stack.close()

    def _start(self) -> MixedCluster:
        return self._stack.enter_context(started(self._factory.mktemp("cluster"), self._kind))


@pytest.fixture(scope="module", params=KINDS if is_soak() else ["SASL_SSL", "SSL"])
def shared(
    kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[SharedCluster]:
    with closing(SharedCluster(tmp_path_factory, request.param)) as found:
        yield found


@pytest.fixture
def cluster(shared: SharedCluster, request: pytest.FixtureRequest) -> MixedCluster:
    if getattr(request.node, "execution_count", 1) > 1:
        shared.replace()
    return shared.cluster


def create(cluster: MixedCluster, node: int, user: str, topic: str) -> int:
    """Make a topic through a broker. Returns the error code."""
    sizes = {"num_partitions": 6, "replication_factor": 3, "assignments": (), "configs": ()}
    with cluster.client(node, user) as client:
        made = client.call("create_topics", 7, topics=[{"name": topic, **sizes}], timeout=20_000, validate_only=False)
    code: int = made["topics"][0]["error_code"]
    return code


def check(cluster: MixedCluster, topic: str) -> None:
    """Each node forwards requests with its client's principal; records and transactions reach all nodes."""
    for node in cluster.ids:
        assert create(cluster, node, "mallory", f"{topic}-{node}") == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert create(cluster, node, "alice", f"b-{node}") == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert create(cluster, node, "alice", f"{topic}-{node}") == 0
    topics = [f"{topic}-{node}" for node in cluster.ids]
    cluster.wait_in_sync(topics=topics)
    values = set()
    for number in range(3):  # of several coordinators
        producer = Producer({**cluster.settings("alice"), "transactional.id": f"a-{topic}-{number}"})
        producer.init_transactions(WAIT_S)
        producer.begin_transaction()
        for each in range(RECORDS):
            values.add(value := f"{number} {each}".encode())
            producer.produce(topics[each % 3], value, key=value)
        producer.commit_transaction(WAIT_S)
    assert read(cluster, topics, len(values)) == values


def read(cluster: MixedCluster, topics: list[str], count: int) -> set[bytes]:
    group = {"group.id": f"a-{topics[0]}", "auto.offset.reset": "earliest", "isolation.level": "read_committed"}
    consumer = Consumer({**cluster.settings("alice"), **group})
    consumer.subscribe(topics)
    found: set[bytes] = set()
    until = time.monotonic() + WAIT_S
    while len(found) < count and time.monotonic() < until:
        found |= {each.value() for each in consumer.consume(100, 1) if each.error() is None}  # type: ignore[misc]
    consumer.close()
    return found


def of_one_kcli(cluster: MixedCluster) -> None:
    """Skip where there are more."""
    if cluster.kcli != {KCLI}:
        pytest.skip("shown by the cluster with two nodes of Kafka")


def make_few_active(cluster: MixedCluster) -> None:
    """Restart active controllers until the node with the shortest election timeout is active."""
    until = time.monotonic() + 3 * WAIT_S
    while (active := cluster.controller()) != FEW:
        if time.monotonic() > until:
            raise ClusterError(f"the active controller is {active}")
        if active is not None:
            cluster.restart(active)
            cluster.wait_ready()
        time.sleep(0.2)
    cluster.wait_in_sync()


def wait_for_controller(cluster: MixedCluster, nodes: tuple[int, ...]) -> None:
    until = time.monotonic() + WAIT_S
    while (found := cluster.controller()) not in nodes:
        if time.monotonic() > until:
            raise ClusterError(f"the active controller is {found}")
        time.sleep(0.2)


REFUSED = "User:(alice|mallory)|Closing socket for |Exception while processing request from "
"""Lines that Kafka's nodes log about users who send the requests of nodes."""
DIFFERENT = {
    "fetch": "before version 13 Kafka answers for each topic",
    "describe_user_scram_credentials": "Kafka's controllers fail",
    "alter_configs": "other words on loggers and resources that come twice",
    "incremental_alter_configs": "Kafka's controllers have loggers",
}
"""By API of controllers' listeners: how Kafka's response to a user without rights differs."""
OF_ADMINS = {
    "alter_client_quotas",
    "alter_partition_reassignments",
    "alter_user_scram_credentials",
    "create_partitions",
    "create_topics",
    "delete_acls",
    "delete_topics",
    "describe_acls",
    "elect_leaders",
    "list_partition_reassignments",
    "unregister_broker",
    "update_features",
}
"""APIs whose questions an administrator sends to a controller that is not active."""


def at_both() -> list[Question]:
    """Return the questions for controllers that both kinds answer."""
    return [each for each in at_controllers() if each[0] not in DIFFERENT or (each[0] == "fetch" and each[1] > 12)]


def test_controllers_of_both_kinds_refuse_alike(cluster: MixedCluster) -> None:
    """Each kind gives a user without rights, or with few, the same response at its controller's listener, also where
    another node is the active controller, since rights are checked first."""
    if BY_CERTIFICATE.items() <= cluster.options.items():
        pytest.skip("users have no certificates")
    make_few_active(cluster)
    create(cluster, FEW, "alice", "a-0")
    cluster.wait_in_sync()
    different = []
    for active in ((FEW,), MANY):
        if active == MANY:
            cluster.restart(FEW)
            wait_for_controller(cluster, MANY)
            cluster.wait_ready()
            cluster.wait_in_sync()
        asked = [("mallory", each) for each in at_both()]
        if active == MANY:  # neither of those that are asked
            asked += [("alice", each) for each in of_few_rights("a-0")]
            asked += [("admin", each) for each in at_both() if each[0] in OF_ADMINS]
        others = set(cluster.ids) - ({cluster.controller()} if active == MANY else set())
        nodes = min(others & cluster.kcli), min(others - cluster.kcli)
        for user, (api, version, request) in asked:
            found = []
            for node in nodes:
                port = cluster.places[node].controller_port
                with logged_in(("127.0.0.1", port), cluster.directory, user) as client:
                    found.append(compared(client.call(api, version, **request), {}))
            if found[0] != found[1]:
                different.append((active, user, api, version, found))
    assert not different, "\n".join(map(str, different))


def test_brokers_of_both_kinds_refuse_the_requests_of_nodes_alike(cluster: MixedCluster) -> None:
    """Users have logged in at the clients' listener; alice has all rights on the topic."""
    assert create(cluster, FEW, "alice", "a-nodes") in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
    cluster.wait_in_sync()
    with cluster.client(FEW) as admin:
        (known,) = admin.call("metadata", 12, topics=[{"name": "a-nodes", "topic_id": None}])["topics"]
    first = next(each for each in known["partitions"] if each["partition_index"] == 0)
    target = Target("a-nodes", known["topic_id"], first["leader_id"], first["leader_epoch"], 2, 1, 1)
    requests = of_listener(node_requests(target), "SECURE")
    for user in ("alice", "mallory"):
        ours, theirs = (answers(partial(cluster.client, node, user), requests) for node in (FEW, MANY[0]))
        assert ours == theirs


def hold(cluster: MixedCluster, security: Security, leg: int, via: int) -> None:
    """Create more users, ACLs, tokens and quotas through one node, and check them on all."""
    security.add(cluster.door(via), leg)
    cluster.wait_heard()
    time.sleep(0.5)  # Kafka's brokers report their metadata offset before they apply users and quotas
    security.keep(cluster.door(via))
    for node in cluster.ids:
        security.check(cluster.door(node))
        security.check_quotas(cluster.door(node), [leg])


@pytest.mark.hypothesis  # make soak runs all cases and moves, which start real nodes again and again
def test_nodes_of_both_kinds_trust_each_other(cluster: MixedCluster) -> None:
    """The active controller is of the one kind, then of the other, then of the first one again."""
    security, holds = Security(), is_soak() or not BY_CERTIFICATE.items() <= cluster.options.items()
    make_few_active(cluster)
    check(cluster, "a-first")
    if holds:
        hold(cluster, security, 0, via=MANY[0])
    cluster.restart(FEW)
    wait_for_controller(cluster, MANY)
    cluster.wait_ready()
    cluster.wait_in_sync()
    check(cluster, "a-second")
    if holds:
        hold(cluster, security, 1, via=FEW)
    if is_soak():
        make_few_active(cluster)
        check(cluster, "a-third")
        hold(cluster, security, 2, via=MANY[1])
    refusal = re.compile("uthentication failed|failed authentication|cannot log in")
    of_scram = re.compile("SCRAM|Invalid client credentials")
    for node in cluster.ids:
        if holds:
            security.check_slow_host(cluster.door(node))
        refused = [line for line in cluster.log_text(node).splitlines() if refusal.search(line)]
        assert [line for line in refused if not of_scram.search(line)] == [], "nodes have passwords of PLAIN"
    for node in set(cluster.ids) - cluster.kcli:
        assert not complaints(cluster.log_text(node), "ERROR|FATAL", f"{MOVING}|{REFUSED}")


def test_a_session_at_kafka_goes_on(cluster: MixedCluster) -> None:
    """The session lasts several times its length on one connection, or on a second one if the machine stalls at the
    wrong moment."""
    of_one_kcli(cluster)
    trust = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(cluster.directory / "ca.pem")}
    how = Outbound(client_context(trust, NOW), client_login("PLAIN", "admin", PASSWORDS["admin"]))

    async def run() -> None:
        loop = asyncio.get_running_loop()
        network = SocketNetwork(loop, how)
        channel = network.channel(*cluster.address(KAFKA[0]), "test")
        connections, until = set(), loop.time() + 3.5 * REAUTH_MS / 1000
        while loop.time() < until:
            await channel.call("metadata", 12, timeout_s=5, topics=[])
            connections.add(channel._connection)
            await asyncio.sleep(0.05)
        network.close()
        assert len(connections) <= 2

    asyncio.run(run())


def test_a_wrong_password_is_one_line_for_each_node(cluster: MixedCluster) -> None:
    of_one_kcli(cluster)
    if BY_CERTIFICATE.items() <= cluster.options.items():
        pytest.skip("controllers have no passwords here")
    cluster.stop(KCLI)
    begin = len(cluster.log_text(KCLI))
    right = (cluster.place(KCLI) / "server.properties").read_text()
    wrong = right.replace(f'password="{PASSWORDS["admin"]}"', 'password="wrong"', 2)
    (cluster.place(KCLI) / "server.properties").write_text(wrong)
    cluster.start(KCLI)

    def refusals() -> list[str]:
        return [line for line in cluster.log_text(KCLI)[begin:].splitlines() if "cannot log in" in line]

    wait_for(lambda: len(refusals()) >= len(KAFKA), "refusals", WAIT_S)
    time.sleep(2)
    assert cluster.is_running(KCLI)
    found = refusals()
    cluster.stop(KCLI)
    reason = "SASL PLAIN: Authentication failed: Invalid username or password"
    ports = {cluster.places[node].controller_port for node in KAFKA}
    expected = [f"this node cannot log in to the one at 127.0.0.1:{port}: {reason}" for port in sorted(ports)]
    assert sorted(line.partition("WARNING ")[2] for line in found) == expected
    (cluster.place(KCLI) / "server.properties").write_text(right)
    cluster.start(KCLI)
    cluster.wait_ready()
    cluster.wait_in_sync()
