"""The plan of an application: its sub-topologies with their topics, and the internal topics that it needs.

A sub-topology has as many tasks as the largest of its topics has partitions; task 1_2 is partition 2 of sub-topology 1.

    repartition topic   as many partitions as the program gives; or as the largest topic of the sub-topologies that send
                        to it, or as the topics whose partitions have to match it; deleted by the application
    changelog topic     as many partitions as its sub-topology has tasks; compacted, and that of windows and sessions
                        deleted too, a day after the store has dropped them; that of versions is compacted not earlier
                        than a day after the store has forgotten them

Source: StreamsPartitionAssignor, RepartitionTopics, CopartitionedTopicsEnforcer, InternalTopicConfig of Kafka Streams.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kcli.streams.errors import TopologyError
from kcli.streams.topology.stores.store import StoreBuilder
from kcli.streams.topology.topology import (
    ProcessorNode,
    Sink,
    Source,
    Topology,
    changelog_topic,
    internal_topic,
)

ADDITIONAL_MS = 86_400_000
LONG_MAX = 2**63 - 1
REPARTITION_CONFIG = {
    "cleanup.policy": "delete",
    "message.timestamp.type": "CreateTime",
    "retention.ms": "-1",
    "segment.bytes": "52428800",
}


class TaskId(NamedTuple):
    """A task, by its sub-topology and partition."""

    sub_topology: int
    partition: int

    def __str__(self) -> str:
        return f"{self.sub_topology}_{self.partition}"


@dataclass(frozen=True)
class SubTopology:
    """A sub-topology. topics: of its sources, as Kafka has them. sinks: the topics to which it sends, without those
    that a function returns. changelogs: the topic of each store that has one."""

    number: int
    names: frozenset[str]
    topics: tuple[str, ...]
    sinks: frozenset[str]
    changelogs: Mapping[str, str]
    is_global: bool


@dataclass(frozen=True)
class InternalTopic:
    """A topic that the application makes for itself."""

    name: str
    partitions: int
    configs: Mapping[str, str]


@dataclass(frozen=True)
class Plan:
    """The plan of an application. partitions: of each topic that it reads. changelog_ids: the ids of changelogs, as
    kcli.streams.local.checks makes numbers of them."""

    sub_topologies: tuple[SubTopology, ...]
    internal_topics: tuple[InternalTopic, ...]
    partitions: Mapping[str, int]
    changelog_ids: Mapping[str, int] = field(default_factory=dict)

    def leaders(self) -> dict[str, SubTopology]:
        """Return the sub-topologies that have tasks, each by its topic with the most partitions: the member that is
        assigned a partition of this topic has the task of the same number."""
        return {
            max(each.topics, key=lambda topic: (self.partitions[topic], topic)): each
            for each in self.sub_topologies
            if not each.is_global
        }

    def inputs(self, sub_topology: SubTopology, partition: int) -> list[str]:
        """Return the topics of which a task reads the partition of this number."""
        return [topic for topic in sub_topology.topics if partition < self.partitions[topic]]


def sub_topologies(topology: Topology, application_id: str) -> tuple[SubTopology, ...]:
    """Return the sub-topologies of an application."""
    return tuple(
        _sub_topology(topology, application_id, number, names) for number, names in enumerate(topology.sub_topologies())
    )


def input_topics(topology: Topology) -> set[str]:
    """Return the topics that a topology reads, and that its application does not make."""
    sources = (node for node in topology.nodes.values() if isinstance(node, Source))
    return {topic for source in sources for topic in source.topics} - topology.internal_topics


def topics_of(topology: Topology) -> set[str]:
    """Return the topics that a topology reads or sends to, without internal ones and those that a function names."""
    sinks = {node.topic for node in topology.nodes.values() if isinstance(node, Sink) and isinstance(node.topic, str)}
    return input_topics(topology) | (sinks - topology.internal_topics)


def plan(topology: Topology, application_id: str, existing: Mapping[str, int]) -> Plan:
    """Return the plan of an application. existing: the number of partitions of topics that exist. Raises TopologyError
    for topics that are missing, and for topics that exist with another number of partitions than the plan has."""
    parts = sub_topologies(topology, application_id)
    if missing := sorted(input_topics(topology) - existing.keys()):
        raise TopologyError(f"the program reads topics that do not exist: {', '.join(missing)}")
    partitions = {topic: existing[topic] for topic in input_topics(topology)}
    repartition = _repartition_topics(topology, application_id, parts, partitions)
    partitions |= repartition
    made = [InternalTopic(name, count, REPARTITION_CONFIG) for name, count in sorted(repartition.items())]
    for part in parts:
        tasks = max(partitions[topic] for topic in part.topics)
        made += [
            InternalTopic(topic, tasks, _changelog_config(topology.stores[store]))
            for store, topic in part.changelogs.items()
        ]
    for topic in made:
        if existing.get(topic.name, topic.partitions) != topic.partitions:
            raise TopologyError(
                f"the internal topic {topic.name} has {existing[topic.name]} partitions, and the program needs "
                f"{topic.partitions}: a topic that it reads has got more partitions, or the program has changed"
            )
    return Plan(parts, tuple(made), partitions)


def _sub_topology(topology: Topology, application_id: str, number: int, names: list[str]) -> SubTopology:
    def in_kafka(topic: str) -> str:
        return internal_topic(application_id, topic) if topic in topology.internal_topics else topic

    nodes = [topology.nodes[name] for name in names]
    topics = [in_kafka(topic) for node in nodes if isinstance(node, Source) for topic in node.topics]
    sinks = {in_kafka(node.topic) for node in nodes if isinstance(node, Sink) and isinstance(node.topic, str)}
    stores = {store: None for node in nodes if isinstance(node, ProcessorNode) for store in node.stores}
    logged = [store for store in stores if topology.stores[store].logging]
    is_global = any(map(topology.is_global, nodes))
    changelogs = {} if is_global else {store: changelog_topic(application_id, store) for store in logged}
    return SubTopology(number, frozenset(names), tuple(topics), frozenset(sinks), changelogs, is_global)


def _changelog_config(store: StoreBuilder[Any]) -> dict[str, str]:
    config = {"cleanup.policy": "compact", "message.timestamp.type": "CreateTime"}
    if store.changelog_retention_ms is not None:
        config["cleanup.policy"] = "compact,delete"
        config["retention.ms"] = str(store.changelog_retention_ms + ADDITIONAL_MS)
    if store.compaction_lag_ms is not None:
        config["min.compaction.lag.ms"] = str(min(store.compaction_lag_ms + ADDITIONAL_MS, LONG_MAX))
    return config


def _repartition_topics(
    topology: Topology, application_id: str, parts: Iterable[SubTopology], inputs: Mapping[str, int]
) -> dict[str, int]:
    """Return the number of partitions of each repartition topic. inputs: those of the topics that the program reads."""
    given = {internal_topic(application_id, topic): count for topic, count in topology.partition_counts.items()}
    counts = dict(given)
    wanted = {internal_topic(application_id, topic) for topic in topology.internal_topics}
    while wanted - counts.keys():
        known = {**inputs, **counts}
        for topic in wanted - counts.keys():
            sizes = [known[each] for part in parts if topic in part.sinks for each in part.topics if each in known]
            if sizes:
                counts[topic] = max(sizes)
    for sources in topology.copartitioned():
        _match(_topics_of(topology, application_id, sources), {**inputs, **given}, counts)
    return counts


def _topics_of(topology: Topology, application_id: str, sources: Iterable[str]) -> list[str]:
    topics = []
    for name in sources:
        source = topology.nodes[name]
        assert isinstance(source, Source)
        if not topology.is_global(source):
            topics += [
                internal_topic(application_id, each) if each in topology.internal_topics else each
                for each in source.topics
            ]
    return sorted(topics)


def _match(topics: list[str], fixed: Mapping[str, int], counts: dict[str, int]) -> None:
    """Give repartition topics among these as many partitions as the others have. fixed: the number of partitions of
    topics that the program reads, and of those for which it gives one. Raises TopologyError if those differ."""
    given = {topic: fixed[topic] for topic in topics if topic in fixed}
    if len(set(given.values())) > 1:
        sizes = ", ".join(f"{topic} has {count}" for topic, count in given.items())
        raise TopologyError(f"topics that are joined must have equally many partitions: {sizes}")
    made = [topic for topic in topics if topic in counts]
    if made:
        size = next(iter(given.values()), max(counts[topic] for topic in made))
        counts |= dict.fromkeys(made, size)
