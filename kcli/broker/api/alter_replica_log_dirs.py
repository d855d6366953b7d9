"""AlterReplicaLogDirs (34): move replicas of this broker to other log directories of it (KIP-113). v2 flexible.

It is answered when the moves are begun; DescribeLogDirs shows how far they are, as future logs.
"""

from __future__ import annotations

from kcli.broker.logs.directories import LogDir
from kcli.broker.logs.partitions import PartitionError
from kcli.broker.network.messages import Call, Entity, ErrorCode
from kcli.errors import KcliError


def alter_replica_log_dirs(call: Call) -> Entity:
    """Errors: LOG_DIR_NOT_FOUND, KAFKA_STORAGE_ERROR, UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER."""
    asked = {
        (topic.name, number): each.path
        for each in call.request.dirs
        for topic in each.topics
        for number in topic.partitions
    }
    topics: dict[str, list[Entity]] = {}
    for (topic, number), path in asked.items():
        code = _move(call, topic, number, path)
        told = call.new("AlterReplicaLogDirPartitionResult", partition_index=number, error_code=code)
        topics.setdefault(topic, []).append(told)
    return call.respond(
        results=tuple(
            call.new("AlterReplicaLogDirTopicResult", topic_name=name, partitions=tuple(partitions))
            for name, partitions in topics.items()
        )
    )


def _move(call: Call, topic: str, number: int, path: str) -> ErrorCode:
    logs = call.broker.logs
    directory = _directory(call, path)
    if isinstance(directory, ErrorCode):
        return directory
    try:
        partition = call.broker.partitions.find(topic, number)
        partition.log_for(leader_only=False)
    except PartitionError as error:
        if error.code is not ErrorCode.kafka_storage_error:
            logs.preferred[topic, number] = directory
        return error.code
    try:
        logs.moves.begin(partition, directory)
    except (OSError, KcliError) as error:
        logs.directory_failed(directory, error)
        return ErrorCode.kafka_storage_error
    return ErrorCode.none


def _directory(call: Call, path: str) -> LogDir | ErrorCode:
    found = next((each for each in call.broker.logs.dirs.data if str(each.path) == path), None)
    if found is None:
        return ErrorCode.log_dir_not_found
    return found if found.is_online else ErrorCode.kafka_storage_error
