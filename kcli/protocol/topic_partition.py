"""The types that name a partition, by its topic's name or by its topic's id. This module imports nothing of kcli.

Source: org.apache.kafka.common.TopicPartition, org.apache.kafka.server.common.TopicIdPartition.
"""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

TopicIdPartition = tuple[UUID, int]
"""A topic's id and a partition's number; a plain tuple, since a follower makes one for each partition of a Fetch."""


class TopicPartition(NamedTuple):
    """A topic's name and a partition's number. It equals the plain tuple (topic, partition), and has the same hash: a
    mere lookup in a dict may use the plain tuple, which is made in a tenth of the time."""

    topic: str
    partition: int

    def __str__(self) -> str:
        """The name of the partition's directory, and of the partition in messages: `topic-0`."""
        return f"{self.topic}-{self.partition}"
