"""What the group coordinator reads of this cluster: topics, as the image has them, and groups' settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from kcli.broker.config.group_config import GROUP_KEYS, broker_synonym
from kcli.group.metadata import ConsumerSettings
from kcli.group.requests import TopicsChanged

if TYPE_CHECKING:
    from kcli.broker.broker import Broker
    from kcli.metadata.changes import Changes

GROUP_RESOURCE = 32
"""Type of a group's configuration."""


class GroupMetadata:
    """See above, and `kcli.group.metadata.Metadata`."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    @property
    def version(self) -> int:
        """The last record of the metadata log that counts."""
        return self._broker.image.offset

    def topic_names(self) -> Iterable[str]:
        """All topics."""
        return self._broker.image.topics

    def topic_id(self, name: str) -> UUID | None:
        """None where there is no such topic."""
        topic = self._broker.image.topic(name)
        return None if topic is None else topic.id

    def topic_name(self, topic_id: UUID) -> str | None:
        """None where there is no such topic."""
        topic = self._broker.image.topic_by_id(topic_id)
        return None if topic is None else topic.name

    def partition_count(self, topic_id: UUID) -> int:
        """Of a topic that there is."""
        return len(self._broker.image.topics_by_id[topic_id].partitions)

    def racks(self, topic_id: UUID) -> Mapping[int, Sequence[str]]:
        """The racks of each partition's replicas, those that are known."""
        brokers = self._broker.image.brokers
        return {
            number: [
                rack
                for replica in partition.replicas
                if replica in brokers and (rack := brokers[replica].rack) is not None
            ]
            for number, partition in self._broker.image.topics_by_id[topic_id].partitions.items()
        }

    def settings(self, group_id: str) -> ConsumerSettings:
        """Of one group: its own, or the broker's."""
        own = self._broker.image.configs(GROUP_RESOURCE, group_id)
        return ConsumerSettings(
            session_timeout_ms=self._setting(own, "consumer.session.timeout.ms"),
            heartbeat_interval_ms=self._setting(own, "consumer.heartbeat.interval.ms"),
            assignment_interval_ms=self._setting(own, "consumer.assignment.interval.ms"),
        )

    def _setting(self, own: Mapping[str, str], name: str) -> int:
        if name not in own:
            synonym = broker_synonym(name)
            assert synonym is not None, "these have one"
            return self._broker.config.number(synonym)
        value = GROUP_KEYS[name].parse(name, own[name])
        assert isinstance(value, int), "a time"
        return value


def topics_changed(broker: Broker, changes: Changes) -> TopicsChanged | None:
    """What consumer groups must know of changes in the image; None for nothing."""
    by_id = broker.image.topics_by_id
    touched = {topic_id for topic_id, _ in changes.partitions}
    names = {by_id[topic_id].name for topic_id in touched if topic_id in by_id}
    names.update(topic.name for topic in changes.topics_created.values())
    names.update(topic.name for topic in changes.topics_deleted.values())
    return TopicsChanged(topics=frozenset(names), has_new=bool(changes.topics_created)) if names else None
