"""AlterPartitionReassignments (45): move partitions to other brokers, or take such moves back.

v1 whether the number of replicas may change (KIP-860). All flexible. KIP-455.
"""

from __future__ import annotations

from kcli.broker.network.messages import Call, Entity, ErrorCode
from kcli.metadata.reassignment import Reassignment
from kcli.metadata.reassignment import alter_partition_reassignments as decide


async def alter_partition_reassignments(call: Call) -> Entity:
    """Errors of a partition: UNKNOWN_TOPIC_OR_PARTITION, INVALID_REPLICA_ASSIGNMENT, INVALID_REPLICATION_FACTOR,
    NO_REASSIGNMENT_IN_PROGRESS, UNKNOWN_SERVER_ERROR."""
    metadata, request = call.broker.metadata, call.request
    may_change_factor = call.get("allow_replication_factor_change", default=True) or not request.topics
    topics = [
        (topic.name, [Reassignment(each.partition_index, each.replicas) for each in topic.partitions])
        for topic in request.topics
    ]
    properties = call.broker.config.properties
    result = decide(
        metadata.draft, topics, properties, may_change_factor=may_change_factor, records_max=call.records_left
    )
    call.records_left -= len(result.records)
    await metadata.append(result.records)
    return call.respond(
        allow_replication_factor_change=may_change_factor,
        error_code=ErrorCode.none,
        error_message=None if request.topics else "",
        responses=tuple(
            call.new(
                "ReassignableTopicResponse",
                name=name,
                partitions=tuple(
                    call.new(
                        "ReassignablePartitionResponse",
                        partition_index=each.partition,
                        error_code=ErrorCode(each.error.code),
                        error_message=each.error.message,
                    )
                    for each in answers
                ),
            )
            for name, answers in result.response
        ),
    )
