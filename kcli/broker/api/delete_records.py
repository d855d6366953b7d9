"""DeleteRecords (21): move the log start offset of partitions forward. v2: flexible. KIP-107, KIP-204.

An offset of -1 is the high watermark. The segments that lie below the new start go with the next retention. It is
answered when all replicas that are alive begin there, which they tell with their next fetch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from formats.file_name import INTERNAL_TOPICS
from kcli.broker.logs.partitions import Partition, PartitionError
from kcli.broker.network.messages import Call, Entity, ErrorCode
from kcli.log.partition_log import LogFailed, OffsetOutOfRange

HIGH_WATERMARK = -1
UNKNOWN = -1


Key = tuple[str, int]
Results = dict[Key, tuple[ErrorCode, int]]
"""Error and low watermark."""


def delete_records(call: Call) -> Entity | Awaitable[Entity]:
    """Errors: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, INVALID_TOPIC_EXCEPTION (internal topics),
    POLICY_VIOLATION (only compacted), OFFSET_OUT_OF_RANGE beyond the high watermark, KAFKA_STORAGE_ERROR,
    REQUEST_TIMED_OUT where a follower is not that far in time."""
    asked = {
        (topic.name, each.partition_index): each.offset for topic in call.request.topics for each in topic.partitions
    }
    results: Results = {}
    waiting: dict[Key, tuple[Partition, int]] = {}
    for (topic, index), offset in asked.items():
        code, low_watermark = ErrorCode.none, UNKNOWN
        try:
            partition, low_watermark, wanted = _delete(call, topic, index, offset)
            if low_watermark < wanted:
                waiting[topic, index] = partition, wanted
        except PartitionError as error:
            code = error.code
        results[topic, index] = code, low_watermark
    if waiting:
        return _wait(call, results, waiting)
    return _respond(call, results)


def _respond(call: Call, results: Results) -> Entity:
    answers: dict[str, list[Entity]] = {}
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


async def _wait(call: Call, results: Results, waiting: dict[Key, tuple[Partition, int]]) -> Entity:
    """Until the followers are that far, or the time is over."""
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
            for key, (partition, wanted) in list(waiting.items()):
                code = partition.check_leader_epoch()
                reached = UNKNOWN if code is not None else partition.low_watermark
                if code is not None or reached >= wanted:
                    results[key] = code or ErrorCode.none, reached
                    del waiting[key]
                else:
                    results[key] = ErrorCode.request_timed_out, results[key][1]
            if not waiting or is_over:
                break
            await woken.wait()
            woken.clear()
    finally:
        timer.cancel()
        for partition in watched:
            partition.unwatch(woken.set)
    return _respond(call, results)


def _delete(call: Call, topic: str, index: int, offset: int) -> tuple[Partition, int, int]:
    """Do it here. Returns the low watermark, and what it is to be. Raises PartitionError."""
    known = call.broker.image.topic(topic)
    if known is None or index not in known.partitions:
        raise PartitionError(ErrorCode.unknown_topic_or_partition, f"{topic}-{index} does not exist")
    if topic in INTERNAL_TOPICS:
        raise PartitionError(ErrorCode.invalid_topic_exception, f"{topic} is an internal topic")
    partition = call.broker.partitions.find(topic, index)
    log = partition.log_for()
    if log.config.compact and not log.config.delete:
        raise PartitionError(ErrorCode.policy_violation, f"{partition}: cleanup.policy does not allow it")
    offset = log.high_watermark if offset == HIGH_WATERMARK else offset
    if offset < 0:
        raise PartitionError(ErrorCode.offset_out_of_range, f"offset {offset}")
    try:
        return partition, partition.delete_records(offset), offset
    except OffsetOutOfRange as error:
        raise PartitionError(ErrorCode.offset_out_of_range, str(error)) from error
    except (OSError, LogFailed) as error:
        partition.failed(error)
        raise PartitionError(ErrorCode.kafka_storage_error, str(error)) from error
