"""ListOffsets (2): the offset where something is: the end, the start, the first record of a time.

    timestamp   -1 latest, -2 earliest, -3 the record with the largest one (v7), -4 earliest in the local log (v8),
                -5 the last one in tiered storage (v9), -6 the first one to be uploaded there (v11); else a time in ms

v2 isolation level: latest is the last stable offset. v4 leader epochs. v5 OFFSET_NOT_AVAILABLE. v6 flexible. v10 a time
limit for tiered storage (KIP-1075). -3: KIP-734, -4: KIP-405, -5: KIP-1005, -6: KIP-1023.
"""

from __future__ import annotations

from collections import Counter

from formats.errors import FormatError
from kcli.broker.logs.partitions import UNKNOWN_EPOCH, Partition, PartitionError
from kcli.broker.network.messages import Call, Entity, ErrorCode
from kcli.log.partition_log import (
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
    PartitionLog,
)

CONSUMER, DEBUGGER = -1, -2
READ_COMMITTED = 1
EPOCH_VERSION, NOT_AVAILABLE_VERSION = 4, 5
SINCE_VERSION = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
Found = tuple[int, int, int]  # timestamp, offset, leader epoch; -1 each where there is none
NOTHING: Found = -1, -1, -1


def list_offsets(call: Call) -> Entity:
    """Errors: INVALID_REQUEST (a partition asked for twice), UNSUPPORTED_VERSION (a timestamp of later versions),
    UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, FENCED_ and UNKNOWN_LEADER_EPOCH, OFFSET_NOT_AVAILABLE,
    KAFKA_STORAGE_ERROR, CORRUPT_MESSAGE."""
    asked = [(topic.name, each) for topic in call.request.topics for each in topic.partitions]
    times = Counter((name, each.partition_index) for name, each in asked)
    answers: dict[str, dict[int, Entity]] = {}
    for name, each in asked:
        index = each.partition_index
        code, found = ErrorCode.none, NOTHING
        try:
            _check(call, each.timestamp, times[name, index])
            partition = call.broker.partitions.find(name, index)
            found = _find(call, partition, each.timestamp, getattr(each, "current_leader_epoch", UNKNOWN_EPOCH))
        except PartitionError as error:
            code = error.code
        if code is ErrorCode.offset_not_available and call.version < NOT_AVAILABLE_VERSION:
            code = ErrorCode.leader_not_available
        timestamp, offset, epoch = found
        answers.setdefault(name, {})[index] = call.new(
            "ListOffsetsPartitionResponse",
            partition_index=index,
            error_code=code,
            timestamp=timestamp,
            offset=offset,
            leader_epoch=epoch,
        )
    return call.respond(
        topics=tuple(
            call.new("ListOffsetsTopicResponse", name=name, partitions=tuple(each.values()))
            for name, each in answers.items()
        )
    )


def _check(call: Call, timestamp: int, times: int) -> None:
    if times > 1:
        raise PartitionError(ErrorCode.invalid_request, "asked for twice")
    if timestamp < 0 and call.version < SINCE_VERSION.get(timestamp, call.version + 1):
        raise PartitionError(ErrorCode.unsupported_version, f"timestamp {timestamp}")


def _find(call: Call, partition: Partition, timestamp: int, epoch: int) -> Found:
    """What is there, as far as the asker sees. Raises PartitionError."""
    replica_id = call.request.replica_id
    is_client = replica_id == CONSUMER
    log = partition.log_for(epoch, leader_only=replica_id != DEBUGGER)
    limit = log.log_end_offset
    if is_client:
        is_committed = call.get("isolation_level", 0) == READ_COMMITTED
        limit = log.last_stable_offset if is_committed else log.high_watermark
    start = partition.epoch_start_offset
    lags = is_client and start is not None and start > log.high_watermark
    if timestamp == LATEST and not lags:
        return -1, limit, partition.leader_epoch
    found = NOTHING if timestamp == LATEST else _look(partition, log, timestamp)
    if timestamp in (EARLIEST, EARLIEST_LOCAL) or (found != NOTHING and found[1] < limit):
        return found
    if lags:
        reason = f"{partition}: the high watermark {log.high_watermark} lies below the leader's first offset {start}"
        raise PartitionError(ErrorCode.offset_not_available, reason)
    return NOTHING


def _look(partition: Partition, log: PartitionLog, timestamp: int) -> Found:
    try:
        found = log.offset_for_timestamp(timestamp)
    except OSError as error:
        partition.failed(error)
        raise PartitionError(ErrorCode.kafka_storage_error, str(error)) from error
    except FormatError as error:
        raise PartitionError(ErrorCode.corrupt_message, f"{partition}: {error}") from error
    return NOTHING if found is None else (found.timestamp, found.offset, found.leader_epoch)
