"""Creation of topics.

Each topic of a request is created or refused as a whole, independently of the request's other topics; the records of
all created topics are one batch: for each its TopicRecord, its ConfigRecords, its PartitionRecords. Source:
ControllerApis, ReplicationControlManager, ControllerConfigurationValidator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final
from uuid import UUID, uuid4

from kcli.log.config import InvalidConfig, broker_defaults, validate_topic_configs
from kcli.metadata.image import TOPIC_RESOURCE, MetadataImage, Record
from kcli.metadata.partition import Partition, Topic, from_uuid
from kcli.metadata.placement import check_assignment, new_partition, place
from kcli.metadata.result import NO_ERROR, RECORDS_PER_REQUEST_MAX, TOO_MANY_RECORDS, Error, Refused, Result
from kcli.metadata.snapshot import ELR_VERSION, partition_record
from kcli.metadata.topic_names import CLUSTER_METADATA, colliding, fault, utf16_length
from kcli.protocol.error_code import ErrorCode

PARTITIONS_PER_REQUEST_MAX: Final = 10_000
TOO_MANY_PARTITIONS: Final = "Excessively large number of partitions per request."
CONFIG_VALUE_LENGTH_MAX: Final = 32_767
RESERVED_IDS: Final = 100
"""UUIDs below this number are reserved by Kafka, such as those of the metadata topic and of lost directories."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicContext:
    """The configuration and the state that the controller has beside the image.

    num_partitions, replication_factor: the defaults. broker_properties: server.properties with the brokers' dynamic
    configurations, by the names that brokers use (log.retention.ms). remote_storage: whether tiered storage is enabled.
    schemas: whether a registry checks the schema ids of records. deletion_enabled: whether topics may be deleted
    (delete.topic.enable). random: for the placement of replicas. new_id: returns a new topic id. charge(n): charges n
    partitions to create or delete to the client's quota; returns False if the quota refuses them.
    """

    num_partitions: int = 1
    replication_factor: int = 1
    broker_properties: Mapping[str, str] = field(default_factory=dict)
    remote_storage: bool = False
    schemas: bool = False
    deletion_enabled: bool = True
    random: Random = field(default_factory=Random)
    new_id: Callable[[], UUID] = uuid4
    charge: Callable[[int], bool] = lambda _: True


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """A topic to create. num_partitions, replication_factor: -1 for the default. assignments: each partition's number
    and broker ids, in place of these two."""

    name: str
    num_partitions: int = -1
    replication_factor: int = -1
    assignments: Sequence[tuple[int, list[int]]] = ()
    configs: Sequence[tuple[str, str | None]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicAnswer:
    """The result of one topic's creation, deletion or change. With an error, only name, id and error are set."""

    name: str | None
    error: Error = NO_ERROR
    topic_id: UUID | None = None
    num_partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] = field(default_factory=dict)


