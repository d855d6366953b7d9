"""The join of two tables where the left one's values have the right one's key.

    left table -> Subscribe -> registration topic, by foreign key -> Receive -> AnswerSubscription ┐
    right table -> AnswerChange, for each subscription of the key ─────────────────────────────────┴-> response topic,
    by primary key -> Resolve -> result

    subscription   version 1 (with bit 7: no hash), instruction, hash (16 bytes), primary key, partition (4 bytes)
    response       version 0 (with bit 7: no hash), hash (16 bytes), the right table's value
    key of a subscription in its store   length of the foreign key (4 bytes), foreign key, primary key

The hash is that of the left table's value: a response to a value that has changed since is dropped. Source: the package
foreignkeyjoin of Kafka Streams; KIP-213.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from enum import IntEnum
from typing import Any, NamedTuple

from kcli.java.murmur3 import murmur3
from kcli.streams.records import Change, Record, ValueAndTimestamp
from kcli.streams.serdes import Serde
from kcli.streams.topology.operators.stream_join import Joiner
from kcli.streams.topology.operators.table import AnyContext, View, value_or_none
from kcli.streams.topology.processor import Processor

HASH_BYTES = 16
NO_HASH = 0x80
SUBSCRIPTION_VERSION = 1
LENGTH = struct.Struct(">i")


class Instruction(IntEnum):
    """What the right side does with a subscription: deletes it, with or without a response, or keeps it and responds,
    always or only if the right table has a value."""

    DELETE = 0
    DELETE_AND_ANSWER = 1
    ANSWER = 2
    ANSWER_IF_FOUND = 3


class Subscription(NamedTuple):
    """A row of the left table subscribes to the value of its foreign key. value_hash: the hash of the row's value, None
    if the row was deleted."""

    value_hash: bytes | None
    instruction: Instruction
    primary_key: Any
    partition: int


class Response(NamedTuple):
    """The right table's value for a left row with this hash, None if there is none. partition: of the left row; not in
    the response's bytes."""

    value_hash: bytes | None
    value: Any
    partition: int | None = None


class SubscriptionKey(NamedTuple):
    """The key under which the right side keeps a subscription, as the bytes of both keys."""

    foreign: bytes
    primary: bytes


def subscription_serde(primary_key: Serde[Any]) -> Serde[Subscription]:
    """Return the serde of subscriptions."""

    def serialize(subscription: Subscription) -> bytes:
        head = _head(SUBSCRIPTION_VERSION, subscription.value_hash, bytes([subscription.instruction]))
        return head + primary_key.serialize(subscription.primary_key) + LENGTH.pack(subscription.partition)

    def deserialize(data: bytes) -> Subscription:
        instruction, (value_hash, rest) = Instruction(data[1]), _split(data, 2)
        partition: int = LENGTH.unpack(rest[-LENGTH.size :])[0]
        return Subscription(value_hash, instruction, primary_key.deserialize(rest[: -LENGTH.size]), partition)

    return Serde("subscription", serialize, deserialize)


def response_serde(value: Serde[Any]) -> Serde[Response]:
    """Return the serde of responses."""

    def serialize(response: Response) -> bytes:
        return _head(0, response.value_hash, b"") + (value.to_bytes(response.value) or b"")

    def deserialize(data: bytes) -> Response:
        value_hash, rest = _split(data, 1)
        return Response(value_hash, value.from_bytes(rest) if rest else None)

    return Serde("response", serialize, deserialize)


def _head(version: int, value_hash: bytes | None, more: bytes) -> bytes:
    return bytes([version | (NO_HASH if value_hash is None else 0)]) + more + (value_hash or b"")


def _split(data: bytes, start: int) -> tuple[bytes | None, bytes]:
    """Return the hash that follows the version, and the bytes after the hash."""
    end = start if data[0] & NO_HASH else start + HASH_BYTES
    return (None if end == start else data[start:end]), data[end:]


def _serialize_key(key: SubscriptionKey) -> bytes:
    return LENGTH.pack(len(key.foreign)) + key.foreign + key.primary


def _deserialize_key(data: bytes) -> SubscriptionKey:
    size: int = LENGTH.unpack_from(data)[0]
    return SubscriptionKey(data[LENGTH.size : LENGTH.size + size], data[LENGTH.size + size :])


SUBSCRIPTION_KEY = Serde("subscription key", _serialize_key, _deserialize_key)


class ForeignKeyJoin:
    """A foreign-key join, as all of its processors know it. store: the name of the store of subscriptions. keeps:
    whether a left row without a right one has a result. values: the serde of the left table's values. are_versioned:
    whether the left and the right table are: what is not the last value of their rows is left out."""

    def __init__(
        self,
        extractor: Callable[[Any], Any],
        joiner: Joiner,
        store: str,
        keys: tuple[Serde[Any], Serde[Any]],
        values: Serde[Any],
        views: tuple[View, View],
        *,
        keeps: bool,
        are_versioned: tuple[bool, bool],
    ) -> None:
        self.are_versioned = are_versioned
        self.extractor, self.joiner, self.store, self.keeps = extractor, joiner, store, keeps
        self.primary_key, self.foreign_key = keys
        self.values = values
        self.left, self.right = views

    def hash_of(self, value: Any) -> bytes | None:
        """Return the hash of a value of the left table, None for None."""
        data = self.values.to_bytes(value)
        return None if data is None else murmur3(data)


