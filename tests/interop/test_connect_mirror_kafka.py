"""Mirroring between a cluster of kcli and one of Kafka, both ways: what kcli's connectors make in the target is what
MirrorMaker's own make there of the same source."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from kcli.client.acls import Acls
from kcli.client.connection import Connection
from kcli.client.groups import Groups
from kcli.connect.connectors.mirror.checkpoint import MirrorCheckpoint
from kcli.connect.connectors.mirror.offset_syncs import SyncRule, SyncStore
from kcli.connect.connectors.mirror.options import MirrorOptions
from kcli.connect.connectors.mirror.records import Checkpoint, OffsetSync
from kcli.connect.connectors.mirror.source import MirrorSource
from kcli.connect.connectors.mirror.topics import OF_TOPICS, MirroredTopics
from kcli.connect.engine.clients import committed_offsets
from kcli.pipelines.cluster import Cluster
from kcli.testing import Kafka
from tests.conftest import is_soak
from tests.connect import test_mirror
from tests.connect.record import POM, real_worker
from tests.connect.test_mirror import PLACE, commit, config_of, configs_of
from tests.connect.turns import consumed, turn
from tests.interop.clusters import free_ports
from tests.interop.kit import SCRIPT, Oracle, kafka, more_jars
from tests.interop.test_connect_takeover_kafka import put, wait_for

ORACLE = Path(test_mirror.__file__).with_name("MirrorOracle.java")
SEEDS = range(300 if is_soak() else 20)
NODE = f"kcli-mirror-{os.getpid()}"
RECORDS = {0: 1000, 1: 137}
GROUPS = {
    "readers": (1000, 137),
    "slow": (350, 10),
    "behind": (1, 0),
    "connect-x": (5, 5),
    "console-consumer-1": (5, 5),
}
MIRRORED = ("readers", "slow", "behind")
"""Those whose offsets are mirrored: groups.exclude has the others."""
REST_S = 5.0
WAIT_S = 60.0
AT_MS = 1_700_000_000_000
SECONDS = {
    "emit_checkpoints_interval_seconds": "1",
    "sync_group_offsets_enabled": "true",
    "sync_group_offsets_interval_seconds": "1",
}
pytestmark = pytest.mark.kafka


@pytest.fixture
def real(kafka_jars: Path) -> Iterator[Any]:
    """A node of Kafka, with ACLs."""
    del kafka_jars
    with pytest.MonkeyPatch.context() as patch:
        (port,) = free_ports(1)
        patch.setenv("KAFKA_KIT_PORT", str(port))
        authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
        try:
            kafka("start", NODE, f"authorizer.class.name={authorizer}", "super.users=User:ANONYMOUS")
            yield SimpleNamespace(bootstrap_servers=f"127.0.0.1:{port}")
        finally:
            subprocess.run([SCRIPT, "kill", NODE], capture_output=True, check=False)
            kafka("rm", NODE)


def fill(source: Any) -> None:
    """Write a topic, and commit offsets of groups."""
    admin = AdminClient({"bootstrap.servers": source.bootstrap_servers})
    configs = {"retention.ms": "-1", "segment.bytes": "2000000", "message.timestamp.type": "CreateTime"}
    admin.create_topics([NewTopic("orders", 2, 1, config=configs)])["orders"].result()
    producer = Producer({"bootstrap.servers": source.bootstrap_servers, "linger.ms": 20})
    for partition, count in RECORDS.items():
        for number in range(count):
            producer.produce(
                "orders",
                None if number % 11 == 0 else f"v{number}",
                None if number % 7 == 0 else f"k{number}",
                partition,
                timestamp=AT_MS + number,
                headers=[("h", str(number).encode()), ("empty", None)] if number % 5 == 0 else None,
            )
    producer.flush()
    for group, offsets in GROUPS.items():
        commit(source, group, "orders", *offsets)


def made(target: Any, alias: str) -> Mapping[str, Any]:
    """Return what a mirror has made in the target."""
    topic = f"{alias}.orders"
    records = consumed(target, topic, sum(RECORDS.values()), partitions=2)
    return {
        "records": sorted(
            (each.partition(), each.offset(), each.timestamp(), each.key() or b"", each.value(), each.headers())
            for each in records
        ),
        "configs": configs_of(target, topic),
        **offsets_of_groups(target, alias),
    }


def offsets_of_groups(target: Any, alias: str) -> Mapping[str, Any]:
    """Return the last checkpoint of each group's partition, and what is committed in the target."""
    topic, checkpoints = f"{alias}.orders", f"{alias}.checkpoints.internal"
    consumer = Consumer({"bootstrap.servers": target.bootstrap_servers, "group.id": "ends"})
    _, end = consumer.get_watermark_offsets(Place(checkpoints, 0), WAIT_S)
    consumer.close()
    last = (Checkpoint.read(record.key(), record.value()) for record in consumed(target, checkpoints, end))
    return {
        "checkpoints": {
            (each.group, each.place.partition): (
                each.place.topic == topic,
                each.upstream,
                each.downstream,
                each.metadata,
            )
            for each in last
        },
        "committed": {group: committed(target, group, topic) for group in GROUPS},
    }


