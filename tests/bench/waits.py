"""How long one request keeps another connection waiting: python -m tests.bench.waits [API ...].

For each API the requests of up to a megabyte that cost most for their size: as many of the smallest elements as fit,
once all the same, once all different, some that exist and some that do not. A second connection asks for ApiVersions
all the while, one request after the other. Written down: its longest wait, less what the broker's loop and this
process waited for a processor meanwhile; the least of three runs.
"""

from __future__ import annotations

import argparse
import socket
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.bench.measure import BenchError
from tests.bench.report import machine, table
from tests.bench.serve import WORK, kcli
from tests.broker.running import Client

RESULTS = Path(__file__).with_name("WAITS.md")
REQUEST_BYTES = 1 << 20
GOAL_MS = 100
RUNS = 3
ANSWER_S = 120.0
TOPICS = 2000
HEAD = """# How long one request of up to 1 MB keeps another connection waiting

Written by `python -m tests.bench.waits`, which says how it is measured. {machine}.

"""
Plain = dict[str, Any]


class Load(NamedTuple):
    """Requests of one kind. make(count): a request with `count` elements; most: the largest count, if a request has
    room for it."""

    api: str
    version: int
    what: str
    make: Callable[[int], Plain]
    most: int = REQUEST_BYTES


def _names(count: int) -> list[str]:
    return [f"u{i:x}" for i in range(count)]


def _by_topic(
    field: str, partition: Callable[[int], Any], name: str = "name", **fields: Any
) -> Iterator[tuple[str, Any]]:
    """Return two requests: many topics of one partition each, and one topic of many partitions."""

    def topic(text: str, partitions: list[Any]) -> Plain:
        return {name: text, field: partitions}

    key = fields.pop("key", "topics")
    yield "unknown topics", lambda count: fields | {key: [topic(each, [partition(0)]) for each in _names(count)]}
    yield "one topic", lambda count: fields | {key: [topic("many", [partition(i) for i in range(count)])]}
    yield "one topic again and again", lambda count: fields | {key: [topic("many", [partition(0)])] * count}
    yield "one partition again and again", lambda count: fields | {key: [topic("many", [partition(0)] * count)]}


def _coordinators(key_type: int) -> Iterator[Load]:
    yield Load(
        "find_coordinator",
        6,
        f"keys of type {key_type}",
        lambda n: {"key_type": key_type, "coordinator_keys": _names(n)},
    )
    yield Load(
        "find_coordinator",
        6,
        f"one key of type {key_type} again and again",
        lambda n: {"key_type": key_type, "coordinator_keys": ["a"] * n},
    )


def _alterations(api: str, version: int, change: Plain) -> Iterator[Load]:
    """Return two requests to alter configurations: one for each of many resources, and many for one resource."""

    def load(
        what: str,
        kind: int,
        names: Callable[[int], list[str]],
        configs: Callable[[int], Sequence[tuple[str, str]]],
        most: int = REQUEST_BYTES,
    ) -> Load:
        def make(count: int) -> Plain:
            wanted = [change | {"name": name, "value": value} for name, value in configs(count)]
            resources = [{"resource_type": kind, "resource_name": name, "configs": wanted} for name in names(count)]
            return {"validate_only": True, "resources": resources}

        return Load(api, version, what, make, most)

    def topics(count: int) -> list[str]:
        return [f"t{i}" for i in range(count)]

    def same(name: str) -> Callable[[int], list[str]]:
        return lambda count: [name] * count

    def one(name: str, value: str) -> Callable[[int], list[tuple[str, str]]]:
        return lambda _: [(name, value)]

    def many(value: str) -> Callable[[int], list[tuple[str, str]]]:
        return lambda count: [(name, value) for name in _names(count)]

    kept = one("retention.ms", "1000")
    yield load("topics", 2, topics, kept, TOPICS)
    yield load("unknown topics", 2, _names, kept)
    yield load("one topic again and again", 2, same("many"), kept)
    yield load("groups", 32, _names, one("consumer.session.timeout.ms", "45000"))
    yield load("a broker again and again", 4, same("1"), one("log.retention.ms", "1000"))
    yield load("loggers", 8, lambda _: ["1"], many("INFO"))
    yield load("a topic's unknown names", 2, lambda _: ["many"], many(""))
    yield load("lists of the longest text", 2, topics, one("cleanup.policy", "compact," * 4000))
    yield load("patterns of the longest text", 16, topics, one("match", "client_id=" + "a?" * 4000))


