"""What a group coordinator reads of the cluster: topics by name and id, and the settings of groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSettings:
    """What one consumer group goes by; Kafka's names and defaults.

    assignment_interval_ms: so much time is between two assignments, however often the group changes.
    """

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5000
    assignment_interval_ms: int = 1000


class Metadata(Protocol):
    """As it is now. It changes between two requests to a machine, which is told with TopicsChanged."""

    @property
    def version(self) -> int:
        """Grows with each change."""

    def topic_names(self) -> Iterable[str]:
        """All topics."""

    def topic_id(self, name: str) -> UUID | None:
        """None where there is no such topic."""

    def topic_name(self, topic_id: UUID) -> str | None:
        """None where there is no such topic."""

    def partition_count(self, topic_id: UUID) -> int:
        """Of a topic that there is."""

    def racks(self, topic_id: UUID) -> Mapping[int, Sequence[str]]:
        """The racks of each partition's replicas."""

    def settings(self, group_id: str) -> ConsumerSettings:
        """Of one group."""


class NoMetadata:
    """No topics, and the defaults."""

    version = 0

    def topic_names(self) -> Iterable[str]:
        """None."""
        return ()

    def topic_id(self, name: str) -> UUID | None:  # noqa: ARG002
        """None."""
        return None

    def topic_name(self, topic_id: UUID) -> str | None:  # noqa: ARG002
        """None."""
        return None

    def partition_count(self, topic_id: UUID) -> int:  # noqa: ARG002
        """None."""
        return 0

    def racks(self, topic_id: UUID) -> Mapping[int, Sequence[str]]:  # noqa: ARG002
        """None."""
        return {}

    def settings(self, group_id: str) -> ConsumerSettings:  # noqa: ARG002
        """The defaults."""
        return ConsumerSettings()
