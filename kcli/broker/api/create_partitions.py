"""CreatePartitions (37): add partitions to topics.

v1 as v0. v2 flexible. v3 THROTTLING_QUOTA_EXCEEDED (KIP-599). KIP-195.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kcli.broker.broker import Broker
from kcli.metadata.partition_creation import MorePartitions
from kcli.metadata.partition_creation import create_partitions as decide
from kcli.metadata.result import Error
from kcli.metadata.topic_control import TopicAnswer
from kcli.protocol.error_code import ErrorCode
from kcli.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from kcli.broker.wire.types import create_partitions as types

STRICT_SINCE = 3
DENIED = Error(ErrorCode.TOPIC_AUTHORIZATION_FAILED)


async def create_partitions(broker: Broker, call: types.CreatePartitionsCall) -> types.CreatePartitionsResponse:
    """Errors: UNKNOWN_TOPIC_OR_PARTITION, INVALID_PARTITIONS, INVALID_REPLICA_ASSIGNMENT, INVALID_REPLICATION_FACTOR,
    INVALID_REQUEST, THROTTLING_QUOTA_EXCEEDED, UNKNOWN_SERVER_ERROR if the request would write too many metadata
    records. Raises NotController on a node that is not the active controller, but only if the client is allowed to
    alter at least one of the topics, as Kafka checks the ACLs first."""
    request = call.request
    alterable = broker.access.among(call, Operation.ALTER, ResourceType.TOPIC)
    times = Counter(each.name for each in request.topics)
    denied = [name for name in times if times[name] == 1 and name not in alterable]
    topics = [_more(each) for each in request.topics if each.name not in denied]
    metadata = broker.metadata
    context = broker.topics.context(call, STRICT_SINCE)
    changes = any(times[each.name] == 1 for each in topics)
    image = metadata.draft if changes else metadata.image
    result = decide(image, topics, context, call.records_left, validate_only=request.validate_only)
    call.records_left -= len(result.records)
    if changes:
        await metadata.append(result.records)
    return call.respond(
        results=tuple(
            call.new(
                "CreatePartitionsTopicResult",
                name=each.name or "",
                error_code=each.error.code,
                error_message=each.error.message,
            )
            for each in (*result.response, *(TopicAnswer(name=name, error=DENIED) for name in denied))
        )
    )


def _more(topic: types.CreatePartitionsTopic) -> MorePartitions:
    assignments = None if topic.assignments is None else [list(each.broker_ids) for each in topic.assignments]
    return MorePartitions(name=topic.name, count=topic.count, assignments=assignments)
