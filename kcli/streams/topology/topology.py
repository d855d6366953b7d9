"""A topology: sources, processors and sinks, connected by name, and the stores of the processors.

    Source     topics -> records       Processor  records -> records       Sink  records -> a topic

Nodes that pass records to each other or share a store are one sub-topology, which a task runs as a whole. A global
store has a source and a processor of its own, and every task can read it. The names of internal topics are here without
the application's id: see `internal_topic`. Source: Topology, InternalTopologyBuilder of Kafka Streams.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from kcli.streams.errors import TopologyError
from kcli.streams.records import RecordMetadata
from kcli.streams.serdes import Serde
from kcli.streams.topology.description import Described, describe
from kcli.streams.topology.processor import ProcessorSupplier
from kcli.streams.topology.stores.store import StoreBuilder
from kcli.streams.topology.timestamps import TimestampExtractor, fail_on_invalid_timestamp

NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")

TopicNameExtractor = Callable[[Any, Any, RecordMetadata | None], str]
"""Returns the topic to which a record is sent, for its key, value and metadata."""


@dataclass(frozen=True, kw_only=True)
class Node:
    """A node of a topology. predecessors: the names of the nodes whose records it gets."""

    name: str
    predecessors: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Source(Node):
    """A node that takes the records of topics."""

    topics: tuple[str, ...]
    key_serde: Serde[Any]
    value_serde: Serde[Any]
    timestamp_extractor: TimestampExtractor


@dataclass(frozen=True, kw_only=True)
class ProcessorNode(Node):
    """A node with a processor. stores: the names of the stores that the processor may use, in the order in which they
    were connected."""

    supplier: ProcessorSupplier[Any, Any, Any, Any]
    stores: dict[str, None] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Sink(Node):
    """A node that sends records to a topic, or to the topic that a function returns for each record. partition_of:
    returns the partition for a record's value; without it, or for None, the key decides."""

    topic: str | TopicNameExtractor
    key_serde: Serde[Any]
    value_serde: Serde[Any]
    partition_of: Callable[[Any], int | None] | None = None


