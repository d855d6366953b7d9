"""AssignReplicasToDirs (73): a broker says in which log directories its replicas lie. KIP-858."""

from __future__ import annotations

from uuid import UUID

from kcli.broker.network.messages import Call, Entity, ErrorCode
from kcli.metadata.directory_control import AssignmentAnswer
from kcli.metadata.result import Refused

NONE = UUID(int=0)


async def assign_replicas_to_dirs(call: Call) -> Entity:
    """Errors: STALE_BROKER_EPOCH, UNSUPPORTED_VERSION; of a replica, see assign_replicas."""
    active, request = call.broker.active, call.request
    assert active is not None, "controllers are asked"
    assignments = [
        (
            directory.id_ or NONE,
            [
                (topic.topic_id or NONE, [each.partition_index for each in topic.partitions])
                for topic in directory.topics
            ],
        )
        for directory in request.directories
    ]
    try:
        answers = await active.assign_replicas(request.broker_id, request.broker_epoch, assignments)
    except Refused as refused:
        return call.respond(error_code=ErrorCode(refused.error.code), directories=())
    return call.respond(
        error_code=ErrorCode.none,
        directories=tuple(
            call.new("DirectoryData", id_=directory, topics=tuple(_topic(call, *each) for each in topics))
            for directory, topics in answers
        ),
    )


def _topic(call: Call, topic_id: UUID, answers: list[AssignmentAnswer]) -> Entity:
    return call.new(
        "TopicData",
        topic_id=topic_id,
        partitions=tuple(
            call.new("PartitionData", partition_index=each.partition, error_code=ErrorCode(each.code))
            for each in answers
        ),
    )
