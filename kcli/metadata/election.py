"""Leader elections: on ElectLeaders, when brokers are fenced, unfenced or unregistered, when log directories fail, and
periodically.

broker_properties: the properties of this controller, which set the defaults of topic configurations. Source:
ReplicationControlManager; KIP-460 (elections on demand), KIP-858 (directories), KIP-966 (ELR).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from uuid import UUID

from kcli.log.config import TOPIC_CONFIGS, broker_defaults
from kcli.metadata.image import MetadataImage, Record
from kcli.metadata.partition import NO_LEADER, Partition, Topic
from kcli.metadata.partition_change import Change, Election, change_record
from kcli.metadata.placement import is_active
from kcli.metadata.result import NO_ERROR, Error, Refused, Result
from kcli.protocol.error_code import ErrorCode
from kcli.protocol.topic_partition import TopicIdPartition

MIN_ISR = "min.insync.replicas"
UNCLEAN_ELECTION = "unclean.leader.election.enable"
ELECTIONS_MAX = 1000
"""The largest number of elections in one periodic round."""


class ElectionType(IntEnum):
    """The election types of ElectLeaders, by their numbers in the protocol."""

    PREFERRED = 0
    UNCLEAN = 1


@dataclass(frozen=True, slots=True)
class PartitionAnswer:
    """The error, or NO_ERROR, of one partition in an answer."""

    partition: int
    error: Error


def elect_leaders(
    image: MetadataImage,
    election_type: int,
    topics: Sequence[tuple[str, Sequence[int]]] | None,
    broker_properties: Mapping[str, str],
) -> Result[list[tuple[str, list[PartitionAnswer]]]]:
    """Elect leaders of partitions. Return the answer for each partition, by topic name. broker_properties: see the
    module.

    election_type: the number of an ElectionType. topics: names with partition numbers; None for all partitions: the
    answer then leaves out those that need no election. Errors of a partition: UNKNOWN_TOPIC_OR_PARTITION,
    ELECTION_NOT_NEEDED, PREFERRED_LEADER_NOT_AVAILABLE, ELIGIBLE_LEADERS_NOT_AVAILABLE. Raises Refused(INVALID_REQUEST)
    for an unknown type.
    """
    if election_type not in tuple(ElectionType):
        raise Refused(ErrorCode.INVALID_REQUEST, f"Unknown election type {election_type}")
    kind = ElectionType(election_type)
    defaults = broker_defaults(broker_properties)
    requested = (
        topics if topics is not None else [(name, list(topic.partitions)) for name, topic in image.topics.items()]
    )
    records: list[Record] = []
    answers = []
    for name, numbers in requested:
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
    record = change_partition(image, topic, number, change, defaults)
    if record is not None:
        return record
    if preferred:
        return Error(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available.")
    message = "Eligible topic partition leaders are not available."
    return Error(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, message)


def broker_is_unfenced(image: MetadataImage, broker_id: int, broker_properties: Mapping[str, str]) -> list[Record]:
    """Return the records of elections in all partitions without a leader, once the broker is unfenced.
    broker_properties: see the module."""

    def may_lead(each: int) -> bool:
        return each == broker_id or is_active(image, each)

    leaderless = (each for each in _partitions(image) if each[2].leader == NO_LEADER)
    return _elections(image, leaderless, (), broker_properties, may_lead)


def broker_leaves_isrs(
    image: MetadataImage,
    broker_id: int,
    broker_properties: Mapping[str, str],
    directories: Collection[UUID] | None = None,
) -> list[Record]:
    """Return the records that take a broker out of the leadership and the ISR of its partitions. directories: if given,
    only partitions whose replica on this broker is in one of these log directories are changed; None: all are.
    broker_properties: see the module."""

    def may_lead(each: int) -> bool:
        return each != broker_id and is_active(image, each)

    concerned = (
        each
        for each in _partitions(image)
        if broker_id in each[2].isr and (directories is None or each[2].directory(broker_id) in directories)
    )
    return _elections(image, concerned, (broker_id,), broker_properties, may_lead)


def broker_was_killed(image: MetadataImage, broker_id: int, broker_properties: Mapping[str, str]) -> list[Record]:
    """Return the records for a broker that restarts after an unclean shutdown, and so may have lost records: it leaves
    leadership, ISR and ELR of its partitions. broker_properties: see the module."""

    def may_lead(each: int) -> bool:
        return each != broker_id and is_active(image, each)

    concerned = (each for each in _partitions(image) if broker_id in each[2].isr or broker_id in each[2].elr)
    return _elections(image, concerned, (broker_id,), broker_properties, may_lead, killed=(broker_id,))


def broker_is_unregistered(image: MetadataImage, broker_id: int, broker_properties: Mapping[str, str]) -> list[Record]:
    """Return the records that take an unregistered broker out of leadership, ISR and ELR of its partitions.
    broker_properties: see the module."""

    def may_lead(each: int) -> bool:
        return each != broker_id and is_active(image, each)

    eligible = (each for each in _partitions(image) if broker_id in each[2].elr)
    return [
        *broker_leaves_isrs(image, broker_id, broker_properties),
        *_elections(image, eligible, (broker_id,), broker_properties, may_lead),
    ]


def directories_missing(
    image: MetadataImage, broker_id: int, partitions: Collection[TopicIdPartition], broker_properties: Mapping[str, str]
) -> list[Record]:
    """Return the records that take a broker out of the leadership and the ISR of these partitions, whose replicas it
    has assigned to offline directories. partitions: topic ids and numbers. broker_properties: see the module."""

    def may_lead(each: int) -> bool:
        return each != broker_id and is_active(image, each)

    concerned = (each for each in _partitions(image) if (each[0].id, each[1]) in partitions)
    return _elections(image, concerned, (broker_id,), broker_properties, may_lead)


def balance_leaders(
    image: MetadataImage, broker_properties: Mapping[str, str], elections_max: int = ELECTIONS_MAX
) -> list[Record]:
    """Return the records that elect the preferred leader of each partition that has another leader, if the preferred
    leader can lead now. elections_max: the largest number of elections. broker_properties: see the module."""
    defaults = broker_defaults(broker_properties)
    records: list[Record] = []
    for topic, number, partition in _partitions(image):
        if len(records) >= elections_max:
            break
        if partition.leader != partition.replicas[0]:
            record = change_partition(image, topic, number, Change(election=Election.PREFERRED), defaults)
            if record is not None:
                records.append(record)
    return records


def elect_unclean_leaders(
    image: MetadataImage, broker_properties: Mapping[str, str], elections_max: int = ELECTIONS_MAX
) -> list[Record]:
    """Return the records of unclean elections in partitions without a leader, if the topic's configuration allows them.
    elections_max: the largest number of elections. broker_properties: see the module."""
    defaults = broker_defaults(broker_properties)
    records: list[Record] = []
    for topic, number, partition in _partitions(image):
        if len(records) >= elections_max:
            break
        if partition.leader == NO_LEADER and is_unclean_allowed(image, topic, defaults):
            record = change_partition(image, topic, number, Change(election=Election.UNCLEAN), defaults)
            if record is not None:
                records.append(record)
    return records


def leads(image: MetadataImage, broker_id: int) -> bool:
    """Whether the broker is the leader of any partition."""
    return any(partition.leader == broker_id for _, _, partition in _partitions(image))


def _elections(
    image: MetadataImage,
    partitions: Iterable[tuple[Topic, int, Partition]],
    leaving: tuple[int, ...],
    broker_properties: Mapping[str, str],
    may_lead: Callable[[int], bool],
    killed: tuple[int, ...] = (),
) -> list[Record]:
    defaults = broker_defaults(broker_properties)
    records = []
    for topic, number, partition in partitions:
        change = Change(
            election=usual_election(image, topic, defaults),
            isr=tuple(each for each in partition.isr if each not in leaving),
            unclean_shutdown=killed,
        )
        record = change_partition(image, topic, number, change, defaults, may_lead)
        if record is not None:
            records.append(record)
    return records


def _partitions(image: MetadataImage) -> Iterator[tuple[Topic, int, Partition]]:
    for topic in image.topics_by_id.values():
        for number, partition in topic.partitions.items():
            yield topic, number, partition


def change_partition(
    image: MetadataImage,
    topic: Topic,
    number: int,
    change: Change,
    defaults: Mapping[str, str],
    may_lead: Callable[[int], bool] | None = None,
) -> Record | None:
    """Return the record of a change of one partition; None if nothing changes.

    defaults: the brokers' defaults of topic configurations, from broker_defaults. may_lead(broker_id): whether a broker
    may lead; None for the active brokers.
    """
    first = topic.partitions.get(0, topic.partitions[number])
    min_isr = min(int(_config(image, topic, MIN_ISR, defaults)), len(first.replicas))
    accepts = may_lead or (lambda each: is_active(image, each))
    return change_record(image, topic, number, change, min_isr=min_isr, may_lead=accepts)


def usual_election(image: MetadataImage, topic: Topic, defaults: Mapping[str, str]) -> Election:
    """Return the election to use when brokers or replicas change: unclean if the topic's configuration allows it.
    defaults: the brokers' defaults of topic configurations."""
    return Election.UNCLEAN if is_unclean_allowed(image, topic, defaults) else Election.ONLINE


def is_unclean_allowed(image: MetadataImage, topic: Topic, defaults: Mapping[str, str]) -> bool:
    """Whether unclean.leader.election.enable allows a leader of the topic that may lack committed records. defaults:
    the brokers' defaults of topic configurations."""
    return _config(image, topic, UNCLEAN_ELECTION, defaults).lower() == "true"


def _config(image: MetadataImage, topic: Topic, name: str, defaults: Mapping[str, str]) -> str:
    configs = image.topic_configs(topic.name)
    return configs.get(name) or defaults.get(name) or str(TOPIC_CONFIGS[name].default)
