"""The records of a stream grouped by key, or by key and window: count, reduce and aggregate make tables of them.

`name` names the step, `store_name` the table's store; without them both get a number. history_retention_ms makes the
store of a table without windows versioned: it keeps for so long what values were before. Several groups make one table
by `cogroup`: each has an aggregator of its own, all share the store, and a node behind them merges their changes.
Source: KGroupedStream, TimeWindowedKStream, SessionWindowedKStream, CogroupedKStream, CogroupedStreamAggregateBuilder,
KTablePassThrough of Kafka Streams.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Generic, Self, TypeVar, overload

from kcli.streams.context import AnySerde, Declaring, has_versions
from kcli.streams.graph import Step
from kcli.streams.ktable import KTable
from kcli.streams.serdes import LONG, Serde
from kcli.streams.topology.operators.aggregate import COUNT, Aggregation, Aggregator, reduction
from kcli.streams.topology.operators.merged import MergedTable
from kcli.streams.topology.operators.window_aggregate import EmitStrategy
from kcli.streams.windowing import NoWindows, SessionWindowing, TimeWindowing, Windowing, windowing_of
from kcli.streams.windows import SessionWindows, SlidingWindows, TimeWindows, Windowed

K = TypeVar("K")
V = TypeVar("V")
A = TypeVar("A")

AGGREGATE, REDUCE = "KSTREAM-AGGREGATE-", "KSTREAM-REDUCE-"
COGROUP_AGGREGATE, COGROUP_MERGE = "COGROUPKSTREAM-AGGREGATE-", "COGROUPKSTREAM-MERGE-"


class Grouped:
    """What all kinds of groups share: the step whose records are grouped, and the repartition topic between it and the
    aggregate."""

    def __init__(
        self,
        declaring: Declaring,
        step: Step,
        serdes: tuple[AnySerde, AnySerde],
        *,
        needs_repartition: bool,
        repartition_name: str | None,
    ) -> None:
        self.declaring, self.step = declaring, step
        self.key_serde, self.value_serde = serdes
        self._needs_repartition, self._repartition_name = needs_repartition, repartition_name
        self._repartition: Step | None = None

    def parent(self, store: str) -> Step:
        """Return the step after which all records of a key are in one partition. Aggregates share a repartition topic
        if the program names it. store: gives an unnamed topic its name."""
        if not self._needs_repartition:
            return self.step
        made = self.declaring.new_repartition(self._repartition_name or store, self.key_serde, self.value_serde)
        if self._repartition is None or self._repartition_name is None:
            self._repartition = made
        return self.declaring.graph.add(self._repartition, self.step)

    def store_name(self, given: str | None, prefix: str, *, burns: bool = False) -> str:
        """Return the name of a table's store: `given`, or a generated name. burns: one number more is skipped, as Kafka
        Streams does for a count whose store has serdes but no name."""
        if burns and given is None:
            self.declaring.graph.new_store_name(prefix)
        return given or self.declaring.graph.new_store_name(prefix)


class KGroupedStream(Generic[K, V]):
    """The records of a stream grouped by their keys K."""

    def __init__(self, grouped: Grouped) -> None:
        self._grouped = grouped

    @property
    def grouped(self) -> Grouped:
        """What all kinds of groups share."""
        return self._grouped

    def count(
        self,
        *,
        name: str | None = None,
        store_name: str | None = None,
        key_serde: Serde[K] | None = None,
        value_serde: Serde[int] | None = None,
        history_retention_ms: int | None = None,
        logging: bool = True,
    ) -> KTable[K, int]:
        """Return the table of how many records each key has."""
        burns = key_serde is not None or value_serde is not None or not logging
        store = self._grouped.store_name(store_name, AGGREGATE, burns=burns)
        serdes = key_serde or self._grouped.key_serde, value_serde or LONG
        return self._table(COUNT, AGGREGATE, name, (store, store_name), serdes, history_retention_ms, logging=logging)

    def reduce(
        self,
        reducer: Callable[[V, V], V],
        *,
        name: str | None = None,
        store_name: str | None = None,
        key_serde: Serde[K] | None = None,
        value_serde: Serde[V] | None = None,
        history_retention_ms: int | None = None,
        logging: bool = True,
    ) -> KTable[K, V]:
        """Return the table that has for each key one value, to which the reducer has reduced the values of all its
        records. reducer: gets the value so far and the next one."""
        store = self._grouped.store_name(store_name, REDUCE)
        serdes = key_serde or self._grouped.key_serde, value_serde or self._grouped.value_serde
        return self._table(
            reduction(reducer), REDUCE, name, (store, store_name), serdes, history_retention_ms, logging=logging
        )

    def aggregate(
        self,
        initializer: Callable[[], A],
        aggregator: Callable[[K, V, A], A],
        *,
        name: str | None = None,
        store_name: str | None = None,
        key_serde: Serde[K] | None = None,
        value_serde: Serde[A] | None = None,
        history_retention_ms: int | None = None,
        logging: bool = True,
    ) -> KTable[K, A]:
        """Return the table of each key's aggregate. initializer: makes the first one. aggregator: gets key, value and
        the aggregate so far."""
        store = self._grouped.store_name(store_name, AGGREGATE)
        serdes = key_serde or self._grouped.key_serde, value_serde
        aggregation = Aggregation(initializer, aggregator)
        return self._table(
            aggregation, AGGREGATE, name, (store, store_name), serdes, history_retention_ms, logging=logging
        )

    def cogroup(self, aggregator: Callable[[K, V, A], A]) -> CogroupedKStream[K, A]:
        """Return a CogroupedKStream, to which groups of other streams with the same keys are added. aggregator: gets
        key, value and the aggregate so far."""
        return CogroupedKStream(self._grouped, aggregator)

    @overload
    def windowed_by(self, windows: TimeWindows | SlidingWindows) -> TimeWindowedKStream[K, V]: ...

    @overload
    def windowed_by(self, windows: SessionWindows) -> SessionWindowedKStream[K, V]: ...

    def windowed_by(self, windows: Any) -> Any:
        """Return the records of each key in windows."""
        windowing = windowing_of(windows)
        if isinstance(windowing, SessionWindowing):
            return SessionWindowedKStream(self._grouped, windowing)
        return TimeWindowedKStream(self._grouped, windowing)

    def _table(
        self,
        aggregation: Aggregation,
        prefix: str,
        name: str | None,
        stores: tuple[str, str | None],
        serdes: tuple[AnySerde, AnySerde],
        history_retention_ms: int | None,
        *,
        logging: bool,
    ) -> KTable[Any, Any]:
        has_versions(stores[1], history_retention_ms)
        return grouped_table(
            self._grouped,
            NoWindows(),
            aggregation,
            prefix,
            name,
            stores,
            serdes,
            history_retention_ms,
            logging=logging,
        )


class WindowedKStream(Generic[K, V]):
    """The records of each key in windows; base of the classes for each kind of window."""

    def __init__(self, grouped: Grouped, windowing: TimeWindowing | SessionWindowing) -> None:
        self._grouped, self._windowing = grouped, windowing

    def emit_strategy(self, strategy: EmitStrategy) -> Self:
        """Set when a window sends its aggregate: with each record, or once when the window is closed."""
        self._windowing = replace(self._windowing, emit=strategy)
        return self

    def count(
        self,
        *,
        name: str | None = None,
        store_name: str | None = None,
        key_serde: Serde[K] | None = None,
        value_serde: Serde[int] | None = None,
        retention_ms: int | None = None,
        logging: bool = True,
    ) -> KTable[Windowed[K], int]:
        """Return the table of how many records each key and window has. retention_ms: how long the store keeps a
        window; at least its size and the grace."""
        given = key_serde is not None or value_serde is not None or retention_ms is not None or not logging
        is_sliding = isinstance(self._windowing.windows, SlidingWindows)
        store = self._grouped.store_name(store_name, AGGREGATE, burns=given and not is_sliding)
        serdes = key_serde or self._grouped.key_serde, value_serde or LONG
        return self._table(COUNT, AGGREGATE, name, (store, store_name), serdes, retention_ms, logging=logging)

    def reduce(
        self,
        reducer: Callable[[V, V], V],
        *,
        name: str | None = None,
        store_name: str | None = None,
        key_serde: Serde[K] | None = None,
        value_serde: Serde[V] | None = None,
        retention_ms: int | None = None,
        logging: bool = True,
    ) -> KTable[Windowed[K], V]:
        """Return the table of the values of each key and window reduced to one."""
        store = self._grouped.store_name(store_name, REDUCE)
        serdes = key_serde or self._grouped.key_serde, value_serde or self._grouped.value_serde
        aggregation = reduction(reducer)
        return self._table(aggregation, REDUCE, name, (store, store_name), serdes, retention_ms, logging=logging)

    def _table(
        self,
        aggregation: Aggregation,
        prefix: str,
        name: str | None,
        stores: tuple[str, str | None],
        serdes: tuple[AnySerde, AnySerde],
        retention_ms: int | None,
        *,
        logging: bool,
    ) -> KTable[Any, Any]:
        return grouped_table(
            self._grouped, self._windowing, aggregation, prefix, name, stores, serdes, retention_ms, logging=logging
        )


class TimeWindowedKStream(WindowedKStream[K, V]):
    """The records of each key in tumbling, hopping or sliding windows."""

    def aggregate(
        self,
        initializer: Callable[[], A],
        aggregator: Callable[[K, V, A], A],
        *,
        name: str | None = None,
        store_name: str | None = None,
        key_serde: Serde[K] | None = None,
        value_serde: Serde[A] | None = None,
        retention_ms: int | None = None,
        logging: bool = True,
    ) -> KTable[Windowed[K], A]:
        """Return the table of the aggregate of each key and window. initializer: makes the first one. aggregator: gets
        key, value and the aggregate so far."""
        store = self._grouped.store_name(store_name, AGGREGATE)
        serdes = key_serde or self._grouped.key_serde, value_serde
        aggregation = Aggregation(initializer, aggregator)
        return self._table(aggregation, AGGREGATE, name, (store, store_name), serdes, retention_ms, logging=logging)


class SessionWindowedKStream(WindowedKStream[K, V]):
    """The records of each key in sessions."""

    def aggregate(  # noqa: PLR0913 (all but three are passed by name)
        self,
        initializer: Callable[[], A],
        aggregator: Callable[[K, V, A], A],
        merger: Callable[[K, A, A], A],
        *,
        name: str | None = None,
        store_name: str | None = None,
        key_serde: Serde[K] | None = None,
        value_serde: Serde[A] | None = None,
        retention_ms: int | None = None,
        logging: bool = True,
    ) -> KTable[Windowed[K], A]:
        """Return the table of the aggregate of each key and session. merger: gets a key and the aggregates of two
        sessions that become one."""
        store = self._grouped.store_name(store_name, AGGREGATE)
        serdes = key_serde or self._grouped.key_serde, value_serde
        aggregation = Aggregation(initializer, aggregator, merger)
        return self._table(aggregation, AGGREGATE, name, (store, store_name), serdes, retention_ms, logging=logging)


class CogroupedKStream(Generic[K, A]):
    """Groups with keys K, each with the aggregator that adds its values to an aggregate A."""

    def __init__(self, grouped: Grouped, aggregator: Aggregator) -> None:
        self._groups: dict[Grouped, Aggregator] = {grouped: aggregator}

    def cogroup(
        self, grouped_stream: KGroupedStream[K, V], aggregator: Callable[[K, V, A], A]
    ) -> CogroupedKStream[K, A]:
        """Add a group. aggregator: gets key, value and the aggregate so far."""
        self._groups[grouped_stream.grouped] = aggregator
        return self

    def aggregate(
        self,
        initializer: Callable[[], A],
        *,
        name: str | None = None,
        store_name: str | None = None,
        key_serde: Serde[K] | None = None,
        value_serde: Serde[A] | None = None,
        history_retention_ms: int | None = None,
        logging: bool = True,
    ) -> KTable[K, A]:
        """Return the table of each key's aggregate of all groups. initializer: makes the first one."""
        has_versions(store_name, history_retention_ms)
        return cogrouped_table(
            self._groups,
            NoWindows(),
            initializer,
            names=(name, store_name),
            serdes=(key_serde, value_serde),
            retention_ms=history_retention_ms,
            logging=logging,
        )

    @overload
    def windowed_by(self, windows: TimeWindows | SlidingWindows) -> TimeWindowedCogroupedKStream[K, A]: ...

    @overload
    def windowed_by(self, windows: SessionWindows) -> SessionWindowedCogroupedKStream[K, A]: ...

    def windowed_by(self, windows: Any) -> Any:
        """Return the groups with the records of each key in windows."""
        windowing = windowing_of(windows)
        if isinstance(windowing, SessionWindowing):
            return SessionWindowedCogroupedKStream(self._groups, windowing)
        return TimeWindowedCogroupedKStream(self._groups, windowing)


