"""DeleteRecords (21): move the log start offset of partitions forward. v2: flexible. KIP-107, KIP-204.

An offset of -1 stands for the high watermark. Segments below the new log start offset are deleted by the next retention
check. The response waits until the low watermark, the lowest log start offset of all live replicas, has reached the new
log start offset; followers report their log start offset in their Fetch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Container
from typing import TYPE_CHECKING

from formats.file_name import INTERNAL_TOPICS
from kcli.broker.broker import Broker
from kcli.broker.partition.partitions import Partition, PartitionError
from kcli.log.live.partition_log import LogFailed, OffsetOutOfRange
from kcli.protocol.error_code import ErrorCode
from kcli.protocol.topic_partition import TopicPartition
from kcli.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from kcli.broker.wire.types import delete_records as types

HIGH_WATERMARK = -1
UNKNOWN = -1


Results = dict[TopicPartition, tuple[ErrorCode, int]]
"""Topic and partition -> error and low watermark, which is UNKNOWN after any error but REQUEST_TIMED_OUT."""


def delete_records(
    broker: Broker, call: types.DeleteRecordsCall
) -> types.DeleteRecordsResponse | Awaitable[types.DeleteRecordsResponse]:
    """Errors: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, INVALID_TOPIC_EXCEPTION (internal topics),
    POLICY_VIOLATION (cleanup.policy=compact), OFFSET_OUT_OF_RANGE beyond the high watermark, KAFKA_STORAGE_ERROR,
    REQUEST_TIMED_OUT if the low watermark does not reach the offset in time."""
    requested = {
        (topic.name, each.partition_index): each.offset for topic in call.request.topics for each in topic.partitions
    }
    results: Results = {}
    waiting: dict[TopicPartition, tuple[Partition, int]] = {}
    deletable = broker.access.among(call, Operation.DELETE, ResourceType.TOPIC)
    for (topic, index), offset in requested.items():
        code, low_watermark = ErrorCode.NONE, UNKNOWN
        try:
            _check_allowed(topic, deletable)
            partition, low_watermark, target = _delete(broker, topic, index, offset)
            if low_watermark < target:
                waiting[TopicPartition(topic, index)] = partition, target
        except PartitionError as error:
            code = error.code
        results[TopicPartition(topic, index)] = code, low_watermark
    if waiting:
        return _wait(call, results, waiting)
    return _respond(call, results)


def _respond(call: types.DeleteRecordsCall, results: Results) -> types.DeleteRecordsResponse:
    answers: dict[str, list[types.DeleteRecordsPartitionResult]] = {}
    for (topic, index), (code, low_watermark) in results.items():
        result = call.new(
            "DeleteRecordsPartitionResult", partition_index=index, low_watermark=low_watermark, error_code=code
        )
        answers.setdefault(topic, []).append(result)
    return call.respond(
        topics=tuple(
            call.new("DeleteRecordsTopicResult", name=name, partitions=tuple(results))
            for name, results in answers.items()
        )
    )


async def _wait(
    call: types.DeleteRecordsCall, results: Results, waiting: dict[TopicPartition, tuple[Partition, int]]
) -> types.DeleteRecordsResponse:
    """Wait until the low watermarks of partitions have reached the new log start offsets, or until the request's
    timeout; return the response.

    results: the results of all partitions of the request; the results of partitions in `waiting` are replaced.
    waiting: the partitions to wait for, each with the offset that its low watermark must reach.
    """
    woken = asyncio.Event()
    is_over = False

    def end() -> None:
        nonlocal is_over
        is_over = True
        woken.set()

    timer = asyncio.get_running_loop().call_later(call.request.timeout.total_seconds(), end)
    watched = [partition for partition, _ in waiting.values()]
    for partition in watched:
        partition.watch(woken.set)
    try:
        while waiting:
            for key, (partition, target) in list(waiting.items()):
                code = partition.check_leader_epoch()
                reached = UNKNOWN if code is not None else partition.low_watermark
                if code is not None or reached >= target:
                    results[key] = code or ErrorCode.NONE, reached
                    del waiting[key]
                else:
                    results[key] = ErrorCode.REQUEST_TIMED_OUT, results[key][1]
            if not waiting or is_over:
                break
            await woken.wait()
            woken.clear()
    finally:
        timer.cancel()
        for partition in watched:
            partition.unwatch(woken.set)
    return _respond(call, results)


def _check_allowed(topic: str, deletable: Container[str]) -> None:
    """Raise PartitionError with TOPIC_AUTHORIZATION_FAILED unless the topic is in `deletable`."""
    if topic not in deletable:
        raise PartitionError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "no access")


def _delete(broker: Broker, topic: str, index: int, offset: int) -> tuple[Partition, int, int]:
    """Move the log start offset of the partition forward, if this broker leads the partition. Return the partition, its
    low watermark, and the offset that the low watermark must reach. Raises PartitionError."""
    known = broker.image.topic(topic)
    if known is None or index not in known.partitions:
        raise PartitionError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{topic}-{index} does not exist")
    if topic in INTERNAL_TOPICS:
        raise PartitionError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic} is an internal topic")
    partition = broker.partitions.find(topic, index)
    log = partition.log_for()
    if log.config.only_compact:
        raise PartitionError(ErrorCode.POLICY_VIOLATION, f"{partition}: cleanup.policy does not allow it")
    offset = log.high_watermark if offset == HIGH_WATERMARK else offset
    if offset < 0:
        raise PartitionError(ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {offset}")
    try:
        return partition, partition.delete_records(offset), offset
    except OffsetOutOfRange as error:
        raise PartitionError(ErrorCode.OFFSET_OUT_OF_RANGE, str(error)) from error
    except (OSError, LogFailed) as error:
        partition.failed(error)
        raise PartitionError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
