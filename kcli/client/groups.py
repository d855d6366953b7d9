"""Lists and describes groups; reads, sets and deletes their committed offsets.

Requests to a coordinator that is moving, or still loading its groups, are retried until it answers. OffsetFetch is sent
only after the coordinator has described the group: librdkafka crashes when a broker that is no coordinator answers
OffsetFetch (https://github.com/confluentinc/librdkafka/issues/5040).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from enum import Enum
from typing import Any

import confluent_kafka
from confluent_kafka import (
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    KafkaError,
    KafkaException,
    Node,
)
from confluent_kafka.admin import ConsumerGroupDescription, MemberDescription, OffsetSpec

from kcli.client import wire
from kcli.client.admin import EARLIEST, LATEST
from kcli.client.connection import NOBODY, Connection, Refused, kafka_error
from kcli.errors import KcliError
from kcli.protocol.topic_partition import TopicPartition
from kcli.views.groups import Committed, Group, Listing, Member, NoSuchGroup

STATES: dict[Enum, str] = {
    ConsumerGroupState.PREPARING_REBALANCING: "PreparingRebalance",
    ConsumerGroupState.COMPLETING_REBALANCING: "CompletingRebalance",
    ConsumerGroupState.STABLE: "Stable",
    ConsumerGroupState.DEAD: "Dead",
    ConsumerGroupState.EMPTY: "Empty",
}
TYPES: dict[Enum, str] = {
    ConsumerGroupType.CLASSIC: "Classic",
    ConsumerGroupType.CONSUMER: "Consumer",
}
NOT_READY = {
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
}


class Groups:
    """Groups of a cluster, as their coordinators describe them. The cluster's topics are read once, at construction.

    A method that takes several groups yields a KcliError in place of each group that failed.

    trouble: always empty. kcli.inspector.groups has the same interface, and lists in its `trouble` the parts of a log
    directory that cannot be read.
    """

    trouble: Sequence[str | KcliError] = ()

    def __init__(self, connection: Connection) -> None:
        """Read the cluster's topics. Raises UsageError, Unreachable."""
        self._connection = connection
        self._client = connection.admin()
        self._timeout_s = connection.timeout_s
        self._topics = connection.metadata(self._client).topics

    def all(self) -> Iterator[Listing | KcliError]:
        """Yield all consumer groups, sorted by name, and a KcliError for each broker that fails to list its groups."""
        found = self._result("", lambda: self._client.list_consumer_groups(request_timeout=self._timeout_s))
        yield from sorted(
            Listing(each.group_id, _name(TYPES, each.type), _name(STATES, each.state)) for each in found.valid
        )
        for error in found.errors:
            yield Refused("", kafka_error(error))

    def describe(self, names: Iterable[str]) -> Iterator[Group | KcliError]:
        """Yield each group, in the order of `names`, or a KcliError."""
        for name in names:
            try:
                group = self.group(name)
            except KcliError as error:
                yield error
            else:
                yield NoSuchGroup(name) if group.state == "Dead" else group

    def group(self, name: str) -> Group:
        """Describe a group; an unknown group has the state Dead. Raises Refused, Unreachable."""
        found = self._described(name)
        node: Node | None = found.coordinator
        epochs = self._epochs(name, node) if found.type is ConsumerGroupType.CONSUMER and node is not None else None
        by_member = {} if epochs is None else epochs.members
        return Group(
            name,
            _name(TYPES, found.type),
            _name(STATES, found.state) if epochs is None else epochs.state,
            found.partition_assignor or None,
            f"{node.host}:{node.port} ({node.id})" if node is not None else None,
            tuple(_member(each, by_member.get(each.member_id)) for each in found.members),
            None if epochs is None else epochs.group,
            None if epochs is None else epochs.assignment,
        )

    def _epochs(self, name: str, node: Node) -> wire.GroupEpochs | None:
        """Return the epochs of a consumer group (KIP-848), which librdkafka does not return; None if they cannot be
        read: the coordinator returns an error or does not answer, or kcli.client.wire does not support the connection's
        security."""
        try:
            server = wire.Server(node.host, node.port, self._timeout_s, self._connection.security())
            return wire.group_epochs(server, name)
        except (KcliError, OSError, wire.NoAnswer):
            return None

    def committed(self, group: str) -> dict[TopicPartition, Committed]:
        """Return the committed offsets of a group; a partition without one is left out. The caller must have called
        `group` or `describe` for the group just before. Raises Refused, Unreachable."""
        requested = [ConsumerGroupTopicPartitions(group)]
        found = self._result(
            group, lambda: self._client.list_consumer_group_offsets(requested, request_timeout=self._timeout_s)[group]
        )
        return {
            TopicPartition(each.topic, each.partition): Committed(each.offset, each.leader_epoch, _metadata(each))
            for each in found.topic_partitions
            if each.offset >= 0 and each.error is None
        }

    def partitions(self, topic: str) -> list[TopicPartition]:
        """Return all partitions of a topic. Raises Refused if there is no such topic."""
        found = self._topics.get(topic)
        if found is None:
            raise Refused(topic, KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))
        return [TopicPartition(topic, number) for number in sorted(found.partitions)]

    def starts(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the log start offset of each partition that exists and has a leader. Raises Refused, Unreachable."""
        return self._offsets(places, EARLIEST)

    def ends(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the high watermark of each partition that exists and has a leader. Raises Refused, Unreachable."""
        return self._offsets(places, LATEST)

    def at(self, places: Iterable[TopicPartition], time_ms: int) -> dict[TopicPartition, int]:
        """Return, for each partition that exists and has a leader, the first offset with a timestamp of `time_ms`
        (epoch ms) or later; -1 if the partition has no such offset. Raises Refused, Unreachable."""
        # ListOffsets takes the negative times -1 to -5 for other queries
        return self._offsets(places, OffsetSpec.for_timestamp(max(time_ms, 0)))

    def _offsets(self, places: Iterable[TopicPartition], spec: OffsetSpec) -> dict[TopicPartition, int]:
        requested = {confluent_kafka.TopicPartition(*place): spec for place in places if self._has_leader(*place)}
        if not requested:
            return {}
        offsets: dict[TopicPartition, int] = {}
        for place, future in self._client.list_offsets(requested, request_timeout=self._timeout_s).items():
            try:
                offsets[TopicPartition(place.topic, place.partition)] = future.result().offset
            except KafkaException as error:
                raise self._failure(f"{place.topic}-{place.partition}", kafka_error(error)) from None
        return offsets

    def _has_leader(self, topic: str, number: int) -> bool:
        known = self._topics[topic].partitions if topic in self._topics else {}
        return number in known and known[number].leader >= 0

    def commit(self, group: str, offsets: Mapping[TopicPartition, int]) -> Iterator[TopicPartition | KcliError]:
        """Set committed offsets of a group without members. Yields each partition whose offset was set, or a
        KcliError."""
        partitions = [confluent_kafka.TopicPartition(*place, offset) for place, offset in offsets.items()]
        places = [ConsumerGroupTopicPartitions(group, partitions)]
        try:
            found = self._result(
                group, lambda: self._client.alter_consumer_group_offsets(places, request_timeout=self._timeout_s)[group]
            )
        except KcliError as error:
            yield error
            return
        for each in found.topic_partitions:
            if each.error is not None:
                yield Refused(f"{group}: {each.topic}-{each.partition}", each.error)
            else:
                yield TopicPartition(each.topic, each.partition)

    def delete(self, names: Iterable[str]) -> Iterator[str | KcliError]:
        """Delete groups without members, with their offsets. Yields each name deleted, or a KcliError."""
        for name in names:
            try:
                self._delete(name)
            except KcliError as error:
                yield error
            else:
                yield name

    def _delete(self, name: str) -> None:
        self._result(name, lambda: self._client.delete_consumer_groups([name], request_timeout=self._timeout_s)[name])

    def delete_offsets(self, group: str, places: Iterable[TopicPartition]) -> Iterator[TopicPartition | KcliError]:
        """Delete committed offsets of topics to which no member of the group is subscribed. Yields each partition whose
        offset was deleted, or a KcliError.

        The request is sent by `wire`, since confluent-kafka lacks OffsetDelete. Raises KcliError if the cluster
        requires TLS or SASL that `wire` does not support.
        """
        security = self._connection.security()
        node: Node | None = self._described(group).coordinator
        if node is None:
            raise Refused(group, KafkaError(KafkaError.COORDINATOR_NOT_AVAILABLE))
        try:
            server = wire.Server(node.host, node.port, self._timeout_s, security)
            error, errors = wire.delete_offsets(server, group, places)
        except (OSError, wire.NoAnswer) as failure:
            raise KcliError(f"{node.host}:{node.port}: no answer: {wire.failure_reason(failure)}") from None
        if error:
            raise Refused(group, KafkaError(error.value))
        for (topic, number), code in sorted(errors.items()):
            if code:
                yield Refused(f"{group}: {topic}-{number}", KafkaError(code.value))
            else:
                yield TopicPartition(topic, number)

    def _described(self, name: str) -> ConsumerGroupDescription:
        found: ConsumerGroupDescription = self._result(
            name, lambda: self._client.describe_consumer_groups([name], request_timeout=self._timeout_s)[name]
        )
        return found

    def _result(self, subject: str, send: Callable[[], Future[Any]]) -> Any:
        deadline = time.monotonic() + self._timeout_s
        while True:
            try:
                return send().result()
            except KafkaException as error:
                found = kafka_error(error)
                if found.code() not in NOT_READY or time.monotonic() >= deadline:
                    raise self._failure(subject, found) from None
                time.sleep(0.1)

    def _failure(self, subject: str, error: KafkaError) -> KcliError:
        self._client.poll(0)
        return self._connection.unreachable() if error.code() in NOBODY else Refused(subject, error)


def _metadata(described: confluent_kafka.TopicPartition) -> str:
    """Return the metadata string of a committed offset. confluent-kafka 2.16 may append bytes that follow the string in
    memory. The result ends before the first byte that is not UTF-8."""
    try:
        return described.metadata or ""
    except UnicodeDecodeError as error:
        return error.object[: error.start].decode()


def _name(names: dict[Enum, str], value: Enum) -> str:
    """Return Kafka's name of a group's state or type; "Unknown" for a value that `names` lacks."""
    return names.get(value, "Unknown")


def _member(described: MemberDescription, epoch: int | None) -> Member:
    return Member(
        described.member_id,
        described.group_instance_id or None,
        described.client_id,
        described.host,
        _places(described.assignment.topic_partitions),
        None if described.target_assignment is None else _places(described.target_assignment.topic_partitions),
        epoch,
    )


def _places(partitions: Iterable[confluent_kafka.TopicPartition]) -> tuple[TopicPartition, ...]:
    return tuple(sorted(TopicPartition(each.topic, each.partition) for each in partitions))
