"""DescribeLogDirs (35): what lies in each log directory, and how much room is left.

v2 flexible. v3 an error of the whole. v4 total and usable bytes of the volume (KIP-827). v5 whether the directory is
cordoned (KIP-1066).

    offset lag   of a current log: how far it is behind its high watermark; of a future one: behind the current log

Source: ReplicaManager.describeLogDirs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from kcli.broker.logs.directories import LogDir
from kcli.broker.logs.partitions import Partition
from kcli.broker.network.messages import Call, Entity, ErrorCode
from kcli.metadata.metadata_version import CORDONED_DIRECTORIES

LONG_MAX = 2**63 - 1
UNKNOWN_LAG = -1
Key = tuple[str, int]


def describe_log_dirs(call: Call) -> Entity:
    """Errors, of a directory: KAFKA_STORAGE_ERROR where it is offline."""
    asked = call.request.topics
    wanted = None if asked is None else {(topic.topic, index) for topic in asked for index in topic.partitions}
    results = tuple(_directory(call, each, wanted) for each in call.broker.logs.dirs.data)
    return call.respond(error_code=ErrorCode.none, results=results)


def _directory(call: Call, directory: LogDir, wanted: set[Key] | None) -> Entity:
    path = str(directory.path)
    try:
        volume = os.statvfs(path) if directory.is_online else None
    except OSError as error:
        call.broker.logs.directory_failed(directory, error)
        volume = None
    if volume is None:
        return call.new("DescribeLogDirsResult", error_code=ErrorCode.kafka_storage_error, log_dir=path, topics=())
    topics: dict[str, list[Entity]] = {}
    for (topic, number), described in _logs(call, directory):
        if wanted is None or (topic, number) in wanted:
            topics.setdefault(topic, []).append(described)
    is_known = call.broker.image.metadata_version >= CORDONED_DIRECTORIES
    return call.new(
        "DescribeLogDirsResult",
        error_code=ErrorCode.none,
        log_dir=path,
        topics=tuple(
            call.new("DescribeLogDirsTopic", name=name, partitions=tuple(partitions))
            for name, partitions in topics.items()
        ),
        total_bytes=min(volume.f_blocks * volume.f_frsize, LONG_MAX),
        usable_bytes=min(volume.f_bavail * volume.f_frsize, LONG_MAX),
        is_cordoned=is_known and call.broker.logs.is_cordoned(directory),
    )


def _logs(call: Call, directory: LogDir) -> Iterator[tuple[Key, Entity]]:
    logs = call.broker.logs
    for partition in logs.partitions:
        log = partition.opened_log
        if partition.directory is directory and log is not None:
            lag = max(log.high_watermark - log.log_end_offset, 0)
            yield partition.key, _partition(call, partition.number, log.size, lag, is_future=False)
    for key, future in logs.futures.items():
        if future.directory is directory:
            lag = _lag(logs.partitions.get(*key), future.log.log_end_offset)
            yield key, _partition(call, key[1], future.log.size, lag, is_future=True)


def _lag(current: Partition | None, end_offset: int) -> int:
    log = None if current is None else current.opened_log
    return UNKNOWN_LAG if log is None else log.log_end_offset - end_offset


def _partition(call: Call, number: int, size: int, lag: int, *, is_future: bool) -> Entity:
    return call.new(
        "DescribeLogDirsPartition",
        partition_index=number,
        partition_size=size,
        offset_lag=lag,
        is_future_key=is_future,
    )