def wait_for_rest(target: Any, alias: str) -> None:
    """Wait until there is a checkpoint of each mirrored group and partition, and nothing has changed for REST_S, in
    which MirrorMaker looks several times: it emits checkpoints one after the other, and again as offset syncs come."""
    everything = {(group, partition) for group in MIRRORED for partition in RECORDS}
    found, since = offsets_of_groups(target, alias), time.monotonic()
    until = since + WAIT_S
    while found["checkpoints"].keys() != everything or time.monotonic() - since < REST_S:
        assert time.monotonic() < until, found
        time.sleep(0.2)
        before, found = found, offsets_of_groups(target, alias)
        since = since if found == before else time.monotonic()


def committed(target: Any, group: str, topic: str) -> dict[int, int]:
    found = committed_offsets(Groups(Connection(target.bootstrap_servers)), group)
    return {place.partition: each.offset for place, each in found.items() if place.topic == topic}


def mirror_by_kafka(source: Any, target: Any, directory: Path) -> None:
    """Have MirrorMaker's connectors mirror the topic as A.orders."""
    (port,) = free_ports(1)
    with real_worker(
        str(SCRIPT), target.bootstrap_servers, port, directory, offset__flush__interval__ms="3000"
    ) as made:
        put(made, config_of("Source", source, target, topics="orders"))
        wait_for(
            lambda: len(consumed(target, "A.orders", sum(RECORDS.values()), partitions=2)) == sum(RECORDS.values())
        )
        put(made, config_of("Checkpoint", source, target, topics="orders", **SECONDS))
        ends = dict(enumerate(GROUPS["readers"]))
        wait_for(lambda: committed(target, "readers", "A.orders") == ends)
        wait_for_rest(target, "A")


def mirror_by_kcli(source: Any, target: Any) -> None:
    """Have kcli's connectors mirror the topic as K.orders."""
    names = {"source.cluster.alias": "K", "target.cluster.alias": "L"}
    config = config_of("Source", source, target, topics="orders") | names
    connector = MirrorSource(config)
    connector.monitor()
    outcome = turn(target, config, task=connector.task_configs(1)[0], offsets={})
    assert (outcome.trace, outcome.records) == (None, sum(RECORDS.values()))
    config = config_of("Checkpoint", source, target, topics="orders", **SECONDS) | names
    checkpoints = MirrorCheckpoint(config)
    checkpoints.monitor()
    outcome = turn(target, config, task=checkpoints.task_configs(1)[0], offsets={})
    assert outcome.trace is None


@pytest.mark.parametrize("from_kcli", [True, False], ids=["kcli to Kafka", "Kafka to kcli"])
def test_kcli_mirrors_as_mirrormaker_does(real: Any, tmp_path: Path, *, from_kcli: bool) -> None:
    with Kafka.started() as ours:
        source, target = (ours, real) if from_kcli else (real, ours)
        fill(source)
        mirror_by_kafka(source, target, tmp_path)
        mirror_by_kcli(source, target)
        theirs, found = made(target, "A"), made(target, "K")
        for what, expected in theirs.items():
            assert found[what] == expected, what
        assert theirs["checkpoints"]["readers", 0][1:3] == (1000, 1000)
        assert theirs["committed"]["connect-x"] == {}


@pytest.fixture(scope="module")
def oracle(kafka_jars: Path) -> Iterator[Oracle]:
    more = more_jars(POM, "connect-mirror-4.3.0.jar")
    made = Oracle(kafka_jars, ORACLE, "-Dorg.slf4j.simpleLogger.defaultLogLevel=off", more_jars=more)
    yield made
    made.close()


