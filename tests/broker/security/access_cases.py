"""What a client without any right but one asks of a node: each question in a session of its own, after each ACL.

Topics t and u exist, n and m do not. Groups g and h have committed offsets of t and u, group c has a member that reads
both, group d one that reads t. Transactional ids x and y have a transaction with both. An ACL is for t and n, for g, c
and d, for x, or for the cluster. `$t` and `$u` stand for topic ids.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kcli.security.acls import Operation, ResourceType
from tests.log.batches import batch

UNKNOWN = "abcdefghijklmnopqrstug"
CLIENT, ADMIN = "User:ANONYMOUS", "User:admin"
TOPICS = ("t", "u")
RESOURCES = {
    ResourceType.TOPIC: ("t", "n"),
    ResourceType.GROUP: ("g", "c", "d"),
    ResourceType.TRANSACTIONAL_ID: ("x",),
    ResourceType.CLUSTER: ("kafka-cluster",),
}
GROUP_AND_TOPIC = ((ResourceType.GROUP, Operation.READ), (ResourceType.TOPIC, Operation.READ))
GROUP_TOLD = ((ResourceType.GROUP, Operation.DESCRIBE), (ResourceType.TOPIC, Operation.DESCRIBE))
DELETED = ((ResourceType.GROUP, Operation.DELETE), (ResourceType.TOPIC, Operation.READ))
IN_TRANSACTION = (
    (ResourceType.TRANSACTIONAL_ID, Operation.WRITE),
    (ResourceType.GROUP, Operation.READ),
    (ResourceType.TOPIC, Operation.READ),
    (ResourceType.TOPIC, Operation.WRITE),
)
CREATED = ((ResourceType.TOPIC, Operation.CREATE), (ResourceType.TOPIC, Operation.DESCRIBE_CONFIGS))
Rights = tuple[tuple[ResourceType, Operation], ...]
Question = tuple[str, int, dict[str, Any]]

OPERATIONS = {
    ResourceType.TOPIC: (3, 4, 5, 6, 7, 8, 10, 11),
    ResourceType.GROUP: (3, 6, 8, 10, 11),
    ResourceType.TRANSACTIONAL_ID: (4, 8),
    ResourceType.CLUSTER: (5, 7, 8, 9, 10, 11, 12),
}


def rights() -> Iterator[Rights]:
    """Yield the rights of the client, one set after the other."""
    yield ()
    for kind, operations in OPERATIONS.items():
        for operation in operations:
            yield ((kind, Operation(operation)),)
    yield GROUP_AND_TOPIC
    yield GROUP_TOLD
    yield DELETED
    yield IN_TRANSACTION
    yield CREATED
    yield (ResourceType.TOPIC, Operation.DESCRIBE), (ResourceType.TOPIC, Operation.CREATE)
    yield (ResourceType.TOPIC, Operation.DESCRIBE), (ResourceType.CLUSTER, Operation.CREATE)
    yield (ResourceType.TRANSACTIONAL_ID, Operation.DESCRIBE), (ResourceType.TOPIC, Operation.DESCRIBE)


def acls(granted: Rights) -> list[dict[str, Any]]:
    """The ACLs that grant these rights."""
    allowed = {"resource_pattern_type": 3, "principal": CLIENT, "host": "*", "permission_type": 3}
    return [
        {"resource_type": int(kind), "resource_name": name, "operation": int(operation), **allowed}
        for kind, operation in granted
        for name in RESOURCES[kind]
    ]


def by_name(*names: str, key: str = "name", inner: str = "partitions", **each: Any) -> list[dict[str, Any]]:
    return [{key: name, inner: [{**each}]} for name in names]


def questions() -> Iterator[Question]:
    """All of them."""
    yield from topics()
    yield from records()
    yield from groups()
    yield from transactions()
    yield from configs()
    yield from cluster()
    yield from deletions()


def topics() -> Iterator[Question]:
    operations = {"include_topic_authorized_operations": True}
    for names in (("t", "u", "n", "__consumer_offsets", "m"), ("u",)):
        named = [{"name": each, "topic_id": None} for each in names]
        yield "metadata", 12, {"topics": named, "allow_auto_topic_creation": False, **operations}
    yield "metadata", 12, {"topics": [{"name": each, "topic_id": None} for each in ("t", "u")]}
    yield "metadata", 8, {"topics": None, **operations, "include_cluster_authorized_operations": True}
    ids = [{"name": None, "topic_id": each} for each in ("$t", "$u", UNKNOWN)]
    yield "metadata", 12, {"topics": ids, **operations}
    first = {"response_partition_limit": 2000, "cursor": None}
    yield "describe_topic_partitions", 0, {"topics": [{"name": each} for each in ("t", "u", "n")], **first}
    yield "describe_topic_partitions", 0, {"topics": [], **first}
    new = {"num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
    wanted = [{"name": name, **new} for name in ("t", "n", "m", "twice", "twice", "__cluster_metadata")]
    yield "create_topics", 7, {"topics": wanted, "timeout": 1000, "validate_only": True}
    more = [{"name": name, "count": 2, "assignments": None} for name in ("t", "u", "n", "m", "twice", "twice")]
    yield "create_partitions", 3, {"topics": more, "timeout": 1000, "validate_only": True}


def records() -> Iterator[Question]:
    wanted = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000, "current_leader_epoch": -1}
    wanted |= {"last_fetched_epoch": -1, "log_start_offset": -1}
    limits = {"max_wait": 0, "min_bytes": 0, "max_bytes": 1000, "isolation_level": 0, "rack_id": ""}
    limits |= {"session_id": 0, "session_epoch": -1, "forgotten_topics_data": []}
    named = [{"topic": name, "partitions": [wanted]} for name in ("t", "u", "n", "m")]
    yield "fetch", 12, {**limits, "replica_id": -1, "topics": named}
    yield "fetch", 12, {**limits, "replica_id": 1, "topics": named}
    by_id = [{"topic_id": each, "partitions": [wanted]} for each in ("$t", "$u", UNKNOWN)]
    yield "fetch", 13, {**limits, "replica_id": -1, "topics": by_id}
    latest: dict[str, Any] = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1}
    yield "list_offsets", 7, {"replica_id": -1, "isolation_level": 0, "topics": by_name("t", "u", "n", "m", **latest)}
    epoch: dict[str, Any] = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}
    for replica_id in (-2, 1):
        asked = by_name("t", "u", "n", "m", key="topic", **epoch)
        yield "offset_for_leader_epoch", 4, {"replica_id": replica_id, "topics": asked}
    data: dict[str, Any] = {"index": 0, "records": b""}
    for acks in (1, 7):
        sent = by_name("t", "u", "n", "m", inner="partition_data", **data)
        yield "produce", 9, {"transactional_id": None, "acks": acks, "timeout": 1000, "topic_data": sent}
    sent = [{"topic_id": each, "partition_data": [data]} for each in ("$t", "$u", UNKNOWN)]
    yield "produce", 13, {"transactional_id": None, "acks": 1, "timeout": 1000, "topic_data": sent}
    written = bytes(batch(b"v", producer=(7, 0), sequence=0, transactional=True))
    for name in ("x", "y", None):
        sent = by_name("t", "u", "m", inner="partition_data", index=0, records=written)
        yield "produce", 9, {"transactional_id": name, "acks": 1, "timeout": 1000, "topic_data": sent}
    asked = by_name("t", "u", "n", "m", partition_index=0, offset=0)
    yield "delete_records", 2, {"topics": asked, "timeout": 1000}
    asked = [{"name": name, "partition_indexes": [0]} for name in ("t", "u", "n", "m", "..")]
    yield "describe_producers", 0, {"topics": asked}


def groups() -> Iterator[Question]:
    for key_type, keys in ((0, ["g", "h"]), (1, ["x", "y"])):
        yield "find_coordinator", 4, {"key_type": key_type, "coordinator_keys": keys}
        for key in keys:
            yield "find_coordinator", 3, {"key_type": key_type, "key": key}
    for group in ("g", "h", ""):
        known: dict[str, Any] = {"group_id": group, "member_id": "nobody", "group_instance_id": None}
        join = {"session_timeout": 10_000, "rebalance_timeout": 10_000, "protocol_type": "consumer", "reason": None}
        yield "join_group", 9, {**known, **join, "protocols": [{"name": "p", "metadata": b""}]}
        join = {key: value for key, value in join.items() if key != "reason"}
        yield "join_group", 5, {**known, **join, "session_timeout": 1, "protocols": [{"name": "p", "metadata": b""}]}
        sync = {"generation_id": 1, "protocol_type": "consumer", "protocol_name": "p", "assignments": []}
        yield "sync_group", 5, {**known, **sync}
        yield "sync_group", 5, {**known, **sync, "protocol_name": None}
        yield "heartbeat", 4, {**known, "generation_id": 1}
        leaves = [{"member_id": "nobody", "group_instance_id": None, "reason": None}]
        yield "leave_group", 5, {"group_id": group, "members": leaves}
        yield "leave_group", 2, {"group_id": group, "member_id": "nobody"}
        commit = {**known, "member_id": "", "generation_id_or_member_epoch": 5}
        offset: dict[str, Any] = {"partition_index": 0, "committed_offset": 1, "committed_leader_epoch": -1}
        offset["committed_metadata"] = ""
        yield "offset_commit", 8, {**commit, "topics": by_name("t", "u", "n", "m", **offset)}
        by_id = [{"topic_id": each, "partitions": [offset]} for each in ("$t", "$u", UNKNOWN)]
        yield "offset_commit", 10, {**commit, "topics": by_id}
        named = [{"name": name, "partition_indexes": [0]} for name in ("t", "u", "n", "m")]
        for version in (1, 5):
            yield "offset_fetch", version, {"group_id": group, "topics": named}
        every = {"group_id": group, "topics": None, "member_id": None, "member_epoch": -1}
        yield "offset_fetch", 9, {"groups": [{**every, "topics": named}, every], "require_stable": False}
        heartbeat = {
            "group_id": group,
            "member_id": "nobody",
            "instance_id": None,
            "member_epoch": 5,
            "rack_id": None,
            "rebalance_timeout": -1,
            "server_assignor": None,
        }
        heartbeat |= {"topic_partitions": None, "subscribed_topic_regex": None}
        for subscribed in (None, [], ["t"], ["t", "u"]):
            yield "consumer_group_heartbeat", 1, {**heartbeat, "subscribed_topic_names": subscribed}
    operations = {"include_authorized_operations": True}
    yield "describe_groups", 5, {"groups": ["g", "h"], **operations}
    yield "consumer_group_describe", 0, {"group_ids": ["g", "h", "c", "d"], **operations}
    yield "list_groups", 4, {"states_filter": []}


def transactions() -> Iterator[Question]:
    for name in (None, "x", "y"):
        wanted_id = {"transactional_id": name, "transaction_timeout": 1000, "producer_epoch": -1}
        yield "init_producer_id", 4, {**wanted_id, "producer_id": 7}
    for name in ("x", "y"):
        producer: dict[str, Any] = {"producer_id": 7, "producer_epoch": 0}
        asked: dict[str, Any] = {
            f"v3_and_below_{key}": value for key, value in {**producer, "transactional_id": name}.items()
        }
        for wanted in (("t",), ("t", "u", "n", "__consumer_offsets")):
            named = [{"name": each, "partitions": [0]} for each in wanted]
            yield "add_partitions_to_txn", 3, {**asked, "v3_and_below_topics": named}
        for group in ("g", "h"):
            yield "add_offsets_to_txn", 3, {**producer, "transactional_id": name, "group_id": group}
            offset: dict[str, Any] = {"partition_index": 0, "committed_offset": 1, "committed_leader_epoch": -1}
            named = by_name("t", "u", "n", **offset, committed_metadata="")
            member = {"member_id": "", "group_instance_id": None, "generation_id": -1}
            commit = {**producer, **member, "transactional_id": name, "group_id": group}
            yield "txn_offset_commit", 3, {**commit, "topics": named}
        for version in (3, 5):
            yield "end_txn", version, {**producer, "transactional_id": name, "committed": True}
    named = [{"name": "t", "partitions": [0]}]
    one = {"transactional_id": "x", "producer_id": 7, "producer_epoch": 0, "verify_only": True, "topics": named}
    yield "add_partitions_to_txn", 4, {"transactions": [one]}
    yield "describe_transactions", 0, {"transactional_ids": ["x", "y"]}
    yield "list_transactions", 0, {"state_filters": [], "producer_id_filters": []}
    marker = {"producer_id": 7, "producer_epoch": 0, "transaction_result": True, "coordinator_epoch": 0}
    yield "write_txn_markers", 1, {"markers": [{**marker, "topics": [{"name": "m", "partition_indexes": [0]}]}]}


def configs() -> Iterator[Question]:
    named = [(2, "t"), (2, "u"), (2, "n"), (4, "1"), (4, ""), (8, "1"), (16, "m"), (32, "g"), (32, "h")]
    resources: list[dict[str, Any]] = [{"resource_type": kind, "resource_name": name} for kind, name in named]
    asked = [{**each, "configuration_keys": ["no.such.configuration"]} for each in resources]
    yield "describe_configs", 4, {"resources": asked, "include_synonyms": False, "include_documentation": False}
    values = {
        2: ("retention.ms", "5000"),
        4: ("log.retention.ms", "5000"),
        8: ("kafka", "INFO"),
        16: ("interval.ms", "1000"),
        32: ("consumer.session.timeout.ms", "50000"),
    }
    for each in resources:
        name, value = values[each["resource_type"]]
        config = {"name": name, "value": value}
        yield "alter_configs", 2, {"resources": [{**each, "configs": [config]}], "validate_only": True}
        one = {**each, "configs": [{**config, "config_operation": 0}]}
        yield "incremental_alter_configs", 1, {"resources": [one], "validate_only": True}
    twice = [{"resource_type": 2, "resource_name": "u", "configs": []}] * 2
    yield "incremental_alter_configs", 1, {"resources": twice, "validate_only": True}
    yield "list_config_resources", 1, {"resource_types": [2]}
    yield "describe_client_quotas", 1, {"components": [], "strict": False}
    entry = {"entity": [{"entity_type": "user", "entity_name": "a"}], "ops": []}
    yield "alter_client_quotas", 1, {"entries": [entry], "validate_only": True}


def cluster() -> Iterator[Question]:
    yield "describe_cluster", 1, {"include_cluster_authorized_operations": True, "endpoint_type": 1}
    yield "describe_cluster", 1, {"include_cluster_authorized_operations": False, "endpoint_type": 1}
    yield "describe_log_dirs", 4, {"topics": [{"topic": "t", "partitions": [0]}]}
    yield "alter_replica_log_dirs", 2, {"dirs": [{"path": "/no", "topics": [{"name": "t", "partitions": [0]}]}]}
    metadata = [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]
    yield "describe_quorum", 0, {"topics": metadata}
    one = [{"topic": "t", "partitions": [0]}]
    for version in (1, 2):
        yield "elect_leaders", version, {"election_type": 0, "topic_partitions": one, "timeout": 1000}
    moved = [{"name": "t", "partitions": [{"partition_index": 0, "replicas": [9]}]}]
    yield "alter_partition_reassignments", 0, {"timeout": 1000, "topics": moved}
    yield "list_partition_reassignments", 0, {"timeout": 1000, "topics": None}
    update = [{"feature": "no.such.feature", "max_version_level": 1, "upgrade_type": 1}]
    yield "update_features", 1, {"timeout": 1000, "feature_updates": update, "validate_only": True}
    yield "unregister_broker", 0, {"broker_id": 44}
    nobody = [{"name": name, "mechanism": 1} for name in ("b", "a")]
    voter = {"cluster_id": None, "voter_id": 9, "voter_directory_id": UNKNOWN}
    yield "add_raft_voter", 0, {**voter, "timeout": 1000, "listeners": [{"name": "CONTROLLER", "host": "h", "port": 9}]}
    yield "remove_raft_voter", 0, voter
    yield "alter_user_scram_credentials", 0, {"deletions": nobody, "upsertions": []}
    yield "describe_user_scram_credentials", 0, {"users": [{"name": "a"}]}
    acl = {"resource_type": 2, "resource_name": "", "resource_pattern_type": 3, "principal": "User:a", "host": "*"}
    yield "create_acls", 3, {"creations": [{**acl, "operation": 3, "permission_type": 3}] * 2}
    nothing = {"resource_type_filter": 6, "resource_name_filter": "z", "pattern_type_filter": 3}
    nothing |= {"principal_filter": None, "host_filter": None, "operation": 1, "permission_type": 1}
    yield "delete_acls", 3, {"filters": [nothing, nothing]}
    yield "describe_acls", 3, nothing


def deletions() -> Iterator[Question]:
    yield "offset_delete", 0, {"group_id": "g", "topics": by_name("t", "u", "n", "m", partition_index=0)}
    yield "offset_delete", 0, {"group_id": "h", "topics": by_name("t", partition_index=0)}
    yield "delete_groups", 2, {"groups_names": ["g", "h"]}
    for name, topic_id in (("n", None), ("m", None), ("u", None), (None, UNKNOWN), (None, "$t")):
        yield "delete_topics", 6, {"topics": [{"name": name, "topic_id": topic_id}], "timeout": 1000}
    yield "delete_topics", 5, {"topic_names": ["t", "n", "m"], "timeout": 1000}
    for wanted in ("m", "n"):
        named = [{"name": wanted, "topic_id": None}]
        yield "metadata", 12, {"topics": named, "allow_auto_topic_creation": True}
