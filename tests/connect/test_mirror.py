"""Mirroring from one cluster to another, without Spark: records, topics, offsets of groups, heartbeats."""

from __future__ import annotations

import logging
import struct
import time
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    ResourceType,
)

from kcli.client.acls import Acls
from kcli.client.connection import Connection
from kcli.client.groups import Groups
from kcli.connect.config.clients import Client
from kcli.connect.connectors.mirror.checkpoint import MirrorCheckpoint
from kcli.connect.connectors.mirror.heartbeat import MirrorHeartbeat
from kcli.connect.connectors.mirror.offset_syncs import SyncRule, SyncStore
from kcli.connect.connectors.mirror.options import MirrorOptions, client_of
from kcli.connect.connectors.mirror.policies import DEFAULT, IDENTITY, policy_of
from kcli.connect.connectors.mirror.records import BadRecord, Checkpoint, Heartbeat, OffsetSync
from kcli.connect.connectors.mirror.source import MirrorSource
from kcli.connect.data.errors import ConnectError
from kcli.connect.engine.tasks import SourceContext
from kcli.protocol import topic_partition
from kcli.security.acls import Acl, Operation, PatternType, Permission
from kcli.security.acls import ResourceType as Resource
from kcli.testing.kafka import Kafka
from tests.connect.turns import consumed, turn

BYTES = {
    f"{each}.converter": "org.apache.kafka.connect.converters.ByteArrayConverter" for each in ("key", "value", "header")
}
OF_TOPICS = (ConfigSource.DYNAMIC_TOPIC_CONFIG, ConfigSource.DYNAMIC_TOPIC_CONFIG.value)
PLACE = topic_partition.TopicPartition("orders", 1)


@pytest.fixture
def source(kafka: Kafka) -> Iterator[Kafka]:
    """The cluster A; `kafka` is B."""
    del kafka
    with Kafka.started() as other:
        yield other


def config_of(kind: str, source: Kafka, target: Kafka, **more: str) -> dict[str, str]:
    return {
        "name": f"mirror-{kind.lower()}",
        "connector.class": f"org.apache.kafka.connect.mirror.Mirror{kind}Connector",
        "source.cluster.alias": "A",
        "target.cluster.alias": "B",
        "source.cluster.bootstrap.servers": source.bootstrap_servers,
        "target.cluster.bootstrap.servers": target.bootstrap_servers,
        "replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1",
        "checkpoints.topic.replication.factor": "1",
        "heartbeats.topic.replication.factor": "1",
        **BYTES,
        **{name.replace("__", "-").replace("_", "."): text for name, text in more.items()},
    }


def configs_of(kafka: Kafka, topic: str) -> Mapping[str, str | None]:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    (future,) = admin.describe_configs([resource]).values()
    return {name: entry.value for name, entry in future.result().items() if entry.source in OF_TOPICS}


def source_admin_changes(kafka: Kafka, topic: str, name: str, value: str) -> None:
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    (future,) = admin.incremental_alter_configs([resource]).values()
    future.result()


def commit(kafka: Kafka, group: str, topic: str, *offsets: int) -> None:
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": group})
    places = [TopicPartition(topic, number, offset) for number, offset in enumerate(offsets)]
    consumer.commit(offsets=places, asynchronous=False)
    consumer.close()


