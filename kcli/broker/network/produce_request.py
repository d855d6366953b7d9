"""Produce's request, read by a kernel: its batches are views of the frame that it came in, and nothing is copied.

Fields have the names that kio gives those of other requests. Source: ProduceRequest.json.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from uuid import UUID

from formats.kernels.wire import read_produce
from kcli.broker.network.request_check import ITEMS_MAX


@dataclass(slots=True)
class PartitionProduceData:
    """A batch for one partition; it may be changed in place."""

    index: int
    records: memoryview | None


@dataclass(slots=True)
class TopicProduceData:
    """The batches for a topic, up to version 12."""

    name: str
    partition_data: tuple[PartitionProduceData, ...]


@dataclass(slots=True)
class TopicIdProduceData:
    """The batches for a topic, from version 13 on; no id is None."""

    topic_id: UUID | None
    partition_data: tuple[PartitionProduceData, ...]


@dataclass(slots=True)
class ProduceRequest:
    """The request. timeout: ms."""

    transactional_id: str | None
    acks: int
    timeout: int
    topic_data: tuple[TopicProduceData | TopicIdProduceData, ...]


def read(version: int, frame: memoryview, position: int) -> ProduceRequest:
    """The request at a byte of its frame. Raises FormatError, UnicodeDecodeError."""
    transactional_id, acks, timeout_ms, topics = read_produce(frame, position, version, ITEMS_MAX)
    found: list[TopicProduceData | TopicIdProduceData] = []
    for topic, batches in topics:
        data = tuple([PartitionProduceData(index, records) for index, records in batches])
        if isinstance(topic, str):
            found.append(TopicProduceData(topic, data))
        else:
            found.append(TopicIdProduceData(_topic_id(topic), data))
    return ProduceRequest(transactional_id, acks, timeout_ms, tuple(found))


@lru_cache(4096)
def _topic_id(data: bytes) -> UUID | None:
    return UUID(bytes=data) if any(data) else None
