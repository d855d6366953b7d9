"""Groups: which there are, how far they are, and where they shall go on.

A coordinator that is just moving, or that has not loaded its groups yet, is asked again until it answers. Offsets are
only asked for once it has told of the group: librdkafka does not survive it when offsets are asked of a broker that is
no coordinator (https://github.com/confluentinc/librdkafka/issues/5040).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from enum import Enum
from typing import Any

from confluent_kafka import (
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    KafkaError,
    KafkaException,
    Node,
    TopicPartition,
)
from confluent_kafka.admin import ConsumerGroupDescription, MemberDescription, OffsetSpec

from kcli.client import wire
from kcli.client.admin import EARLIEST, LATEST
from kcli.client.connection import NOBODY, Connection, Refused, kafka_error
from kcli.errors import KcliError
from kcli.group_view import Committed, Group, Listing, Member, NoSuchGroup, Place

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
    """Asks coordinators; of topics it knows what there was at the beginning.

    A method that takes several groups yields what went wrong with each as KcliError.

    trouble: what is damaged or could not be read; what a coordinator tells is whole.
    """

    trouble: Sequence[str | KcliError] = ()

    def __init__(self, connection: Connection) -> None:
        """Raises UsageError, Unreachable."""
        self._connection = connection
        self._client = connection.admin()
        self._timeout_s = connection.timeout_s
        self._topics = connection.metadata(self._client).topics

    def all(self) -> Iterator[Listing | KcliError]:
        """All groups of consumers, by name, and brokers that do not tell theirs."""
        found = self._asked("", lambda: self._client.list_consumer_groups(request_timeout=self._timeout_s))
        yield from sorted(
            Listing(each.group_id, _name(TYPES, each.type), _name(STATES, each.state)) for each in found.valid
        )
        for error in found.errors:
            yield Refused("", kafka_error(error))

    def describe(self, names: Iterable[str]) -> Iterator[Group | KcliError]:
        """Groups, in the order given, or why not."""
        for name in names:
            try:
                group = self.group(name)
            except KcliError as error:
                yield error
            else:
                yield NoSuchGroup(name) if group.state == "Dead" else group

    def group(self, name: str) -> Group:
        """A group; one that is not there is Dead. Raises Refused, Unreachable."""
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
        """What librdkafka does not tell of a consumer group; None where it cannot be asked."""
        try:
            server = wire.Server(node.host, node.port, self._timeout_s, self._connection.security())
            return wire.group_epochs(server, name)
        except (KcliError, OSError, wire.NoAnswer):
            return None

    def committed(self, group: str) -> dict[Place, Committed]:
        """The offsets of a group that `group` or `describe` has just told of. Raises Refused, Unreachable."""
        asked = [ConsumerGroupTopicPartitions(group)]
        found = self._asked(
            group, lambda: self._client.list_consumer_group_offsets(asked, request_timeout=self._timeout_s)[group]
        )
        return {
            (each.topic, each.partition): Committed(each.offset, each.leader_epoch, _metadata(each))
            for each in found.topic_partitions
            if each.offset >= 0 and each.error is None
        }

    def partitions(self, topic: str) -> list[Place]:
        """All partitions of a topic. Raises Refused."""
        found = self._topics.get(topic)
        if found is None:
            raise Refused(topic, KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))
        return [(topic, number) for number in sorted(found.partitions)]

    def starts(self, places: Iterable[Place]) -> dict[Place, int]:
        """The first offsets of partitions, but for those that are not there or led by nobody. Raises Refused,
        Unreachable."""
        return self._offsets(places, EARLIEST)

    def ends(self, places: Iterable[Place]) -> dict[Place, int]:
        """Likewise the offsets behind the last."""
        return self._offsets(places, LATEST)

    def at(self, places: Iterable[Place], time_ms: int) -> dict[Place, int]:
        """Likewise the first offsets whose record is of that time (epoch ms) or later: -1 where there is none."""
        return self._offsets(places, OffsetSpec.for_timestamp(max(time_ms, 0)))  # those below 0 mean something else

    def _offsets(self, places: Iterable[Place], spec: OffsetSpec) -> dict[Place, int]:
        asked = {TopicPartition(*place): spec for place in places if self._is_there(*place)}
        if not asked:
            return {}
        offsets = {}
        for place, future in self._client.list_offsets(asked, request_timeout=self._timeout_s).items():
            try:
                offsets[place.topic, place.partition] = future.result().offset
            except KafkaException as error:
                raise self._failure(f"{place.topic}-{place.partition}", kafka_error(error)) from None
        return offsets

    def _is_there(self, topic: str, number: int) -> bool:
        known = self._topics[topic].partitions if topic in self._topics else {}
        return number in known and known[number].leader >= 0

    def commit(self, group: str, offsets: Mapping[Place, int]) -> Iterator[Place | KcliError]:
        """Set offsets of a group that has no members. Yields the partitions where that was done."""
        wanted = [TopicPartition(*place, offset) for place, offset in offsets.items()]
        asked = [ConsumerGroupTopicPartitions(group, wanted)]
        try:
            found = self._asked(
                group, lambda: self._client.alter_consumer_group_offsets(asked, request_timeout=self._timeout_s)[group]
            )
        except KcliError as error:
            yield error
            return
        for each in found.topic_partitions:
            if each.error is not None:
                yield Refused(f"{group}: {each.topic}-{each.partition}", each.error)
            else:
                yield each.topic, each.partition

    def delete(self, names: Iterable[str]) -> Iterator[str | KcliError]:
        """Delete groups without members, with their offsets. Yields the names deleted."""
        for name in names:
            try:
                self._delete(name)
            except KcliError as error:
                yield error
            else:
                yield name

    def _delete(self, name: str) -> None:
        self._asked(name, lambda: self._client.delete_consumer_groups([name], request_timeout=self._timeout_s)[name])

    def delete_offsets(self, group: str, places: Iterable[Place]) -> Iterator[Place | KcliError]:
        """Make a group forget offsets of topics that no member of it reads. Yields the partitions where that was done.

        librdkafka's Python face does not have it: see wire. Raises KcliError: the cluster wants TLS or SASL that is not
        spoken there.
        """
        security = self._connection.security()
        node: Node | None = self._described(group).coordinator
        if node is None:
            raise Refused(group, KafkaError(KafkaError.COORDINATOR_NOT_AVAILABLE))
        try:
            server = wire.Server(node.host, node.port, self._timeout_s, security)
            error, errors = wire.delete_offsets(server, group, places)
        except (OSError, wire.NoAnswer) as failure:
            raise KcliError(f"{node.host}:{node.port}: no answer: {failure}") from None
        if error:
            raise Refused(group, KafkaError(error.value))
        for (topic, number), code in sorted(errors.items()):
            if code:
                yield Refused(f"{group}: {topic}-{number}", KafkaError(code.value))
            else:
                yield topic, number

    def _described(self, name: str) -> ConsumerGroupDescription:
        found: ConsumerGroupDescription = self._asked(
            name, lambda: self._client.describe_consumer_groups([name], request_timeout=self._timeout_s)[name]
        )
        return found

    def _asked(self, what: str, ask: Callable[[], Future[Any]]) -> Any:
        deadline = time.monotonic() + self._timeout_s
        while True:
            try:
                return ask().result()
            except KafkaException as error:
                found = kafka_error(error)
                if found.code() not in NOT_READY or time.monotonic() >= deadline:
                    raise self._failure(what, found) from None
                time.sleep(0.1)

    def _failure(self, what: str, error: KafkaError) -> KcliError:
        self._client.poll(0)
        return self._connection.unreachable() if error.code() in NOBODY else Refused(what, error)


def _metadata(told: TopicPartition) -> str:
    """What came with an offset. confluent-kafka 2.16 reads on to the next zero, which may be behind it."""
    try:
        return told.metadata or ""
    except UnicodeDecodeError as error:
        return error.object[: error.start].decode()


def _name(names: dict[Enum, str], value: Enum) -> str:
    """What Kafka calls it; the library knows neither all states nor all types."""
    return names.get(value, "Unknown")


def _member(told: MemberDescription, epoch: int | None) -> Member:
    return Member(
        told.member_id,
        told.group_instance_id or None,
        told.client_id,
        told.host,
        _places(told.assignment.topic_partitions),
        None if told.target_assignment is None else _places(told.target_assignment.topic_partitions),
        epoch,
    )


def _places(partitions: Iterable[TopicPartition]) -> tuple[Place, ...]:
    return tuple(sorted((each.topic, each.partition) for each in partitions))