class TimeWindowedCogroupedKStream(Generic[K, A]):
    """Groups with the records of each key in tumbling, hopping or sliding windows."""

    def __init__(self, groups: dict[Grouped, Aggregator], windowing: TimeWindowing) -> None:
        self._groups, self._windowing = groups, windowing

    def aggregate(
        self,
        initializer: Callable[[], A],
        *,
        name: str | None = None,
        store_name: str | None = None,
        key_serde: Serde[K] | None = None,
        value_serde: Serde[A] | None = None,
        retention_ms: int | None = None,
        logging: bool = True,
    ) -> KTable[Windowed[K], A]:
        """Return the table of the aggregate of each key and window."""
        return cogrouped_table(
            self._groups,
            self._windowing,
            initializer,
            names=(name, store_name),
            serdes=(key_serde, value_serde),
            retention_ms=retention_ms,
            logging=logging,
        )


class SessionWindowedCogroupedKStream(Generic[K, A]):
    """Groups with the records of each key in sessions."""

    def __init__(self, groups: dict[Grouped, Aggregator], windowing: SessionWindowing) -> None:
        self._groups, self._windowing = groups, windowing

    def aggregate(
        self,
        initializer: Callable[[], A],
        merger: Callable[[K, A, A], A],
        *,
        name: str | None = None,
        store_name: str | None = None,
        key_serde: Serde[K] | None = None,
        value_serde: Serde[A] | None = None,
        retention_ms: int | None = None,
        logging: bool = True,
    ) -> KTable[Windowed[K], A]:
        """Return the table of the aggregate of each key and session. merger: gets a key and the aggregates of two
        sessions that become one."""
        return cogrouped_table(
            self._groups,
            self._windowing,
            initializer,
            merger,
            names=(name, store_name),
            serdes=(key_serde, value_serde),
            retention_ms=retention_ms,
            logging=logging,
        )


