"""The rows of a table grouped by other keys: count, reduce and aggregate make tables of them.

When a row changes, the subtractor takes its old value out of the old group's aggregate, and the adder adds the new
value to the new group's. history_retention_ms makes the store versioned. Source: KGroupedTable of Kafka Streams.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from kcli.streams.context import AnySerde, Declaring, has_versions
from kcli.streams.errors import TopologyError
from kcli.streams.graph import Step
from kcli.streams.ktable import KTable
from kcli.streams.serdes import LONG, Serde
from kcli.streams.topology.operators.aggregate import COUNT, reduction
from kcli.streams.topology.operators.table_aggregate import TableAggregate, change_serde
from kcli.streams.topology.stores.key_value import table_store
from kcli.streams.topology.topology import Topology

K = TypeVar("K")
V = TypeVar("V")
A = TypeVar("A")

AGGREGATE, REDUCE = "KTABLE-AGGREGATE-", "KTABLE-REDUCE-"


class KGroupedTable(Generic[K, V]):
    """The rows of a table grouped by keys K."""

    def __init__(
        self, declaring: Declaring, step: Step, serdes: tuple[AnySerde, AnySerde], repartition_name: str | None
    ) -> None:
        self._declaring, self._step = declaring, step
        self._key_serde, self._value_serde = serdes
        self._repartition_name = repartition_name
        self._repartition: Step | None = None

    def count(
        self,
        *,
        name: str | None = None,
        store_name: str | None = None,
        key_serde: Serde[K] | None = None,
        value_serde: Serde[int] | None = None,
        history_retention_ms: int | None = None,
    ) -> KTable[K, int]:
        """Return the table of how many rows each group has."""
        operator = TableAggregate("", COUNT.initial, COUNT.add, lambda _key, _value, count: count - 1)
        return self._table(
            operator, AGGREGATE, name, store_name, (key_serde, value_serde or LONG), history_retention_ms
        )

    def reduce(
        self,
        adder: Callable[[V, V], V],
        subtractor: Callable[[V, V], V],
        *,
        name: str | None = None,
        store_name: str | None = None,
        key_serde: Serde[K] | None = None,
        value_serde: Serde[V] | None = None,
        history_retention_ms: int | None = None,
    ) -> KTable[K, V]:
        """Return the table of the values of each group reduced to one. adder, subtractor: get the value so far, and the
        value of a row that joins or leaves the group."""
        aggregation = reduction(adder)
        operator = TableAggregate(
            "", aggregation.initial, aggregation.add, lambda _key, value, old: subtractor(old, value), reduces=True
        )
        serdes = key_serde, value_serde or self._value_serde
        return self._table(operator, REDUCE, name, store_name, serdes, history_retention_ms)

    def aggregate(
        self,
        initializer: Callable[[], A],
        adder: Callable[[K, V, A], A],
        subtractor: Callable[[K, V, A], A],
        *,
        name: str | None = None,
        store_name: str | None = None,
        key_serde: Serde[K] | None = None,
        value_serde: Serde[A] | None = None,
        history_retention_ms: int | None = None,
    ) -> KTable[K, A]:
        """Return the table of each group's aggregate. adder, subtractor: get key, value and the aggregate so far."""
        operator = TableAggregate("", initializer, adder, subtractor)
        return self._table(operator, AGGREGATE, name, store_name, (key_serde, value_serde), history_retention_ms)

    def _table(
        self,
        operator: TableAggregate,
        prefix: str,
        name: str | None,
        store_name: str | None,
        given: tuple[AnySerde, AnySerde],
        history_retention_ms: int | None,
    ) -> KTable[Any, Any]:
        versioned = has_versions(store_name, history_retention_ms)
        declaring = self._declaring
        serdes = given[0] or self._key_serde, given[1]
        store = operator.store = store_name or declaring.graph.new_store_name(AGGREGATE)
        sink = declaring.named(name, "KSTREAM-SINK-", "-sink")
        source = declaring.named(name, "KSTREAM-SOURCE-", "-source")
        node = declaring.named(name, prefix)
        if self._repartition is None or self._repartition_name is None:
            self._repartition = self._new_repartition(sink, source, f"{self._repartition_name or store}-repartition")
        parent = declaring.graph.add(self._repartition, self._step)
        builder = table_store(store, serdes, history_retention_ms=history_retention_ms)
        step = declaring.add_table(node, operator, parent, builder, versioned=versioned)
        return KTable(declaring, node, step, operator, serdes, store_name=store_name)

    def _new_repartition(self, sink: str, source: str, topic: str) -> Step:
        values = self._value_serde or self._declaring.value_serde
        if values is None:
            raise TopologyError(f"the values of the grouped table for {topic} have no serde, and there is no default")
        serdes: dict[str, Any] = {"key_serde": self._key_serde, "value_serde": change_serde(values)}

        def write(topology: Topology, step: Step) -> None:
            topology.internal_topics.add(topic)
            topology.add_sink(sink, topic, *step.parent_names, **serdes)
            topology.add_source(source, topic, **serdes)

        return Step(source, write)
