"""ListOffsets (2): the start or end offset of a partition, or the offset of the first record at or after a timestamp.

    timestamp   -1 latest, -2 earliest, -3 the record with the largest timestamp (v7), -4 earliest in the local
                log (v8), -5 the last in tiered storage (v9), -6 the first that is not uploaded there yet (v11);
                else a time in ms since 1970

v2 isolation level: with read_committed, latest is the last stable offset. v4 leader epochs. v5 OFFSET_NOT_AVAILABLE. v6
flexible. v10 a time limit for tiered storage (KIP-1075). -3: KIP-734, -4: KIP-405, -5: KIP-1005, -6: KIP-1023.

A search for a time waits for tiered storage if the log has records there alone: no longer than the time limit of the
request, or than remote.list.offsets.request.timeout.ms if the request has none. Other requests go on meanwhile.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Container, Sequence
from typing import TYPE_CHECKING, NamedTuple

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
    from kcli.log.live.segment import FoundRecord

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


class _Search(NamedTuple):
    """A search for a time that waits for tiered storage. limit: the offset below which a record must lie to be found.
    lags: whether the high watermark lies below the first offset of this leader's epoch."""

    partition: Partition
    log: PartitionLog
    timestamp: int
    limit: int
    lags: bool


Answers = dict[str, dict[int, "types.ListOffsetsPartitionResponse"]]


def list_offsets(
    broker: Broker, call: types.ListOffsetsCall
) -> types.ListOffsetsResponse | Awaitable[types.ListOffsetsResponse]:
    """Errors: INVALID_REQUEST (a partition named twice), UNSUPPORTED_VERSION (a timestamp of later versions),
    UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, FENCED_ and UNKNOWN_LEADER_EPOCH, OFFSET_NOT_AVAILABLE
    (before v5 LEADER_NOT_AVAILABLE), KAFKA_STORAGE_ERROR, CORRUPT_MESSAGE; of tiered storage REQUEST_TIMED_OUT and
    UNKNOWN_SERVER_ERROR."""
    requested = [(topic.name, each) for topic in call.request.topics for each in topic.partitions]
    times = Counter((name, each.partition_index) for name, each in requested)
    answers: Answers = {}
    searches: list[_Search] = []
    describable = broker.access.among(call, Operation.DESCRIBE, ResourceType.TOPIC)
    for name, each in requested:
        index = each.partition_index
        code, found = ErrorCode.NONE, NOTHING
        try:
            _check_allowed(name, describable)
            _check(call, each.timestamp, times[name, index])
            partition = broker.partitions.find(name, index)
            epoch = getattr(each, "current_leader_epoch", UNKNOWN_EPOCH)
            result = _find(broker, call, partition, each.timestamp, epoch)
            if isinstance(result, _Search):
                searches.append(result)
                code = ErrorCode.REQUEST_TIMED_OUT  # until there is an answer
            else:
                found = result
        except PartitionError as error:
            code = error.code
        answers.setdefault(name, {})[index] = _answer(call, index, code, found)
    return _search(broker, call, searches, answers) if searches else _respond(call, answers)


def _answer(
    call: types.ListOffsetsCall, index: int, code: ErrorCode, found: Found
) -> types.ListOffsetsPartitionResponse:
    if code == ErrorCode.OFFSET_NOT_AVAILABLE and call.version < NOT_AVAILABLE_VERSION:
        code = ErrorCode.LEADER_NOT_AVAILABLE
    timestamp, offset, epoch = found
    return call.new(
        "ListOffsetsPartitionResponse",
        partition_index=index,
        error_code=code,
        timestamp=timestamp,
        offset=offset,
        leader_epoch=epoch,
    )


def _respond(call: types.ListOffsetsCall, answers: Answers) -> types.ListOffsetsResponse:
    return call.respond(
        topics=tuple(
            call.new("ListOffsetsTopicResponse", name=name, partitions=tuple(each.values()))
            for name, each in answers.items()
        )
    )


async def _search(
    broker: Broker, call: types.ListOffsetsCall, searches: Sequence[_Search], answers: Answers
) -> types.ListOffsetsResponse:
    """Search in tiered storage, put the results that are found in time into `answers`, and return the response."""
    tier = broker.tier
    assert tier is not None, "it is searched"
    limit = call.get("timeout", None)
    limit_s = 0.0 if limit is None else limit.total_seconds()
    if limit_s <= 0:
        limit_s = broker.config.number("remote.list.offsets.request.timeout.ms") / 1000
    tasks = [asyncio.ensure_future(tier.find_time(each.partition, each.log, each.timestamp)) for each in searches]
    try:
        await asyncio.wait(tasks, timeout=limit_s)
        for each, task in zip(searches, tasks, strict=True):
            if task.done():
                name, index = each.partition.key
                answers[name][index] = _answer(call, index, *_found_in_tier(each, task.result()))
    finally:
        for task in tasks:
            task.cancel()
    return _respond(call, answers)


def _found_in_tier(search: _Search, result: FoundRecord | ErrorCode | None) -> tuple[ErrorCode, Found]:
    if isinstance(result, ErrorCode):
        return result, NOTHING
    found = NOTHING if result is None else (result.timestamp, result.offset, result.leader_epoch)
    try:
        return ErrorCode.NONE, _fetchable(search.partition, search.log, found, search.limit, lags=search.lags)
    except PartitionError as error:
        return error.code, NOTHING


def _check_allowed(topic: str, describable: Container[str]) -> None:
    """Raise PartitionError with TOPIC_AUTHORIZATION_FAILED unless the topic is in `describable`."""
    if topic not in describable:
        raise PartitionError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "no access")


def _check(call: types.ListOffsetsCall, timestamp: int, times: int) -> None:
    if times > 1:
        raise PartitionError(ErrorCode.INVALID_REQUEST, "the request names the partition twice")
    if timestamp < 0 and call.version < SINCE_VERSION.get(timestamp, call.version + 1):
        raise PartitionError(ErrorCode.UNSUPPORTED_VERSION, f"timestamp {timestamp}")


def _find(
    broker: Broker, call: types.ListOffsetsCall, partition: Partition, timestamp: int, epoch: int
) -> Found | _Search:
    """Return the timestamp, offset and leader epoch for the requested timestamp, which may be a special one such as -1
    for the latest offset; NOTHING if there is no such record; a _Search if tiered storage has to be searched. The
    latest offset is the high watermark for a consumer, the last stable offset for a consumer with read_committed, else
    the log end offset; only records below the latest offset are found. epoch: the leader epoch that the client knows.
    Raises PartitionError."""
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
    if timestamp >= 0 and broker.tier is not None and log.log_start_offset < log.local_log_start_offset:
        return _Search(partition, log, timestamp, limit, lags)
    found = NOTHING if timestamp == LATEST else _by_timestamp(partition, log, timestamp)
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return found
    return _fetchable(partition, log, found, limit, lags=lags)


def _fetchable(partition: Partition, log: PartitionLog, found: Found, limit: int, *, lags: bool) -> Found:
    """Return `found`, or NOTHING if its offset is not below `limit`. lags: whether the high watermark lies below the
    first offset of this leader's epoch; PartitionError is then raised in place of returning NOTHING."""
    if found != NOTHING and found[1] < limit:
        return found
    if lags:
        start = partition.epoch_start_offset
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
