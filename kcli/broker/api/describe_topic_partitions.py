"""DescribeTopicPartitions (75): partitions of topics, page by page, with their eligible leader replicas.

v0 flexible. Topics come in the order of their names, from the cursor on; a page ends after so many partitions with the
cursor of the next one. KIP-966.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from formats.file_name import INTERNAL_TOPICS
from kcli.broker.network.messages import Call, Entity, ErrorCode
from kcli.broker.nodes import NOT_ASKED, TOPIC_OPERATIONS, View
from kcli.broker.turns import STEPS_AT_ONCE, apart_if
from kcli.metadata.topic_names import fault

if TYPE_CHECKING:
    from kcli.metadata.partition import Partition, Topic


async def describe_topic_partitions(call: Call) -> Entity:
    """Errors: UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION; INVALID_REQUEST for a cursor that fits no topic."""
    request, image = call.request, call.broker.image
    cursor = request.cursor
    first = "" if cursor is None else cursor.topic_name
    asked = await apart_if(len(request.topics) > STEPS_AT_ONCE, _names, request.topics)
    if cursor is not None and (cursor.partition_index < 0 or (asked and cursor.topic_name not in asked)):
        failed = (_failed(call, each.name, ErrorCode.invalid_request) for each in request.topics)
        return call.respond(topics=tuple(failed))
    known = asked or list(image.topics)
    names = await apart_if(len(known) > STEPS_AT_ONCE, _from, known, first)
    left = max(min(call.broker.config.max_request_partition_size_limit, request.response_partition_limit), 1)
    topics: list[Entity] = []
    view = View(call)
    async for name in call.broker.turns.over(names):
        if not left:
            return call.respond(topics=tuple(topics), next_cursor=_cursor(call, name, 0))
        topic = image.topics.get(name)
        if topic is None:
            code = ErrorCode.invalid_topic_exception if fault(name) else ErrorCode.unknown_topic_or_partition
            topics.append(_failed(call, name, code, TOPIC_OPERATIONS))
            continue
        begin = cursor.partition_index if cursor is not None and name == cursor.topic_name else 0
        end = min(len(topic.partitions), begin + left)
        partitions = [(number, topic.partitions[number]) for number in range(begin, end) if number in topic.partitions]
        topics.append(_topic(call, view, topic, partitions))
        if end < len(topic.partitions):
            return call.respond(topics=tuple(topics), next_cursor=_cursor(call, name, end))
        left -= len(partitions)
    return call.respond(topics=tuple(topics))


def _names(topics: Iterable[Entity]) -> set[str]:
    return {each.name for each in topics}


def _from(names: Iterable[str], first: str) -> list[str]:
    return sorted((name for name in names if name >= first), key=_utf16)


def _utf16(name: str) -> bytes:
    return name.encode("utf-16-be", "surrogatepass")  # as Java orders strings


def _cursor(call: Call, name: str, partition: int) -> Entity:
    return call.new("Cursor", topic_name=name, partition_index=partition)


def _failed(call: Call, name: str, code: ErrorCode, operations: int = NOT_ASKED) -> Entity:
    return call.new(
        "DescribeTopicPartitionsResponseTopic",
        error_code=code,
        name=name,
        topic_id=None,
        is_internal=code != ErrorCode.invalid_request and name in INTERNAL_TOPICS,
        partitions=(),
        topic_authorized_operations=operations,
    )


def _topic(call: Call, view: View, topic: Topic, partitions: list[tuple[int, Partition]]) -> Entity:
    return call.new(
        "DescribeTopicPartitionsResponseTopic",
        error_code=ErrorCode.none,
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=tuple(
            call.new(
                "DescribeTopicPartitionsResponsePartition",
                error_code=ErrorCode.none,
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
        topic_authorized_operations=TOPIC_OPERATIONS,
    )
