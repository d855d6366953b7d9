"""The parts of the metadata image that the group coordinator reads: topics, and the configurations of groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from kcli.broker.config.group_config import GROUP_KEYS, broker_synonym
from kcli.group.metadata import ConsumerSettings
from kcli.group.requests import TopicsChanged

if TYPE_CHECKING:
    from kcli.broker.config import BrokerConfig
    from kcli.metadata.changes import Changes
    from kcli.metadata.image import MetadataImage

GROUP_RESOURCE = 32
"""The resource type of a group's configuration."""


class GroupMetadata:
    """The metadata that the group coordinator needs (the protocol `kcli.group.metadata.Metadata`), read from the
    broker's metadata image."""

    def __init__(self, config: BrokerConfig, image: MetadataImage) -> None:
        self._config, self._image = config, image

    @property
    def version(self) -> int:
        """The offset of the image's last metadata record."""
        return self._image.offset

    def topic_names(self) -> Iterable[str]:
        """The names of all topics."""
        return self._image.topics

    def topic_id(self, name: str) -> UUID | None:
        """The id of a topic, None for an unknown name."""
        topic = self._image.topic(name)
        return None if topic is None else topic.id

    def topic_name(self, topic_id: UUID) -> str | None:
        """The name of a topic, None for an unknown id."""
        topic = self._image.topic_by_id(topic_id)
        return None if topic is None else topic.name

    def partition_count(self, topic_id: UUID) -> int:
        """The number of partitions of an existing topic."""
        return len(self._image.topics_by_id[topic_id].partitions)

    def racks(self, topic_id: UUID) -> Mapping[int, Sequence[str]]:
        """Return partition number -> the known racks of the brokers that have the partition's replicas."""
        brokers = self._image.brokers
        return {
            number: [
                rack
                for replica in partition.replicas
                if replica in brokers and (rack := brokers[replica].rack) is not None
            ]
            for number, partition in self._image.topics_by_id[topic_id].partitions.items()
        }

    def settings(self, group_id: str) -> ConsumerSettings:
        """Return the settings of a group: its own configurations, and the broker's defaults for those that are not
        set."""
        own = self._image.configs(GROUP_RESOURCE, group_id)
        return ConsumerSettings(
            session_timeout_ms=self._setting(own, "consumer.session.timeout.ms"),
            heartbeat_interval_ms=self._setting(own, "consumer.heartbeat.interval.ms"),
            assignment_interval_ms=self._setting(own, "consumer.assignment.interval.ms"),
        )

    def _setting(self, own: Mapping[str, str], name: str) -> int:
        if name not in own:
            synonym = broker_synonym(name)
            assert synonym is not None, "these have one"
            return self._config.number(synonym)
        value = GROUP_KEYS[name].parse(name, own[name])
        assert isinstance(value, int), "a time"
        return value


def topics_changed(image: MetadataImage, changes: Changes) -> TopicsChanged | None:
    """Return the names of the topics that were created or deleted, or whose partitions have changed, for consumer
    groups; None if there is no such topic."""
    by_id = image.topics_by_id
    touched = {topic_id for topic_id, _ in changes.partitions}
    names = {by_id[topic_id].name for topic_id in touched if topic_id in by_id}
    names.update(topic.name for topic in changes.topics_created.values())
    names.update(topic.name for topic in changes.topics_deleted.values())
    return TopicsChanged(topics=frozenset(names), has_new=bool(changes.topics_created)) if names else None
