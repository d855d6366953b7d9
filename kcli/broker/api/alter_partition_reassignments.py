"""AlterPartitionReassignments (45): move partitions to other brokers, or cancel such moves.

v1 whether the number of replicas may change (KIP-860). All versions are flexible. KIP-455.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.broker import Broker
from kcli.metadata.reassignment import Reassignment
from kcli.metadata.reassignment import alter_partition_reassignments as decide
from kcli.protocol.error_code import ErrorCode
from kcli.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from kcli.broker.wire.types import alter_partition_reassignments as types


async def alter_partition_reassignments(
    broker: Broker, call: types.AlterPartitionReassignmentsCall
) -> types.AlterPartitionReassignmentsResponse:
    """Errors of a partition: UNKNOWN_TOPIC_OR_PARTITION, INVALID_REPLICA_ASSIGNMENT, INVALID_REPLICATION_FACTOR,
    NO_REASSIGNMENT_IN_PROGRESS, UNKNOWN_SERVER_ERROR if the request would write too many metadata records."""
    broker.access.require(call, Operation.ALTER, ResourceType.CLUSTER)
    metadata, request = broker.metadata, call.request
    may_change_factor = call.get("allow_replication_factor_change", default=True) or not request.topics
    topics = [
        (topic.name, [Reassignment(each.partition_index, each.replicas) for each in topic.partitions])
        for topic in request.topics
    ]
    properties = broker.config.properties
    result = decide(
        metadata.draft, topics, properties, may_change_factor=may_change_factor, records_max=call.records_left
    )
    call.records_left -= len(result.records)
    await metadata.append(result.records)
    return call.respond(
        allow_replication_factor_change=may_change_factor,
        error_code=ErrorCode.NONE,
        error_message=None if request.topics else "",
        responses=tuple(
            call.new(
                "ReassignableTopicResponse",
                name=name,
                partitions=tuple(
                    call.new(
                        "ReassignablePartitionResponse",
                        partition_index=each.partition,
                        error_code=each.error.code,
                        error_message=each.error.message,
                    )
                    for each in answers
                ),
            )
            for name, answers in result.response
        ),
    )
