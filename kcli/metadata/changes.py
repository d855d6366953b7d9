"""The differences that applied records have made in the image, for the components of the broker that react to them."""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

from kcli.metadata.partition import Topic
from kcli.protocol.topic_partition import TopicIdPartition

QuotaEntity = tuple[tuple[str, str | None], ...]
"""The entity of a client quota: entity types with names, None for the default, in the order of QUOTA_TYPES."""

ConfigResource = tuple[int, str]
"""A resource that has configurations: its type (2 topic, 4 broker, ...) and its name, "" for the default of all."""


@dataclass(slots=True)
class Changes:
    """The keys of everything that has changed; the image has the new values. Deleted topics, which the image no longer
    has, are kept in `topics_deleted`.

    A topic that was created and then deleted is in neither `topics_created` nor `topics_deleted`; a topic that was
    deleted and created again, with a new id, is in both. partitions: (topic id, number) of every partition of an
    existing topic that is new or has changed.
    """

    topics_created: dict[UUID, Topic] = field(default_factory=dict)
    topics_deleted: dict[UUID, Topic] = field(default_factory=dict)
    partitions: set[TopicIdPartition] = field(default_factory=set)
    configs: set[ConfigResource] = field(default_factory=set)
    features: set[str] = field(default_factory=set)
    brokers: set[int] = field(default_factory=set)
    controllers: set[int] = field(default_factory=set)
    client_quotas: set[QuotaEntity] = field(default_factory=set)
    acls: set[str] = field(default_factory=set)
    producer_ids: bool = False

    def topic_created(self, topic: Topic) -> None:
        """Note a new topic."""
        self.topics_created[topic.id] = topic

    def topic_deleted(self, topic: Topic) -> None:
        """Note a deleted topic."""
        self.partitions.difference_update((topic.id, number) for number in topic.partitions)
        if self.topics_created.pop(topic.id, None) is None:
            self.topics_deleted[topic.id] = topic