@pytest.mark.parametrize("seed", SEEDS)
def test_offset_syncs_are_those_of_mirrormaker(oracle: Oracle, seed: int) -> None:
    """Which are written, over gaps and offsets that go back, and what offsets are translated to by those that there
    are."""
    rng = Random(seed)
    lag, source, target = rng.choice([0, 1, 5, 100]), rng.randrange(5), rng.randrange(50)
    rule, due, records = SyncRule(lag), [], []
    for _ in range(rng.randrange(1, 9)):
        upstream = np.cumsum([source, *(1 if rng.random() < 0.97 else rng.randrange(2, 9) for _ in range(99))])
        due += [list(each) for each in rule.due(upstream, target)]
        records += [[int(each), target + number] for number, each in enumerate(upstream)]
        source = int(upstream[-1]) + 1 if rng.random() < 0.9 else rng.randrange(int(upstream[-1]))
        target = target + 100 + rng.choice([0, 0, 7]) if rng.random() < 0.9 else rng.randrange(target + 1)
    theirs = oracle.ask("due", lag=lag, records=records)["due"]
    assert due == [record for record, is_due in zip(records, theirs, strict=True) if is_due]

    store, syncs = SyncStore(), [[0, 0]]
    for _ in range(rng.choice([1, 5, 50, 300])):
        step = rng.choice([1, 1, 3, 100, 101, 5000])
        before = syncs[-1] if rng.random() < 0.99 else [rng.randrange(syncs[-1][0] + 1), syncs[-1][1]]
        syncs.append([before[0] + step, before[1] + rng.choice([step, max(1, step - 1)])])
    for each in syncs:
        store.add(OffsetSync(PLACE, *each))
    groups = [rng.randrange(max(each[0] for each in syncs) + 50) for _ in range(200)]
    assert [store.translate(PLACE, each) for each in groups] == oracle.ask("translate", syncs=syncs, groups=groups)[
        "offsets"
    ]


def test_acls_are_mirrored_as_mirrormaker_does(real: Any, tmp_path: Path) -> None:
    """From the cluster to itself, under two aliases."""
    admin = AdminClient({"bootstrap.servers": real.bootstrap_servers})
    literal, prefixed = ResourcePatternType.LITERAL, ResourcePatternType.PREFIXED
    allow, deny = AclPermissionType.ALLOW, AclPermissionType.DENY
    given = [
        ("paid", literal, AclOperation.READ, allow),
        ("paid", literal, AclOperation.WRITE, allow),
        ("paid", literal, AclOperation.WRITE, deny),
        ("paid", literal, AclOperation.ALL, allow),
        ("paid", literal, AclOperation.DESCRIBE, allow),
        ("pa", prefixed, AclOperation.READ, allow),
        ("other", literal, AclOperation.READ, allow),
    ]
    bindings = [
        AclBinding(ResourceType.TOPIC, name, pattern, f"User:u{number}", "*", operation, permission)
        for number, (name, pattern, operation, permission) in enumerate(given)
    ]
    for future in admin.create_acls(bindings).values():
        future.result()
    admin.create_topics([NewTopic("paid", 1, 1)])["paid"].result()

    def acls(topic: str) -> set[tuple[str, str, str]]:
        everything = Acls(Cluster(real.bootstrap_servers).brokers()).matching(OF_TOPICS)
        return {
            (each.principal, each.operation.name, each.permission.name)
            for each in everything
            if each.resource_name == topic
        }

    MirroredTopics(
        MirrorOptions(config_of("Source", real, real, topics="paid") | {"source.cluster.alias": "K"})
    ).sync_acls()
    (port,) = free_ports(1)
    with real_worker(str(SCRIPT), real.bootstrap_servers, port, tmp_path) as worker:
        put(worker, config_of("Source", real, real, topics="paid"))
        wait_for(lambda: len(acls("A.paid")) >= 4)
    assert acls("K.paid") == acls("A.paid")
    assert acls("K.paid") == {
        ("User:u0", "READ", "ALLOW"),
        ("User:u2", "WRITE", "DENY"),
        ("User:u3", "READ", "ALLOW"),
        ("User:u4", "DESCRIBE", "ALLOW"),
    }