class Topology:
    """Nodes and stores by name. key_serde, value_serde: the serdes of sources, sinks and stores that have none of their
    own. partition_counts: of the internal topics for which the program gives one."""

    def __init__(self, *, key_serde: Serde[Any] | None = None, value_serde: Serde[Any] | None = None) -> None:
        self.nodes: dict[str, Node] = {}
        self.stores: dict[str, StoreBuilder[Any]] = {}
        self.global_stores: set[str] = set()
        self.internal_topics: set[str] = set()
        self.partition_counts: dict[str, int] = {}
        self._key_serde, self._value_serde = key_serde, value_serde
        self._topics: dict[str, str] = {}
        self._group: dict[str, str] = {}
        self._user: dict[str, str] = {}
        self._given: dict[str, StoreBuilder[Any]] = {}

    def add_source(
        self,
        name: str,
        *topics: str,
        key_serde: Serde[Any] | None = None,
        value_serde: Serde[Any] | None = None,
        timestamp_extractor: TimestampExtractor | None = None,
    ) -> None:
        """Add a node that takes the records of topics. Raises TopologyError for a topic that another source has."""
        if not topics:
            raise TopologyError(f"the source {name} has no topic")
        for topic in topics:
            if topic in self._topics:
                raise TopologyError(f"the topic {topic} is already that of the source {self._topics[topic]}")
        keys, values = self._serdes(name, key_serde, value_serde)
        extractor = timestamp_extractor or fail_on_invalid_timestamp
        self._add(Source(name=name, topics=topics, key_serde=keys, value_serde=values, timestamp_extractor=extractor))
        self._topics.update(dict.fromkeys(topics, name))

    def add_processor(self, name: str, supplier: ProcessorSupplier[Any, Any, Any, Any], *predecessors: str) -> None:
        """Add a node whose processor gets the records of its predecessors."""
        self._add(ProcessorNode(name=name, supplier=supplier, predecessors=self._known(name, predecessors)))

    def add_sink(
        self,
        name: str,
        topic: str | TopicNameExtractor,
        *predecessors: str,
        key_serde: Serde[Any] | None = None,
        value_serde: Serde[Any] | None = None,
        partition_of: Callable[[Any], int | None] | None = None,
    ) -> None:
        """Add a node that sends the records of its predecessors to a topic."""
        keys, values = self._serdes(name, key_serde, value_serde)
        known = self._known(name, predecessors)
        self._add(
            Sink(
                name=name,
                topic=topic,
                predecessors=known,
                key_serde=keys,
                value_serde=values,
                partition_of=partition_of,
            )
        )

    def add_state_store(self, store: StoreBuilder[Any], *processors: str) -> None:
        """Add a store, and connect processors with it. Raises TopologyError if another store has its name."""
        _check_name(store.name, "a store")
        if self._given.setdefault(store.name, store) is not store:
            raise TopologyError(f"there already is another store {store.name}")
        self.stores[store.name] = store.with_defaults(self._key_serde, self._value_serde)
        for processor in processors:
            self.connect_processor_and_state_stores(processor, store.name)

    def add_global_store(
        self,
        store: StoreBuilder[Any],
        source: str,
        topic: str,
        processor: str,
        supplier: ProcessorSupplier[Any, Any, Any, Any],
    ) -> None:
        """Add a global store, with the source and the processor that fill it with all records of a topic."""
        if store.name in self.stores:
            raise TopologyError(f"there already is a store {store.name}")
        self.add_source(source, topic, key_serde=store.key_serde, value_serde=store.value_serde)
        self.add_processor(processor, supplier, source)
        self.add_state_store(store, processor)
        self.global_stores.add(store.name)

    def connect_processor_and_state_stores(self, processor: str, *stores: str) -> None:
        """Let a processor use stores. Raises TopologyError for a processor or store that the topology does not have."""
        node = self.nodes.get(processor)
        if not isinstance(node, ProcessorNode):
            raise TopologyError(f"there is no processor {processor} to connect with {', '.join(stores)}")
        for store in stores:
            if store not in self.stores:
                raise TopologyError(f"the processor {processor} uses a store {store} that the topology does not have")
            if store in self.global_stores:
                raise TopologyError(f"the global store {store} needs no connection with the processor {processor}")
            self._unite(self._user.setdefault(store, processor), processor)
            node.stores[store] = None

    def sub_topologies(self) -> list[list[str]]:
        """Return the names of the nodes of each sub-topology, in the order of their addition."""
        groups: dict[str, list[str]] = {}
        for name in self.nodes:
            groups.setdefault(self._root(name), []).append(name)
        return list(groups.values())

    def sources(self) -> dict[str, Source]:
        """Return the source of each topic."""
        nodes = (node for node in self.nodes.values() if isinstance(node, Source))
        return {topic: node for node in nodes for topic in node.topics}

    def sources_of(self, name: str) -> frozenset[str]:
        """Return the names of the sources whose records reach a node."""
        if isinstance(self.nodes[name], Source):
            return frozenset({name})
        return frozenset().union(*map(self.sources_of, self.nodes[name].predecessors))

    def copartitioned(self) -> list[frozenset[str]]:
        """Return the sets of sources whose topics must have equally many partitions: those of processors that share a
        store, as the two sides of a join do."""
        users: dict[str, set[frozenset[str]]] = {}
        for node in self.nodes.values():
            for store in node.stores if isinstance(node, ProcessorNode) else ():
                users.setdefault(store, set()).add(self.sources_of(node.name))
        return [frozenset().union(*sources) for sources in users.values() if len(sources) > 1]

    def is_global(self, node: Node) -> bool:
        """Whether the node is a source or processor of a global store."""
        names = (name for name in self.nodes if self._root(name) == self._root(node.name))
        return any(
            isinstance(each, ProcessorNode) and self.global_stores & each.stores.keys()
            for each in map(self.nodes.__getitem__, names)
        )

    def describe(self) -> str:
        """Return the text that Kafka Streams prints for the topology."""
        return describe([[self._described(name) for name in group] for group in self.sub_topologies()])

    def _described(self, name: str) -> Described:
        node = self.nodes[name]
        match node:
            case Source():
                return Described("Source", name, (), topics=node.topics, is_global=self.is_global(node))
            case Sink():
                topic = node.topic if isinstance(node.topic, str) else None
                return Described("Sink", name, node.predecessors, topics=() if topic is None else (topic,))
            case ProcessorNode():
                return Described("Processor", name, node.predecessors, stores=tuple(node.stores))
        raise AssertionError(node)

    def _add(self, node: Node) -> None:
        _check_name(node.name, "a node")
        if node.name in self.nodes:
            raise TopologyError(f"there already is a node {node.name}")
        self.nodes[node.name] = node
        self._group[node.name] = node.name
        for predecessor in node.predecessors:
            self._unite(node.name, predecessor)

    def _known(self, name: str, predecessors: Sequence[str]) -> tuple[str, ...]:
        if not predecessors:
            raise TopologyError(f"the node {name} has no predecessor")
        for predecessor in predecessors:
            if not isinstance(self.nodes.get(predecessor), Source | ProcessorNode):
                raise TopologyError(f"the node {name} has a predecessor {predecessor} that the topology does not have")
        return tuple(dict.fromkeys(predecessors))

    def _serdes(self, name: str, key: Serde[Any] | None, value: Serde[Any] | None) -> tuple[Serde[Any], Serde[Any]]:
        keys, values = key or self._key_serde, value or self._value_serde
        if keys is None or values is None:
            raise TopologyError(
                f"the node {name} has no {'key' if keys is None else 'value'}_serde, and there is no default"
            )
        return keys, values

    def _root(self, name: str) -> str:
        while self._group[name] != name:
            name = self._group[name]
        return name

    def _unite(self, one: str, other: str) -> None:
        self._group[self._root(one)] = self._root(other)


def _check_name(name: str, what: str) -> None:
    if not NAME.fullmatch(name) or name in (".", ".."):
        raise TopologyError(
            f"{name!r} is no name for {what}: it needs 1 to 249 letters, digits, '.', '_' and '-' of ASCII"
        )


def internal_topic(application_id: str, name: str) -> str:
    """Return the name that an internal topic has in Kafka: the application id, a hyphen and the topic's name."""
    return f"{application_id}-{name}"


def changelog_topic(application_id: str, store: str) -> str:
    """Return the name of a store's changelog topic in Kafka."""
    return internal_topic(application_id, f"{store}-changelog")
