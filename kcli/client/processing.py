"""The clients of a program that processes records and can go on exactly where it stopped.

    ProcessingMember  a member of a group, which reads partitions of its own choice from offsets of its own choice
    GroupView         what the group has assigned to all of its members
    EndsView          where partitions end
    Output            a producer, whose records and the group's offsets are committed in one transaction
    PartitionReader   whole partitions, from their first record on, to their ends and beyond

The group assigns partitions of the topics to which the member subscribes (cooperative-sticky, KIP-429); the member
reads what its owner adds. Source: the guarantees exactly_once_v2 and at_least_once of Kafka Streams; KIP-447.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

import confluent_kafka
from confluent_kafka import OFFSET_BEGINNING, ConsumerGroupState, KafkaError, KafkaException, Message, murmur2
from confluent_kafka.admin import AdminClient, ConsumerGroupDescription

from kcli.client.admin import LATEST
from kcli.client.connection import PARTITION_EOF, Connection, Refused, kafka_error
from kcli.client.producing_transaction import GROUP, RETRIED
from kcli.client.wire import AnyBroker, ErrorAnswer, NoAnswer, NobodyAnswers, Server, call
from kcli.errors import KcliError
from kcli.protocol.error_code import ErrorCode
from kcli.protocol.topic_partition import TopicPartition

# isort: split
from kio.schema.find_coordinator.v4.request import FindCoordinatorRequest
from kio.schema.find_coordinator.v4.response import FindCoordinatorResponse
from kio.schema.offset_fetch.v8.request import OffsetFetchRequest, OffsetFetchRequestGroup
from kio.schema.offset_fetch.v8.response import OffsetFetchResponse
from kio.schema.types import GroupId
from kio.static.primitive import i8

CHUNK = 1000
NO_TIMESTAMP = -1
TRANSACTION_TIMEOUT_MS = 10_000
CALL_S = 5.0
RECONNECTS: dict[str, Any] = {"reconnect.backoff.max.ms": 1000, "metadata.recovery.strategy": "none"}
"""A broker that is back is asked again within a second; librdkafka's default is ten. Its default strategy, to begin
again with the bootstrap servers, can leave send_offsets_to_transaction without an end."""
ACCEPTED_LAG_S = 30.0
REFUSALS = {
    KafkaError.MSG_SIZE_TOO_LARGE,
    KafkaError.INVALID_RECORD,
    KafkaError.INVALID_TIMESTAMP,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.POLICY_VIOLATION,
    KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001 (the client's own errors have such names)
    KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001
}
"""Errors of a record that another try does not mend."""

Fetched = tuple[str, int, int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]
"""A record: topic, partition, offset, timestamp in milliseconds (-1 for none), key, value, headers."""

S = TypeVar(
    "S",
    bound=tuple[str, bytes | None, bytes | None, int, tuple[tuple[str, bytes | None], ...], int | None, bytes | None],
)
"""A record to send: topic, key, value, timestamp in milliseconds, headers, partition, hashed. partition: None if
`hashed`, a part of the key, decides it as Java's producer has it."""

AUTO_OFFSET_RESET = KafkaError._AUTO_OFFSET_RESET  # noqa: SLF001 (librdkafka's own codes have no public name)

GroupOffsets = dict[TopicPartition, tuple[int, str]]
"""Committed offsets, each with its metadata."""

Moved = Callable[[list[TopicPartition]], None]


class Undone(KcliError):
    """A transaction that cannot be committed: what was sent since the last commit is undone."""


class OutOfRange(KcliError):
    """A partition has lost the records that come next for a reader: its first ones, or those behind its new end. place:
    the partition."""

    def __init__(self, place: TopicPartition) -> None:
        super().__init__(f"{place.topic}, partition {place.partition} has lost records while it was read")
        self.place = place


class RecordRefused(Refused):
    """A record that the brokers do not take, however often it is sent. topic: where it was to go."""

    def __init__(self, topic: str, error: KafkaError) -> None:
        super().__init__(topic, error)
        self.topic = topic


