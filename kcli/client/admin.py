"""The admin client: lists, describes, creates, alters and deletes topics, and describes the cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from kcli.client.connection import NOBODY, Connection, Refused, kafka_error
from kcli.errors import KcliError, UsageError
from kcli.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from kcli.client.wire import Details

Assignment = Sequence[Sequence[int]]
"""Broker ids of the replicas of each partition, the preferred leader first."""

EARLIEST, LATEST = OffsetSpec.earliest(), OffsetSpec.latest()  # type: ignore[no-untyped-call]


class Partition(NamedTuple):
    """A partition with its replicas. leader: None if there is no leader; start_offset, end_offset: None until
    `with_offsets` sets them."""

    number: int
    leader: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    start_offset: int | None = None
    end_offset: int | None = None

    @property
    def is_under_replicated(self) -> bool:
        """Whether fewer replicas are in sync than are assigned."""
        return len(self.isr) < len(self.replicas)


class Topic(NamedTuple):
    """A topic. id: base64, as Kafka prints it; configs: the values that differ from Kafka's defaults, empty until
    `with_configs` sets them; None for a value that brokers do not show."""

    name: str
    id: str
    is_internal: bool
    partitions: tuple[Partition, ...]
    configs: Mapping[str, str | None] = {}

    @property
    def replication_factor(self) -> int:
        """The number of replicas of the first partition, as kafka-topics prints it."""
        return len(self.partitions[0].replicas) if self.partitions else 0


class Broker(NamedTuple):
    """A broker's id, host, port and rack (None without a rack), as in responses to clients."""

    id: int
    host: str
    port: int
    rack: str | None


class Cluster(NamedTuple):
    """The cluster as one broker describes it. id: None if the broker's response has none. controller: with KRaft this
    is any broker, since brokers forward requests to the controller; None if the broker knows none. details: see
    wire.Details."""

    id: str | None
    controller: int | None
    brokers: tuple[Broker, ...]
    details: Details