def create_topics(
    image: MetadataImage, topics: Sequence[NewTopic], context: TopicContext, *, validate_only: bool = False
) -> Result[list[TopicAnswer]]:
    """Create topics. validate_only: return the same answers, but no records.

    Errors of a topic: INVALID_REQUEST, INVALID_TOPIC_EXCEPTION, TOPIC_ALREADY_EXISTS, INVALID_CONFIG,
    INVALID_PARTITIONS, INVALID_REPLICATION_FACTOR, INVALID_REPLICA_ASSIGNMENT, THROTTLING_QUOTA_EXCEEDED. Raises
    Refused(POLICY_VIOLATION) for a request of more than 10,000 partitions, or whose records would be more than
    RECORDS_PER_REQUEST_MAX.
    """
    counts: dict[str, int] = {}
    for topic in topics:
        counts[topic.name] = counts.get(topic.name, 0) + 1
    single = [each for each in topics if counts[each.name] == 1 and each.name != CLUSTER_METADATA]
    _check_total(single, context.num_partitions)
    answers: list[TopicAnswer] = []
    records: list[Record] = []
    for topic in single:
        try:
            answer, its_records = _create(image, topic, context)
        except Refused as refused:
            answers.append(TopicAnswer(name=topic.name, error=refused.error))
            continue
        answers.append(answer)
        records += its_records
    if len(records) > RECORDS_PER_REQUEST_MAX:
        raise Refused(ErrorCode.POLICY_VIOLATION, TOO_MANY_RECORDS)
    for name, count in counts.items():
        if count > 1:
            error = Error(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            answers.append(TopicAnswer(name=name, error=error))
    if counts.get(CLUSTER_METADATA) == 1:
        error = Error(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {CLUSTER_METADATA} is prohibited.")
        answers.append(TopicAnswer(name=CLUSTER_METADATA, error=error))
    return Result([] if validate_only else records, answers)


def _check_total(topics: Iterable[NewTopic], default: int) -> None:
    total = 0
    for topic in topics:
        number = default if topic.num_partitions == -1 else max(topic.num_partitions, 0)
        total += len(topic.assignments) or number
    if total > PARTITIONS_PER_REQUEST_MAX:
        raise Refused(ErrorCode.POLICY_VIOLATION, TOO_MANY_PARTITIONS)


def excess(topics: Iterable[tuple[int, int]]) -> str | None:
    """Return why these topics are too many for one request, in words; None if they are not too many. topics: the number
    of partitions and of configurations of each."""
    partitions = records = 0
    for its_partitions, its_configs in topics:
        partitions += its_partitions
        records += 1 + its_partitions + its_configs
    if partitions > PARTITIONS_PER_REQUEST_MAX:
        return TOO_MANY_PARTITIONS
    return TOO_MANY_RECORDS if records > RECORDS_PER_REQUEST_MAX else None


def _create(image: MetadataImage, topic: NewTopic, context: TopicContext) -> tuple[TopicAnswer, list[Record]]:
    _check_name(image, topic.name)
    configs = _check_configs(topic, context)
    partitions = _assigned(image, topic) if topic.assignments else _placed(image, topic, context)
    if not context.charge(len(partitions)):
        raise Refused(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
    created = Topic(topic.name, new_topic_id(image, context.new_id), dict(enumerate(partitions)))
    records: list[Record] = [("TopicRecord", 0, {"name": topic.name, "topicId": from_uuid(created.id)})]
    for name, value in configs.items():
        config = {"resourceType": TOPIC_RESOURCE, "resourceName": topic.name, "name": name, "value": value}
        records.append(("ConfigRecord", 0, config))
    records += [new_partition_record(image, created, number, each) for number, each in created.partitions.items()]
    answer = TopicAnswer(
        name=topic.name,
        topic_id=created.id,
        num_partitions=len(partitions),
        replication_factor=len(partitions[0].replicas),
        configs=configs,
    )
    return answer, records


def new_topic_id(image: MetadataImage, new_id: Callable[[], UUID]) -> UUID:
    """Return a topic id that is neither reserved nor taken, and whose text does not begin with a dash, which
    command-line tools would take for an option."""
    while True:
        topic_id = new_id()
        if topic_id.int >= RESERVED_IDS and topic_id not in image.topics_by_id and from_uuid(topic_id)[0] != "-":
            return topic_id


def _check_name(image: MetadataImage, name: str) -> None:
    reason = fault(name)
    if name in image.topics:
        raise Refused(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    if (other := colliding(name, image.topics)) is not None:
        reason = f"Topic '{name}' collides with existing topic: {other}"
    if reason is not None:
        raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, reason)


def _check_configs(topic: NewTopic, context: TopicContext) -> dict[str, str]:
    without_value = [name for name, value in topic.configs if value is None]
    if without_value:
        reason = f"Null value not supported for topic configs: {','.join(without_value)}"
        raise Refused(ErrorCode.INVALID_CONFIG, reason)
    configs = {name: value for name, value in topic.configs if value is not None}
    if not configs:
        return configs
    if any(utf16_length(value) > CONFIG_VALUE_LENGTH_MAX for value in configs.values()):
        reason = (
            "The configuration value cannot be added because it exceeds the maximum value size of "
            f"{CONFIG_VALUE_LENGTH_MAX} bytes."
        )
        raise Refused(ErrorCode.INVALID_CONFIG, reason)
    defaults = broker_defaults(context.broker_properties)
    try:
        validate_topic_configs(
            configs, defaults=defaults, remote_storage=context.remote_storage, schemas=context.schemas
        )
    except InvalidConfig as error:
        raise Refused(ErrorCode.INVALID_CONFIG, str(error)) from None
    return configs


def _assigned(image: MetadataImage, topic: NewTopic) -> list[Partition]:
    if topic.replication_factor != -1:
        reason = "A manual partition assignment was specified, but replication factor was not set to -1."
        raise Refused(ErrorCode.INVALID_REQUEST, reason)
    if topic.num_partitions != -1:
        reason = "A manual partition assignment was specified, but numPartitions was not set to -1."
        raise Refused(ErrorCode.INVALID_REQUEST, reason)
    partitions: dict[int, Partition] = {}
    replication_factor = None
    for number, brokers in topic.assignments:
        if number in partitions:
            reason = f"Found multiple manual partition assignments for partition {number}"
            raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, reason)
        partitions[number] = chosen_partition(image, number, brokers, replication_factor)
        replication_factor = len(brokers)
    if set(partitions) != set(range(len(partitions))):
        reason = "partitions should be a consecutive 0-based integer sequence"
        raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, reason)
    return [partitions[number] for number in range(len(partitions))]


def chosen_partition(
    image: MetadataImage, number: int, brokers: list[int], replication_factor: int | None
) -> Partition:
    """Return a new partition on the brokers that a client has chosen. number: the partition's, for the error's message.
    replication_factor: the number of brokers that is required, None for any. Raises
    Refused(INVALID_REPLICA_ASSIGNMENT)."""
    check_assignment(image, brokers, replication_factor)
    partition = new_partition(image, brokers)
    if partition is None:
        reason = (
            f"All brokers specified in the manual partition assignment for partition {number} are fenced or in "
            "controlled shutdown."
        )
        raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, reason)
    return partition


