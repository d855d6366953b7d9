"""Nodes log in to each other, authorize each other, and forward their clients' requests together with the clients'
principals."""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, AdminClient, NewTopic, ResourceType
from confluent_kafka.admin import ResourcePatternType as Pattern

from kcli.broker.network import certificates
from kcli.broker.node import Node
from kcli.protocol.error_code import ErrorCode
from kcli.security.scram import MECHANISMS
from kcli.tls.certificates import make_authority
from tests.broker.cluster import ClusterNode, wait_for
from tests.broker.security.access import compared
from tests.broker.security.access_cases import Question
from tests.broker.security.node_requests import (
    Target,
    answers,
    at_controllers,
    codes,
    node_requests,
    of_few_rights,
    of_listener,
)
from tests.broker.security.secured import NOW
from tests.broker.security.secured_cluster import REAUTH_MS, SecuredCluster, logged_in, plain, secured_cluster

WAIT_S = 30.0
RECORDS = 200


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    """A cluster in which alice has all rights on topics and groups, and mallory none."""
    with secured_cluster(tmp_path_factory.mktemp("cluster")) as running:
        admin = AdminClient(running.librdkafka("admin"))
        allow = (AclOperation.ALL, AclPermissionType.ALLOW)
        kinds = (ResourceType.TOPIC, ResourceType.GROUP)
        acls = [AclBinding(kind, "a", Pattern.PREFIXED, "User:alice", "*", *allow) for kind in kinds]
        for each in admin.create_acls(acls).values():
            each.result(WAIT_S)
        yield running


def follower(cluster: SecuredCluster) -> int:
    """A broker that is not the active controller: it forwards requests in Envelopes."""
    leader = cluster.leader()
    return next(each for each in cluster.broker_ids if each != leader and each in cluster.nodes)


def create(cluster: SecuredCluster, node_id: int, user: str, topic: str) -> int:
    """Make a topic through a broker. Returns the error code."""
    sizes = {"num_partitions": 2, "replication_factor": 3, "assignments": (), "configs": ()}
    with cluster.client(node_id, user) as client:
        made = client.call("create_topics", 7, topics=[{"name": topic, **sizes}], timeout=10_000, validate_only=False)
    code: int = made["topics"][0]["error_code"]
    return code


def write(cluster: SecuredCluster, user: str, topic: str) -> list[bytes]:
    """Produce with acks=all. Returns the values."""
    failures: list[Any] = []
    producer = Producer({**cluster.librdkafka(user), "acks": "all", "message.timeout.ms": 20_000})
    values = [f"{user} {number}".encode() for number in range(RECORDS)]

    def delivered(error: object, _: object) -> None:
        failures.extend([] if error is None else [error])

    for each in values:
        producer.produce(topic, each, on_delivery=delivered)
    assert producer.flush(WAIT_S) == 0
    assert not failures
    return values