@pytest.mark.parametrize("is_plain", [True, False])
def test_topics_are_mirrored(kafka: Kafka, source: Kafka, *, is_plain: bool) -> None:
    """Partition, key, value and timestamp of each record are kept, and headers with a converter of bytes; Connect's
    default converter makes Base64 of them."""
    source.create_topic("orders", 2, {"retention.ms": "1234567", "message.timestamp.type": "CreateTime"})
    source.create_topic("A.other", 1)
    source.create_topic("B.back", 1)
    at_ms = time.time_ns() // 1_000_000 - 5000
    sent = [
        {"key": f"k{i}", "value": f"v{i}", "partition": i % 2, "timestamp_ms": at_ms + i, "headers": {"h": f"x{i}"}}
        for i in range(500)
    ]
    source.produce("orders", *sent, {"key": "gone", "value": None, "partition": 0, "timestamp_ms": at_ms})
    config = config_of("Source", source, kafka, topics="orders, .*back")
    if not is_plain:
        config["header.converter"] = "org.apache.kafka.connect.storage.SimpleHeaderConverter"
    connector = MirrorSource(config)
    assert connector.monitor() == 600
    (task,) = connector.task_configs(1)
    assert task["task.assigned.partitions"] == "orders-0,orders-1"
    outcome = turn(kafka, config, task=task, offsets={})
    assert (outcome.trace, outcome.records) == (None, 501)

    def header(number: int) -> bytes:
        data = f"x{number}".encode()
        return data if is_plain else b64encode(data)

    found = consumed(kafka, "A.orders", 501, partitions=2)
    shown = sorted((each.partition(), each.timestamp()[1], each.key(), each.value(), each.headers()) for each in found)
    assert shown == sorted(
        [
            *((i % 2, at_ms + i, f"k{i}".encode(), f"v{i}".encode(), [("h", header(i))]) for i in range(500)),
            (0, at_ms, b"gone", None, None),
        ],
        key=lambda each: each[:3],
    )
    assert configs_of(kafka, "A.orders") == {"retention.ms": "1234567"}
    assert next(iter(outcome.offsets.values()))[0] == {"cluster": "A", "partition": 0, "topic": "orders"}
    assert [offset["offset"] for _, offset in outcome.offsets.values()] == [250, 249]


def test_a_mirror_of_what_comes_begins_once(kafka: Kafka, source: Kafka) -> None:
    """auto.offset.reset=latest is the end at the task's first turn, whatever comes before the next one."""
    source.create_topic("orders", 1)
    source.produce("orders", {"value": "before"})
    config = config_of("Source", source, kafka, topics="orders")
    config["source.consumer.auto.offset.reset"] = "latest"
    connector = MirrorSource(config)
    connector.monitor()
    (task,) = connector.task_configs(1)
    first = turn(kafka, config, task=task, offsets={})
    assert (first.trace, first.records) == (None, 0)
    source.produce("orders", {"value": "after"})
    second = turn(kafka, config, task=task, offsets={}, begun=first.begun)
    assert (second.trace, second.records, second.begun) == (None, 1, {})
    assert [each.value() for each in consumed(kafka, "A.orders", 1)] == [b"after"]


