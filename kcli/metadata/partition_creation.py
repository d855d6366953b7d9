"""CreatePartitions: more partitions for existing topics. Source: ControllerApis, ReplicationControlManager; KIP-195."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kcli.metadata.image import MetadataImage, Record
from kcli.metadata.placement import place
from kcli.metadata.result import RECORDS_PER_REQUEST_MAX, Error, Refused, Result
from kcli.metadata.topic_control import (
    TopicAnswer,
    TopicContext,
    chosen_partition,
    led_partitions,
    new_partition_record,
)
from kcli.protocol.error_code import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class MorePartitions:
    """A topic that is to have `count` partitions in total. assignments: the brokers of each new partition, None to let
    the controller place them."""

    name: str
    count: int
    assignments: Sequence[list[int]] | None = None


def create_partitions(
    image: MetadataImage,
    topics: Sequence[MorePartitions],
    context: TopicContext,
    records_max: int = RECORDS_PER_REQUEST_MAX,
    *,
    validate_only: bool = False,
) -> Result[list[TopicAnswer]]:
    """Add partitions to topics, with at most `records_max` records.

    validate_only: return the same answers, but no records. Errors of a topic: INVALID_REQUEST,
    UNKNOWN_TOPIC_OR_PARTITION, INVALID_PARTITIONS, INVALID_REPLICA_ASSIGNMENT, INVALID_REPLICATION_FACTOR,
    THROTTLING_QUOTA_EXCEEDED, UNKNOWN_SERVER_ERROR beyond `records_max`.
    """
    by_name: dict[str, list[MorePartitions]] = {}
    for topic in topics:
        by_name.setdefault(topic.name, []).append(topic)
    duplicate = Error(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    answers = [TopicAnswer(name=name, error=duplicate) for name, each in by_name.items() if len(each) > 1]
    records: list[Record] = []
    for name, (topic, *others) in by_name.items():
        if others:
            continue
        try:
            records += _add(image, topic, context, records_max - len(records))
        except Refused as refused:
            answers.append(TopicAnswer(name=name, error=refused.error))
        else:
            answers.append(TopicAnswer(name=name))
    return Result([] if validate_only else records, answers)


def _add(image: MetadataImage, request: MorePartitions, context: TopicContext, records_max: int) -> list[Record]:
    topic = image.topics.get(request.name)
    if topic is None:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    count = len(topic.partitions)
    if request.count == count:
        raise Refused(ErrorCode.INVALID_PARTITIONS, f"Topic already has {count} partition(s).")
    if request.count < count:
        reason = f"The topic {topic.name} currently has {count} partition(s); {request.count} would not be an increase."
        raise Refused(ErrorCode.INVALID_PARTITIONS, reason)
    additional = request.count - count
    if request.assignments is not None and len(request.assignments) != additional:
        reason = (
            f"Attempted to add {additional} additional partition(s), but only {len(request.assignments)} assignment(s) "
            "were specified."
        )
        raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, reason)
    if not context.charge(additional):
        raise Refused(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
    if additional > records_max:
        raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR)
    factor = len(next(iter(topic.partitions.values())).replicas)
    if request.assignments is None:
        partitions = led_partitions(image, place(image, additional, factor, context.random), factor)
    else:
        partitions = [
            chosen_partition(image, count + i, brokers, factor) for i, brokers in enumerate(request.assignments)
        ]
    return [new_partition_record(image, topic, count + i, partition) for i, partition in enumerate(partitions)]
