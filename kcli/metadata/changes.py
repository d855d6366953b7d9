"""What records changed in the image, for those who must act on it."""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

from kcli.metadata.partition import Topic

QuotaEntity = tuple[tuple[str, str | None], ...]
"""Whom a client quota is for: (entity type, its name; None: the default of all), in the order of QUOTA_TYPES."""

ConfigResource = tuple[int, str]
"""Type (2 topic, 4 broker, ...) and name of what has a configuration; no name: the default of all."""


@dataclass(slots=True)
class Changes:
    """What is not as it was. The image has the new state; what is gone is here.

    A topic that was created and deleted meanwhile is in neither; one that was deleted and created again, under a new
    id, is in both. `partitions`: (topic id, number) of every partition that is new or different, of existing topics.
    """

    topics_created: dict[UUID, Topic] = field(default_factory=dict)
    topics_deleted: dict[UUID, Topic] = field(default_factory=dict)
    partitions: set[tuple[UUID, int]] = field(default_factory=set)
    configs: set[ConfigResource] = field(default_factory=set)
    features: set[str] = field(default_factory=set)
    brokers: set[int] = field(default_factory=set)
    controllers: set[int] = field(default_factory=set)
    client_quotas: set[QuotaEntity] = field(default_factory=set)
    producer_ids: bool = False

    def topic_created(self, topic: Topic) -> None:
        """Note a new topic."""
        self.topics_created[topic.id] = topic

    def topic_deleted(self, topic: Topic) -> None:
        """Note that a topic is gone."""
        self.partitions.difference_update((topic.id, number) for number in topic.partitions)
        if self.topics_created.pop(topic.id, None) is None:
            self.topics_deleted[topic.id] = topic
