"""The refusals of a read-only broker to requests that write: one response per API, in the fields that clients read.

    InitProducerId    CLUSTER_AUTHORIZATION_FAILED: the only code after which idempotent producers of all clients give
                      up at once; they take other codes for transient errors, and retry for ever
    JoinGroup and     GROUP_AUTHORIZATION_FAILED, for the same reason
    later requests
    of members
    UpdateFeatures,   POLICY_VIOLATION for the whole request
    OffsetDelete,
    ElectLeaders      (and for each partition, as version 0 has no top-level error code)
    Produce           POLICY_VIOLATION for each partition, after which no client retries, with the reason (v8); with
                      acks=0 the connection is closed, as for every refused batch
    other APIs        POLICY_VIOLATION for each resource, topic or entity, with the reason if there is a field for it

POLICY_VIOLATION is the code of Kafka's create and alter policies, which refuse a request of any user. Authorization
errors would lead users to check ACLs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from kcli.broker.wire.answers import HangUp
from kcli.broker.wire.call import Call
from kcli.broker.wire.messages import Message
from kcli.protocol.error_code import ErrorCode

if TYPE_CHECKING:
    from kcli.broker.wire.types.alter_client_quotas import AlterClientQuotasCall
    from kcli.broker.wire.types.alter_configs import AlterConfigsCall
    from kcli.broker.wire.types.consumer_group_heartbeat import ConsumerGroupHeartbeatCall
    from kcli.broker.wire.types.create_partitions import CreatePartitionsCall
    from kcli.broker.wire.types.create_topics import CreateTopicsCall
    from kcli.broker.wire.types.delete_groups import DeleteGroupsCall
    from kcli.broker.wire.types.delete_records import DeleteRecordsCall
    from kcli.broker.wire.types.delete_topics import DeleteTopicsCall
    from kcli.broker.wire.types.elect_leaders import ElectLeadersCall
    from kcli.broker.wire.types.heartbeat import HeartbeatCall
    from kcli.broker.wire.types.incremental_alter_configs import IncrementalAlterConfigsCall
    from kcli.broker.wire.types.init_producer_id import InitProducerIdCall
    from kcli.broker.wire.types.join_group import JoinGroupCall
    from kcli.broker.wire.types.leave_group import LeaveGroupCall
    from kcli.broker.wire.types.offset_commit import OffsetCommitCall
    from kcli.broker.wire.types.offset_delete import OffsetDeleteCall
    from kcli.broker.wire.types.produce import ProduceCall
    from kcli.broker.wire.types.sync_group import SyncGroupCall
    from kcli.broker.wire.types.update_features import UpdateFeaturesCall
    from kcli.broker.wire.types.write_txn_markers import WriteTxnMarkersCall

REASON = "This broker only reads: it serves its log directories as they are."
POLICY = ErrorCode.POLICY_VIOLATION
NO_MEMBERS = ErrorCode.GROUP_AUTHORIZATION_FAILED
NO_PROTOCOL_SINCE = 7
NO_ACKS = 0


def refuse(api: str, call: Call) -> Message:
    """Return the response that refuses a request. api: one of the names in REFUSALS. Raises HangUp, which closes the
    connection, for a Produce request with acks=0."""
    return REFUSALS[api](call)


def _each(call: Call, name: str, values: Iterable[dict[str, Any]]) -> tuple[Any, ...]:
    reason = {"error_message": REASON} if call.has(name, "error_message") else {}
    return tuple(call.new(name, error_code=POLICY, **reason, **each) for each in values)


def _produce(call: ProduceCall) -> Message:
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


def _create_topics(call: CreateTopicsCall) -> Message:
    topics = ({"name": each.name, "topic_id": None, "configs": ()} for each in call.request.topics)
    return call.respond(topics=_each(call, "CreatableTopicResult", topics))


def _delete_topics(call: DeleteTopicsCall) -> Message:
    by_name = ({"name": name, "topic_id": None} for name in call.get("topic_names", ()))
    by_either = ({"name": each.name, "topic_id": each.topic_id} for each in call.get("topics", ()))
    return call.respond(responses=_each(call, "DeletableTopicResult", (*by_name, *by_either)))


def _delete_records(call: DeleteRecordsCall) -> Message:
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


def _init_producer_id(call: InitProducerIdCall) -> Message:
    return call.respond(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, producer_id=-1, producer_epoch=-1)


def _join_group(call: JoinGroupCall) -> Message:
    return call.respond(
        error_code=NO_MEMBERS,
        generation_id=-1,
        protocol_type=None,
        protocol_name=None if call.version >= NO_PROTOCOL_SINCE else "",
        leader="",
        member_id=call.request.member_id,
        members=(),
    )


def _sync_group(call: SyncGroupCall) -> Message:
    return call.respond(error_code=NO_MEMBERS, assignment=b"")


def _no_members(call: HeartbeatCall) -> Message:
    return call.respond(error_code=NO_MEMBERS)


def _leave_group(call: LeaveGroupCall) -> Message:
    return call.respond(error_code=NO_MEMBERS, members=())


def _consumer_group_heartbeat(call: ConsumerGroupHeartbeatCall) -> Message:
    return call.respond(
        error_code=NO_MEMBERS,
        error_message=REASON,
        member_id=None,
        member_epoch=0,
        heartbeat_interval=timedelta(0),
        assignment=None,
    )


def _offset_commit(call: OffsetCommitCall) -> Message:
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


def _offset_delete(call: OffsetDeleteCall) -> Message:
    return call.respond(error_code=POLICY, topics=())


def _delete_groups(call: DeleteGroupsCall) -> Message:
    names = call.request.groups_names
    return call.respond(
        results=tuple(call.new("DeletableGroupResult", group_id=name, error_code=POLICY) for name in names)
    )


def _write_txn_markers(call: WriteTxnMarkersCall) -> Message:
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


def _alter_configs(call: AlterConfigsCall | IncrementalAlterConfigsCall) -> Message:
    resources = (
        {"resource_type": each.resource_type, "resource_name": each.resource_name} for each in call.request.resources
    )
    return call.respond(responses=_each(call, "AlterConfigsResourceResponse", resources))


def _create_partitions(call: CreatePartitionsCall) -> Message:
    topics = ({"name": each.name} for each in call.request.topics)
    return call.respond(results=_each(call, "CreatePartitionsTopicResult", topics))


def _elect_leaders(call: ElectLeadersCall) -> Message:
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


def _alter_client_quotas(call: AlterClientQuotasCall) -> Message:
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


def _update_features(call: UpdateFeaturesCall) -> Message:
    return call.respond(error_code=POLICY, error_message=REASON, results=())


REFUSALS: dict[str, Callable[..., Message]] = {
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
