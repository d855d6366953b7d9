"""DescribeTopicPartitions (75): partitions of topics, page by page, with their eligible leader replicas.

v0 flexible. Topics come in the order of their names, from the cursor on; a page ends at the limit of partitions, with
the cursor for the next page. KIP-966.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from formats.file_name import INTERNAL_TOPICS
from kcli.broker.broker import Broker
from kcli.broker.client_view.nodes import OPERATIONS_OMITTED, View
from kcli.broker.dispatch.inputs import TOPICS_MAX, Inputs
from kcli.broker.process.turns import STEPS_AT_ONCE, apart_if
from kcli.metadata.topic_names import fault
from kcli.protocol.error_code import ErrorCode
from kcli.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from kcli.broker.wire.types import describe_topic_partitions as types
    from kcli.metadata.partition import Partition, Topic


async def describe_topic_partitions(
    broker: Broker, call: types.DescribeTopicPartitionsCall
) -> types.DescribeTopicPartitionsResponse:
    """Errors: UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION; INVALID_REQUEST for a cursor at a negative
    partition, or at a topic that the request does not name."""
    request, image = call.request, broker.image
    cursor = request.cursor
    first = "" if cursor is None else cursor.topic_name
    requested = await apart_if(len(request.topics) > STEPS_AT_ONCE, _names, request.topics)
    if cursor is not None and (cursor.partition_index < 0 or (requested and cursor.topic_name not in requested)):
        failed = (_failed(call, each.name, ErrorCode.INVALID_REQUEST) for each in request.topics)
        return call.respond(topics=tuple(failed))
    known = requested or list(image.topics)
    names = await apart_if(len(known) > STEPS_AT_ONCE, _from, known, first)
    left = max(min(broker.config.max_request_partition_size_limit, request.response_partition_limit), 1)
    topics: list[types.DescribeTopicPartitionsResponseTopic] = []
    denied: list[types.DescribeTopicPartitionsResponseTopic] = []
    page: types.Cursor | None = None
    view = broker.view(call.listener)
    describable = broker.access.among(call, Operation.DESCRIBE, ResourceType.TOPIC)
    async for name in broker.turns.over(names):
        if name not in describable:
            if requested:
                denied.append(_failed(call, name, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
            continue
        if not left:
            page = _cursor(call, name, 0)
            break
        topic = image.topics.get(name)
        if topic is None:
            code = ErrorCode.INVALID_TOPIC_EXCEPTION if fault(name) else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            topics.append(_failed(call, name, code, broker.access.operations(call, ResourceType.TOPIC, name)))
            continue
        begin = cursor.partition_index if cursor is not None and name == cursor.topic_name else 0
        end = min(len(topic.partitions), begin + left)
        partitions = [(number, topic.partitions[number]) for number in range(begin, end) if number in topic.partitions]
        operations = broker.access.operations(call, ResourceType.TOPIC, name)
        topics.append(_topic(call, view, topic, partitions, operations))
        if end < len(topic.partitions):
            page = _cursor(call, name, end)
            break
        left -= len(partitions)
    return call.respond(topics=(*topics, *denied), next_cursor=page)


def inputs(broker: Broker, call: types.DescribeTopicPartitionsCall) -> Inputs:
    """Return what the response depends on: the request, the metadata image and max.request.partition.size.limit. The
    response is not cached (dispatch/kept.py) if a topic is unknown or the request names more than TOPICS_MAX topics."""
    request, image = call.request, broker.image
    state = image.version, broker.config.max_request_partition_size_limit
    named = [each.name for each in request.topics[:TOPICS_MAX]]
    first = [] if request.cursor is None else [request.cursor.topic_name]
    topics = [image.topics[name] for name in named if name in image.topics] if request.topics else image.topics.values()
    is_known = len(named) == len(request.topics) and all(name in image.topics for name in named + first)
    return Inputs(request if is_known else None, state, topics)


def _names(topics: Iterable[types.TopicRequest]) -> set[str]:
    return {each.name for each in topics}


def _from(names: Iterable[str], first: str) -> list[str]:
    return sorted((name for name in names if name >= first), key=_utf16)


def _utf16(name: str) -> bytes:
    return name.encode("utf-16-be", "surrogatepass")  # Java orders strings by their UTF-16 code units


def _cursor(call: types.DescribeTopicPartitionsCall, name: str, partition: int) -> types.Cursor:
    return call.new("Cursor", topic_name=name, partition_index=partition)


def _failed(
    call: types.DescribeTopicPartitionsCall, name: str, code: ErrorCode, operations: int = OPERATIONS_OMITTED
) -> types.DescribeTopicPartitionsResponseTopic:
    return call.new(
        "DescribeTopicPartitionsResponseTopic",
        error_code=code,
        name=name,
        topic_id=None,
        is_internal=code != ErrorCode.INVALID_REQUEST and name in INTERNAL_TOPICS,
        partitions=(),
        topic_authorized_operations=operations,
    )


def _topic(
    call: types.DescribeTopicPartitionsCall,
    view: View,
    topic: Topic,
    partitions: list[tuple[int, Partition]],
    operations: int,
) -> types.DescribeTopicPartitionsResponseTopic:
    return call.new(
        "DescribeTopicPartitionsResponseTopic",
        error_code=ErrorCode.NONE,
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=tuple(
            call.new(
                "DescribeTopicPartitionsResponsePartition",
                error_code=ErrorCode.NONE,
                partition_index=number,
                leader_id=view.leader(partition),
                leader_epoch=partition.leader_epoch,
                replica_nodes=partition.replicas,
                isr_nodes=partition.isr,
                eligible_leader_replicas=partition.elr,
                last_known_elr=partition.last_known_elr,
                offline_replicas=view.offline_replicas(partition),
            )
            for number, partition in partitions
        ),
        topic_authorized_operations=operations,
    )
