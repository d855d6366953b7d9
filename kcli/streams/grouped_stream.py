"""The records of a stream grouped by key, or by key and window: count, reduce and aggregate make tables of them.

`name` names the step, `store_name` the table's store; without them both get a number. Source: KGroupedStream,
TimeWindowedKStream, SessionWindowedKStream of Kafka Streams.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

from kcli.streams.context import AnySerde, Declaring
from kcli.streams.errors import TopologyError
from kcli.streams.graph import Step
from kcli.streams.ktable import KTable
from kcli.streams.serdes import LONG, Serde, session_windowed, time_windowed
from kcli.streams.topology.operators.aggregate import COUNT, Aggregation, StreamAggregate, reduction
from kcli.streams.topology.operators.session import SessionAggregate
from kcli.streams.topology.operators.sliding import SlidingWindowAggregate
from kcli.streams.topology.operators.table import TableOperator
from kcli.streams.topology.operators.window_aggregate import EmitStrategy, TimeWindowAggregate
from kcli.streams.topology.stores.key_value import table_store
from kcli.streams.topology.stores.session import SessionStoreBuilder
from kcli.streams.topology.stores.store import StoreBuilder
from kcli.streams.topology.stores.window import WindowStoreBuilder
from kcli.streams.windows import SessionWindows, SlidingWindows, TimeWindows, Windowed

K = TypeVar("K")
V = TypeVar("V")
A = TypeVar("A")

AGGREGATE, REDUCE = "KSTREAM-AGGREGATE-", "KSTREAM-REDUCE-"
SEGMENT_MS_MIN = 60_000


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

    def count(
        self,
        *,
        name: str | None = None,
        store_name: str | None = None,
        key_serde: Serde[K] | None = None,
        value_serde: Serde[int] | None = None,
        logging: bool = True,
    ) -> KTable[K, int]:
        """Return the table of how many records each key has."""
        burns = key_serde is not None or value_serde is not None or not logging
        store = self._grouped.store_name(store_name, AGGREGATE, burns=burns)
        serdes = key_serde or self._grouped.key_serde, value_serde or LONG
        return self._table(COUNT, AGGREGATE, name, (store, store_name), serdes, logging=logging)

    def reduce(
        self,
        reducer: Callable[[V, V], V],
        *,
        name: str | None = None,
        store_name: str | None = None,
        key_serde: Serde[K] | None = None,
        value_serde: Serde[V] | None = None,
        logging: bool = True,
    ) -> KTable[K, V]:
        """Return the table that has for each key one value, to which the reducer has reduced the values of all its
        records. reducer: gets the value so far and the next one."""
        store = self._grouped.store_name(store_name, REDUCE)
        serdes = key_serde or self._grouped.key_serde, value_serde or self._grouped.value_serde
        return self._table(reduction(reducer), REDUCE, name, (store, store_name), serdes, logging=logging)

    def aggregate(
        self,
        initializer: Callable[[], A],
        aggregator: Callable[[K, V, A], A],
        *,
        name: str | None = None,
        store_name: str | None = None,
        key_serde: Serde[K] | None = None,
        value_serde: Serde[A] | None = None,
        logging: bool = True,
    ) -> KTable[K, A]:
        """Return the table of each key's aggregate. initializer: makes the first one. aggregator: gets key, value and
        the aggregate so far."""
        store = self._grouped.store_name(store_name, AGGREGATE)
        serdes = key_serde or self._grouped.key_serde, value_serde
        aggregation = Aggregation(initializer, aggregator)
        return self._table(aggregation, AGGREGATE, name, (store, store_name), serdes, logging=logging)

    @overload
    def windowed_by(self, windows: TimeWindows | SlidingWindows) -> TimeWindowedKStream[K, V]: ...

    @overload
    def windowed_by(self, windows: SessionWindows) -> SessionWindowedKStream[K, V]: ...

    def windowed_by(self, windows: Any) -> Any:
        """Return the records of each key in windows."""
        match windows:
            case TimeWindows() | SlidingWindows():
                return TimeWindowedKStream(self._grouped, windows)
            case SessionWindows():
                return SessionWindowedKStream(self._grouped, windows)
        raise TopologyError(f"records are windowed by TimeWindows, SlidingWindows or SessionWindows, not {windows!r}")

    def _table(
        self,
        aggregation: Aggregation,
        prefix: str,
        name: str | None,
        stores: tuple[str, str | None],
        serdes: tuple[AnySerde, AnySerde],
        *,
        logging: bool,
    ) -> KTable[Any, Any]:
        store, given = stores
        node = self._grouped.declaring.named(name, prefix)
        builder = table_store(store, serdes, logging=logging)
        operator = StreamAggregate(store, aggregation)
        step = self._grouped.declaring.add_table(node, operator, self._grouped.parent(store), builder)
        return KTable(self._grouped.declaring, node, step, operator, serdes, store_name=given)


class WindowedKStream(ABC, Generic[K, V]):
    """The records of each key in windows; base of the classes for each kind of window."""

    def __init__(self, grouped: Grouped) -> None:
        self._grouped = grouped
        self._emit = EmitStrategy.ON_WINDOW_UPDATE

    def emit_strategy(self, strategy: EmitStrategy) -> Self:
        """Set when a window sends its aggregate: with each record, or once when the window is closed."""
        self._emit = strategy
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
        store = self._grouped.store_name(store_name, AGGREGATE, burns=given and self._burns_names)
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

    _burns_names = True

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
        store, given = stores
        declaring = self._grouped.declaring
        node = declaring.named(name, prefix)
        operator, windows_retention_ms, close_ms = self._operator(store, aggregation)
        if retention_ms is not None and retention_ms < windows_retention_ms:
            raise TopologyError(
                f"the store {store} must keep windows for {windows_retention_ms} ms, their length and grace; "
                f"retention_ms is {retention_ms}"
            )
        builder = self._builder(store, serdes, retention_ms or windows_retention_ms, logging=logging)
        step = declaring.add_table(node, operator, self._grouped.parent(store), builder, grace_ms=close_ms)
        keys = serdes[0] or declaring.key_serde
        windowed_serdes = None if keys is None else self._windowed(keys), serdes[1]
        return KTable(declaring, node, step, operator, windowed_serdes, store_name=given)

    @abstractmethod
    def _operator(self, store: str, aggregation: Aggregation) -> tuple[TableOperator, int, int]:
        """Return the operator, how long its store keeps a window, and how long a window is open after its end."""

    @abstractmethod
    def _builder(
        self, store: str, serdes: tuple[AnySerde, AnySerde], retention_ms: int, *, logging: bool
    ) -> StoreBuilder[Any]:
        """Return the definition of the table's store."""

    @abstractmethod
    def _windowed(self, key_serde: Serde[Any]) -> Serde[Windowed[Any]]:
        """Return the serde of the table's keys."""


