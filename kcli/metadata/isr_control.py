"""AlterPartition: the leader of a partition changes its ISR, which may end a reassignment.

The controller accepts the change only for the partition's current leader epoch and partition epoch. An older epoch is
refused; a newer one means that this controller is no longer the active one (NOT_CONTROLLER). Source:
ReplicationControlManager; KIP-497, KIP-841 (brokers that may not be in sync), KIP-903 (broker epochs).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from kcli.log.config import broker_defaults
from kcli.metadata.election import change_partition, usual_election
from kcli.metadata.image import MetadataImage, Record
from kcli.metadata.partition import RECOVERED, RECOVERING, Partition
from kcli.metadata.partition_change import Change
from kcli.metadata.registration_control import check_epoch
from kcli.metadata.result import Result
from kcli.protocol.error_code import ErrorCode

ANY_EPOCH = -1
"""The broker epoch of a replica whose epoch the leader does not know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrChange:
    """A new ISR from a partition's leader. leader_epoch, partition_epoch: of the state that the leader knows. isr:
    broker ids with their broker epochs."""

    partition: int
    leader_epoch: int
    partition_epoch: int
    isr: Sequence[tuple[int, int]]
    recovery_state: int = RECOVERED


@dataclass(frozen=True, slots=True)
class IsrAnswer:
    """The error of one partition's change. state: the partition after the change, None with an error."""

    partition: int
    code: ErrorCode
    state: Partition | None = None


def alter_partitions(
    image: MetadataImage,
    broker_id: int,
    broker_epoch: int,
    topics: Sequence[tuple[UUID, Sequence[IsrChange]]],
    broker_properties: Mapping[str, str],
) -> Result[list[tuple[UUID, list[IsrAnswer]]]]:
    """Change the ISRs of partitions that the broker leads. Return the answer for each partition, by topic id.

    broker_epoch: the one in the broker's request. broker_properties: the properties of this controller, which set the
    defaults of topic configurations. Errors of a partition: UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION,
    NOT_CONTROLLER, FENCED_LEADER_EPOCH, INVALID_REQUEST, INVALID_UPDATE_VERSION, INELIGIBLE_REPLICA, and
    NEW_LEADER_ELECTED if the change completed a reassignment that made another broker the leader. Raises
    Refused(STALE_BROKER_EPOCH).
    """
    check_epoch(image, broker_id, broker_epoch)
    defaults = broker_defaults(broker_properties)
    records: list[Record] = []
    answers = []
    for topic_id, changes in topics:
        answered = []
        for change in changes:
            answer, record = _alter(image, broker_id, topic_id, change, defaults)
            answered.append(answer)
            if record is not None:
                records.append(record)
        answers.append((topic_id, answered))
    return Result(records, answers)


def _alter(
    image: MetadataImage, broker_id: int, topic_id: UUID, requested: IsrChange, defaults: Mapping[str, str]
) -> tuple[IsrAnswer, Record | None]:
    topic, number = image.topics_by_id.get(topic_id), requested.partition
    if topic is None:
        return IsrAnswer(number, ErrorCode.UNKNOWN_TOPIC_ID), None
    partition = topic.partitions.get(number)
    if partition is None:
        return IsrAnswer(number, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), None
    fault = _fault(image, broker_id, partition, requested)
    if fault is not None:
        return IsrAnswer(number, fault), None
    change = Change(
        election=usual_election(image, topic, defaults),
        isr=tuple(replica for replica, _ in requested.isr),
        recovery_state=requested.recovery_state,
    )
    record = change_partition(image, topic, number, change, defaults)
    if record is None:
        return IsrAnswer(number, ErrorCode.NONE, partition), None
    state = partition.changed(record[2])
    if record[2].get("leader", broker_id) != broker_id:
        return IsrAnswer(number, ErrorCode.NEW_LEADER_ELECTED), record
    return IsrAnswer(number, ErrorCode.NONE, state), record


def _fault(image: MetadataImage, broker_id: int, partition: Partition, requested: IsrChange) -> ErrorCode | None:
    isr = [replica for replica, _ in requested.isr]
    if requested.leader_epoch > partition.leader_epoch or requested.partition_epoch > partition.partition_epoch:
        return ErrorCode.NOT_CONTROLLER
    if requested.leader_epoch < partition.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if broker_id != partition.leader:
        return ErrorCode.INVALID_REQUEST
    if requested.partition_epoch < partition.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    if len(set(isr)) != len(isr) or not set(isr) <= set(partition.replicas) or partition.leader not in isr:
        return ErrorCode.INVALID_REQUEST
    if requested.recovery_state not in (RECOVERED, RECOVERING):
        return ErrorCode.INVALID_REQUEST
    if requested.recovery_state == RECOVERING and (len(isr) > 1 or partition.leader_recovery_state == RECOVERED):
        return ErrorCode.INVALID_REQUEST
    if not all(_is_eligible(image, replica, epoch) for replica, epoch in requested.isr):
        return ErrorCode.INELIGIBLE_REPLICA
    return None


def _is_eligible(image: MetadataImage, broker_id: int, epoch: int) -> bool:
    broker = image.brokers.get(broker_id)
    return broker is not None and broker.active and epoch in (ANY_EPOCH, broker.epoch)
