"""Decodes Produce requests with compiled code. Their batches are views of the received frame, and are not copied.

The fields have names like those that kio gives to fields of other requests. Source: ProduceRequest.json.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from uuid import UUID

from formats.kernels.wire import read_produce
from kcli.broker.wire.request_check import ITEMS_MAX


@dataclass(slots=True)
class PartitionProduceData:
    """The records for one partition, None for null. An append writes the batch's offset and leader epoch into these
    bytes."""

    index: int
    records: memoryview | None


@dataclass(slots=True)
class TopicProduceData:
    """The records for a topic, in versions up to 12, by the topic's name."""

    name: str
    partition_data: tuple[PartitionProduceData, ...]


@dataclass(slots=True)
class TopicIdProduceData:
    """The records for a topic, from version 13 on. topic_id: None for the id of zeros."""

    topic_id: UUID | None
    partition_data: tuple[PartitionProduceData, ...]


TopicData = TopicProduceData | TopicIdProduceData


@dataclass(slots=True)
class ProduceRequest:
    """A Produce request. timeout: in ms. transactional_id: None outside a transaction."""

    transactional_id: str | None
    acks: int
    timeout: int
    topic_data: tuple[TopicData, ...]


def read(version: int, frame: memoryview, position: int, items_max: int = ITEMS_MAX) -> ProduceRequest:
    """Return the request whose body begins at `position` of its frame. items_max: the greatest number of topics and
    partitions together. Raises FormatError; LimitExceeded for more items."""
    transactional_id, acks, timeout_ms, topics = read_produce(frame, position, version, items_max)
    found: list[TopicData] = []
    for topic, batches in topics:
        data = tuple([PartitionProduceData(index, records) for index, records in batches])
        if isinstance(topic, str):
            found.append(TopicProduceData(topic, data))
        else:
            found.append(TopicIdProduceData(_topic_id(topic), data))
    return ProduceRequest(transactional_id, acks, timeout_ms, tuple(found))


def as_taken(topics: Sequence[TopicData]) -> tuple[TopicData, ...]:
    """Return the topics as Kafka takes them: each partition once, with the last of its records, and no topic without
    partitions."""
    named: dict[str | UUID | None, tuple[TopicData, dict[int, PartitionProduceData]]] = {}
    for topic in topics:
        key = topic.name if isinstance(topic, TopicProduceData) else topic.topic_id
        named.setdefault(key, (topic, {}))[1].update((each.index, each) for each in topic.partition_data)
    return tuple([replace(topic, partition_data=tuple(each.values())) for topic, each in named.values() if each])


@lru_cache(4096)
def _topic_id(data: bytes) -> UUID | None:
    return UUID(bytes=data) if any(data) else None