class ProcessingMember:
    """A member of a group. assigned, revoked, lost: called with partitions that the group has given to the member, that
    it takes back, or that it has taken back without a chance to commit."""

    def __init__(
        self,
        connection: Connection,
        group: str,
        topics: Sequence[str],
        *,
        committed_only: bool,
        assigned: Moved,
        revoked: Moved,
        lost: Moved,
    ) -> None:
        self._connection, self._group = connection, group
        self._failure: KcliError | None = None
        self.consumer = connection.consumer(
            {
                "group.id": group,
                "partition.assignment.strategy": "cooperative-sticky",
                "auto.offset.reset": "earliest",
                "enable.auto.offset.store": False,
                "enable.partition.eof": True,
                "isolation.level": _isolation(committed_only),
                "fetch.wait.max.ms": 100,
                **RECONNECTS,
            }
        )
        self.consumer.subscribe(
            list(topics),
            on_assign=self._calls(assigned, self.consumer.incremental_assign),
            on_revoke=self._calls(revoked, self.consumer.incremental_unassign),
            on_lost=self._calls(lost, self.consumer.incremental_unassign),
        )

    @property
    def id(self) -> str | None:
        """The id that the group has given to this member; None if it has given none yet."""
        return self.consumer.memberid() or None

    def poll(self, timeout_s: float) -> tuple[list[Fetched], list[tuple[TopicPartition, int]]]:
        """Return records, and the partitions that were read to their ends with the offset of their next record. Waits
        for `timeout_s` if there is nothing. Raises Unreachable, Refused, KcliError; and what a callback has raised."""
        records, ends, _ = _poll(self._connection, self.consumer, timeout_s)
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        return records, ends

    def committed(self, places: Iterable[TopicPartition]) -> GroupOffsets | None:
        """Return the group's offsets with their metadata, without partitions that have none; None if the answer has to
        be waited for, as while a transaction is open that commits one. Raises ErrorAnswer, KcliError."""
        return group_offsets(self._connection, self._group, stable=True, places=set(places))

    def read(self, offsets: Mapping[TopicPartition, int | None]) -> None:
        """Read partitions, each from an offset, or from its first record on (None)."""
        self.consumer.incremental_assign(
            [
                confluent_kafka.TopicPartition(*place, OFFSET_BEGINNING if offset is None else offset)
                for place, offset in offsets.items()
            ]
        )

    def leave(self, places: Iterable[TopicPartition]) -> None:
        """Read partitions no more."""
        self.consumer.incremental_unassign([confluent_kafka.TopicPartition(*place) for place in places])

    def pause(self, place: TopicPartition) -> None:
        """Return no more records of a partition until `resume`."""
        self.consumer.pause([confluent_kafka.TopicPartition(*place)])

    def resume(self, place: TopicPartition) -> None:
        """Return records of a partition again."""
        self.consumer.resume([confluent_kafka.TopicPartition(*place)])

    def close(self) -> None:
        """Leave the group."""
        self.consumer.close()

    def _calls(self, moved: Moved, answer: Callable[[list[Any]], None]) -> Callable[[Any, list[Any]], None]:
        """Return a callback for librdkafka, which waits for an assignment as the answer: an empty one, as the owner
        adds and removes partitions by itself."""

        def call(_consumer: object, partitions: list[Any]) -> None:
            try:
                moved([TopicPartition(each.topic, each.partition) for each in partitions])
            except KcliError as error:
                self._failure = error
            answer([])

        return call


class GroupView:
    """What a group has assigned to its members, asked for in intervals without waiting for the answers. client: must
    live on."""

    def __init__(self, client: AdminClient, group: str, *, interval_s: float, timeout_s: float) -> None:
        self._client, self._group = client, group
        self._interval_s, self._timeout_s = interval_s, timeout_s
        self._asked: Future[ConsumerGroupDescription] | None = None
        self._next_s = 0.0

    def ask_soon(self) -> None:
        """Ask with the next call of `look`: the assignment has changed."""
        self._next_s = 0.0

    def look(self) -> dict[str, frozenset[TopicPartition]] | None:
        """Return the partitions of each member by its id, if there is a new answer and no rebalance is under way; else
        None."""
        if self._asked is None:
            if time.monotonic() >= self._next_s:
                self._next_s = time.monotonic() + self._interval_s
                asked = self._client.describe_consumer_groups([self._group], request_timeout=self._timeout_s)
                self._asked = asked[self._group]
            return None
        if not self._asked.done():
            return None
        answered, self._asked = self._asked, None
        try:
            found = answered.result()
        except KafkaException:  # asked again after the interval
            return None
        if found.state is not ConsumerGroupState.STABLE:
            return None
        return {
            each.member_id: frozenset(
                TopicPartition(place.topic, place.partition) for place in each.assignment.topic_partitions
            )
            for each in found.members
        }


