"""DescribeLogDirs (35): the replicas in each log directory, their sizes, and the free space of its volume.

v2 flexible. v3 a top-level error code. v4 total and usable bytes of the volume (KIP-827). v5 whether the directory is
cordoned (KIP-1066).

    offset lag   of a current log: high watermark minus log end offset, at least 0; of a future log: the log end offset
                 of the current log minus that of the future log

Source: ReplicaManager.describeLogDirs.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterator, Mapping
from typing import TYPE_CHECKING

from kcli.broker.broker import Broker
from kcli.broker.log_dirs.directories import LogDir
from kcli.broker.partition.partitions import Partition
from kcli.metadata.metadata_version import CORDONED_DIRECTORIES
from kcli.protocol.error_code import ErrorCode
from kcli.protocol.topic_partition import TopicPartition
from kcli.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from kcli.broker.wire.types import describe_log_dirs as types

LONG_MAX = 2**63 - 1
UNKNOWN_LAG = -1


def describe_log_dirs(broker: Broker, call: types.DescribeLogDirsCall) -> types.DescribeLogDirsResponse:
    """Errors of a log directory: KAFKA_STORAGE_ERROR if it is offline."""
    broker.access.require(call, Operation.DESCRIBE, ResourceType.CLUSTER)
    topics = call.request.topics
    requested: dict[str, set[int]] | None = None
    if topics is not None:
        requested = {}
        for topic in topics:
            requested.setdefault(topic.topic, set()).update(topic.partitions)
    results = tuple(_directory(broker, call, each, requested) for each in broker.logs.dirs.data)
    return call.respond(error_code=ErrorCode.NONE, results=results)


def _directory(
    broker: Broker, call: types.DescribeLogDirsCall, directory: LogDir, requested: Mapping[str, Container[int]] | None
) -> types.DescribeLogDirsResult:
    path = str(directory.path)
    try:
        volume = os.statvfs(path) if directory.is_online else None
    except OSError as error:
        broker.logs.directory_failed(directory, error)
        volume = None
    if volume is None:
        return call.new("DescribeLogDirsResult", error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=path, topics=())
    topics: dict[str, list[types.DescribeLogDirsPartition]] = {}
    for partition, described in _logs(broker, call, directory):
        if requested is None or partition.partition in requested.get(partition.topic, ()):
            topics.setdefault(partition.topic, []).append(described)
    is_known = broker.image.metadata_version >= CORDONED_DIRECTORIES
    return call.new(
        "DescribeLogDirsResult",
        error_code=ErrorCode.NONE,
        log_dir=path,
        topics=tuple(
            call.new("DescribeLogDirsTopic", name=name, partitions=tuple(partitions))
            for name, partitions in topics.items()
        ),
        total_bytes=min(volume.f_blocks * volume.f_frsize, LONG_MAX),
        usable_bytes=min(volume.f_bavail * volume.f_frsize, LONG_MAX),
        is_cordoned=is_known and broker.logs.is_cordoned(directory),
    )


def _logs(
    broker: Broker, call: types.DescribeLogDirsCall, directory: LogDir
) -> Iterator[tuple[TopicPartition, types.DescribeLogDirsPartition]]:
    logs = broker.logs
    for partition in logs.partitions:
        log = partition.opened_log
        if partition.directory is directory and log is not None:
            lag = max(log.high_watermark - log.log_end_offset, 0)
            yield partition.key, _partition(call, partition.number, log.size, lag, is_future=False)
    for key, future in logs.futures.items():
        if future.directory is directory:
            lag = _lag(logs.partitions.get(*key), future.log.log_end_offset)
            yield key, _partition(call, key.partition, future.log.size, lag, is_future=True)


def _lag(current: Partition | None, end_offset: int) -> int:
    log = None if current is None else current.opened_log
    return UNKNOWN_LAG if log is None else log.log_end_offset - end_offset


def _partition(
    call: types.DescribeLogDirsCall, number: int, size: int, lag: int, *, is_future: bool
) -> types.DescribeLogDirsPartition:
    return call.new(
        "DescribeLogDirsPartition",
        partition_index=number,
        partition_size=size,
        offset_lag=lag,
        is_future_key=is_future,
    )
