"""CreatePartitions (37): topics get more partitions.

v1 the same. v2 flexible. v3 THROTTLING_QUOTA_EXCEEDED (KIP-599). KIP-195.
"""

from __future__ import annotations

from kcli.broker.network.messages import Call, Entity, ErrorCode
from kcli.broker.topic_changes import topic_context
from kcli.metadata.partition_creation import MorePartitions
from kcli.metadata.partition_creation import create_partitions as decide

STRICT_SINCE = 3


async def create_partitions(call: Call) -> Entity:
    """Errors: UNKNOWN_TOPIC_OR_PARTITION, INVALID_PARTITIONS, INVALID_REPLICA_ASSIGNMENT, INVALID_REPLICATION_FACTOR,
    INVALID_REQUEST, THROTTLING_QUOTA_EXCEEDED."""
    request = call.request
    topics = [_more(each) for each in request.topics]
    metadata = call.broker.metadata
    context = topic_context(call, STRICT_SINCE)
    result = decide(metadata.draft, topics, context, call.records_left, validate_only=request.validate_only)
    call.records_left -= len(result.records)
    await metadata.append(result.records)
    return call.respond(
        results=tuple(
            call.new(
                "CreatePartitionsTopicResult",
                name=each.name,
                error_code=ErrorCode(each.error.code),
                error_message=each.error.message,
            )
            for each in result.response
        )
    )


def _more(topic: Entity) -> MorePartitions:
    assignments = None if topic.assignments is None else [list(each.broker_ids) for each in topic.assignments]
    return MorePartitions(name=topic.name, count=topic.count, assignments=assignments)