def test_ranges_of_aborted_records_are_passed_over(
    kafka: Kafka, source: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A poll goes on to what is behind them: nothing of them is committed, so that the next turn would meet them."""
    monkeypatch.setattr("kcli.connect.connectors.mirror.source.RANGE_MAX", 2)
    source.create_topic("orders", 1)
    producer = Producer({"bootstrap.servers": source.bootstrap_servers, "transactional.id": "t", "linger.ms": 0})
    producer.init_transactions()
    for values, end in (([b"a"] * 9, producer.abort_transaction), ([b"b"], producer.commit_transaction)):
        producer.begin_transaction()
        for value in values:
            producer.produce("orders", value)
        producer.flush()
        end()
    config = config_of("Source", source, kafka, topics="orders") | {"consumer.isolation.level": "read_committed"}
    connector = MirrorSource(config)
    connector.monitor()
    task = MirrorSource.TASK()
    task.start({**config, **connector.task_configs(1)[0]}, SourceContext({}))
    found = task.poll()
    assert isinstance(found, list)
    assert [each.value for each in found] == [b"b"]
    assert task.poll() == []
    task.stop()


def test_topics_grow_and_change(kafka: Kafka, source: Kafka) -> None:
    source.create_topic("orders", 1, {"retention.ms": "1000000"})
    again = {"refresh_topics_interval_seconds": "0", "sync_topic_configs_interval_seconds": "0"}
    connector = MirrorSource(config_of("Source", source, kafka, topics="orders", **again))
    assert connector.monitor() == 0
    admin = AdminClient({"bootstrap.servers": source.bootstrap_servers})
    kafka.produce("A.orders", {"value": "x"})
    admin.create_partitions([NewPartitions("orders", 3)])["orders"].result()
    source_admin_changes(source, "orders", "retention.ms", "2000000")
    connector.monitor()
    assert configs_of(kafka, "A.orders") == {"retention.ms": "2000000"}
    assert len(kafka._partitions("A.orders")) == 3
    assert [each["task.assigned.partitions"] for each in connector.task_configs(2)] == ["orders-0,orders-2", "orders-1"]


def test_groups_are_translated(kafka: Kafka, source: Kafka) -> None:
    """The offsets of a group in the target are those of the same records, or of earlier ones; committed if wanted."""
    source.create_topic("orders", 2)
    kafka.create_topic("A.orders", 2)
    kafka.produce("A.orders", *({"value": "before", "partition": 0} for _ in range(7)))
    source.produce("orders", *({"value": str(i), "partition": 0} for i in range(1000)))
    mirror = config_of("Source", source, kafka, topics="orders")
    connector = MirrorSource(mirror)
    connector.monitor()
    outcome = turn(kafka, mirror, task=connector.task_configs(1)[0], offsets={})
    assert outcome.trace is None
    syncs = [OffsetSync.read(each.key(), each.value()) for each in consumed(source, "mm2-offset-syncs.B.internal", 3)]
    assert all(each.downstream == each.upstream + 7 for each in syncs)
    assert {each.upstream for each in syncs} >= {0, 999}
    commit(source, "readers", "orders", 1000, 0)
    commit(source, "slow", "orders", 350)
    config = config_of("Checkpoint", source, kafka, topics="orders", sync_group_offsets_enabled="true")
    checkpoints = MirrorCheckpoint(config)
    assert checkpoints.monitor() == 600
    (task,) = checkpoints.task_configs(1)
    assert task["task.assigned.groups"] == "readers,slow"
    outcome = turn(kafka, config, task=task, offsets={})
    assert (outcome.trace, outcome.records) == (None, 2)
    found = {
        each.group: each
        for each in (Checkpoint.read(each.key(), each.value()) for each in consumed(kafka, "A.checkpoints.internal", 2))
    }
    assert found["readers"][1:4] == (("A.orders", 0), 1000, 1007)
    assert found["slow"].upstream == 350
    assert 7 < found["slow"].downstream <= 357
    groups = Groups(Connection(kafka.bootstrap_servers))
    groups.group("readers")
    assert {place: each.offset for place, each in groups.committed("readers").items()} == {("A.orders", 0): 1007}
    again = turn(kafka, config, task=task, offsets={})
    assert (again.trace, again.records) == (None, 0)


def test_heartbeats(kafka: Kafka, source: Kafka) -> None:
    config = config_of("Heartbeat", source, kafka)
    connector = MirrorHeartbeat(config)
    assert connector.monitor() is None
    (task,) = connector.task_configs(3)
    outcome = turn(kafka, config, task=task, offsets={})
    assert outcome.trace is None
    assert outcome.records in (4, 5, 6)
    first, second, *_ = consumed(kafka, "heartbeats", 4)
    assert first.key() == b"\0\1A\0\1B"
    version, at_ms = struct.unpack(">hq", first.value())
    assert (version, abs(at_ms - time.time() * 1000) < 60_000) == (0, True)
    assert 900 < second.timestamp()[1] - first.timestamp()[1] < 1500
    assert [partition for partition, _ in outcome.offsets.values()] == [
        {"sourceClusterAlias": "A", "targetClusterAlias": "B"}
    ]


def test_bytes_of_records() -> None:
    sync = OffsetSync(PLACE, 10, 20)
    assert sync.key() == b"\0\6orders\0\0\0\1"
    assert sync.value() == b"\0\0\0\0\0\0\0\x0a\0\0\0\0\0\0\0\x14"
    checkpoint = Checkpoint("gruppe-ü", PLACE, 1, 2, "m")
    assert checkpoint.key() == b"\0\x09gruppe-\xc3\xbc\0\6orders\0\0\0\1"
    assert checkpoint.value() == b"\0\0" + struct.pack(">qq", 1, 2) + b"\0\1m"
    assert Checkpoint.read(checkpoint.key(), checkpoint.value()) == checkpoint
    assert Heartbeat("A", "B", 5).value() == b"\0\0" + struct.pack(">q", 5)
    for size in range(len(checkpoint.key())):
        with pytest.raises(BadRecord):
            Checkpoint.read(checkpoint.key()[:size], checkpoint.value())
    for size in range(len(checkpoint.value())):
        with pytest.raises(BadRecord):
            Checkpoint.read(checkpoint.key(), checkpoint.value()[:size])


def test_names_of_topics() -> None:
    default = policy_of({"replication.policy.class": DEFAULT})
    assert default.remote_topic("A", "a.b") == "A.a.b"
    assert (default.source_of("A.a.b"), default.upstream_topic("A.a.b")) == ("A", "a.b")
    assert (default.source_of("plain"), default.original_topic("B.A.heartbeats")) == (None, "heartbeats")
    assert default.is_cycle("A.B.orders", "B")
    assert not default.is_cycle("A.orders", "B")
    assert [default.is_internal(each) for each in ("__x", "mm2-offset-syncs.B.internal", "A.checkpoints.internal")] == [
        True
    ] * 3
    assert not default.is_internal("orders")
    identity = policy_of({"replication.policy.class": IDENTITY, "source.cluster.alias": "A"})
    assert (identity.remote_topic("A", "orders"), identity.remote_topic("A", "heartbeats")) == (
        "orders",
        "A.heartbeats",
    )
    assert not identity.is_cycle("orders", "B")
    dash = policy_of({"replication.policy.separator": "-"})
    assert dash.offset_syncs_topic("B") == "mm2-offset-syncs-B-internal"
    options = {"replication.policy.separator": "-", "replication.policy.internal.topic.separator.enabled": "false"}
    assert policy_of(options).checkpoints_topic("A") == "A.checkpoints.internal"


def test_a_group_is_never_translated_too_far() -> None:
    """Syncs of a log with gaps; each offset is translated to at most that of the next record in the target."""
    upstream = [each for each in range(20_000) if each % 7 != 3]
    rule, store = SyncRule(100), SyncStore()
    for at in range(0, len(upstream), 1700):
        for found in [*rule.due(np.array(upstream[at : at + 1700]), at + 50), *rule.promoted()]:
            store.add(OffsetSync(PLACE, *found))
    positions = {offset: index + 50 for index, offset in enumerate(upstream)}
    last = -1
    for group in range(20_001):
        exact = next((positions[each] for each in range(group, 20_000) if each in positions), len(upstream) + 50)
        translated = store.translate(PLACE, group)
        assert translated is not None
        assert last <= translated <= exact
        last = translated
        assert exact - translated <= 200 + 2 * (20_000 - group)
    assert store.translate(PLACE, 20_000) == len(upstream) + 50
    store.add(OffsetSync(PLACE, 5, 3))
    assert store.translate(PLACE, 20_000) == 4
    assert store.translate(PLACE, 2) == -1
    assert store.translate(PLACE._replace(partition=0), 2) is None


def due(rule: SyncRule, upstream: list[int], base: int) -> list[tuple[int, int]]:
    return list(rule.due(np.array(upstream), base))


def test_offset_syncs_are_those_of_kafka_s_writer() -> None:
    """The first record, one offset.lag.max behind, one behind a gap, one that goes back; the last is delayed."""
    rule = SyncRule(3)
    assert due(rule, [0, 1, 2, 3, 4, 5, 6], 100) == [(0, 100), (4, 104)]
    assert rule.delayed == (6, 106)
    assert due(rule, [7], 107) == []
    assert due(rule, [8, 9, 11, 12], 108) == [(8, 108), (11, 110)]
    assert list(rule.promoted()) == [(12, 111)]
    assert list(rule.promoted()) == []
    assert due(rule, [13], 50) == [(13, 50)]
    assert rule.delayed is None
    assert due(rule, [], 51) == []
    assert due(SyncRule(0), [4, 5, 6], 7) == [(4, 7), (5, 8), (6, 9)]


def test_offset_syncs_that_are_delayed_are_written_when_there_is_no_more(
    kafka: Kafka, source: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often a task commits, a sync comes each offset.lag.max records, and one for the last."""
    monkeypatch.setattr("kcli.connect.engine.source_turn.COMMIT_S", 0.0)
    monkeypatch.setattr("kcli.connect.connectors.mirror.source.RANGE_MAX", 10)
    source.create_topic("orders", 1)
    source.produce("orders", *({"value": str(i), "partition": 0} for i in range(250)))
    mirror = config_of("Source", source, kafka, topics="orders", offset_lag_max="99")
    connector = MirrorSource(mirror)
    connector.monitor()
    outcome = turn(kafka, mirror, task=connector.task_configs(1)[0], offsets={})
    assert (outcome.trace, outcome.records) == (None, 250)
    syncs = [OffsetSync.read(each.key(), each.value()) for each in consumed(source, "mm2-offset-syncs.B.internal", 4)]
    assert [(each.upstream, each.downstream) for each in syncs] == [(0, 0), (100, 100), (200, 200), (249, 249)]


def test_acls_of_topics_are_mirrored(kafka: Kafka, source: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    """Literal names of mirrored topics; no permission to write, and to read where all is allowed."""
    added: list[Acl] = []

    def acl(name: str, operation: Operation, permission: Permission = Permission.ALLOW, **more: Any) -> Acl:
        pattern = more.get("pattern", PatternType.LITERAL)
        return Acl(
            resource_type=Resource.TOPIC,
            resource_name=name,
            pattern_type=pattern,
            principal="User:a",
            host="*",
            operation=operation,
            permission=permission,
        )

    there = [
        acl("orders", Operation.READ),
        acl("orders", Operation.WRITE),
        acl("orders", Operation.WRITE, Permission.DENY),
        acl("orders", Operation.ALL),
        acl("orders", Operation.ALL, Permission.DENY),
        acl("ord", Operation.READ, pattern=PatternType.PREFIXED),
        acl("B.orders", Operation.READ),
    ]
    monkeypatch.setattr(Acls, "matching", lambda _, wanted: [each for each in there if wanted.matches(each)])

    def add(_: Acls, acls: Sequence[Acl]) -> Iterator[Acl]:
        added.extend(acls)
        yield from acls

    monkeypatch.setattr(Acls, "add", add)
    source.create_topic("orders", 1)
    MirrorSource(config_of("Source", source, kafka, sync_topic_acls_enabled="false")).monitor()
    assert not added
    MirrorSource(config_of("Source", source, kafka)).monitor()
    assert added == [
        acl("A.orders", Operation.READ),
        acl("A.orders", Operation.WRITE, Permission.DENY),
        acl("A.orders", Operation.READ),
        acl("A.orders", Operation.ALL, Permission.DENY),
    ]


def test_a_source_without_an_authorizer_is_told_of_once(
    kafka: Kafka, source: Kafka, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With MirrorMaker's line, at its level, however often ACLs are due."""
    monkeypatch.setattr("kcli.connect.connectors.mirror.source.time", SimpleNamespace(monotonic=count(0, 700).__next__))
    caplog.set_level(logging.INFO, "kcli.connect")
    source.create_topic("orders", 1)
    connector = MirrorSource(config_of("Source", source, kafka))
    for _ in range(3):
        connector.monitor()
    told = [(each.levelname, each.message) for each in caplog.records if "ACL" in each.message]
    line = (
        "No ACL authorizer is configured on the source Kafka cluster, so no topic ACL syncing will take place. "
        "Consider disabling topic ACL syncing by setting sync.topic.acls.enabled to 'false'."
    )
    assert told == [("INFO", line)]


def test_a_source_with_tls_and_logins(kafka: Kafka, caplog: pytest.LogCaptureFixture) -> None:
    """All clients log in; ACLs that the target does not take have a line in the log."""
    acls = ["mirror all topic:*", "mirror all cluster", "alice read topic:orders"]
    with Kafka.started(security="scram", acls=acls, seed={"orders": ["one", "two"]}) as source:
        client = source.client_config("confluent", "mirror")
        login = f'username="{client["sasl.username"]}" password="{client["sasl.password"]}"'
        secured = {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": client["sasl.mechanism"],
            "sasl.jaas.config": f"org.apache.kafka.common.security.scram.ScramLoginModule required {login};",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": client["ssl.ca.location"],
        }
        config = config_of("Source", source, kafka, topics="orders")
        config |= {f"source.cluster.{name}": text for name, text in secured.items()}
        connector = MirrorSource(config)
        connector.monitor()
        outcome = turn(kafka, config, task=connector.task_configs(1)[0], offsets={})
        assert (outcome.trace, outcome.records) == (None, 2)
        assert [each.value() for each in consumed(kafka, "A.orders", 2)] == [b"one", b"two"]
        assert source.values("mm2-offset-syncs.B.internal")
    assert "an ACL of a topic is not mirrored: User:alice READ TOPIC A.orders: SECURITY_DISABLED" in caplog.text


def test_checkpoints_and_commits_have_their_intervals(kafka: Kafka, source: Kafka) -> None:
    """A turn does what is due in the time since the turn before: here all, or commits alone."""
    more = {"sync_group_offsets_enabled": "true", "sync_group_offsets_interval_seconds": "10"}
    config = config_of("Checkpoint", source, kafka, emit_checkpoints_interval_seconds="30", **more)
    source.create_topic("mm2-offset-syncs.B.internal", 1)
    kafka.create_topic("A.checkpoints.internal", 1)
    task = MirrorCheckpoint.TASK()
    task.start({**config, "task.assigned.groups": "g"}, SourceContext({}))
    assert [task._is_due(task._emit_s, at) for at in (90.5, 100.2, 110.9, 120.1)] == [True, False, False, True]
    assert all(task._is_due(task._sync_s, at) for at in (90.5, 100.2, 110.9, 120.1))
    assert (task.rest().until_s or 0) % 10 == 0
    task.start({**config, "sync.group.offsets.enabled": "false", "task.assigned.groups": "g"}, SourceContext({}))
    assert not task._is_due(task._sync_s, 90.0)
    assert task._is_due(task._emit_s, 45.0)


def test_properties_of_clients() -> None:
    """Those of the cluster, then of all clients of the kind, then of the kind for the cluster."""
    config = {
        "source.cluster.alias": "A",
        "source.cluster.bootstrap.servers": "a:1",
        "source.cluster.client.id": "first",
        "consumer.client.id": "second",
        "consumer.isolation.level": "read_committed",
        "source.consumer.client.id": "third",
        "target.consumer.client.id": "other",
        "target.cluster.bootstrap.servers": "b:1",
        "target.producer.request.timeout.ms": "1234",
        "admin.timeout.ms": "2000",
        "consumer.override.max.poll.records": "1",
    }
    assert client_of(config, "source", Client.CONSUMER) == {
        "bootstrap.servers": "a:1",
        "client.id": "third",
        "isolation.level": "read_committed",
    }
    options = MirrorOptions(config)
    assert options.cluster("target", Client.PRODUCER).timeout_s == 1.234
    assert options.cluster("source", Client.ADMIN).timeout_s == 2.0
    assert options.cluster("source", Client.ADMIN).client_id == "first"
    assert options.cluster("source", Client.CONSUMER).client_id == "third"


def test_offsets_that_are_none() -> None:
    connector = MirrorSource({"source.cluster.alias": "A"})
    good = {"cluster": "A", "partition": 0, "topic": "t"}
    assert connector.alter_offsets([(good, {"offset": 1}), (good, None)])
    for partition, offset in (({**good, "partition": "0"}, None), ({**good, "topic": 1}, None), (good, {"offset": -1})):
        with pytest.raises(ConnectError):
            connector.alter_offsets([(partition, offset)])