def read(cluster: SecuredCluster, user: str, topic: str, count: int) -> set[bytes]:
    settings = {**cluster.librdkafka(user), "group.id": "a-group", "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, "enable.auto.commit": False})
    consumer.subscribe([topic])
    found: set[bytes] = set()
    until = time.monotonic() + WAIT_S
    while len(found) < count and time.monotonic() < until:
        found |= {each.value() for each in consumer.consume(100, 1) if each.error() is None}  # type: ignore[misc]
    consumer.close()
    return found


def in_sync(cluster: SecuredCluster, topic: str, node_id: int = 1) -> set[int]:
    """Return the nodes that are in the ISR of all partitions of a topic, as a broker knows it."""
    with cluster.client(node_id) as client:
        (known,) = client.call("metadata", 12, topics=[{"name": topic, "topic_id": None}])["topics"]
    replicas = [set(each["isr_nodes"]) for each in known["partitions"]]
    return set.intersection(*replicas) if replicas else set()  # the broker may not know a new topic yet


def test_an_allowed_user_works_through_a_follower(cluster: SecuredCluster) -> None:
    assert create(cluster, follower(cluster), "alice", "a-1") == 0
    wait_for(lambda: in_sync(cluster, "a-1") == {1, 2, 3}, "full ISR")
    values = write(cluster, "alice", "a-1")
    assert read(cluster, "alice", "a-1", len(values)) == set(values)


def test_a_denied_user_is_denied_as_himself(cluster: SecuredCluster) -> None:
    """The controller decides about the user, not about the broker that forwards the request."""
    for node_id in (follower(cluster), cluster.leader()):
        assert create(cluster, node_id, "mallory", "a-2") == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert create(cluster, node_id, "alice", "b-1") == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    admin = AdminClient(cluster.librdkafka("mallory"))
    with pytest.raises(KafkaException) as refused:
        admin.create_topics([NewTopic("a-3", 1, 1)])["a-3"].result(WAIT_S)
    assert refused.value.args[0].name() == "TOPIC_AUTHORIZATION_FAILED"


def test_a_user_is_no_node(cluster: SecuredCluster) -> None:
    """What nodes ask each other needs ClusterAction."""
    with cluster.client(1, "alice") as client:
        fields = {"replica_state": {"replica_id": 2, "replica_epoch": -1}, "max_wait": 0, "min_bytes": 0}
        topic = cluster.on(1, lambda node: node.broker.image.topics["a-1"].id)
        part = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1}
        asked = client.call("fetch", 17, topics=[{"topic_id": topic, "partitions": [part]}], **fields)
        assert asked["responses"][0]["partitions"][0]["error_code"] == ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_the_requests_of_nodes_are_refused(cluster: SecuredCluster) -> None:
    """Users who have logged in get the errors that Kafka gives, at each listener of each node
    (tests/interop/test_secured_cluster_kafka.py), and nothing changes in the cluster."""
    first = state(cluster)
    topic = cluster.on(1, lambda node: node.broker.image.topics["a-1"])
    partition = topic.partitions[0]
    broker = next(each for each in cluster.broker_ids if each not in (partition.leader, cluster.leader()))
    epoch = cluster.on(1, lambda node: node.broker.image.brokers[broker].epoch)
    quorum = cluster.quorum(cluster.leader())["leader_epoch"]
    target = Target("a-1", topic.id, partition.leader, partition.leader_epoch, broker, epoch, quorum)
    taken = []
    for user in ("alice", "mallory"):
        for node_id in cluster.broker_ids:
            for listener, ports in (("SECURE", cluster.client_ports), ("CONTROLLER", cluster.controller_ports)):
                connect = partial(logged_in, ("127.0.0.1", ports[node_id]), cluster.directory, user)
                for what, found in answers(connect, of_listener(node_requests(target), listener)).items():
                    told = set(codes(found)) - {ErrorCode.NONE}
                    if found != "closed" and not (told and told <= REFUSED):
                        taken.append(f"{what} of {user} at {listener} of node {node_id}: {found}")
    assert not taken, "\n".join(taken)
    assert state(cluster) == first


REFUSED = {ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED}


def at_controller(cluster: SecuredCluster, node_id: int, user: str, asked: Iterable[Question]) -> list[Any]:
    """The answers of a controller's listener."""
    address = ("127.0.0.1", cluster.controller_ports[node_id])
    with logged_in(address, cluster.directory, user) as client:
        return [compared(client.call(api, version, **request), {}) for api, version, request in asked]


def test_each_controller_checks_rights(cluster: SecuredCluster) -> None:
    """A controller checks rights before it checks whether it is active: a user without rights gets the same response
    from each."""
    asked = at_controllers()
    active, other = (at_controller(cluster, each, "mallory", asked) for each in (cluster.leader(), follower(cluster)))
    different = [
        f"{question}: {one}, {two}" for question, one, two in zip(asked, active, other, strict=True) if one != two
    ]
    assert not different, "\n".join(different)


