"""ListPartitionReassignments (46): partitions whose replicas move, of some topics or of all. KIP-455."""

from __future__ import annotations

from collections.abc import Iterable

from kcli.broker.network.messages import Call, Entity, ErrorCode
from kcli.metadata.partition import Partition, Topic


def list_partition_reassignments(call: Call) -> Entity:
    """What does not move is left out, and what is not there."""
    image, asked = call.broker.image, call.request.topics
    if asked is None:
        wanted: Iterable[tuple[Topic | None, Iterable[int]]] = [
            (each, each.partitions) for each in image.topics.values()
        ]
    else:
        wanted = [(image.topic(each.name), each.partition_indexes) for each in asked]
    moving = [(topic.name, _moving(topic, numbers)) for topic, numbers in wanted if topic is not None]
    return call.respond(
        error_code=ErrorCode.none,
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