class TimeWindowedKStream(WindowedKStream[K, V]):
    """The records of each key in tumbling, hopping or sliding windows."""

    def __init__(self, grouped: Grouped, windows: TimeWindows | SlidingWindows) -> None:
        super().__init__(grouped)
        self._windows = windows
        self._burns_names = isinstance(windows, TimeWindows)
        self._size_ms = windows.size_ms if isinstance(windows, TimeWindows) else windows.time_difference_ms

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

    def _operator(self, store: str, aggregation: Aggregation) -> tuple[TableOperator, int, int]:
        windows = self._windows
        operator: TableOperator = (
            TimeWindowAggregate(store, aggregation, self._emit, windows)
            if isinstance(windows, TimeWindows)
            else SlidingWindowAggregate(store, aggregation, self._emit, windows)
        )
        return operator, windows.retention_ms, windows.grace_ms

    def _builder(
        self, store: str, serdes: tuple[AnySerde, AnySerde], retention_ms: int, *, logging: bool
    ) -> StoreBuilder[Any]:
        # Kafka's store of windows that are sent when they are closed keeps them a millisecond longer
        more_ms = 1 if self._emit is EmitStrategy.ON_WINDOW_CLOSE else 0
        return WindowStoreBuilder(
            name=store,
            key_serde=serdes[0],
            value_serde=serdes[1],
            retention_ms=retention_ms + more_ms,
            window_size_ms=self._size_ms,
            timestamped=True,
            logging=logging,
        )

    def _windowed(self, key_serde: Serde[Any]) -> Serde[Windowed[Any]]:
        return time_windowed(key_serde, self._size_ms)


class SessionWindowedKStream(WindowedKStream[K, V]):
    """The records of each key in sessions."""

    def __init__(self, grouped: Grouped, windows: SessionWindows) -> None:
        super().__init__(grouped)
        self._windows = windows

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

    def _operator(self, store: str, aggregation: Aggregation) -> tuple[TableOperator, int, int]:
        operator = SessionAggregate(store, aggregation, self._emit, self._windows)
        return operator, self._windows.retention_ms, self._windows.retention_ms

    def _builder(
        self, store: str, serdes: tuple[AnySerde, AnySerde], retention_ms: int, *, logging: bool
    ) -> StoreBuilder[Any]:
        closes = self._emit is EmitStrategy.ON_WINDOW_CLOSE
        return SessionStoreBuilder(
            name=store,
            key_serde=serdes[0],
            value_serde=serdes[1],
            retention_ms=retention_ms,
            segment_ms=max(retention_ms // 2, SEGMENT_MS_MIN) if closes else 0,
            logging=logging,
        )

    def _windowed(self, key_serde: Serde[Any]) -> Serde[Windowed[Any]]:
        return session_windowed(key_serde)
