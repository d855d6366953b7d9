"""Records of topics, read as a member of a group: rebalances move partitions, and the offsets of yielded records are
committed.

An offset is committed only after the caller has received its record and requested the next: a crash repeats records and
loses none. A commit that fails because the group has rebalanced is reported and not repeated: the partition belongs to
another member.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import confluent_kafka
from confluent_kafka import Consumer, KafkaError, KafkaException, Message

from kcli.client.connection import PARTITION_EOF, Connection, Refused, error_name, kafka_error
from kcli.client.consuming import CHUNK, WAIT_S, Record, record_of
from kcli.client.membership import Assignor, Commit, Membership, Protocol, Report, Reset
from kcli.errors import KcliError, UsageError
from kcli.protocol.topic_partition import TopicPartition

FATAL = KafkaError._FATAL  # noqa: SLF001 (so librdkafka names its own errors)
MAX_POLL_EXCEEDED = KafkaError._MAX_POLL_EXCEEDED  # noqa: SLF001 (librdkafka's own codes have no public name)
NOT_ASSIGNED = KafkaError._STATE  # noqa: SLF001 (librdkafka's own codes have no public name)
ASSIGNMENT_LOST = KafkaError._ASSIGNMENT_LOST  # noqa: SLF001 (librdkafka's own codes have no public name)
TOO_LATE = {
    ASSIGNMENT_LOST,
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError.STALE_MEMBER_EPOCH,
    KafkaError.UNKNOWN_MEMBER_ID,
}


def consume(connection: Connection, membership: Membership, report: Report) -> Generator[list[Record]]:
    """Yield lists of records, in order within each partition; an empty list after a poll without records. Ends after
    `membership.count` records, or with `membership.to_end` when all assigned partitions are read to their ends.

    report: called with each event of the member (see Report). Closing the iterator leaves the group (a static member
    stays until its session ends). Raises UsageError, Unreachable, Refused, KcliError.
    """
    if membership.count == 0:
        return
    consumer = connection.consumer(_settings(membership))
    for topic in membership.topics:
        if (
            not topic.startswith("^")
            and (error := connection.metadata(consumer, topic).topics[topic].error) is not None
        ):
            raise Refused(topic, error)
    member = _Member(connection, consumer, membership, report)
    try:
        while not member.is_done:
            records = member.next()
            yield records
            member.taken(records)
    finally:
        consumer.close()


def _settings(membership: Membership) -> dict[str, Any]:
    settings = {
        "group.id": membership.group,
        "group.protocol": membership.protocol.value,
        "enable.auto.commit": membership.commit is Commit.AUTO,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "error" if membership.reset is Reset.NONE else membership.reset.value,
        "enable.partition.eof": True,
        "isolation.level": "read_committed" if membership.committed_only else "read_uncommitted",
        "fetch.wait.max.ms": 100,
        "queued.max.messages.kbytes": 16_384,
    }
    if membership.protocol is Protocol.CLASSIC:
        assignors = membership.assignors or (Assignor.RANGE,)
        settings["partition.assignment.strategy"] = ",".join(assignors)
    if membership.instance_id is not None:
        settings["group.instance.id"] = membership.instance_id
    return settings


class _Member:
    """librdkafka's consumer as a member of a group, and its assigned partitions."""

    def __init__(self, connection: Connection, consumer: Consumer, membership: Membership, report: Report) -> None:
        self._connection = connection
        self._consumer = consumer
        self._membership = membership
        self._report = report
        self._left = membership.count
        self._assigned: set[TopicPartition] = set()
        self._at_end: set[TopicPartition] = set()
        self._failure: KcliError | None = None
        try:
            consumer.subscribe(
                list(membership.topics), on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
            )
        except KafkaException:  # librdkafka says only that an argument is invalid
            named = ", ".join(map(repr, membership.topics))
            raise UsageError(f"{named}: no topic, or no regular expression") from None

    @property
    def is_done(self) -> bool:
        """Whether `count` records were yielded, or, with to_end, all assigned partitions are read to their ends."""
        if self._left == 0:
            return True
        return self._membership.to_end and bool(self._assigned) and self._assigned <= self._at_end

    def next(self) -> list[Record]:
        """Return the records of one poll; an empty list if none came in time. If an earlier poll failed after it had
        read records, raises that failure now."""
        if self._failure is not None:
            raise self._failure
        messages = self._consumer.consume(CHUNK if self._left is None else min(CHUNK, self._left), 0)
        if not messages:
            first = self._consumer.poll(WAIT_S)
            messages = [first] if first is not None else []
        records: list[Record] = []
        for message in messages:
            try:
                self._take(message, records)
            except KcliError as failure:
                self._failure = failure  # raised after the records that came before it
                break
        if messages:
            self._connection.trouble.down_since = None
        elif self._connection.trouble.down_for(self._connection.timeout_s):
            self._connection.metadata(self._consumer)  # only a request shows whether a broker is back
        if self._left is not None:
            self._left -= len(records)
        return records

    def _take(self, message: Message, records: list[Record]) -> None:
        error = message.error()
        topic = message.topic() or ""
        if error is None:
            if self._at_end:
                self._at_end.discard(TopicPartition(topic, message.partition() or 0))
            records.append(record_of(message, topic))
        elif error.code() == PARTITION_EOF:
            self._at_end.add(TopicPartition(topic, message.partition() or 0))
        elif error.code() == MAX_POLL_EXCEEDED:
            places = sorted(self._assigned)
            self._report("out of the group, as no record was taken within max.poll.interval.ms; had", places)
        elif error.code() == FATAL:  # librdkafka keeps only the text of the original error
            reason = error.str().removeprefix("Fatal error: ").partition(": Fatal consumer error")[0]
            raise KcliError(f"{self._membership.group}: {reason.removeprefix('Broker: ')}")
        elif not error.retriable():
            raise Refused(
                topic if message.partition() is None or not topic else f"{topic}-{message.partition()}", error
            )

    def taken(self, records: list[Record]) -> None:
        """Commit the offsets of these records, which the caller has processed, as `membership.commit` says: now for
        SYNC; for AUTO note them for librdkafka's next commit; never for NONE. Raises Refused."""
        if not records or self._membership.commit is Commit.NONE:
            return
        last = {(record.topic, record.partition): record for record in records}
        nexts = {TopicPartition(*place): record for place, record in last.items()}
        offsets = [
            confluent_kafka.TopicPartition(
                *place, record.offset + 1, leader_epoch=-1 if record.leader_epoch is None else record.leader_epoch
            )
            for place, record in nexts.items()
            if place in self._assigned
        ]
        if not offsets:
            return
        try:
            if self._membership.commit is Commit.AUTO:
                self._consumer.store_offsets(offsets=offsets)
            else:
                self._commit(offsets)
        except KafkaException as error:
            found = kafka_error(error)
            if found.code() == NOT_ASSIGNED:
                return  # the partition was revoked meanwhile, as `_on_revoke` has reported
            if found.code() not in TOO_LATE:
                raise Refused(self._membership.group, found) from None
            self._report(f"not committed ({error_name(found)}):", list(nexts))

    def _commit(self, offsets: list[confluent_kafka.TopicPartition]) -> None:
        for each in self._consumer.commit(offsets=offsets, asynchronous=False) or ():
            if each.error is not None:
                raise KafkaException(each.error)

    def _on_assign(self, _consumer: Consumer, partitions: list[confluent_kafka.TopicPartition]) -> None:
        places = _places(partitions)
        self._assigned.update(places)
        self._at_end.difference_update(places)
        self._report("assigned", places)

    def _on_revoke(self, _consumer: Consumer, partitions: list[confluent_kafka.TopicPartition]) -> None:
        self._unassign("revoked", partitions)

    def _on_lost(self, _consumer: Consumer, partitions: list[confluent_kafka.TopicPartition]) -> None:
        self._unassign("lost", partitions)

    def _unassign(self, change: str, partitions: list[confluent_kafka.TopicPartition]) -> None:
        places = _places(partitions)
        self._assigned.difference_update(places)
        self._report(change, places)


def _places(partitions: list[confluent_kafka.TopicPartition]) -> list[TopicPartition]:
    return sorted(TopicPartition(each.topic, each.partition) for each in partitions)
