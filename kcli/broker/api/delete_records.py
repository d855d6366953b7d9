"""DeleteRecords (21): move the log start offset of partitions forward. v2: flexible. KIP-107, KIP-204.

An offset of -1 is the high watermark. The segments that lie below the new start go with the next retention.
"""

from __future__ import annotations

from formats.file_name import INTERNAL_TOPICS
from kcli.broker.logs.partitions import PartitionError
from kcli.broker.network.messages import Call, Entity, ErrorCode
from kcli.log.partition_log import LogFailed, OffsetOutOfRange

HIGH_WATERMARK = -1
UNKNOWN = -1


def delete_records(call: Call) -> Entity:
    """Errors: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, INVALID_TOPIC_EXCEPTION (internal topics),
    POLICY_VIOLATION (only compacted), OFFSET_OUT_OF_RANGE beyond the high watermark, KAFKA_STORAGE_ERROR."""
    asked = {
        (topic.name, each.partition_index): each.offset for topic in call.request.topics for each in topic.partitions
    }
    answers: dict[str, list[Entity]] = {}
    for (topic, index), offset in asked.items():
        code, low_watermark = ErrorCode.none, UNKNOWN
        try:
            low_watermark = _delete(call, topic, index, offset)
        except PartitionError as error:
            code = error.code
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


def _delete(call: Call, topic: str, index: int, offset: int) -> int:
    """Do it. Returns the low watermark. Raises PartitionError."""
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
        return partition.delete_records(offset)
    except OffsetOutOfRange as error:
        raise PartitionError(ErrorCode.offset_out_of_range, str(error)) from error
    except (OSError, LogFailed) as error:
        partition.failed(error)
        raise PartitionError(ErrorCode.kafka_storage_error, str(error)) from error