class Subscribe(Processor[Any, Change, Any, Subscription]):
    """Sends the subscriptions that a change of the left table makes and ends."""

    def __init__(self, join: ForeignKeyJoin) -> None:
        self._join = join

    def process(self, record: Record[Any, Change]) -> None:
        change = record.value
        if self._join.are_versioned[0] and not change.is_latest:
            return
        new, old = (None if value is None else self._join.extractor(value) for value in (change.new, change.old))
        for foreign_key, instruction in self._instructions(change, new, old):
            metadata = self.context.record_metadata
            partition = 0 if metadata is None else metadata.partition
            subscription = Subscription(self._join.hash_of(change.new), instruction, record.key, partition)
            self.context.forward(record.with_key(foreign_key).with_value(subscription))

    def _instructions(self, change: Change, new: Any, old: Any) -> list[tuple[Any, Instruction]]:
        """Return the foreign keys to which a change subscribes or unsubscribes, with the instruction for each."""
        if change.new is None and change.old is None:
            return []
        has_moved = old is not None and self._bytes(new) != self._bytes(old)
        if self._join.keeps:
            return [*([(old, Instruction.DELETE)] if has_moved else []), (new, Instruction.ANSWER)]
        if new is None:
            return [] if old is None else [(old, Instruction.DELETE_AND_ANSWER)]
        if has_moved:
            return [(old, Instruction.DELETE), (new, Instruction.ANSWER)]
        return [(new, Instruction.ANSWER_IF_FOUND)]

    def _bytes(self, foreign_key: Any) -> bytes | None:
        return self._join.foreign_key.to_bytes(foreign_key)


class Receive(Processor[Any, Subscription, Any, Subscription]):
    """Keeps or forgets a subscription, and passes it on."""

    def __init__(self, join: ForeignKeyJoin) -> None:
        self._join = join

    def init(self, context: AnyContext) -> None:
        super().init(context)
        self._store = context.get_state_store(self._join.store)

    def process(self, record: Record[Any, Subscription]) -> None:
        subscription = record.value
        if record.key is None:
            if subscription.instruction is Instruction.ANSWER:
                self.context.forward(record)
            return
        primary = self._join.primary_key.serialize_key(subscription.primary_key, self._join.store)
        key = SubscriptionKey(self._join.foreign_key.serialize_key(record.key, self._join.store), primary)
        ends = subscription.instruction in (Instruction.DELETE, Instruction.DELETE_AND_ANSWER)
        self._store.put(key, None if ends else ValueAndTimestamp(subscription, record.timestamp))
        self.context.forward(record)


class AnswerSubscription(Processor[Any, Subscription, Any, Response]):
    """Answers a subscription with the value that its foreign key has now."""

    def __init__(self, join: ForeignKeyJoin) -> None:
        self._join = join

    def init(self, context: AnyContext) -> None:
        super().init(context)
        self._get = self._join.right.getter(context)

    def process(self, record: Record[Any, Subscription]) -> None:
        value_hash, instruction, primary_key, partition = record.value
        found = None if record.key is None else self._get(record.key)
        if instruction is Instruction.DELETE or (instruction is Instruction.ANSWER_IF_FOUND and found is None):
            return
        value = None if instruction is Instruction.DELETE_AND_ANSWER else value_or_none(found)
        timestamp = record.timestamp if found is None else max(record.timestamp, found.timestamp)
        answer = record.with_key(primary_key).with_value(Response(value_hash, value, partition))
        self.context.forward(answer.with_timestamp(timestamp))


class AnswerChange(Processor[Any, Change, Any, Response]):
    """Answers all subscriptions of a key of the right table with its new value."""

    def __init__(self, join: ForeignKeyJoin) -> None:
        self._join = join

    def init(self, context: AnyContext) -> None:
        super().init(context)
        self._store = context.get_state_store(self._join.store)

    def process(self, record: Record[Any, Change]) -> None:
        if record.key is None or (self._join.are_versioned[1] and not record.value.is_latest):
            return
        foreign = self._join.foreign_key.serialize_key(record.key, self._join.store)
        for key, found in self._store.range(SubscriptionKey(foreign, b""), None):
            if key.foreign != foreign:
                return
            primary_key = self._join.primary_key.from_bytes(key.primary)
            response = Response(found.value.value_hash, record.value.new, found.value.partition)
            self.context.forward(record.with_key(primary_key).with_value(response))


class Resolve(Processor[Any, Response, Any, Any]):
    """Joins a response with the left row that it is for, unless that has changed since."""

    def __init__(self, join: ForeignKeyJoin) -> None:
        self._join = join

    def init(self, context: AnyContext) -> None:
        super().init(context)
        self._get = self._join.left.getter(context)

    def process(self, record: Record[Any, Response]) -> None:
        found = self._get(record.key)
        value = value_or_none(found)
        if self._join.hash_of(value) != record.value.value_hash:
            return
        foreign = record.value.value
        has_result = foreign is not None or (self._join.keeps and found is not None)
        self.context.forward(record.with_value(self._join.joiner(value, foreign) if has_result else None))