def _placed(image: MetadataImage, topic: NewTopic, context: TopicContext) -> list[Partition]:
    if topic.replication_factor < -1 or topic.replication_factor == 0:
        reason = "Replication factor must be larger than 0, or -1 to use the default value."
        raise Refused(ErrorCode.INVALID_REPLICATION_FACTOR, reason)
    if topic.num_partitions < -1 or topic.num_partitions == 0:
        reason = "Number of partitions was set to an invalid non-positive value."
        raise Refused(ErrorCode.INVALID_PARTITIONS, reason)
    count = context.num_partitions if topic.num_partitions == -1 else topic.num_partitions
    factor = context.replication_factor if topic.replication_factor == -1 else topic.replication_factor
    try:
        assignments = place(image, count, factor, context.random)
    except Refused as refused:
        reason = f"Unable to replicate the partition {factor} time(s): {refused.error.message}"
        raise Refused(refused.error.code, reason) from None
    return led_partitions(image, assignments, factor)


def led_partitions(image: MetadataImage, assignments: Sequence[list[int]], factor: int) -> list[Partition]:
    """Return new partitions on the brokers that `place` has chosen. assignments: the broker ids of each partition.
    factor: the replication factor, for the error's message. Raises Refused(INVALID_REPLICATION_FACTOR) if a partition
    would have no active broker to lead it."""
    partitions = []
    for brokers in assignments:
        partition = new_partition(image, brokers)
        if partition is None:
            reason = (
                f"Unable to replicate the partition {factor} time(s): All brokers are currently fenced or in "
                "controlled shutdown."
            )
            raise Refused(ErrorCode.INVALID_REPLICATION_FACTOR, reason)
        partitions.append(partition)
    return partitions


def new_partition_record(image: MetadataImage, topic: Topic, number: int, partition: Partition) -> Record:
    """Return the PartitionRecord that creates the partition."""
    has_elr = image.features.get(ELR_VERSION, 0) > 0
    return partition_record(topic, number, partition, image.metadata_version, has_elr=has_elr)
