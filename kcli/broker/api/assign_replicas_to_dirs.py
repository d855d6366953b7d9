"""AssignReplicasToDirs (73): a broker reports the log directories of its replicas. KIP-858."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from kcli.broker.broker import Broker
from kcli.metadata.directory_control import AssignmentAnswer
from kcli.metadata.result import Refused
from kcli.protocol.error_code import ErrorCode
from kcli.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from kcli.broker.wire.types import assign_replicas_to_dirs as types

NONE = UUID(int=0)


async def assign_replicas_to_dirs(
    broker: Broker, call: types.AssignReplicasToDirsCall
) -> types.AssignReplicasToDirsResponse:
    """Errors: STALE_BROKER_EPOCH, UNSUPPORTED_VERSION; for a replica, the errors that
    kcli.metadata.directory_control.assign_replicas lists."""
    broker.access.require(call, Operation.CLUSTER_ACTION, ResourceType.CLUSTER)
    active, request = broker.active, call.request
    assert active is not None, "only controllers get this request"
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
        return call.respond(error_code=refused.error.code, directories=())
    return call.respond(
        error_code=ErrorCode.NONE,
        directories=tuple(
            call.new("DirectoryData", id_=directory, topics=tuple(_topic(call, *each) for each in topics))
            for directory, topics in answers
        ),
    )


def _topic(call: types.AssignReplicasToDirsCall, topic_id: UUID, answers: list[AssignmentAnswer]) -> types.TopicData:
    return call.new(
        "TopicData",
        topic_id=topic_id,
        partitions=tuple(
            call.new("PartitionData", partition_index=each.partition, error_code=each.code) for each in answers
        ),
    )