class EndsView:
    """The ends of partitions, asked for without waiting for the answers. client: must live on."""

    def __init__(self, client: AdminClient, *, timeout_s: float) -> None:
        self._client, self._timeout_s = client, timeout_s
        self._asked: dict[Any, Future[Any]] = {}

    @property
    def is_asking(self) -> bool:
        """Whether answers are outstanding."""
        return bool(self._asked)

    def ask(self, places: Iterable[TopicPartition]) -> None:
        """Ask for the ends of partitions."""
        asked = {confluent_kafka.TopicPartition(*place): LATEST for place in places}
        if asked:
            self._asked = self._client.list_offsets(asked, request_timeout=self._timeout_s)

    def answers(self, *, wait: bool = False) -> dict[TopicPartition, int]:
        """Return the ends if all answers are there, or with `wait` when they are; else nothing. Partitions that cannot
        be asked are left out."""
        if not wait and not all(future.done() for future in self._asked.values()):
            return {}
        found: dict[TopicPartition, int] = {}
        for place, future in self._asked.items():
            with suppress(KafkaException):  # such a partition is asked for again with the next
                found[TopicPartition(place.topic, place.partition)] = future.result().offset
        self._asked = {}
        return found


class Output:
    """Sends records, and commits them together with offsets of a group. transactional_id: None to commit records first
    and then offsets, without a transaction."""

    def __init__(self, connection: Connection, transactional_id: str | None) -> None:
        self._connection, self._id = connection, transactional_id
        self._partitions: dict[str, int] = {}
        self._failure: KafkaError | None = None
        self._refused: RecordRefused | None = None
        self._is_open = False
        self._on_delivery = self._delivered
        self._producer = self._new_producer()

    def send(self, records: Sequence[S], refused: Callable[[S, RecordRefused], None]) -> None:
        """Send records. refused: called with one that cannot be sent, and the error; what it raises ends the call.
        Raises Undone, Refused, Unreachable."""
        if records and self._id is not None and not self._is_open:
            self._in_transaction(self._producer.begin_transaction)
            self._is_open = True
        produce, delivered = self._producer.produce, self._on_delivery
        for record in records:
            topic, key, value, timestamp, headers, partition, hashed = record
            if partition is None:
                partition = -1 if hashed is None or hashed is key else self._partition_of(topic, hashed)
            shown = list(headers) if headers else None
            while True:
                try:
                    # Arguments by their places take half the time. The sixth is another name of the fifth.
                    produce(topic, value, key, partition, delivered, None, timestamp, shown)
                except BufferError:
                    self._producer.poll(0.1)
                except KafkaException as error:
                    if kafka_error(error).code() not in REFUSALS:
                        raise self._undone(kafka_error(error), topic) from None
                    refused(record, RecordRefused(topic, kafka_error(error)))
                    break
                else:
                    break
        self._producer.poll(0)

    def commit(self, offsets: Mapping[TopicPartition, tuple[int, str]], member: ProcessingMember) -> None:
        """Commit what was sent since the last commit, and offsets with their metadata. Raises Undone if neither was
        committed, RecordRefused if a record was not taken: without transactions the next call commits the others;
        KcliError."""
        places = [
            confluent_kafka.TopicPartition(*place, offset, metadata) for place, (offset, metadata) in offsets.items()
        ]
        if self._id is None:
            self._commit_without_transaction(places, member)
            return
        if not self._is_open:
            self._in_transaction(self._producer.begin_transaction)
            self._is_open = True
        group = member.consumer.consumer_group_metadata()
        self._in_transaction(self._producer.send_offsets_to_transaction, places, group)
        self._in_transaction(self._producer.commit_transaction)
        self._is_open = False

    def abort(self) -> None:
        """Undo what was sent since the last commit."""
        self._failure = self._refused = None
        if not self._is_open:
            return
        self._is_open = False
        try:
            self._in_transaction(self._producer.abort_transaction)
        except Undone:  # the producer was fenced, or its transaction has taken too long: a new one ends it
            self._producer = self._new_producer()

    def flush(self) -> None:
        """Wait until all records are sent. Raises RecordRefused for one that was not taken."""
        self._producer.flush(self._connection.timeout_s)
        self._raise_refusal()

    def close(self) -> None:
        """End; what was not committed is undone."""
        with suppress(KcliError):
            self.abort()

    def _commit_without_transaction(self, places: list[Any], member: ProcessingMember) -> None:
        self.flush()
        if self._failure is not None or len(self._producer):
            raise self._undone(self._failure, "")
        try:
            results = member.consumer.commit(offsets=places, asynchronous=False) or []
        except KafkaException as error:
            raise self._undone(kafka_error(error), "") from None
        for each in results:
            if each.error is not None:
                raise self._undone(each.error, f"{each.topic}-{each.partition}")

    def _new_producer(self) -> Any:
        settings: dict[str, Any] = {
            "enable.idempotence": True,
            "delivery.report.only.error": True,
            "partitioner": "murmur2_random",
            "linger.ms": 5,
            "queue.buffering.max.kbytes": 262_144,
            **RECONNECTS,
        }
        if self._id is not None:
            settings |= {"transactional.id": self._id, "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS}
        producer = self._connection.producer(settings)
        if self._id is not None:
            self._connection.metadata(producer)
            self._in_transaction(producer.init_transactions)
        return producer

    def _in_transaction(self, call: Callable[..., Any], *arguments: Any) -> None:
        """Make a call of librdkafka's producer; repeat it after a temporary error, until the transaction is too old.
        Raises Undone."""
        deadline = time.monotonic() + TRANSACTION_TIMEOUT_MS / 1000
        while True:
            try:
                call(*arguments, *([] if call.__name__ == "begin_transaction" else [CALL_S]))
            except KafkaException as error:
                self._raise_refusal()
                if not kafka_error(error).retriable() or time.monotonic() > deadline:
                    raise self._undone(kafka_error(error), "") from None
            else:
                return

    def _undone(self, error: KafkaError | None, subject: str) -> Undone:
        """Return the error for what was sent since the last commit."""
        return Undone("records were not delivered in time" if error is None else str(Refused(subject, error)))

    def _raise_refusal(self) -> None:
        refused, self._refused = self._refused, None
        if refused is not None:
            raise refused

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            return
        if error.code() in REFUSALS:
            self._refused = RecordRefused(message.topic() or "", error)
        else:
            self._failure = error

    def _partition_of(self, topic: str, hashed: bytes) -> int:
        if topic not in self._partitions:
            found = self._connection.metadata(self._producer, topic).topics[topic]
            if found.error is not None:
                raise Refused(topic, found.error)
            self._partitions[topic] = len(found.partitions)
        return murmur2(hashed, self._partitions[topic])


class PartitionReader:
    """Reads partitions from their first records on. A partition is done when it is read up to the end that it had when
    it was last added, open transactions included. One that loses records is out of range: it has to be removed."""

    def __init__(self, connection: Connection, *, committed_only: bool) -> None:
        self._connection = connection
        self._admin = connection.admin()
        self._consumer = connection.consumer(
            {
                "auto.offset.reset": "error",
                "enable.partition.eof": True,
                "isolation.level": _isolation(committed_only),
                "fetch.wait.max.ms": 100,
                **RECONNECTS,
            }
        )
        self._out_of_range: list[TopicPartition] = []
        self._ends: dict[TopicPartition, int] = {}
        self._positions: dict[TopicPartition, int] = {}

    def __contains__(self, place: TopicPartition) -> bool:
        return place in self._positions

    def add(self, places: Iterable[TopicPartition], begin: int | None = None) -> None:
        """Read partitions from an offset on, or from their first records (None); those that are read already go on, and
        get a new end. Raises Refused, Unreachable."""
        first = OFFSET_BEGINNING if begin is None else begin
        asked: list[Any] = [confluent_kafka.TopicPartition(*place, first) for place in places]
        self._ends |= self.ends(TopicPartition(each.topic, each.partition) for each in asked)
        new = [each for each in asked if (each.topic, each.partition) not in self._positions]
        self._positions |= {TopicPartition(each.topic, each.partition): begin or 0 for each in new}
        if new:
            self._consumer.incremental_assign(new)

    def ends(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the ends of partitions, open transactions included. Raises Refused, Unreachable."""
        asked = {confluent_kafka.TopicPartition(*place): LATEST for place in places}
        found: dict[TopicPartition, int] = {}
        answers = self._admin.list_offsets(asked, request_timeout=self._connection.timeout_s) if asked else {}
        for place, future in answers.items():
            try:
                found[TopicPartition(place.topic, place.partition)] = future.result().offset
            except KafkaException as error:
                raise Refused(f"{place.topic}-{place.partition}", kafka_error(error)) from None
        return found

    def remove(self, places: Iterable[TopicPartition]) -> None:
        """Read partitions no more."""
        known = [place for place in places if self._positions.pop(place, None) is not None]
        self._out_of_range = [place for place in self._out_of_range if place in self._positions]
        if known:
            self._consumer.incremental_unassign([confluent_kafka.TopicPartition(*place) for place in known])

    def poll(self, timeout_s: float) -> list[Fetched]:
        """Return records of the partitions. Raises OutOfRange, Refused, Unreachable, KcliError."""
        if self._out_of_range:
            raise OutOfRange(self._out_of_range[0])
        records, ends, self._out_of_range = _poll(self._connection, self._consumer, timeout_s)
        for place, offset in {(record[0], record[1]): record[2] + 1 for record in records}.items():
            self._reach(TopicPartition(*place), offset)
        for place, offset in ends:
            self._reach(place, offset)
        return records

    def is_done(self, place: TopicPartition) -> bool:
        """Whether the partition is read up to the end that it had."""
        return self._positions[place] >= self._ends[place]

    def close(self) -> None:
        """End."""
        self._consumer.close()

    def _reach(self, place: TopicPartition, offset: int) -> None:
        if place in self._positions:
            self._positions[place] = offset


def group_offsets(
    connection: Connection, group: str, *, stable: bool, places: Collection[TopicPartition] | None = None
) -> GroupOffsets | None:
    """Return the offsets of a group with their metadata, without partitions that have none; None if the answer has to
    be waited for. stable: wait for transactions that commit offsets. places: of these partitions; None for all. Raises
    ErrorAnswer, KcliError."""
    # confluent-kafka 2.16 may append bytes to a metadata string that follow it in memory
    request = OffsetFetchRequest(
        groups=(OffsetFetchRequestGroup(group_id=GroupId(group), topics=None),), require_stable=stable
    )
    try:
        (answer,) = call(_coordinator(connection, group), request, OffsetFetchResponse).groups
    except (OSError, NoAnswer, NobodyAnswers):
        return None
    found = {
        TopicPartition(topic.name, each.partition_index): each for topic in answer.topics for each in topic.partitions
    }
    asked = found if places is None else {place: found[place] for place in places if place in found}
    codes = {answer.error_code, *(each.error_code for each in asked.values())} - {ErrorCode.NONE}
    if codes & RETRIED:
        return None
    if codes:
        raise ErrorAnswer(f"group {group}", ErrorCode(codes.pop()), None)
    return {
        place: (each.committed_offset, each.metadata or "")
        for place, each in asked.items()
        if each.committed_offset >= 0
    }


def _coordinator(connection: Connection, group: str) -> Server:
    """Return the coordinator of a group. Raises NobodyAnswers, ErrorAnswer, KcliError."""
    brokers = AnyBroker(connection.bootstrap, connection.timeout_s, connection.security())
    request = FindCoordinatorRequest(key_type=i8(GROUP), coordinator_keys=(group,))
    (found,) = brokers.ask(lambda server: call(server, request, FindCoordinatorResponse)).coordinators
    if found.error_code != ErrorCode.NONE:
        raise NoAnswer(f"no coordinator of group {group}: {ErrorCode(found.error_code).name}")
    return brokers.server(found.host, found.port)


def delete_before(client: AdminClient, offsets: Mapping[TopicPartition, int]) -> None:
    """Have brokers delete the records of partitions below offsets; do not wait for it. client: must live on, or
    nothing is deleted."""
    if offsets:
        client.delete_records([confluent_kafka.TopicPartition(*place, offset) for place, offset in offsets.items()])


def _isolation(committed_only: bool) -> str:
    return "read_committed" if committed_only else "read_uncommitted"


def _poll(
    connection: Connection, consumer: Any, timeout_s: float
) -> tuple[list[Fetched], list[tuple[TopicPartition, int]], list[TopicPartition]]:
    """Return records, the partitions that were read to their ends with the offset of their next record, and those that
    are out of range."""
    messages = consumer.consume(CHUNK, 0)
    if not messages:
        first = consumer.poll(timeout_s)
        messages = [] if first is None else [first]
    records: list[Fetched] = []
    ends: list[tuple[TopicPartition, int]] = []
    out_of_range: list[TopicPartition] = []
    for message in messages:
        error = message.error()
        if error is None:
            records.append(_fetched(message))
        elif error.code() == PARTITION_EOF:
            ends.append((TopicPartition(message.topic(), message.partition()), message.offset()))
        elif error.code() == AUTO_OFFSET_RESET:
            out_of_range.append(TopicPartition(message.topic(), message.partition()))
        elif error.fatal() or not error.retriable():
            raise Refused(message.topic() or "", error)
    if messages:
        connection.trouble.down_since = None
    elif connection.trouble.down_for(ACCEPTED_LAG_S):
        connection.metadata(consumer)
    return records, ends, out_of_range


def _fetched(message: Message) -> Fetched:
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    assert topic is not None
    assert partition is not None
    assert offset is not None
    try:
        headers: Any = tuple(message.headers() or ())
    except UnicodeDecodeError:
        raise KcliError(f"{topic}, partition {partition}, offset {offset}: a header's name is not UTF-8") from None
    kind, timestamp = message.timestamp()
    return topic, partition, offset, timestamp if kind else NO_TIMESTAMP, message.key(), message.value(), headers
