"""The cluster metadata that a group coordinator reads: topics by name and id, and the configurations of groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSettings:
    """The configurations of one consumer group under Kafka's names (without "consumer."), with Kafka's defaults.

    assignment_interval_ms: the minimum time between two target assignments, however often the group changes.
    """

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5000
    assignment_interval_ms: int = 1000


class Metadata(Protocol):
    """The current metadata. It changes only between two calls of a GroupMachine; a TopicsChanged request then names the
    topics that have changed."""

    @property
    def version(self) -> int:
        """Return the version of the metadata, a number that grows with each change."""

    def topic_names(self) -> Iterable[str]:
        """The names of all topics."""

    def topic_id(self, name: str) -> UUID | None:
        """The id of the topic; None if it does not exist."""

    def topic_name(self, topic_id: UUID) -> str | None:
        """The name of the topic; None if it does not exist."""

    def partition_count(self, topic_id: UUID) -> int:
        """The number of partitions of an existing topic."""

    def racks(self, topic_id: UUID) -> Mapping[int, Sequence[str]]:
        """Return the racks of the replicas of an existing topic's partitions, by partition number."""

    def settings(self, group_id: str) -> ConsumerSettings:
        """The group's configurations."""


class NoMetadata:
    """The metadata of a cluster without topics. Each group has the default configurations."""

    version = 0

    def topic_names(self) -> Iterable[str]:
        """Return no names."""
        return ()

    def topic_id(self, name: str) -> UUID | None:  # noqa: ARG002 (the signature in Metadata)
        """Return None: no topic exists."""
        return None

    def topic_name(self, topic_id: UUID) -> str | None:  # noqa: ARG002 (the signature in Metadata)
        """Return None: no topic exists."""
        return None

    def partition_count(self, topic_id: UUID) -> int:  # noqa: ARG002 (the signature in Metadata)
        """Return 0: no topic exists."""
        return 0

    def racks(self, topic_id: UUID) -> Mapping[int, Sequence[str]]:  # noqa: ARG002 (the signature in Metadata)
        """Return no racks: no topic exists."""
        return {}

    def settings(self, group_id: str) -> ConsumerSettings:  # noqa: ARG002 (the signature in Metadata)
        """The default configurations."""
        return ConsumerSettings()
