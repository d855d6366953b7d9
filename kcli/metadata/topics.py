"""Topics and configurations of a cluster, record by record of `__cluster_metadata` or one of its snapshots.

    TopicRecord, RemoveTopicRecord     names and ids
    PartitionRecord                    which partitions a topic has
    ConfigRecord                       of a topic (resource type 2) or a broker (4; no name: the default of all); a null
                                       value takes the configuration back
    BeginTransactionRecord, End, Abort what lies between Begin and Abort never was (KIP-868)

All other records are passed over. Source: TopicsDelta, ConfigurationsDelta, MetadataBatchLoader; KIP-631.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Final

TOPIC_RESOURCE: Final = 2
BROKER_RESOURCE: Final = 4


@dataclass(slots=True)
class Topic:
    """A topic: its name and the numbers of its partitions."""

    name: str
    partitions: set[int] = field(default_factory=set)


@dataclass(slots=True)
class _Image:
    topics: dict[str, Topic] = field(default_factory=dict)
    topic_configs: dict[str, dict[str, str]] = field(default_factory=dict)
    broker_configs: dict[str, dict[str, str]] = field(default_factory=dict)


class ClusterTopics:
    """What the records so far say of topics."""

    def __init__(self) -> None:
        self._image = _Image()
        self._before_transaction: _Image | None = None

    @property
    def topics(self) -> dict[str, Topic]:
        """The topics by id."""
        return self._image.topics

    def topic_configs(self, topic: str) -> dict[str, str]:
        """A topic's own configurations."""
        return dict(self._image.topic_configs.get(topic, {}))

    def broker_configs(self, node_id: int | None) -> dict[str, str]:
        """What was set for all brokers, and on top of it for this one."""
        own = {} if node_id is None else self._image.broker_configs.get(str(node_id), {})
        return {**self._image.broker_configs.get("", {}), **own}

    def apply(self, name: str, value: dict[str, Any]) -> None:
        """Take in one record: the name of its message and its fields."""
        image = self._image
        match name:
            case "TopicRecord":
                image.topics[value["topicId"]] = Topic(value["name"])
            case "RemoveTopicRecord":
                gone = image.topics.pop(value["topicId"], None)
                if gone is not None:
                    image.topic_configs.pop(gone.name, None)
            case "PartitionRecord":
                if (topic := image.topics.get(value["topicId"])) is not None:
                    topic.partitions.add(value["partitionId"])
            case "ConfigRecord":
                self._config(value)
            case "BeginTransactionRecord":
                self._before_transaction = deepcopy(image)
            case "AbortTransactionRecord":
                self._image, self._before_transaction = self._before_transaction or image, None
            case "EndTransactionRecord":
                self._before_transaction = None

    def _config(self, value: dict[str, Any]) -> None:
        by_type = {TOPIC_RESOURCE: self._image.topic_configs, BROKER_RESOURCE: self._image.broker_configs}
        resources = by_type.get(value["resourceType"])
        if resources is None:
            return
        configs = resources.setdefault(value["resourceName"], {})
        if value["value"] is None:
            configs.pop(value["name"], None)
        else:
            configs[value["name"]] = value["value"]
