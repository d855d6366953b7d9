"""StreamsBuilder: where a program begins to declare its topology. Source: StreamsBuilder of Kafka Streams."""

from __future__ import annotations

from typing import Any, TypeVar, overload

from kcli.streams.context import Declaring, has_versions
from kcli.streams.errors import TopologyError
from kcli.streams.graph import Graph, Step
from kcli.streams.kstream import KStream
from kcli.streams.ktable import GlobalKTable, KTable
from kcli.streams.serdes import Serde
from kcli.streams.topology.operators.table_source import TableSource
from kcli.streams.topology.stores.key_value import table_store
from kcli.streams.topology.stores.store import StoreBuilder
from kcli.streams.topology.timestamps import TimestampExtractor
from kcli.streams.topology.topology import Topology

K = TypeVar("K")
V = TypeVar("V")

SOURCE, TABLE = "KSTREAM-SOURCE-", "KTABLE-SOURCE-"


class StreamsBuilder:
    """Declares streams and tables, and builds the topology of all that was declared.

    key_serde, value_serde: the serdes of steps that neither have one nor inherit one.
    """

    def __init__(self, *, key_serde: Serde[Any] | None = None, value_serde: Serde[Any] | None = None) -> None:
        self._declaring = Declaring(Graph(), key_serde, value_serde)

    @overload
    def stream(
        self,
        *topics: str,
        key_serde: Serde[K],
        value_serde: Serde[V],
        timestamp_extractor: TimestampExtractor | None = None,
        name: str | None = None,
    ) -> KStream[K, V]: ...

    @overload
    def stream(
        self,
        *topics: str,
        key_serde: Serde[Any] | None = None,
        value_serde: Serde[Any] | None = None,
        timestamp_extractor: TimestampExtractor | None = None,
        name: str | None = None,
    ) -> KStream[Any, Any]: ...

    def stream(
        self,
        *topics: str,
        key_serde: Serde[Any] | None = None,
        value_serde: Serde[Any] | None = None,
        timestamp_extractor: TimestampExtractor | None = None,
        name: str | None = None,
    ) -> KStream[Any, Any]:
        """Return the stream of the records of topics."""
        if not topics:
            raise TopologyError("a stream needs a topic")
        node = self._declaring.named(name, SOURCE)

        def write(topology: Topology, _step: Step) -> None:
            topology.add_source(
                node,
                *topics,
                key_serde=key_serde,
                value_serde=value_serde,
                timestamp_extractor=timestamp_extractor,
            )

        step = self._declaring.graph.add(Step(node, write, topics=topics))
        return KStream(self._declaring, node, step, (key_serde, value_serde))

    @overload
    def table(
        self,
        topic: str,
        *,
        key_serde: Serde[K],
        value_serde: Serde[V],
        timestamp_extractor: TimestampExtractor | None = None,
        name: str | None = None,
        store_name: str | None = None,
        history_retention_ms: int | None = None,
        logging: bool = True,
    ) -> KTable[K, V]: ...

    @overload
    def table(
        self,
        topic: str,
        *,
        key_serde: Serde[Any] | None = None,
        value_serde: Serde[Any] | None = None,
        timestamp_extractor: TimestampExtractor | None = None,
        name: str | None = None,
        store_name: str | None = None,
        history_retention_ms: int | None = None,
        logging: bool = True,
    ) -> KTable[Any, Any]: ...

    def table(
        self,
        topic: str,
        *,
        key_serde: Serde[Any] | None = None,
        value_serde: Serde[Any] | None = None,
        timestamp_extractor: TimestampExtractor | None = None,
        name: str | None = None,
        store_name: str | None = None,
        history_retention_ms: int | None = None,
        logging: bool = True,
    ) -> KTable[Any, Any]:
        """Return the table of a topic: a record is the new value of its key, and None deletes it. store_name: the name
        of the table's store; without a name the table has a store only if a later step needs it. history_retention_ms:
        the store is versioned, and keeps for so long what values were before. logging: whether the store has a
        changelog topic."""
        graph = self._declaring.graph
        versioned = has_versions(store_name, history_retention_ms)
        store = store_name or graph.new_store_name(f"{topic}-")
        source, node = self._declaring.named(name, SOURCE, "-source"), self._declaring.named(name, TABLE)
        table = TableSource(store, is_materialized=store_name is not None)
        builder = table_store(
            store, (key_serde, value_serde), logging=logging, history_retention_ms=history_retention_ms
        )

        def write(topology: Topology, _step: Step) -> None:
            serdes: dict[str, Any] = {"key_serde": key_serde, "value_serde": value_serde}
            topology.add_source(source, topic, timestamp_extractor=timestamp_extractor, **serdes)
            topology.add_processor(node, table, source)
            if table.is_materialized:
                topology.add_state_store(builder, node)

        step = graph.add(Step(node, write, versioned=versioned))
        return KTable(self._declaring, node, step, table, (key_serde, value_serde), store_name=store_name)

    @overload
    def global_table(
        self,
        topic: str,
        *,
        key_serde: Serde[K],
        value_serde: Serde[V],
        name: str | None = None,
        store_name: str | None = None,
    ) -> GlobalKTable[K, V]: ...

    @overload
    def global_table(
        self,
        topic: str,
        *,
        key_serde: Serde[Any] | None = None,
        value_serde: Serde[Any] | None = None,
        name: str | None = None,
        store_name: str | None = None,
    ) -> GlobalKTable[Any, Any]: ...

    def global_table(
        self,
        topic: str,
        *,
        key_serde: Serde[Any] | None = None,
        value_serde: Serde[Any] | None = None,
        name: str | None = None,
        store_name: str | None = None,
    ) -> GlobalKTable[Any, Any]:
        """Return the table of a topic's records. Every task has the whole of it, from all partitions of the topic."""
        graph = self._declaring.graph
        store = store_name or graph.new_store_name(f"{topic}-")
        source, node = self._declaring.named(name, SOURCE, "-source"), self._declaring.named(name, TABLE)
        table = TableSource(store, is_materialized=True)
        builder = table_store(store, (key_serde, value_serde), logging=False)

        def write(topology: Topology, _step: Step) -> None:
            topology.add_global_store(builder, source, topic, node, table)

        graph.add(Step(node, write))
        return GlobalKTable(store)

    def add_state_store(self, store: StoreBuilder[Any]) -> None:
        """Add a store for the processors of process and process_values."""
        self._declaring.graph.add(Step(store.name, lambda topology, _step: topology.add_state_store(store)))

    def build(self) -> Topology:
        """Return the topology of all that was declared so far. Raises TopologyError."""
        topology = Topology(key_serde=self._declaring.key_serde, value_serde=self._declaring.value_serde)
        self._declaring.graph.write(topology)
        return topology
