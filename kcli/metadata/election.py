"""Leaders of partitions: elected when a client asks, and when brokers come and go.

Source: ReplicationControlManager; KIP-460 (elections on demand), KIP-966 (ELR).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from kcli.log.config import TOPIC_CONFIGS, broker_defaults
from kcli.metadata.image import MetadataImage, Record
from kcli.metadata.partition import NO_LEADER, Partition, Topic
from kcli.metadata.partition_change import Change, Election, change_record
from kcli.metadata.placement import is_active
from kcli.metadata.result import NO_ERROR, Error, ErrorCode, Refused, Result

MIN_ISR = "min.insync.replicas"
UNCLEAN_ELECTION = "unclean.leader.election.enable"


class ElectionType(IntEnum):
    """As the protocol has it."""

    PREFERRED = 0
    UNCLEAN = 1


@dataclass(frozen=True, slots=True)
class PartitionAnswer:
    """What became of one partition's election."""

    partition: int
    error: Error


def elect_leaders(
    image: MetadataImage,
    election_type: int,
    topics: Sequence[tuple[str, Sequence[int]]] | None,
    broker_properties: Mapping[str, str],
) -> Result[list[tuple[str, list[PartitionAnswer]]]]:
    """Elect leaders of these partitions (None: of all, where partitions that need no election are not answered).

    Errors of a partition: UNKNOWN_TOPIC_OR_PARTITION, ELECTION_NOT_NEEDED, PREFERRED_LEADER_NOT_AVAILABLE,
    ELIGIBLE_LEADERS_NOT_AVAILABLE. Raises Refused(INVALID_REQUEST) for an unknown type.
    """
    if election_type not in tuple(ElectionType):
        raise Refused(ErrorCode.INVALID_REQUEST, f"Unknown election type {election_type}")
    kind = ElectionType(election_type)
    defaults = broker_defaults(broker_properties)
    wanted = topics if topics is not None else [(name, list(topic.partitions)) for name, topic in image.topics.items()]
    records: list[Record] = []
    answers = []
    for name, numbers in wanted:
        answered = []
        for number in numbers:
            found = _elect(image, name, number, kind, defaults)
            if not isinstance(found, Error):
                records.append(found)
                answered.append(PartitionAnswer(number, NO_ERROR))
            elif topics is not None or found.code != ErrorCode.ELECTION_NOT_NEEDED:
                answered.append(PartitionAnswer(number, found))
        answers.append((name, answered))
    return Result(records, answers)


def _elect(
    image: MetadataImage, name: str, number: int, kind: ElectionType, defaults: Mapping[str, str]
) -> Record | Error:
    topic = image.topics.get(name)
    if topic is None:
        return Error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}")
    partition = topic.partitions.get(number)
    if partition is None:
        return Error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{number}")
    preferred = kind is ElectionType.PREFERRED
    if partition.leader == partition.replicas[0] if preferred else partition.leader != NO_LEADER:
        return Error(ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")
    change = Change(election=Election.PREFERRED if preferred else Election.UNCLEAN)
    record = _change(image, topic, number, change, defaults, lambda each: is_active(image, each))
    if record is not None:
        return record
    if preferred:
        return Error(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available.")
    message = "Eligible topic partition leaders are not available."
    return Error(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, message)


def broker_comes(image: MetadataImage, broker_id: int, broker_properties: Mapping[str, str]) -> list[Record]:
    """A broker may lead from now on: elections of all partitions without a leader."""
    return _update(image, broker_properties, lambda partition: partition.leader == NO_LEADER, comes=broker_id)


def broker_goes(image: MetadataImage, broker_id: int, broker_properties: Mapping[str, str]) -> list[Record]:
    """A broker may no longer lead nor be in sync."""
    return _update(image, broker_properties, lambda partition: broker_id in partition.isr, goes=broker_id)


def broker_was_killed(image: MetadataImage, broker_id: int, broker_properties: Mapping[str, str]) -> list[Record]:
    """A broker has come up after what was no clean shutdown: it may have lost records."""
    return [
        *_update(image, broker_properties, lambda partition: broker_id in partition.isr, killed=broker_id),
        *_update(image, broker_properties, lambda partition: broker_id in partition.elr, killed=broker_id),
    ]


def _update(
    image: MetadataImage,
    broker_properties: Mapping[str, str],
    is_concerned: Callable[[Partition], bool],
    *,
    comes: int = -1,
    goes: int = -1,
    killed: int = -1,
) -> list[Record]:
    defaults = broker_defaults(broker_properties)

    def may_lead(broker_id: int) -> bool:
        return broker_id not in (goes, killed) and (broker_id == comes or is_active(image, broker_id))

    records = []
    for topic, number, partition in _partitions(image):
        if not is_concerned(partition):
            continue
        unclean = _config(image, topic, UNCLEAN_ELECTION, defaults).lower() == "true"
        change = Change(
            election=Election.UNCLEAN if unclean else Election.ONLINE,
            isr=tuple(each for each in partition.isr if each not in (goes, killed)),
            unclean_shutdown=() if killed == -1 else (killed,),
        )
        record = _change(image, topic, number, change, defaults, may_lead)
        if record is not None:
            records.append(record)
    return records


def _partitions(image: MetadataImage) -> Iterator[tuple[Topic, int, Partition]]:
    for topic in image.topics_by_id.values():
        for number, partition in topic.partitions.items():
            yield topic, number, partition


def _change(
    image: MetadataImage,
    topic: Topic,
    number: int,
    change: Change,
    defaults: Mapping[str, str],
    may_lead: Callable[[int], bool],
) -> Record | None:
    min_isr = int(_config(image, topic, MIN_ISR, defaults))
    return change_record(image, topic, number, change, min_isr=min_isr, may_lead=may_lead)


def _config(image: MetadataImage, topic: Topic, name: str, defaults: Mapping[str, str]) -> str:
    configs = image.topic_configs(topic.name)
    return configs.get(name) or defaults.get(name) or str(TOPIC_CONFIGS[name].default)
