"""AlterReplicaLogDirs (34): move replicas of this broker to other log directories (KIP-113). v2 flexible.

The response comes once the moves have begun; until a move is done, DescribeLogDirs lists its new log as a
future log, with its lag.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.broker import Broker
from kcli.broker.log_dirs.directories import LogDir
from kcli.broker.partition.partitions import PartitionError
from kcli.errors import KcliError
from kcli.protocol.error_code import ErrorCode
from kcli.protocol.topic_partition import TopicPartition
from kcli.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from kcli.broker.wire.types import alter_replica_log_dirs as types


def alter_replica_log_dirs(broker: Broker, call: types.AlterReplicaLogDirsCall) -> types.AlterReplicaLogDirsResponse:
    """Errors: LOG_DIR_NOT_FOUND, KAFKA_STORAGE_ERROR, UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER."""
    broker.access.require(call, Operation.ALTER, ResourceType.CLUSTER)
    requested = {
        (topic.name, number): each.path
        for each in call.request.dirs
        for topic in each.topics
        for number in topic.partitions
    }
    topics: dict[str, list[types.AlterReplicaLogDirPartitionResult]] = {}
    for (topic, number), path in requested.items():
        code = _move(broker, topic, number, path)
        result = call.new("AlterReplicaLogDirPartitionResult", partition_index=number, error_code=code)
        topics.setdefault(topic, []).append(result)
    return call.respond(
        results=tuple(
            call.new("AlterReplicaLogDirTopicResult", topic_name=name, partitions=tuple(partitions))
            for name, partitions in topics.items()
        )
    )


def _move(broker: Broker, topic: str, number: int, path: str) -> ErrorCode:
    logs = broker.logs
    directory = _directory(broker, path)
    if isinstance(directory, ErrorCode):
        return directory
    try:
        partition = broker.partitions.find(topic, number)
        partition.log_for(leader_only=False)
    except PartitionError as error:
        if error.code != ErrorCode.KAFKA_STORAGE_ERROR:
            logs.preferred[TopicPartition(topic, number)] = directory
        return error.code
    try:
        logs.moves.begin(partition, directory)
    except (OSError, KcliError) as error:
        logs.directory_failed(directory, error)
        return ErrorCode.KAFKA_STORAGE_ERROR
    return ErrorCode.NONE


def _directory(broker: Broker, path: str) -> LogDir | ErrorCode:
    found = next((each for each in broker.logs.dirs.data if str(each.path) == path), None)
    if found is None:
        return ErrorCode.LOG_DIR_NOT_FOUND
    return found if found.is_online else ErrorCode.KAFKA_STORAGE_ERROR
