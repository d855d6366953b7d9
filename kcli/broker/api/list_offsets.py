"""ListOffsets (2): the start or end offset of a partition, or the offset of the first record at or after a timestamp.

    timestamp   -1 latest, -2 earliest, -3 the record with the largest timestamp (v7), -4 earliest in the local
                log (v8), -5 the last in tiered storage (v9), -6 the first that is not uploaded there yet (v11);
                else a time in ms since 1970

v2 isolation level: with read_committed, latest is the last stable offset. v4 leader epochs. v5 OFFSET_NOT_AVAILABLE. v6
flexible. v10 a time limit for tiered storage (KIP-1075). -3: KIP-734, -4: KIP-405, -5: KIP-1005, -6: KIP-1023.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container
from typing import TYPE_CHECKING

from formats.errors import FormatError
from kcli.broker.broker import Broker
from kcli.broker.partition.partitions import UNKNOWN_EPOCH, Partition, PartitionError
from kcli.log.live.partition_log import (
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
    PartitionLog,
)
from kcli.protocol.error_code import ErrorCode
from kcli.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from kcli.broker.wire.types import list_offsets as types

CONSUMER, DEBUGGER = -1, -2
READ_COMMITTED = 1
NOT_AVAILABLE_VERSION = 5
SINCE_VERSION = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
Found = tuple[int, int, int]  # timestamp, offset, leader epoch; -1 each if no record is found
NOTHING: Found = -1, -1, -1


def list_offsets(broker: Broker, call: types.ListOffsetsCall) -> types.ListOffsetsResponse:
    """Errors: INVALID_REQUEST (a partition named twice), UNSUPPORTED_VERSION (a timestamp of later versions),
    UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, FENCED_ and UNKNOWN_LEADER_EPOCH, OFFSET_NOT_AVAILABLE
    (before v5 LEADER_NOT_AVAILABLE), KAFKA_STORAGE_ERROR, CORRUPT_MESSAGE."""
    requested = [(topic.name, each) for topic in call.request.topics for each in topic.partitions]
    times = Counter((name, each.partition_index) for name, each in requested)
    answers: dict[str, dict[int, types.ListOffsetsPartitionResponse]] = {}
    describable = broker.access.among(call, Operation.DESCRIBE, ResourceType.TOPIC)
    for name, each in requested:
        index = each.partition_index
        code, found = ErrorCode.NONE, NOTHING
        try:
            _check_allowed(name, describable)
            _check(call, each.timestamp, times[name, index])
            partition = broker.partitions.find(name, index)
            found = _find(call, partition, each.timestamp, getattr(each, "current_leader_epoch", UNKNOWN_EPOCH))
        except PartitionError as error:
            code = error.code
        if code == ErrorCode.OFFSET_NOT_AVAILABLE and call.version < NOT_AVAILABLE_VERSION:
            code = ErrorCode.LEADER_NOT_AVAILABLE
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


def _check_allowed(topic: str, describable: Container[str]) -> None:
    """Raise PartitionError with TOPIC_AUTHORIZATION_FAILED unless the topic is in `describable`."""
    if topic not in describable:
        raise PartitionError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "no access")


def _check(call: types.ListOffsetsCall, timestamp: int, times: int) -> None:
    if times > 1:
        raise PartitionError(ErrorCode.INVALID_REQUEST, "the request names the partition twice")
    if timestamp < 0 and call.version < SINCE_VERSION.get(timestamp, call.version + 1):
        raise PartitionError(ErrorCode.UNSUPPORTED_VERSION, f"timestamp {timestamp}")


def _find(call: types.ListOffsetsCall, partition: Partition, timestamp: int, epoch: int) -> Found:
    """Return the timestamp, offset and leader epoch for the requested timestamp, which may be a special one such as -1
    for the latest offset; NOTHING if there is no such record. The latest offset is the high watermark for a consumer,
    the last stable offset for a consumer with read_committed, the log end offset for a follower; only records below it
    are found. epoch: the leader epoch that the client knows. Raises PartitionError."""
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
    found = NOTHING if timestamp == LATEST else _by_timestamp(partition, log, timestamp)
    if timestamp in (EARLIEST, EARLIEST_LOCAL) or (found != NOTHING and found[1] < limit):
        return found
    if lags:
        reason = f"{partition}: the high watermark {log.high_watermark} lies below the leader's first offset {start}"
        raise PartitionError(ErrorCode.OFFSET_NOT_AVAILABLE, reason)
    return NOTHING


def _by_timestamp(partition: Partition, log: PartitionLog, timestamp: int) -> Found:
    try:
        found = log.offset_for_timestamp(timestamp)
    except OSError as error:
        partition.failed(error)
        raise PartitionError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
    except FormatError as error:
        raise PartitionError(ErrorCode.CORRUPT_MESSAGE, f"{partition}: {error}") from error
    return NOTHING if found is None else (found.timestamp, found.offset, found.leader_epoch)