def loads() -> Iterator[Load]:  # noqa: PLR0915  (a list)
    """All of them."""
    zero = uuid.UUID(int=7)

    def of(api: str, version: int, found: Iterator[tuple[str, Any]]) -> Iterator[Load]:
        for what, make in found:
            yield Load(api, version, what, make)

    offset: Plain = {
        "partition_index": 0,
        "committed_offset": 1,
        "committed_leader_epoch": -1,
        "committed_metadata": "",
    }
    yield Load(
        "produce",
        12,
        "unknown topics, no batches",
        lambda n: {
            "acks": 1,
            "timeout": 1000,
            "topic_data": [{"name": each, "partition_data": [{"index": 0, "records": None}]} for each in _names(n)],
            "transactional_id": None,
        },
    )
    yield Load(
        "produce",
        12,
        "partitions without batches",
        lambda n: {
            "acks": 1,
            "timeout": 1000,
            "topic_data": [{"name": "many", "partition_data": [{"index": 0, "records": None}] * n}],
            "transactional_id": None,
        },
    )
    wanted: Plain = {
        "partition": 0,
        "current_leader_epoch": -1,
        "fetch_offset": 0,
        "last_fetched_epoch": -1,
        "log_start_offset": -1,
        "partition_max_bytes": 1,
    }
    base: Plain = {
        "max_wait": 0,
        "min_bytes": 0,
        "max_bytes": 1 << 20,
        "isolation_level": 0,
        "session_id": 0,
        "session_epoch": -1,
        "forgotten_topics_data": [],
        "rack_id": "",
        "replica_id": -1,
    }
    yield from of("fetch", 12, _by_topic("partitions", lambda i: wanted | {"partition": i}, "topic", **base))
    for each in _by_topic("partitions", lambda i: wanted | {"partition": i}, "topic", **(base | {"session_epoch": 0})):
        yield Load("fetch", 12, f"a session of {each[0]}", each[1])
    yield Load(
        "fetch",
        12,
        "forgotten topics",
        lambda n: (
            base | {"topics": [], "forgotten_topics_data": [{"topic": each, "partitions": [0]} for each in _names(n)]}
        ),
    )
    yield from of(
        "list_offsets",
        6,
        _by_topic(
            "partitions",
            lambda i: {"partition_index": i, "current_leader_epoch": -1, "timestamp": -1},
            replica_id=-1,
            isolation_level=0,
        ),
    )
    yield from of(
        "list_offsets",
        6,
        (
            (f"{what}, by time", make)
            for what, make in _by_topic(
                "partitions",
                lambda i: {"partition_index": i, "current_leader_epoch": -1, "timestamp": 5},
                replica_id=-1,
                isolation_level=0,
            )
        ),
    )
    flags: Plain = {"allow_auto_topic_creation": False, "include_topic_authorized_operations": False}
    yield Load(
        "metadata",
        12,
        "unknown topics",
        lambda n: flags | {"topics": [{"name": each, "topic_id": "A" * 22} for each in _names(n)]},
    )
    yield Load(
        "metadata",
        12,
        "one topic again and again",
        lambda n: flags | {"topics": [{"name": "many", "topic_id": "A" * 22}] * n},
    )
    yield Load(
        "metadata",
        12,
        "topics",
        lambda n: flags | {"topics": [{"name": f"t{i}", "topic_id": "A" * 22} for i in range(n)]},
        TOPICS,
    )
    yield Load(
        "metadata",
        12,
        "unknown ids",
        lambda n: flags | {"topics": [{"name": None, "topic_id": uuid.UUID(int=i + 9)} for i in range(n)]},
    )
    yield Load("metadata", 12, "all topics", lambda _: flags | {"topics": None}, 1)
    member: Plain = {"generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None}
    commits = _by_topic("partitions", lambda i: offset | {"partition_index": i}, group_id="waits", **member)
    yield from of("offset_commit", 9, commits)
    fetched = dict(_by_topic("partition_indexes", lambda i: i))

    def fetching(make: Callable[[int], Plain]) -> Callable[[int], Plain]:
        return lambda n: {
            "groups": [{"group_id": "waits", "member_id": None, "member_epoch": -1, "topics": make(n)["topics"]}],
            "require_stable": False,
        }

    for what, make in fetched.items():
        yield Load("offset_fetch", 9, what, fetching(make))
    yield Load(
        "offset_fetch",
        9,
        "groups",
        lambda n: {
            "groups": [{"group_id": each, "member_id": None, "member_epoch": -1, "topics": None} for each in _names(n)],
            "require_stable": False,
        },
    )
    yield Load(
        "offset_fetch",
        9,
        "one group again and again",
        lambda n: {
            "groups": [{"group_id": "waits", "member_id": None, "member_epoch": -1, "topics": None}] * n,
            "require_stable": False,
        },
        100_000,
    )
    for key_type in range(3):
        yield from _coordinators(key_type)
    joining: Plain = {
        "group_id": "joined",
        "session_timeout": 6000,
        "rebalance_timeout": 6000,
        "member_id": "",
        "group_instance_id": "i",
        "protocol_type": "consumer",
        "reason": None,
    }
    yield Load(
        "join_group",
        9,
        "protocols",
        lambda n: joining | {"protocols": [{"name": each, "metadata": b""} for each in _names(n)]},
    )
    yield Load(
        "join_group",
        9,
        "one protocol again and again",
        lambda n: joining | {"protocols": [{"name": "range", "metadata": b""}] * n},
    )
    yield Load(
        "leave_group",
        5,
        "members",
        lambda n: {
            "group_id": "joined",
            "members": [{"member_id": each, "group_instance_id": None, "reason": None} for each in _names(n)],
        },
    )
    yield Load(
        "sync_group",
        5,
        "assignments",
        lambda n: {
            "group_id": "joined",
            "generation_id": 1,
            "member_id": "m",
            "group_instance_id": None,
            "protocol_type": "consumer",
            "protocol_name": "range",
            "assignments": [{"member_id": each, "assignment": b""} for each in _names(n)],
        },
    )
    yield Load("describe_groups", 6, "groups", lambda n: {"groups": _names(n), "include_authorized_operations": False})
    yield Load(
        "describe_groups",
        6,
        "one group again and again",
        lambda n: {"groups": ["joined"] * n, "include_authorized_operations": False},
    )
    yield Load("list_groups", 5, "filters", lambda n: {"states_filter": _names(n), "types_filter": []})

    def new_topic(name: str) -> Plain:
        return {"name": name, "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}

    yield Load(
        "create_topics",
        7,
        "topics, to be validated",
        lambda n: {"topics": [new_topic(each) for each in _names(n)], "timeout": 1000, "validate_only": True},
    )
    yield Load(
        "create_topics",
        7,
        "9,000 topics, to be validated",
        lambda n: {"topics": [new_topic(each) for each in _names(n)], "timeout": 1000, "validate_only": True},
        9000,
    )
    yield Load(
        "create_topics",
        7,
        "one topic again and again",
        lambda n: {"topics": [new_topic("x")] * n, "timeout": 1000, "validate_only": True},
    )
    yield Load(
        "create_topics",
        7,
        "a topic with assignments",
        lambda n: {
            "topics": [
                new_topic("x")
                | {
                    "num_partitions": -1,
                    "replication_factor": -1,
                    "assignments": [{"partition_index": i, "broker_ids": [1]} for i in range(n)],
                }
            ],
            "timeout": 1000,
            "validate_only": True,
        },
    )
    yield Load(
        "create_topics",
        7,
        "a topic with configurations",
        lambda n: {
            "topics": [new_topic("x") | {"configs": [{"name": each, "value": ""} for each in _names(n)]}],
            "timeout": 1000,
            "validate_only": True,
        },
    )
    yield Load(
        "create_topics",
        7,
        "topics that exist",
        lambda n: {"topics": [new_topic(f"t{i}") for i in range(n)], "timeout": 1000, "validate_only": True},
        TOPICS,
    )
    yield Load(
        "delete_topics",
        6,
        "unknown topics",
        lambda n: {"topics": [{"name": each, "topic_id": "A" * 22} for each in _names(n)], "timeout": 1000},
    )
    yield Load(
        "delete_topics",
        6,
        "one topic again and again",
        lambda n: {"topics": [{"name": "t0", "topic_id": "A" * 22}] * n, "timeout": 1000},
    )
    yield Load(
        "delete_topics",
        6,
        "unknown ids",
        lambda n: {"topics": [{"name": None, "topic_id": uuid.UUID(int=i + 9)} for i in range(n)], "timeout": 1000},
    )
    yield from of(
        "delete_records", 2, _by_topic("partitions", lambda i: {"partition_index": i, "offset": 0}, timeout=1000)
    )
    yield from of(
        "offset_for_leader_epoch",
        4,
        _by_topic(
            "partitions",
            lambda i: {"partition": i, "current_leader_epoch": -1, "leader_epoch": 0},
            "topic",
            replica_id=-1,
        ),
    )
    transactional: Plain = {
        "v3_and_below_transactional_id": "x",
        "v3_and_below_producer_id": 1,
        "v3_and_below_producer_epoch": 0,
    }
    yield from of(
        "add_partitions_to_txn", 3, _by_topic("partitions", lambda i: i, key="v3_and_below_topics", **transactional)
    )

    def transaction(name: str) -> Plain:
        return {
            "transactional_id": name,
            "producer_id": 1,
            "producer_epoch": 0,
            "verify_only": False,
            "topics": [{"name": "many", "partitions": [0]}],
        }

    yield Load(
        "add_partitions_to_txn",
        5,
        "transactions",
        lambda n: {"transactions": [transaction(each) for each in _names(n)]},
    )
    yield Load(
        "add_partitions_to_txn",
        5,
        "one transaction again and again",
        lambda n: {"transactions": [transaction("x")] * n},
    )

    def marker(topics: list[Plain]) -> Plain:
        return {
            "producer_id": 1,
            "producer_epoch": 0,
            "transaction_result": True,
            "coordinator_epoch": 0,
            "topics": topics,
        }

    yield Load(
        "write_txn_markers",
        1,
        "markers of an unknown topic",
        lambda n: {"markers": [marker([{"name": "u", "partition_indexes": [0]}])] * n},
    )
    yield Load(
        "write_txn_markers",
        1,
        "partitions of unknown topics",
        lambda n: {"markers": [marker([{"name": each, "partition_indexes": [0]} for each in _names(n)])]},
    )
    yield Load(
        "write_txn_markers",
        1,
        "partitions that are not there",
        lambda n: {"markers": [marker([{"name": "many", "partition_indexes": [100 + i for i in range(n)]}])]},
    )
    yield from of(
        "txn_offset_commit",
        4,
        _by_topic(
            "partitions",
            lambda i: offset | {"partition_index": i},
            transactional_id="x",
            group_id="waits",
            producer_id=1,
            producer_epoch=0,
            generation_id=-1,
            member_id="",
            group_instance_id=None,
        ),
    )
    yield Load(
        "create_acls",
        3,
        "ACLs",
        lambda n: {
            "creations": [
                {
                    "resource_type": 2,
                    "resource_name": "a",
                    "resource_pattern_type": 3,
                    "principal": "User:a",
                    "host": "*",
                    "operation": 3,
                    "permission_type": 3,
                }
            ]
            * n
        },
    )
    yield Load(
        "delete_acls",
        3,
        "filters",
        lambda n: {
            "filters": [
                {
                    "resource_type_filter": 2,
                    "resource_name_filter": None,
                    "pattern_type_filter": 3,
                    "principal_filter": None,
                    "host_filter": None,
                    "operation": 3,
                    "permission_type": 3,
                }
            ]
            * n
        },
    )
    described: Plain = {"configuration_keys": None}
    asked: Plain = {"include_synonyms": True, "include_documentation": True}
    yield Load(
        "describe_configs",
        4,
        "one topic again and again",
        lambda n: asked | {"resources": [described | {"resource_type": 2, "resource_name": "many"}] * n},
    )
    yield Load(
        "describe_configs",
        4,
        "topics",
        lambda n: asked | {"resources": [described | {"resource_type": 2, "resource_name": f"t{i}"} for i in range(n)]},
        TOPICS,
    )
    yield Load(
        "describe_configs",
        4,
        "unknown topics",
        lambda n: (
            asked | {"resources": [described | {"resource_type": 2, "resource_name": each} for each in _names(n)]}
        ),
    )
    yield Load(
        "describe_configs",
        4,
        "a broker again and again",
        lambda n: asked | {"resources": [described | {"resource_type": 4, "resource_name": "1"}] * n},
    )
    yield Load(
        "describe_configs",
        4,
        "brokers that are not there",
        lambda n: (
            asked | {"resources": [described | {"resource_type": 4, "resource_name": f"{i + 9}"} for i in range(n)]}
        ),
    )
    yield Load(
        "describe_configs",
        4,
        "a topic's names",
        lambda n: (
            asked | {"resources": [{"resource_type": 2, "resource_name": "many", "configuration_keys": _names(n)}]}
        ),
    )
    yield Load(
        "describe_configs",
        4,
        "groups",
        lambda n: (
            asked | {"resources": [described | {"resource_type": 32, "resource_name": each} for each in _names(n)]}
        ),
        20_000,
    )
    yield Load(
        "describe_configs",
        4,
        "subscriptions",
        lambda n: (
            asked | {"resources": [described | {"resource_type": 16, "resource_name": each} for each in _names(n)]}
        ),
    )
    yield from _alterations("alter_configs", 2, {})
    yield from _alterations("incremental_alter_configs", 1, {"config_operation": 0})

    def moving(make: Callable[[int], Plain]) -> Callable[[int], Plain]:
        return lambda n: {"dirs": [{"path": "/x", "topics": make(n)["topics"]}]}

    for what, make in _by_topic("partitions", lambda i: i):
        yield Load("alter_replica_log_dirs", 2, what, moving(make))
    yield Load(
        "alter_replica_log_dirs",
        2,
        "directories",
        lambda n: {"dirs": [{"path": each, "topics": [{"name": "many", "partitions": [0]}]} for each in _names(n)]},
    )
    yield from of("describe_log_dirs", 4, _by_topic("partitions", lambda i: i, "topic"))
    yield Load("describe_log_dirs", 4, "all", lambda _: {"topics": None}, 1)
    yield Load(
        "create_partitions",
        3,
        "unknown topics",
        lambda n: {
            "topics": [{"name": each, "count": 2, "assignments": None} for each in _names(n)],
            "timeout": 1000,
            "validate_only": True,
        },
    )
    yield Load(
        "create_partitions",
        3,
        "topics",
        lambda n: {
            "topics": [{"name": f"t{i}", "count": 2, "assignments": None} for i in range(n)],
            "timeout": 1000,
            "validate_only": True,
        },
        TOPICS,
    )
    yield Load(
        "create_partitions",
        3,
        "one topic again and again",
        lambda n: {
            "topics": [{"name": "many", "count": 20, "assignments": None}] * n,
            "timeout": 1000,
            "validate_only": True,
        },
    )
    yield Load("delete_groups", 2, "groups", lambda n: {"groups_names": _names(n)})
    yield Load("delete_groups", 2, "one group again and again", lambda n: {"groups_names": ["a"] * n})
    yield from of(
        "elect_leaders",
        2,
        _by_topic("partitions", lambda i: i, "topic", key="topic_partitions", election_type=0, timeout=1000),
    )
    yield Load("elect_leaders", 2, "all", lambda _: {"election_type": 0, "topic_partitions": None, "timeout": 1000}, 1)
    yield from of(
        "alter_partition_reassignments",
        1,
        _by_topic(
            "partitions",
            lambda i: {"partition_index": i, "replicas": None},
            timeout=1000,
            allow_replication_factor_change=True,
        ),
    )
    yield Load(
        "alter_partition_reassignments",
        1,
        "replicas",
        lambda n: {
            "timeout": 1000,
            "allow_replication_factor_change": True,
            "topics": [{"name": "many", "partitions": [{"partition_index": 0, "replicas": list(range(n))}]}],
        },
    )
    yield from of("list_partition_reassignments", 0, _by_topic("partition_indexes", lambda i: i, timeout=1000))
    yield from of("offset_delete", 0, _by_topic("partitions", lambda i: {"partition_index": i}, group_id="waits"))
    yield Load(
        "describe_client_quotas",
        1,
        "components",
        lambda n: {
            "strict": False,
            "components": [{"entity_type": "user", "match_type": 0, "match": each} for each in _names(n)],
        },
    )
    yield Load(
        "describe_client_quotas",
        1,
        "one component again and again",
        lambda n: {"strict": False, "components": [{"entity_type": "user", "match_type": 2, "match": None}] * n},
    )

    def quota(entity: list[Plain], ops: list[Plain]) -> Plain:
        return {"entity": entity, "ops": ops}

    op: Plain = {"key": "consumer_byte_rate", "value": 1.0, "remove": False}
    yield Load(
        "alter_client_quotas",
        1,
        "users",
        lambda n: {
            "validate_only": True,
            "entries": [quota([{"entity_type": "user", "entity_name": each}], [op]) for each in _names(n)],
        },
    )
    yield Load(
        "alter_client_quotas",
        1,
        "one user again and again",
        lambda n: {"validate_only": True, "entries": [quota([{"entity_type": "user", "entity_name": "a"}], [op])] * n},
    )
    yield Load(
        "alter_client_quotas",
        1,
        "addresses",
        lambda n: {
            "validate_only": True,
            "entries": [
                quota(
                    [{"entity_type": "ip", "entity_name": f"10.{i >> 16}.{i >> 8 & 255}.{i & 255}"}],
                    [op | {"key": "connection_creation_rate"}],
                )
                for i in range(n)
            ],
        },
    )
    yield Load(
        "alter_client_quotas",
        1,
        "a user's quotas",
        lambda n: {"validate_only": True, "entries": [quota([{"entity_type": "user", "entity_name": "a"}], [op] * n)]},
    )
    yield Load(
        "alter_client_quotas",
        1,
        "an entity's parts",
        lambda n: {
            "validate_only": True,
            "entries": [quota([{"entity_type": each, "entity_name": "a"} for each in _names(n)], [op])],
        },
    )
    yield Load(
        "describe_user_scram_credentials", 0, "users", lambda n: {"users": [{"name": each} for each in _names(n)]}
    )
    yield Load(
        "describe_user_scram_credentials", 0, "one user again and again", lambda n: {"users": [{"name": "a"}] * n}
    )
    credential = {"mechanism": 1, "iterations": 4096, "salt": b"salt", "salted_password": bytes(32)}
    yield Load(
        "alter_user_scram_credentials",
        0,
        "users",
        lambda n: {"deletions": [], "upsertions": [{"name": each, **credential} for each in _names(n)]},
    )
    yield Load(
        "alter_user_scram_credentials",
        0,
        "deletions of a user",
        lambda n: {"deletions": [{"name": "a", "mechanism": 1}] * n, "upsertions": []},
    )
    yield Load(
        "update_features",
        1,
        "features",
        lambda n: {
            "timeout": 1000,
            "validate_only": True,
            "feature_updates": [{"feature": each, "max_version_level": 1, "upgrade_type": 1} for each in _names(n)],
        },
    )
    yield Load(
        "update_features",
        1,
        "one feature again and again",
        lambda n: {
            "timeout": 1000,
            "validate_only": True,
            "feature_updates": [{"feature": "group.version", "max_version_level": 1, "upgrade_type": 1}] * n,
        },
    )
    yield from of("describe_quorum", 2, _by_topic("partitions", lambda i: {"partition_index": i}, "topic_name"))
    yield from of("describe_producers", 0, _by_topic("partition_indexes", lambda i: i))
    yield Load("describe_transactions", 0, "transactional ids", lambda n: {"transactional_ids": _names(n)})
    yield Load(
        "describe_transactions", 0, "one transactional id again and again", lambda n: {"transactional_ids": ["a"] * n}
    )
    yield Load(
        "list_transactions",
        2,
        "states",
        lambda n: {
            "state_filters": _names(n),
            "producer_id_filters": [],
            "duration_filter": -1,
            "transactional_id_pattern": None,
        },
    )
    yield Load(
        "list_transactions",
        2,
        "producers",
        lambda n: {
            "state_filters": [],
            "producer_id_filters": list(range(n)),
            "duration_filter": -1,
            "transactional_id_pattern": None,
        },
    )
    yield Load(
        "list_transactions",
        2,
        "a pattern",
        lambda n: {
            "state_filters": [],
            "producer_id_filters": [],
            "duration_filter": -1,
            "transactional_id_pattern": "(a*)" * (n // 4),
        },
    )
    beat: Plain = {
        "group_id": "waited",
        "member_id": "m",
        "member_epoch": 0,
        "instance_id": None,
        "rack_id": None,
        "rebalance_timeout": 60_000,
        "subscribed_topic_regex": None,
        "server_assignor": None,
        "topic_partitions": [],
        "subscribed_topic_names": None,
    }
    yield Load("consumer_group_heartbeat", 1, "names", lambda n: beat | {"subscribed_topic_names": _names(n)})
    yield Load(
        "consumer_group_heartbeat",
        1,
        "as many names as are allowed",
        lambda n: beat | {"group_id": "named", "subscribed_topic_names": _names(n)},
        20_000,
    )
    yield Load(
        "consumer_group_heartbeat", 1, "a pattern", lambda n: beat | {"subscribed_topic_regex": "(a*)" * (n // 4)}
    )
    yield Load(
        "consumer_group_heartbeat",
        1,
        "the longest pattern",
        lambda n: beat | {"group_id": "matched", "subscribed_topic_regex": ("((a?){30}){30}" * 100)[:n]},
        1024,
    )
    yield Load(
        "consumer_group_heartbeat",
        1,
        "owned topics",
        lambda n: (
            beat
            | {
                "member_epoch": 1,
                "topic_partitions": [{"topic_id": uuid.UUID(int=i + 9), "partitions": [0]} for i in range(n)],
            }
        ),
    )
    yield Load(
        "consumer_group_heartbeat",
        1,
        "owned partitions",
        lambda n: beat | {"member_epoch": 1, "topic_partitions": [{"topic_id": zero, "partitions": list(range(n))}]},
    )
    yield Load(
        "consumer_group_describe",
        1,
        "groups",
        lambda n: {"group_ids": _names(n), "include_authorized_operations": False},
    )
    yield Load(
        "consumer_group_describe",
        1,
        "one group again and again",
        lambda n: {"group_ids": ["waited"] * n, "include_authorized_operations": False},
    )
    yield Load("list_config_resources", 1, "types", lambda n: {"resource_types": [i % 100 for i in range(n)]})
    page: Plain = {"response_partition_limit": 2000, "cursor": None}
    yield Load(
        "describe_topic_partitions",
        0,
        "topics",
        lambda n: page | {"topics": [{"name": f"t{i}"} for i in range(n)]},
        TOPICS,
    )
    yield Load(
        "describe_topic_partitions",
        0,
        "unknown topics",
        lambda n: page | {"topics": [{"name": each} for each in _names(n)]},
    )
    yield Load(
        "describe_topic_partitions", 0, "one topic again and again", lambda n: page | {"topics": [{"name": "many"}] * n}
    )
    yield Load(
        "add_raft_voter",
        1,
        "listeners",
        lambda n: {
            "cluster_id": None,
            "timeout": 1000,
            "voter_id": 7,
            "voter_directory_id": "A" * 21 + "Q",
            "listeners": [{"name": each, "host": "a", "port": 1} for each in _names(n)],
            "ack_when_committed": True,
        },
    )


def frame(client: Client, load: Load) -> bytes:
    """Return the largest request of a kind that fits into a megabyte."""
    few, many = (len(client.frame(load.api, load.version, load.make(min(n, load.most)))) for n in (64, 4160))
    each = max((many - few) / 4096, 0.1)
    count = min(load.most, int((REQUEST_BYTES - 256) / each))
    while True:
        found = client.frame(load.api, load.version, load.make(count))
        if len(found) <= REQUEST_BYTES:
            return found
        count -= count // 50 + 1


def queued_s(pid: int | str) -> float:
    """Return how long the first thread of a process, which runs the event loop, has waited for a processor so far."""
    return int(Path(f"/proc/{pid}/schedstat").read_bytes().split()[1]) / 1e9


class Waits:
    """A connection that sends one request after another. Raises OSError when the broker is gone."""

    def __init__(self, address: tuple[str, int], pid: int) -> None:
        self._pid = pid
        self._client = Client(address)
        self._client.socket.settimeout(ANSWER_S)

    def longest_ms(self, until: threading.Event) -> float:
        """Return the longest wait for a response until `done`."""
        longest = 0.0
        request = self._client.frame("api_versions", 0, {})
        while not until.is_set():
            queued = queued_s(self._pid) + queued_s("self")
            began = time.perf_counter()
            self._client.socket.sendall(request)
            size = int.from_bytes(self._receive(4))
            self._receive(size)
            took = time.perf_counter() - began
            longest = max(longest, took - (queued_s(self._pid) + queued_s("self") - queued))
            time.sleep(0.0005)
        return longest * 1000

    def _receive(self, size: int) -> bytes:
        found = b""
        while len(found) < size:
            part = self._client.socket.recv(size - len(found))
            if not part:
                raise BenchError("the broker hung up")
            found += part
        return found


def answered(address: tuple[str, int], request: bytes) -> str:
    """Send a request and drop its response. Returns the response's size, or that the broker closed the connection."""
    with socket.create_connection(address, ANSWER_S) as sock:
        sock.sendall(request)
        scratch = bytearray(1 << 20)
        got = 0
        size = -1
        head = b""
        while size < 0 or got < size:
            count = sock.recv_into(scratch)
            if not count:
                return "hung up"
            if size < 0:
                head += bytes(scratch[:count])
                if len(head) >= 4:
                    size = int.from_bytes(head[:4]) + 4
            got += count
        return f"{size:,} B"


def wait_ms(address: tuple[str, int], pid: int, request: bytes) -> tuple[float, str, float]:
    """Return the longest wait of another connection during a request, the response, and the request's duration in
    seconds."""
    done = threading.Event()
    told: list[str] = []
    took: list[float] = []

    def ask() -> None:
        time.sleep(0.02)
        began = time.perf_counter()
        try:
            told.append(answered(address, request))
        except OSError as error:
            told.append(str(error))
        took.append(time.perf_counter() - began)
        time.sleep(0.05)
        done.set()

    waits = Waits(address, pid)
    thread = threading.Thread(target=ask)
    thread.start()
    try:
        longest = waits.longest_ms(done)
    finally:
        thread.join()
    return longest, told[0], took[0]


def prepare(address: tuple[str, int]) -> None:
    """Topics that are asked for."""
    with Client(address) as client:
        new: Plain = {"replication_factor": 1, "assignments": [], "configs": []}
        client.call(
            "create_topics",
            7,
            topics=[new | {"name": "many", "num_partitions": 16}],
            timeout=60_000,
            validate_only=False,
        )
        for begin in range(0, TOPICS, 100):
            topics = [new | {"name": f"t{i}", "num_partitions": 1} for i in range(begin, min(begin + 100, TOPICS))]
            client.call("create_topics", 7, topics=topics, timeout=60_000, validate_only=False)
        client.call("find_coordinator", 4, key_type=0, coordinator_keys=["waits"])
        client.call("find_coordinator", 4, key_type=1, coordinator_keys=["waits"])
    time.sleep(3)


def main(arguments: list[str] | None = None) -> int:
    """Measure, and write the table where all APIs are measured. Returns 1 where a goal is missed."""
    parser = argparse.ArgumentParser(prog="tests.bench.waits")
    parser.add_argument("apis", nargs="*")
    parser.add_argument("--runs", type=int, default=RUNS)
    options = parser.parse_args(arguments)
    WORK.mkdir(parents=True, exist_ok=True)
    rows = [["API", "request", "bytes", "answer", "answered in, s", "longest wait, ms", "reached"]]
    worst = 0.0
    with (
        tempfile.TemporaryDirectory() as data,
        kcli(Path(data) / "data", "-o", "auto.create.topics.enable=false") as broker,
    ):
        host, _, port = broker.bootstrap.rpartition(":")
        address = host, int(port)
        prepare(address)
        client = Client(address)
        for load in loads():
            if options.apis and load.api not in options.apis:
                continue
            request = frame(client, load)
            runs = [wait_ms(address, broker.pid, request) for _ in range(options.runs)]
            waited, told, took = min(runs)
            worst = max(worst, waited)
            cells = [
                load.api,
                f"v{load.version} {load.what}",
                f"{len(request):,}",
                told,
                f"{took:.2f}",
                f"{waited:.0f}",
            ]
            rows.append([*cells, "yes" if waited < GOAL_MS else "no"])
            print(" | ".join(rows[-1]), f"{broker.resident_mb():.0f} MB", file=sys.stderr, flush=True)
    text = HEAD.format(machine=machine()) + table(rows) + "\n"
    if not options.apis:
        RESULTS.write_text(text, encoding="utf-8")
    print(text)
    return worst >= GOAL_MS


if __name__ == "__main__":
    sys.exit(main())