class Admin:
    """The admin client. A method that takes several topics yields a KcliError in place of a topic that failed."""

    def __init__(self, connection: Connection) -> None:
        """Read the names of the cluster's topics. Raises UsageError, Unreachable."""
        self._connection = connection
        self._client = connection.admin()
        self._timeout_s = connection.timeout_s
        self._metadata = connection.metadata(self._client)

    def names(self) -> list[str]:
        """The names of all topics, sorted."""
        return sorted(self._metadata.topics)

    def describe(self, names: Iterable[str]) -> Iterator[Topic | KcliError]:
        """Yield each topic with its partitions, in the order of `names`, or a KcliError."""
        topics = list(names)
        if not topics:
            return
        found = self._client.describe_topics(TopicCollection(topics), request_timeout=self._timeout_s)
        for name in topics:
            try:
                described = self._answer(found[name], name)
            except KcliError as error:
                yield error
            else:
                partitions = (
                    Partition(
                        each.id,
                        each.leader.id if each.leader is not None and each.leader.id >= 0 else None,
                        tuple(node.id for node in each.replicas),
                        tuple(node.id for node in each.isr),
                    )
                    for each in described.partitions
                )
                yield Topic(described.name, _uuid_text(described.topic_id), described.is_internal, tuple(partitions))

    def with_configs(self, topics: Sequence[Topic], *, of_files: bool = True) -> list[Topic]:
        """Return the topics with those of their configurations that differ from Kafka's defaults. of_files: also those
        that brokers have in their files (server.properties). Raises Refused, Unreachable."""
        resources = [ConfigResource(ResourceType.TOPIC, topic.name) for topic in topics]
        if not resources:
            return []
        found = self._client.describe_configs(resources, request_timeout=self._timeout_s)
        by_name = {resource.name: self._answer(future, resource.name) for resource, future in found.items()}
        return [topic._replace(configs=_set(by_name[topic.name], of_files=of_files)) for topic in topics]

    def with_offsets(self, topics: Sequence[Topic]) -> list[Topic]:
        """Return the topics with the log start offset and the high watermark of each partition; both stay None for a
        partition without a leader. Raises Refused, Unreachable."""
        led = [
            confluent_kafka.TopicPartition(topic.name, each.number)
            for topic in topics
            for each in topic.partitions
            if each.leader is not None
        ]
        if not led:
            return list(topics)
        starts, ends = (self._offsets(led, spec) for spec in (EARLIEST, LATEST))
        return [
            topic._replace(
                partitions=tuple(
                    each._replace(
                        start_offset=starts.get(TopicPartition(topic.name, each.number)),
                        end_offset=ends.get(TopicPartition(topic.name, each.number)),
                    )
                    for each in topic.partitions
                )
            )
            for topic in topics
        ]

    def _offsets(self, places: list[confluent_kafka.TopicPartition], spec: OffsetSpec) -> dict[TopicPartition, int]:
        found = self._client.list_offsets(dict.fromkeys(places, spec), request_timeout=self._timeout_s)
        return {
            TopicPartition(place.topic, place.partition): self._answer(
                future, f"{place.topic}-{place.partition}"
            ).offset
            for place, future in found.items()
        }

    def create(
        self,
        names: Iterable[str],
        *,
        partitions: int | None,
        replication_factor: int | None,
        assignment: Assignment | None,
        configs: Mapping[str, str],
        validate_only: bool,
        if_not_exists: bool,
    ) -> Iterator[str | KcliError]:
        """Create topics. Yields the name of each topic created, or a KcliError in its place. partitions,
        replication_factor: None for the broker's default.

        assignment: instead of partitions and replication_factor. validate_only: only check whether the topics could be
        created. if_not_exists: a topic that exists is no error, and its name is yielded too.
        """
        if assignment is not None:
            sized: dict[str, Any] = {"num_partitions": len(assignment), "replica_assignment": assignment}
        else:
            sized = {"num_partitions": partitions or -1, "replication_factor": replication_factor or -1}
        yield from self._each(
            lambda: self._client.create_topics(
                [NewTopic(name, config=dict(configs), **sized) for name in names],
                validate_only=validate_only,
                request_timeout=self._timeout_s,
            ),
            passed_over=KafkaError.TOPIC_ALREADY_EXISTS if if_not_exists else None,
        )

    def delete(self, names: Iterable[str], *, if_exists: bool) -> Iterator[str | KcliError]:
        """Delete topics. Yields the name of each topic deleted, or a KcliError in its place. if_exists: a topic that
        does not exist is no error, and its name is yielded too."""
        topics = list(names)
        yield from self._each(
            lambda: self._client.delete_topics(topics, request_timeout=self._timeout_s),
            passed_over=KafkaError.UNKNOWN_TOPIC_OR_PART if if_exists else None,
        )

    def add_partitions(
        self, names: Iterable[str], total: int, assignment: Assignment | None, *, validate_only: bool, if_exists: bool
    ) -> Iterator[str | KcliError]:
        """Raise the number of partitions of topics to `total`. assignment: for each new partition, the broker ids of
        its replicas; None to let the controller choose them. validate_only: only check whether this could be done.
        if_exists: a topic that does not exist is no error, and its name is yielded too. Yields the name of each topic,
        or a KcliError in its place."""
        more: dict[str, Any] = {} if assignment is None else {"replica_assignment": assignment}
        yield from self._each(
            lambda: self._client.create_partitions(
                [NewPartitions(name, total, **more) for name in names],
                validate_only=validate_only,
                request_timeout=self._timeout_s,
            ),
            passed_over=KafkaError.UNKNOWN_TOPIC_OR_PART if if_exists else None,
        )

    def alter_configs(
        self, names: Iterable[str], configs: Mapping[str, str | None], *, validate_only: bool, if_exists: bool
    ) -> Iterator[str | KcliError]:
        """Set configurations of topics; a value of None deletes the topic's own value. validate_only: only check
        whether this could be done. if_exists: a topic that does not exist is no error. Yields the name of each topic,
        or a KcliError in its place."""
        entries = [
            ConfigEntry(
                name, value, incremental_operation=AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
            )
            for name, value in configs.items()
        ]
        resources = [ConfigResource(ResourceType.TOPIC, name, incremental_configs=entries) for name in names]
        yield from self._each(
            lambda: {
                resource.name: future
                for resource, future in self._client.incremental_alter_configs(
                    resources, validate_only=validate_only, request_timeout=self._timeout_s
                ).items()
            },
            passed_over=KafkaError.UNKNOWN_TOPIC_OR_PART if if_exists else None,
        )

    def cluster(self) -> Cluster:
        """Describe the cluster: its id, its brokers, its controller. Raises Refused, Unreachable."""
        described = self._answer(self._client.describe_cluster(request_timeout=self._timeout_s), "")
        brokers = sorted(Broker(node.id, node.host, node.port, node.rack) for node in described.nodes)
        controller = described.controller.id if described.controller is not None else None
        return Cluster(described.cluster_id, controller, tuple(brokers), self._details(brokers))

    def _details(self, brokers: Sequence[Broker]) -> Details:
        from kcli.client import wire

        # security() raises KcliError if kcli's own connections do not support the TLS or SASL of librdkafka's
        # connection
        with suppress(KcliError):
            security = self._connection.security()
            for broker in brokers:
                details = wire.details(wire.Server(broker.host, broker.port, self._timeout_s, security))
                if details.features is not None:
                    return details
        return wire.Details(None, None)

    def _each(
        self, order: Callable[[], Mapping[str, Future[Any]]], passed_over: int | None
    ) -> Iterator[str | KcliError]:
        try:
            futures = order()
        except KafkaException as error:
            raise Refused("", kafka_error(error)) from None
        # raised by confluent-kafka for arguments that it does not accept
        except (ValueError, TypeError, OverflowError) as error:
            raise UsageError(str(error)) from None
        for name, future in futures.items():
            try:
                self._answer(future, name, passed_over)
            except KcliError as error:
                yield error
            else:
                yield name

    def _answer(self, future: Future[Any], subject: str, passed_over: int | None = None) -> Any:
        try:
            return future.result()
        except KafkaException as error:
            found = kafka_error(error)
            if passed_over is not None and found.code() == passed_over:
                return None
            self._client.poll(0)
            raise (self._connection.unreachable() if found.code() in NOBODY else Refused(subject, found)) from None


def _set(configs: Mapping[str, ConfigEntry], *, of_files: bool) -> dict[str, str | None]:
    """Return the configurations of a topic that are not Kafka's defaults: those set for the topic, for the broker, for
    all brokers, or with `of_files` in server.properties."""
    left_out = None if of_files else ConfigSource.STATIC_BROKER_CONFIG
    return {
        name: entry.value
        for name, entry in sorted(configs.items())
        if not entry.is_default and ConfigSource(entry.source) is not left_out  # (it is a number)
    }


def _uuid_text(uuid: object) -> str:
    """Return a topic id as Kafka prints it: base64 with the alphabet for URLs."""
    return str(uuid).replace("+", "-").replace("/", "_")
