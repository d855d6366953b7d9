"""How a broker that only reads refuses what would write. One answer per API, at the place where its clients look.

    InitProducerId    CLUSTER_AUTHORIZATION_FAILED: the one code on which idempotent producers of all clients give up at
                      once; others they take for passing trouble and ask again for ever
    JoinGroup and     GROUP_AUTHORIZATION_FAILED, for the same reason
    what follows it
    UpdateFeatures,   POLICY_VIOLATION of the whole
    OffsetDelete,
    ElectLeaders      (of each partition too; there is no place for the whole in version 0)
    Produce           POLICY_VIOLATION of each partition, which no client sends again, with the reason (v8); with acks=0
                      the connection is closed, as for every batch refused
    the others        POLICY_VIOLATION of each resource, topic or entity, with the reason where there is a place for it

The code is the one with which Kafka's own create and alter policies refuse: not allowed here, whoever asks. The
authorization errors would send people to look at ACLs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

from kcli.broker.network.messages import Call, Entity, ErrorCode, HangUp

REASON = "This broker only reads: it serves its log directories as they are."
POLICY = ErrorCode.policy_violation
NO_MEMBERS = ErrorCode.group_authorization_failed
NO_PROTOCOL_SINCE = 7
NO_ACKS = 0


def refuse(api: str, call: Call) -> Entity:
    """The answer to a request of one of the APIs in REFUSALS. Raises HangUp."""
    return REFUSALS[api](call)


def _each(call: Call, name: str, values: Iterable[dict[str, Any]]) -> tuple[Entity, ...]:
    reason = {"error_message": REASON} if call.has(name, "error_message") else {}
    return tuple(call.new(name, error_code=POLICY, **reason, **each) for each in values)


def _produce(call: Call) -> Entity:
    if call.request.acks == NO_ACKS:
        raise HangUp("a batch was sent to a broker that only reads")
    refused = {"base_offset": -1, "log_append_time": None, "log_start_offset": -1, "record_errors": ()}
    return call.respond(
        responses=tuple(
            call.new(
                "TopicProduceResponse",
                **({"topic_id": topic.topic_id} if hasattr(topic, "topic_id") else {"name": topic.name}),
                partition_responses=_each(
                    call,
                    "PartitionProduceResponse",
                    ({"index": each.index, **refused} for each in topic.partition_data),
                ),
            )
            for topic in call.request.topic_data
        )
    )


def _create_topics(call: Call) -> Entity:
    topics = ({"name": each.name, "topic_id": None, "configs": ()} for each in call.request.topics)
    return call.respond(topics=_each(call, "CreatableTopicResult", topics))


def _delete_topics(call: Call) -> Entity:
    by_name = ({"name": name, "topic_id": None} for name in call.get("topic_names", ()))
    by_either = ({"name": each.name, "topic_id": each.topic_id} for each in call.get("topics", ()))
    return call.respond(responses=_each(call, "DeletableTopicResult", (*by_name, *by_either)))


def _delete_records(call: Call) -> Entity:
    return call.respond(
        topics=tuple(
            call.new(
                "DeleteRecordsTopicResult",
                name=topic.name,
                partitions=_each(
                    call,
                    "DeleteRecordsPartitionResult",
                    ({"partition_index": each.partition_index, "low_watermark": -1} for each in topic.partitions),
                ),
            )
            for topic in call.request.topics
        )
    )


def _init_producer_id(call: Call) -> Entity:
    return call.respond(error_code=ErrorCode.cluster_authorization_failed, producer_id=-1, producer_epoch=-1)


def _join_group(call: Call) -> Entity:
    return call.respond(
        error_code=NO_MEMBERS,
        generation_id=-1,
        protocol_type=None,
        protocol_name=None if call.version >= NO_PROTOCOL_SINCE else "",
        leader="",
        member_id=call.request.member_id,
        members=(),
    )


def _sync_group(call: Call) -> Entity:
    return call.respond(error_code=NO_MEMBERS, assignment=b"")


def _no_members(call: Call) -> Entity:
    return call.respond(error_code=NO_MEMBERS)


def _leave_group(call: Call) -> Entity:
    return call.respond(error_code=NO_MEMBERS, members=())


def _consumer_group_heartbeat(call: Call) -> Entity:
    return call.respond(
        error_code=NO_MEMBERS,
        error_message=REASON,
        member_id=None,
        member_epoch=0,
        heartbeat_interval=timedelta(0),
        assignment=None,
    )


def _offset_commit(call: Call) -> Entity:
    return call.respond(
        topics=tuple(
            call.new(
                "OffsetCommitResponseTopic",
                **({"topic_id": topic.topic_id} if hasattr(topic, "topic_id") else {"name": topic.name}),
                partitions=tuple(
                    call.new("OffsetCommitResponsePartition", partition_index=each.partition_index, error_code=POLICY)
                    for each in topic.partitions
                ),
            )
            for topic in call.request.topics
        )
    )


def _offset_delete(call: Call) -> Entity:
    return call.respond(error_code=POLICY, topics=())


def _delete_groups(call: Call) -> Entity:
    names = call.request.groups_names
    return call.respond(
        results=tuple(call.new("DeletableGroupResult", group_id=name, error_code=POLICY) for name in names)
    )


def _write_txn_markers(call: Call) -> Entity:
    return call.respond(
        markers=tuple(
            call.new(
                "WritableTxnMarkerResult",
                producer_id=marker.producer_id,
                topics=tuple(
                    call.new(
                        "WritableTxnMarkerTopicResult",
                        name=topic.name,
                        partitions=tuple(
                            call.new("WritableTxnMarkerPartitionResult", partition_index=number, error_code=POLICY)
                            for number in topic.partition_indexes
                        ),
                    )
                    for topic in marker.topics
                ),
            )
            for marker in call.request.markers
        )
    )


def _alter_configs(call: Call) -> Entity:
    resources = (
        {"resource_type": each.resource_type, "resource_name": each.resource_name} for each in call.request.resources
    )
    return call.respond(responses=_each(call, "AlterConfigsResourceResponse", resources))


def _create_partitions(call: Call) -> Entity:
    topics = ({"name": each.name} for each in call.request.topics)
    return call.respond(results=_each(call, "CreatePartitionsTopicResult", topics))


def _elect_leaders(call: Call) -> Entity:
    return call.respond(
        error_code=POLICY,
        replica_election_results=tuple(
            call.new(
                "ReplicaElectionResult",
                topic=topic.topic,
                partition_result=_each(call, "PartitionResult", ({"partition_id": each} for each in topic.partitions)),
            )
            for topic in call.request.topic_partitions or ()
        ),
    )


def _alter_client_quotas(call: Call) -> Entity:
    entities = (
        {
            "entity": tuple(
                call.new("EntityData", entity_type=each.entity_type, entity_name=each.entity_name)
                for each in entry.entity
            )
        }
        for entry in call.request.entries
    )
    return call.respond(entries=_each(call, "EntryData", entities))


def _update_features(call: Call) -> Entity:
    return call.respond(error_code=POLICY, error_message=REASON, results=())


REFUSALS: dict[str, Callable[[Call], Entity]] = {
    "produce": _produce,
    "create_topics": _create_topics,
    "delete_topics": _delete_topics,
    "delete_records": _delete_records,
    "init_producer_id": _init_producer_id,
    "alter_configs": _alter_configs,
    "create_partitions": _create_partitions,
    "elect_leaders": _elect_leaders,
    "incremental_alter_configs": _alter_configs,
    "alter_client_quotas": _alter_client_quotas,
    "update_features": _update_features,
    "join_group": _join_group,
    "sync_group": _sync_group,
    "heartbeat": _no_members,
    "leave_group": _leave_group,
    "consumer_group_heartbeat": _consumer_group_heartbeat,
    "offset_commit": _offset_commit,
    "offset_delete": _offset_delete,
    "delete_groups": _delete_groups,
    "write_txn_markers": _write_txn_markers,
}