def test_a_controller_that_is_not_active_changes_nothing(cluster: SecuredCluster) -> None:
    """It answers NOT_CONTROLLER if the user has the right to any change; otherwise it answers as the active one, also
    about duplicates, internal topics, and unknown topics to delete. Kafka's controllers answer the same, as
    tests/interop/test_secured_cluster_kafka.py shows."""
    asked = of_few_rights("a-1")
    found = at_controller(cluster, follower(cluster), "alice", asked)
    refused = {ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.INVALID_REQUEST}
    unknown = {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    by_api: dict[str, list[set[int]]] = {}
    for (api, _, _), each in zip(asked, found, strict=True):
        by_api.setdefault(api, []).append(set(codes(each)) - {ErrorCode.NONE})
    moved = {ErrorCode.NOT_CONTROLLER}
    denied = {ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    twice = {ErrorCode.INVALID_REQUEST}
    assert by_api == {
        "delete_topics": [denied, twice, denied, unknown, moved],
        "create_topics": [denied, twice, refused, moved, moved],
        "create_partitions": [denied, twice, denied, moved, moved],
        "alter_configs": [denied, denied, denied, moved, moved],
        "incremental_alter_configs": [denied, denied, denied, moved, moved],
    }


def state(cluster: SecuredCluster) -> Any:
    """What the requests of nodes could change."""
    leader = cluster.leader()
    image = cluster.on(leader, lambda node: node.broker.image)
    partitions = [
        (each.leader, each.leader_epoch, each.partition_epoch, sorted(each.isr), list(each.replicas))
        for each in image.topics["a-1"].partitions.values()
    ]
    brokers = {number: (each.epoch, each.fenced) for number, each in image.brokers.items()}
    return leader, cluster.quorum(leader)["leader_epoch"], partitions, brokers


def logins(node: Node) -> tuple[int, int]:
    """Return the number of connections from other nodes, and how many of them have re-authenticated."""
    connections = [each for each in node.server.connections if each.principal == "User:admin"]
    known = [each._authentication for each in connections if each._authentication is not None]
    return len(known), sum(each.is_again for each in known)


def test_nodes_log_in_again_before_their_sessions_end(cluster: SecuredCluster) -> None:
    """They re-authenticate on the same connections: after two sessions all of these have done so."""
    leader = cluster.leader()

    def of_others() -> set[int]:
        def look(node: Node) -> set[int]:
            return {id(each) for each in node.server.connections if each.listener == "CONTROLLER"}

        found: set[int] = cluster.on(leader, look)
        return found

    before = of_others()
    wait_for(lambda: cluster.on(leader, logins)[1] >= 2, "logins again")
    time.sleep(1.5 * REAUTH_MS / 1000)
    assert len(before & of_others()) >= 2, "the connections of raft go on"


def test_a_node_comes_back(cluster: SecuredCluster) -> None:
    node_id = follower(cluster)
    cluster.stop(node_id)
    other = next(each for each in cluster.broker_ids if each in cluster.nodes)
    wait_for(lambda: node_id not in in_sync(cluster, "a-1", other), "ISR without it")
    values = write(cluster, "alice", "a-1")
    cluster.start(node_id)
    wait_for(lambda: in_sync(cluster, "a-1", node_id) == {1, 2, 3}, "full ISR")
    assert set(values) <= read(cluster, "alice", "a-1", RECORDS)


def test_a_node_with_a_wrong_password_stays_out(cluster: SecuredCluster, caplog: pytest.LogCaptureFixture) -> None:
    """The node logs the reason once for each address, and waits before it tries again; the other nodes go on."""
    node_id = follower(cluster)
    cluster.stop(node_id)
    caplog.set_level("WARNING", "kcli.broker")
    caplog.clear()
    wrong = plain("wrong")
    prefix, suffix = "listener.name.", ".plain.sasl.jaas.config"
    properties = cluster.properties(node_id) | {f"{prefix}{each}{suffix}": wrong for each in ("secure", "controller")}
    node = ClusterNode(properties)

    def refusals() -> list[str]:
        return [each.getMessage() for each in caplog.records if "log in to the one at" in each.getMessage()]

    try:
        wait_for(lambda: len(set(refusals())) == 2, "refusals")
        time.sleep(2)
        assert not node._up.is_set()
        addresses = {f"127.0.0.1:{port}" for each, port in cluster.controller_ports.items() if each != node_id}
        assert sorted(refusals()) == sorted(
            f"this node cannot log in to the one at {each}: "
            "SASL PLAIN: Authentication failed: Invalid username or password"
            for each in addresses
        )
        other = next(each for each in cluster.broker_ids if each in cluster.nodes)
        assert set(read(cluster, "alice", "a-1", RECORDS)) >= set(write(cluster, "alice", "a-1"))
        assert len(in_sync(cluster, "a-1", other)) == 2
    finally:
        node.give_up()
    cluster.start(node_id)
    wait_for(lambda: in_sync(cluster, "a-1", node_id) == {1, 2, 3}, "full ISR")


def test_brokers_log_in_by_scram_once_their_user_is_there(tmp_path: Path) -> None:
    """The broker logs in to the separate controller, whose listener opens after its ACLs are loaded, by PLAIN. Brokers
    log in to each other by SCRAM: nothing is replicated until the user is in the metadata log."""
    mechanism = MECHANISMS["SCRAM-SHA-256"]
    jaas = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="broker" password="brokers";'
    options = {
        "early.start.listeners": "",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256",
        "listener.name.secure.scram-sha-256.sasl.jaas.config": jaas,
        "super.users": "User:admin;User:broker",
        "offsets.topic.replication.factor": "2",
        "transaction.state.log.replication.factor": "2",
    }
    with secured_cluster(tmp_path, brokers=2, controllers=1, options=options) as cluster:
        with cluster.client(1) as client:
            sizes = {"num_partitions": 4, "replication_factor": 2, "assignments": (), "configs": ()}
            topics = [{"name": "t", **sizes}]
            made = client.call("create_topics", 7, topics=topics, timeout=10_000, validate_only=False)
            assert made["topics"][0]["error_code"] == 0
        wait_for(lambda: len(in_sync(cluster, "t")) < 2, "ISR without a follower")
        credential = {"name": "broker", "mechanism": mechanism.code, "iterations": 4096, "salt": b"salt"}
        request = [credential | {"salted_password": mechanism.salted("brokers", b"salt", 4096)}]
        with cluster.client(2) as client:
            answer = client.call("alter_user_scram_credentials", 0, deletions=[], upsertions=request)
        assert answer["results"][0]["error_code"] == 0
        wait_for(lambda: in_sync(cluster, "t") == {1, 2}, "full ISR")


def test_the_authority_of_all_nodes_is_replaced(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The nodes first trust the new authority, then get its certificates: each node shows and accepts what the files
    have, also on its connections to others. A separate broker has no controllers' listener."""
    monkeypatch.setattr(certificates, "LOOK_S", 0.05)
    caplog.set_level("INFO", "kcli.broker")
    options = {"offsets.topic.replication.factor": "2", "transaction.state.log.replication.factor": "2"}
    ca, server = tmp_path / "ca.pem", tmp_path / "server.pem"

    def replace(path: Path, data: bytes) -> None:
        """Replace a file on all nodes, and wait until all listeners and connections to other nodes use it."""
        before = contexts()
        path.with_suffix(".new").write_bytes(data)
        path.with_suffix(".new").replace(path)
        wait_for(lambda: not before & contexts(), "new contexts")

    def of(node: Node) -> set[ssl.SSLContext]:
        ways = [each.tls for each in node._outbound.values()]
        return {each.context for each in (*node.server.tls_listeners.values(), *ways) if each is not None}

    def contexts() -> set[ssl.SSLContext]:
        return {context for each in cluster.ids for context in cluster.on(each, of)}

    def close_all(node: Node) -> None:
        for each in list(node.server.connections):
            each.close("the test")

    with secured_cluster(tmp_path, brokers=2, controllers=1, options=options) as cluster:
        other = make_authority("another", NOW)
        assert len(contexts()) == 8, "of brokers: a listener and two ways; of the controller: a listener and one way"
        replace(ca, ca.read_bytes() + other.certificate_pem)
        replace(server, other.server(["127.0.0.1"], NOW).pem)
        replace(ca, other.certificate_pem)
        for node_id in cluster.ids:
            cluster.on(node_id, close_all)
        with cluster.client(1) as client:
            topics = [{"name": "t", "num_partitions": 4, "replication_factor": 2, "assignments": (), "configs": ()}]
            made = client.call("create_topics", 7, topics=topics, timeout=10_000, validate_only=False)
            assert made["topics"][0]["error_code"] == 0
        write(cluster, "admin", "t")
        wait_for(lambda: in_sync(cluster, "t") == {1, 2}, "full ISR")
    refused = [each for each in caplog.messages if "log in to the one at" in each or "handshakes fail" in each]
    assert not [each for each in refused if "the peer has closed the connection" not in each], "close_all may do that"


def test_nodes_that_are_no_super_users_are_refused(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Such a quorum never has a leader, as in Kafka: without ACLs, which are in the metadata log, no node may send a
    Fetch."""
    caplog.set_level("WARNING", "kcli.broker")
    cluster = SecuredCluster(tmp_path, 2, options={"super.users": "User:root"})
    nodes = [ClusterNode(cluster.properties(each)) for each in cluster.ids]
    reason = "refuses this one, which must be among super.users there if there is an authorizer"

    def log_lines() -> set[str]:
        return {each.getMessage() for each in caplog.records if each.getMessage().endswith(reason)}

    try:
        addresses = {f"127.0.0.1:{port}" for port in cluster.controller_ports.values()}
        expected = {f"UNKNOWN_SERVER_ERROR: the node at {each} {reason}" for each in addresses}
        wait_for(lambda: log_lines() == expected, "log lines")
    finally:
        for node in nodes:
            node.give_up()
