"""AssignReplicasToDirs: a broker reports the log directories of its replicas, after it has chosen one for a new replica
and when a replica has moved between directories.

Source: ReplicationControlManager.handleAssignReplicasToDirs; KIP-858.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from kcli.log.config import broker_defaults
from kcli.metadata import metadata_version as levels
from kcli.metadata.election import change_partition, directories_missing
from kcli.metadata.image import MetadataImage, Record
from kcli.metadata.partition_change import Change
from kcli.metadata.placement import is_online
from kcli.metadata.registration_control import check_epoch
from kcli.metadata.result import Refused, Result
from kcli.protocol.error_code import ErrorCode
from kcli.protocol.topic_partition import TopicIdPartition

Assignments = Sequence[tuple[UUID, Sequence[tuple[UUID, Sequence[int]]]]]
"""Directory ids, each with topic ids, each with partition numbers."""


@dataclass(frozen=True, slots=True)
class AssignmentAnswer:
    """The error of one replica's assignment."""

    partition: int
    code: ErrorCode


# The answers to Assignments: directory ids, each with topic ids, each with the answers for its partitions.
Answers = list[tuple[UUID, list[tuple[UUID, list[AssignmentAnswer]]]]]


def assign_replicas(
    image: MetadataImage,
    broker_id: int,
    broker_epoch: int,
    assignments: Assignments,
    broker_properties: Mapping[str, str],
) -> Result[Answers]:
    """Return the records that assign a broker's replicas to log directories; replicas in an offline directory lose
    leadership and leave the ISR. broker_properties: the properties of this controller, which set the defaults of topic
    configurations.

    Errors of a replica: UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER. Raises
    Refused(STALE_BROKER_EPOCH), Refused(UNSUPPORTED_VERSION).
    """
    if image.metadata_version < levels.DIRECTORIES:
        raise Refused(ErrorCode.UNSUPPORTED_VERSION, "Directory assignment is not supported yet.")
    check_epoch(image, broker_id, broker_epoch)
    defaults = broker_defaults(broker_properties)
    answers: Answers = []
    records: list[Record] = []
    missing: set[TopicIdPartition] = set()
    for directory, topics in assignments:
        its_answers: list[tuple[UUID, list[AssignmentAnswer]]] = []
        answers.append((directory, its_answers))
        for topic_id, numbers in topics:
            answered: list[AssignmentAnswer] = []
            its_answers.append((topic_id, answered))
            for number in numbers:
                code = _fault(image, broker_id, topic_id, number)
                answered.append(AssignmentAnswer(number, code))
                if code is not ErrorCode.NONE:
                    continue
                change = Change(directories={broker_id: directory})
                record = change_partition(image, image.topics_by_id[topic_id], number, change, defaults)
                if record is not None:
                    records.append(record)
                if not is_online(image, broker_id, directory):
                    missing.add((topic_id, number))
    if missing:
        records += directories_missing(image, broker_id, missing, broker_properties)
    return Result(records, answers)


def _fault(image: MetadataImage, broker_id: int, topic_id: UUID, number: int) -> ErrorCode:
    topic = image.topics_by_id.get(topic_id)
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    partition = topic.partitions.get(number)
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE if broker_id in partition.replicas else ErrorCode.NOT_LEADER_OR_FOLLOWER
