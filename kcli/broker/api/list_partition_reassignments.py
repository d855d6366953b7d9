"""ListPartitionReassignments (46): the partitions under reassignment, of some topics or of all. KIP-455."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kcli.broker.broker import Broker
from kcli.metadata.partition import Partition, Topic
from kcli.protocol.error_code import ErrorCode
from kcli.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from kcli.broker.wire.types import list_partition_reassignments as types


def list_partition_reassignments(
    broker: Broker, call: types.ListPartitionReassignmentsCall
) -> types.ListPartitionReassignmentsResponse:
    """Return the response, which leaves out partitions that are not under reassignment, and unknown partitions."""
    broker.access.require(call, Operation.DESCRIBE, ResourceType.CLUSTER)
    image, requested = broker.image, call.request.topics
    if requested is None:
        topics: Iterable[tuple[Topic | None, Iterable[int]]] = [
            (each, each.partitions) for each in image.topics.values()
        ]
    else:
        topics = [(image.topic(each.name), each.partition_indexes) for each in requested]
    moving = [(topic.name, _moving(topic, numbers)) for topic, numbers in topics if topic is not None]
    return call.respond(
        error_code=ErrorCode.NONE,
        error_message=None,
        topics=tuple(
            call.new(
                "OngoingTopicReassignment",
                name=name,
                partitions=tuple(
                    call.new(
                        "OngoingPartitionReassignment",
                        partition_index=number,
                        replicas=partition.replicas,
                        adding_replicas=partition.adding_replicas,
                        removing_replicas=partition.removing_replicas,
                    )
                    for number, partition in partitions
                ),
            )
            for name, partitions in moving
            if partitions
        ),
    )


def _moving(topic: Topic, numbers: Iterable[int]) -> list[tuple[int, Partition]]:
    found = [(each, topic.partitions[each]) for each in numbers if each in topic.partitions]
    return [
        (number, partition) for number, partition in found if partition.adding_replicas or partition.removing_replicas
    ]
