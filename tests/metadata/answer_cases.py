"""Requests to a fresh single node, in this order: each line has an API key, a version and a request.

A `$name` stands for the id of that topic in the last response that had it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

CREATE, DELETE, PARTITIONS, ELECT = 19, 20, 37, 43
METADATA, INIT_PRODUCER_ID, DESCRIBE_QUOTAS, ALTER_QUOTAS = 3, 22, 48, 49
QUORUM, FEATURES, CLUSTER, DESCRIBE_TOPICS = 55, 57, 60, 75

Case = tuple[int, int, dict[str, Any]]
Entity = dict[str, str | None]
Quotas = dict[str, float | None]


def new_topic(name: str, partitions: int = 1, factor: int = 1, **more: Any) -> dict[str, Any]:
    topic = {"name": name, "num_partitions": partitions, "replication_factor": factor}
    return {**topic, "assignments": [], "configs": [], **more}


def create(*topics: dict[str, Any], version: int = 7, validate_only: bool = False) -> Case:
    return CREATE, version, {"topics": list(topics), "timeout": 10_000, "validate_only": validate_only}


def assigned(name: str, *brokers: tuple[int, list[int]], partitions: int = -1, factor: int = -1) -> dict[str, Any]:
    assignments = [{"partition_index": number, "broker_ids": ids} for number, ids in brokers]
    return new_topic(name, partitions, factor, assignments=assignments)


def configured(name: str, **configs: str | None) -> dict[str, Any]:
    values = [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()]
    return new_topic(name, configs=values)


def creations() -> Iterator[Case]:
    yield create(new_topic("plain", 3), new_topic("defaults", -1, -1), version=7)
    yield create(configured("compacted", cleanup_policy="compact", segment_bytes="2000000"), version=7)
    yield create(new_topic("five", 2), configured("five-c", retention_ms="5000"), version=5)
    yield create(new_topic("four"), version=4)
    yield create(new_topic("two"), version=2)
    yield create(new_topic("plain"), new_topic("plain-2"), version=7)
    names = ["", ".", "..", "a/b", "../x", "a b", "é", "x" * 249, "x" * 250, "a\x00b", "a\nb", "-", "_", "con", "a,b"]
    for name in [*names, "__cluster_metadata", "__consumer_offsets", "-dash"]:
        yield create(new_topic(name), validate_only=True)
    yield create(new_topic("dot.dot"))
    yield create(new_topic("dot_dot"), new_topic("dot.dot"))
    yield create(new_topic("both.new"), new_topic("both_new"), validate_only=True)
    yield create(new_topic("same"), new_topic("same"), new_topic("other"), validate_only=True)
    for partitions, factor in ((0, 1), (-2, 1), (1, 0), (1, -2), (1, 2), (1, 3), (0, 0), (10_000, 1), (10_001, 1)):
        yield create(new_topic("numbers", partitions, factor), validate_only=True)
    yield create(new_topic("many-1", 6000), new_topic("many-2", 6000), validate_only=True)
    yield create(assigned("chosen", (0, [1]), (1, [1])))
    for topic in (
        assigned("chosen-2", (0, [1]), partitions=1),
        assigned("chosen-2", (0, [1]), factor=1),
        assigned("chosen-2", (0, [1]), (0, [1])),
        assigned("chosen-2", (0, [1]), (2, [1])),
        assigned("chosen-2", (1, [1])),
        assigned("chosen-2", (0, [])),
        assigned("chosen-2", (0, [2])),
        assigned("chosen-2", (0, [1, 1])),
        assigned("chosen-2", (0, [1]), (1, [1, 2])),
        assigned("chosen-2", (-1, [1])),
    ):
        yield create(topic, validate_only=True)
    for name, value in (
        ("cleanup.policy", "shred"),
        ("cleanup.policy", "compact,delete"),
        ("cleanup.policy", ""),
        ("retention.ms", "-2"),
        ("retention.ms", "forever"),
        ("no.such.config", "1"),
        ("compression.type", "brotli"),
        ("segment.bytes", "10"),
        ("min.insync.replicas", "0"),
        ("min.insync.replicas", "2"),
        ("max.message.bytes", None),
        ("message.format.version", "2.8"),
        ("remote.storage.enable", "true"),
        ("leader.replication.throttled.replicas", "x"),
        ("preallocate", "maybe"),
        ("min.cleanable.dirty.ratio", "1.5"),
    ):
        yield create(new_topic("values", configs=[{"name": name, "value": value}]), validate_only=True)
    twice = [{"name": "retention.ms", "value": "1"}, {"name": "retention.ms", "value": "2"}]
    yield create(new_topic("values", configs=twice), validate_only=True)
    yield create(configured("values", min_compaction_lag_ms="5", max_compaction_lag_ms="4"), validate_only=True)
    nulls = [{"name": "retention.ms", "value": None}, {"name": "segment.ms", "value": None}]
    yield create(new_topic("values", configs=nulls), validate_only=True)
    yield create(validate_only=True)


def more_partitions() -> Iterator[Case]:
    def more(*topics: tuple[str, int, list[list[int]] | None], version: int = 3, validate_only: bool = False) -> Case:
        asked = [
            {
                "name": name,
                "count": count,
                "assignments": None if ids is None else [{"broker_ids": each} for each in ids],
            }
            for name, count, ids in topics
        ]
        return PARTITIONS, version, {"topics": asked, "timeout": 10_000, "validate_only": validate_only}

    yield more(("plain", 5, None), ("defaults", 3, [[1], [1]]))
    yield more(("plain", 6, None), validate_only=True, version=0)
    asked: tuple[tuple[str, int, list[list[int]] | None], ...] = (
        ("plain", 5, None),
        ("plain", 4, None),
        ("plain", 0, None),
        ("plain", -1, None),
        ("nothing", 2, None),
        ("", 2, None),
        ("plain", 7, [[1]]),
        ("plain", 6, [[1], [1]]),
        ("plain", 6, [[]]),
        ("plain", 6, [[2]]),
        ("plain", 6, [[1, 1]]),
        ("plain", 6, []),
        ("plain", 10_006, None),
    )
    for each in asked:
        yield more(each, validate_only=True)
    yield more(("plain", 6, None), ("plain", 7, None), ("compacted", 2, None), validate_only=True)


def elections() -> Iterator[Case]:
    def elect(version: int, kind: int, topics: list[dict[str, Any]] | None) -> Case:
        body = {"topic_partitions": topics, "timeout": 10_000}
        return ELECT, version, body if version == 0 else {**body, "election_type": kind}

    one = [{"topic": "plain", "partitions": [0, 99]}, {"topic": "nothing", "partitions": [0]}]
    yield elect(2, 0, one)
    yield elect(2, 1, one)
    yield elect(0, 0, one)
    yield elect(2, 2, one)
    yield elect(2, 0, [])
    yield elect(2, 0, None)
    yield elect(1, 1, None)


def metadata() -> Iterator[Case]:
    def named(version: int, *names: str, create: bool = False) -> Case:
        topics = [{"name": name} if version < 10 else {"name": name, "topic_id": None} for name in names]
        return METADATA, version, {"topics": topics, **({"allow_auto_topic_creation": create} if version > 3 else {})}

    zero = "A" * 22
    for version in (0, 1, 3, 5, 7, 8, 9, 10, 12, 13):
        yield named(version, "plain") if version > 3 else named(version, "plain", "defaults")
    yield named(13, "nothing", "..", "", "plain")
    yield named(4, "nothing", "a/b")
    yield METADATA, 13, {"topics": [{"topic_id": "$plain", "name": None}], "allow_auto_topic_creation": False}
    unknown = "abcdefghijklmnopqrstug"
    yield METADATA, 12, {"topics": [{"topic_id": unknown, "name": None}, {"topic_id": "$plain", "name": None}]}
    yield METADATA, 12, {"topics": [{"topic_id": zero, "name": "plain"}, {"topic_id": "$defaults", "name": None}]}
    yield METADATA, 10, {"topics": [{"topic_id": "$plain", "name": None}]}
    yield METADATA, 10, {"topics": [{"topic_id": "$plain", "name": "plain"}]}
    yield METADATA, 13, {"topics": []}
    yield METADATA, 0, {"topics": []}
    yield METADATA, 13, {"topics": None}
    operations = {"include_cluster_authorized_operations": True, "include_topic_authorized_operations": True}
    yield METADATA, 8, {"topics": [{"name": "plain"}], **operations}
    yield METADATA, 12, {"topics": [{"topic_id": None, "name": "plain"}], "include_topic_authorized_operations": True}
    yield named(13, "made-by-asking", "..", "plain", "dot_dot", create=True)
    yield named(13, "__consumer_offsets", "__transaction_state", create=True)


def described_topics() -> Iterator[Case]:
    def describe(*names: str, limit: int = 2000, cursor: tuple[str, int] | None = None) -> Case:
        where = None if cursor is None else {"topic_name": cursor[0], "partition_index": cursor[1]}
        topics = [{"name": name} for name in names]
        return DESCRIBE_TOPICS, 0, {"topics": topics, "response_partition_limit": limit, "cursor": where}

    yield describe("plain", "defaults")
    yield describe("plain", "nothing", "..", "compacted")
    yield describe("plain", "defaults", limit=2)
    yield describe("plain", "defaults", limit=5)
    yield describe("plain", "defaults", limit=4, cursor=("plain", 2))
    yield describe("plain", "compacted", "defaults", limit=4, cursor=("d", 1))
    yield describe("plain", limit=2, cursor=("plain", 9))
    yield describe("plain", limit=2, cursor=("plain", -1))
    yield describe("plain", limit=0)
    yield describe("plain", limit=-5)
    yield describe(limit=3)
    yield describe("plain", "plain")
    yield describe("zzz", cursor=("plain", 1))


def quotas() -> Iterator[Case]:
    def alter(*entries: tuple[Entity, Quotas], validate: bool = False) -> Case:
        asked = [
            {
                "entity": [{"entity_type": kind, "entity_name": name} for kind, name in entity.items()],
                "ops": [{"key": key, "value": value or 0.0, "remove": value is None} for key, value in ops.items()],
            }
            for entity, ops in entries
        ]
        return ALTER_QUOTAS, 1, {"entries": asked, "validate_only": validate}

    user: Entity = {"user": "u"}
    ip: Entity = {"ip": "127.0.0.1"}
    yield alter((user, {"producer_byte_rate": 100.0, "consumer_byte_rate": 200.5}))
    yield alter((user, {"producer_byte_rate": 100_000.0}), ({"user": None}, {"consumer_byte_rate": 1e9}))
    yield alter(
        ({"client-id": "c", "user": "u"}, {"request_percentage": 12.5}),
        ({"client-id": None}, {"request_percentage": 200.0}),
    )
    yield alter((ip, {"connection_creation_rate": 1000.0}), ({"ip": None}, {"connection_creation_rate": 500.0}))
    refused: tuple[tuple[Entity, Quotas], ...] = (
        (user, {"producer_byte_rate": 0.0}),
        (user, {"producer_byte_rate": -1.0}),
        (user, {"producer_byte_rate": 1e19}),
        (user, {"no_such_quota": 1.0}),
        (user, {"connection_creation_rate": 1.0}),
        (user, {"no_such_quota": None}),
        (user, {"controller_mutation_rate": 0.5}),
        (ip, {"producer_byte_rate": 1.0}),
        (ip, {"connection_creation_rate": 3e9}),
        (ip, {"connection_creation_rate": 1.5}),
        ({"ip": "no such host."}, {"connection_creation_rate": 1.0}),
        ({"ip": "127.0.0.1", "user": "u"}, {"connection_creation_rate": 1.0}),
        ({}, {"producer_byte_rate": 1.0}),
        ({"user": ""}, {"producer_byte_rate": 1.0}),
        ({"group": "g"}, {"producer_byte_rate": 1.0}),
    )
    for entity, ops in refused:
        yield alter((entity, ops), validate=True)
    yield alter((user, {"producer_byte_rate": 1.0}), (user, {"producer_byte_rate": 2.0}), validate=True)
    double = {"key": "producer_byte_rate", "value": 1.0, "remove": False}
    client = [{"entity_type": "client-id", "entity_name": "c"}]
    yield ALTER_QUOTAS, 1, {"entries": [{"entity": client, "ops": [double, double]}], "validate_only": True}

    def describe(*components: tuple[str, int, str | None], strict: bool = False) -> Case:
        asked = [{"entity_type": kind, "match_type": how, "match": match} for kind, how, match in components]
        return DESCRIBE_QUOTAS, 1, {"components": asked, "strict": strict}

    yield describe()
    yield describe(strict=True)
    yield describe(("user", 0, "u"))
    yield describe(("user", 0, "u"), strict=True)
    yield describe(("user", 1, None))
    yield describe(("user", 2, None))
    yield describe(("client-id", 2, None), ("user", 0, "u"))
    yield describe(("ip", 2, None))
    yield describe(("ip", 0, "127.0.0.1"), ("user", 2, None))
    yield describe(("user", 0, None))
    yield describe(("user", 1, "u"))
    yield describe(("user", 2, "u"))
    yield describe(("user", 3, None))
    yield describe(("user", 0, "u"), ("user", 1, None))
    yield describe(("", 0, "u"))
    yield describe(("group", 0, "u"))
    yield alter(
        (user, {"producer_byte_rate": None, "consumer_byte_rate": None}), (ip, {"connection_creation_rate": None})
    )
    yield describe()


def features() -> Iterator[Case]:
    def update(*updates: tuple[str, int, int], version: int = 2, validate_only: bool = True) -> Case:
        asked = [{"feature": name, "max_version_level": level, "upgrade_type": kind} for name, level, kind in updates]
        return FEATURES, version, {"timeout": 10_000, "feature_updates": asked, "validate_only": validate_only}

    upgrade, safe, unsafe = 1, 2, 3
    for case in (
        ("metadata.version", 30, upgrade),
        ("metadata.version", 31, upgrade),
        ("metadata.version", 32, upgrade),
        ("metadata.version", 29, upgrade),
        ("metadata.version", 29, safe),
        ("metadata.version", 29, unsafe),
        ("metadata.version", 6, safe),
        ("metadata.version", 0, unsafe),
        ("metadata.version", -1, unsafe),
        ("no.such.feature", 1, upgrade),
        ("no.such.feature", 0, upgrade),
        ("group.version", 0, upgrade),
        ("group.version", 0, safe),
        ("group.version", 1, safe),
        ("group.version", 2, upgrade),
        ("transaction.version", 1, unsafe),
        ("transaction.version", 3, upgrade),
        ("kraft.version", 0, upgrade),
        ("kraft.version", 0, safe),
        ("kraft.version", 1, safe),
        ("kraft.version", 2, upgrade),
        ("share.version", 1, 0),
        ("share.version", 1, 7),
        ("eligible.leader.replicas.version", 0, safe),
        ("", 1, upgrade),
    ):
        yield update(case)
    yield update(("group.version", 0, safe), ("share.version", 9, upgrade))
    yield update(("transaction.version", 1, safe), validate_only=False)
    yield update(("transaction.version", 2, upgrade), ("share.version", 0, safe), validate_only=False, version=1)
    yield update(("share.version", 1, upgrade), validate_only=False)
    yield update(("group.version", 5, upgrade), version=1)
    down = {"feature": "group.version", "max_version_level": 0, "allow_downgrade": True}
    yield FEATURES, 0, {"timeout": 10_000, "feature_updates": [down]}
    yield update()


def deletions() -> Iterator[Case]:
    def by_name(version: int, *names: str) -> Case:
        return DELETE, version, {"topic_names": list(names), "timeout": 10_000}

    def topics(*given: tuple[str | None, str | None]) -> Case:
        asked = [{"name": name, "topic_id": topic_id} for name, topic_id in given]
        return DELETE, 6, {"topics": asked, "timeout": 10_000}

    unknown = "abcdefghijklmnopqrstug"
    yield by_name(1, "two", "nothing")
    yield by_name(5, "four", "nothing", "..", "")
    yield by_name(4, "five", "five")
    yield topics(("nothing", None), (None, unknown), (None, None))
    yield topics(("plain", "$plain"), ("defaults", "$plain"))
    yield topics(("five", None), ("five", None), (None, "$plain"), (None, "$plain"))
    yield topics(("plain", None), (None, "$plain"))
    yield topics((None, "$plain"), ("five", None))
    yield topics((None, "$plain"))
    yield topics()


def the_rest() -> Iterator[Case]:
    for version, body in (
        (0, {}),
        (1, {"endpoint_type": 1}),
        (2, {"endpoint_type": 1, "include_fenced_brokers": True}),
        (1, {"endpoint_type": 2}),
        (1, {"endpoint_type": 3}),
        (0, {"include_cluster_authorized_operations": True}),
    ):
        yield CLUSTER, version, dict(body)
    for version in (0, 1, 2):
        for topic, partitions in (("__cluster_metadata", [0]), ("__cluster_metadata", [1]), ("plain", [0])):
            asked = [{"topic_name": topic, "partitions": [{"partition_index": each} for each in partitions]}]
            yield QUORUM, version, {"topics": asked}
    yield QUORUM, 2, {"topics": []}
    none: dict[str, Any] = {"transactional_id": None, "transaction_timeout": 60_000}
    for version in (0, 2, 3, 5):
        yield INIT_PRODUCER_ID, version, none
    yield INIT_PRODUCER_ID, 4, {**none, "producer_id": 7, "producer_epoch": 3}
    yield INIT_PRODUCER_ID, 4, {**none, "producer_id": 7, "producer_epoch": -1}
    yield INIT_PRODUCER_ID, 4, {**none, "producer_id": -1, "producer_epoch": 3}
    yield INIT_PRODUCER_ID, 3, {"transactional_id": "", "transaction_timeout": 60_000}


def cases() -> Iterator[Case]:
    """All of them."""
    for each in (
        creations,
        more_partitions,
        elections,
        metadata,
        described_topics,
        quotas,
        features,
        the_rest,
        deletions,
    ):
        yield from each()
