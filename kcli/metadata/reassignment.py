"""AlterPartitionReassignments: begin to move a partition to other brokers, or cancel an unfinished move.

    begin    replicas become the target replicas, followed by the replicas to remove; adding_replicas and
             removing_replicas name the new and the leaving ones
    proceed  the leader adds the new replicas to the ISR as they catch up (isr_control.py)
    end      the change after which all new replicas are in the ISR ends the move (partition_change.py); without new
             replicas it ends at once

Source: ReplicationControlManager, PartitionReassignmentReplicas, PartitionReassignmentRevert; KIP-455, KIP-860.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kcli.log.config import broker_defaults
from kcli.metadata.election import PartitionAnswer, change_partition, is_unclean_allowed, usual_election
from kcli.metadata.image import MetadataImage, Record
from kcli.metadata.partition import Partition, Topic
from kcli.metadata.partition_change import Change
from kcli.metadata.placement import check_assignment
from kcli.metadata.result import NO_ERROR, RECORDS_PER_REQUEST_MAX, Error, Refused, Result
from kcli.protocol.error_code import ErrorCode

SERVER_ERROR: Final = "The server experienced an unexpected error when processing the request."


@dataclass(frozen=True, slots=True)
class Reassignment:
    """The target of one partition. replicas: broker ids; None cancels the partition's reassignment."""

    partition: int
    replicas: Sequence[int] | None


def alter_partition_reassignments(
    image: MetadataImage,
    topics: Sequence[tuple[str, Sequence[Reassignment]]],
    broker_properties: Mapping[str, str],
    *,
    may_change_factor: bool = True,
    records_max: int = RECORDS_PER_REQUEST_MAX,
) -> Result[list[tuple[str, list[PartitionAnswer]]]]:
    """Begin or cancel reassignments. Return the answer for each partition, by topic name.

    broker_properties: the properties of this controller, which set the defaults of topic configurations.
    may_change_factor: whether the target may have another number of replicas. records_max: the largest number of
    records of the request. Errors of a partition: UNKNOWN_TOPIC_OR_PARTITION, INVALID_REPLICA_ASSIGNMENT,
    INVALID_REPLICATION_FACTOR, NO_REASSIGNMENT_IN_PROGRESS, UNKNOWN_SERVER_ERROR beyond `records_max`.
    """
    defaults = broker_defaults(broker_properties)
    records: list[Record] = []
    answers = []
    for name, reassignments in topics:
        answered = []
        for each in reassignments:
            error = NO_ERROR
            try:
                record = _alter(image, name, each, defaults, may_change_factor=may_change_factor)
            except Refused as refused:
                error = refused.error
            else:
                if record is not None and len(records) == records_max:
                    error = Error(ErrorCode.UNKNOWN_SERVER_ERROR, SERVER_ERROR)
                elif record is not None:
                    records.append(record)
            answered.append(PartitionAnswer(each.partition, error))
        answers.append((name, answered))
    return Result(records, answers)


def _alter(
    image: MetadataImage,
    name: str,
    requested: Reassignment,
    defaults: Mapping[str, str],
    *,
    may_change_factor: bool,
) -> Record | None:
    topic = image.topics.get(name)
    if topic is None:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {name}.")
    partition = topic.partitions.get(requested.partition)
    if partition is None:
        reason = f"Unable to find partition {name}:{requested.partition}."
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, reason)
    if requested.replicas is None:
        change = _cancel(image, topic, requested.partition, defaults)
    else:
        target = tuple(requested.replicas)
        check_assignment(image, list(target), None)
        if not may_change_factor:
            _check_factor(partition, target)
        change = begin(partition, target)
    return change_partition(image, topic, requested.partition, change, defaults)


def begin(partition: Partition, target: tuple[int, ...]) -> Change:
    """Return the change that begins a reassignment; if the target only reorders the replicas, the change also ends it.

    If an earlier reassignment is unfinished and this one adds no replica, the earlier adding replicas that are in the
    new target stay adding replicas; the rest of the earlier reassignment is dropped. (Kafka keeps the earlier adding or
    removing replicas if the new list of them is empty: then the reassignment ends with other replicas than the target,
    or never.)
    """
    removing = tuple(sorted(set(partition.replicas) - set(target)))
    adding = tuple(sorted(set(target) - set(partition.replicas)))
    still_added = tuple(each for each in partition.adding_replicas if each in target)
    return Change(replicas=(*target, *removing), removing=removing, adding=adding or still_added)


def _check_factor(partition: Partition, target: tuple[int, ...]) -> None:
    factor = len({*partition.replicas, *partition.adding_replicas} - set(partition.removing_replicas))
    if factor != len(target):
        reason = f"The replication factor is changed from {factor} to {len(target)}"
        raise Refused(ErrorCode.INVALID_REPLICATION_FACTOR, reason)


def _cancel(image: MetadataImage, topic: Topic, number: int, defaults: Mapping[str, str]) -> Change:
    """Return the change that cancels a reassignment: it restores the replicas without the adding ones. If only adding
    replicas are in the ISR, this needs an unclean leader election, which the topic's configuration must allow."""
    partition = topic.partitions[number]
    adding = partition.adding_replicas
    if not adding and not partition.removing_replicas:
        raise Refused(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    replicas = tuple(each for each in partition.replicas if each not in adding)
    isr = tuple(each for each in partition.isr if each not in adding)
    if not isr:
        if not replicas:
            reason = "Invalid replica assignment: addingReplicas contains all replicas."
            raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, reason)
        if not is_unclean_allowed(image, topic, defaults):
            reason = (
                f"Unable to revert partition assignment for {topic.name}:{number} because it would require an unclean "
                "leader election."
            )
            raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, reason)
        isr = (replicas[0],)
    return Change(election=usual_election(image, topic, defaults), isr=isr, replicas=replicas, adding=(), removing=())