def grouped_table(  # noqa: PLR0913 (what the methods of groups take)
    grouped: Grouped,
    windowing: Windowing,
    aggregation: Aggregation,
    prefix: str,
    name: str | None,
    stores: tuple[str, str | None],
    serdes: tuple[AnySerde, AnySerde],
    retention_ms: int | None = None,
    *,
    logging: bool,
) -> KTable[Any, Any]:
    """Return the table of a group. prefix: of the step's name, unless `name` is given. stores: the name of the store,
    and the one that the program has given it."""
    store, given = stores
    declaring = grouped.declaring
    node = declaring.named(name, prefix)
    operator, grace_ms = windowing.aggregate(store, aggregation)
    builder = windowing.store(store, serdes, retention_ms, logging=logging)
    versioned = windowing.versioned(retention_ms)
    step = declaring.add_table(node, operator, grouped.parent(store), builder, grace_ms=grace_ms, versioned=versioned)
    keys = serdes[0] or declaring.key_serde
    table_serdes = None if keys is None else windowing.keys(keys), serdes[1]
    return KTable(declaring, node, step, operator, table_serdes, store_name=given)


def cogrouped_table(
    groups: dict[Grouped, Aggregator],
    windowing: Windowing,
    initializer: Callable[[], Any],
    merger: Aggregator | None = None,
    *,
    names: tuple[str | None, str | None],
    serdes: tuple[Serde[Any] | None, Serde[Any] | None],
    retention_ms: int | None = None,
    logging: bool = True,
) -> KTable[Any, Any]:
    """Return the table of all groups. names: of the step and the store."""
    name, given = names
    declaring = next(iter(groups)).declaring
    store = given or declaring.graph.new_store_name(COGROUP_AGGREGATE)
    builder = windowing.store(store, serdes, retention_ms, logging=logging)
    versioned = windowing.versioned(retention_ms)
    parents = [grouped.parent(store) for grouped in groups]
    steps: list[Step] = []
    operators = []
    for number, (parent, aggregator) in enumerate(zip(parents, groups.values(), strict=True)):
        node = declaring.named(name, COGROUP_AGGREGATE, f"-cogroup-agg-{number}")
        operator, grace_ms = windowing.aggregate(store, Aggregation(initializer, aggregator, merger))
        operators.append(operator)
        steps.append(
            declaring.add_processor(node, operator, parent, stores=(store,), grace_ms=grace_ms, versioned=versioned)
            if steps
            else declaring.add_table(node, operator, parent, builder, grace_ms=grace_ms, versioned=versioned)
        )
    merged = MergedTable(operators)
    node = declaring.named(name, COGROUP_MERGE, "-cogroup-merge")
    step = declaring.add_processor(node, merged, *steps)
    keys = serdes[0] or declaring.key_serde
    return KTable(
        declaring, node, step, merged, (None if keys is None else windowing.keys(keys), serdes[1]), store_name=given
    )
