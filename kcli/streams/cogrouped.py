"""Several groups of records with the same keys, aggregated into one table: CogroupedKStream.

Each group has an aggregator of its own, all share the store; a node behind them merges their changes. Source:
CogroupedKStream, CogroupedStreamAggregateBuilder, KTablePassThrough of Kafka Streams.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from kcli.streams.graph import Step
from kcli.streams.ktable import KTable
from kcli.streams.serdes import Serde
from kcli.streams.topology.operators.aggregate import Aggregation, Aggregator
from kcli.streams.topology.operators.merged import MergedTable
from kcli.streams.windowing import NoWindows, SessionWindowing, TimeWindowing, Windowing, windowing_of
from kcli.streams.windows import SessionWindows, SlidingWindows, TimeWindows, Windowed

if TYPE_CHECKING:
    from kcli.streams.grouped_stream import Grouped, KGroupedStream

K = TypeVar("K")
V = TypeVar("V")
A = TypeVar("A")

AGGREGATE, MERGE = "COGROUPKSTREAM-AGGREGATE-", "COGROUPKSTREAM-MERGE-"


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
        logging: bool = True,
    ) -> KTable[K, A]:
        """Return the table of each key's aggregate of all groups. initializer: makes the first one."""
        return cogrouped_table(
            self._groups,
            NoWindows(),
            initializer,
            names=(name, store_name),
            serdes=(key_serde, value_serde),
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
    store = given or declaring.graph.new_store_name(AGGREGATE)
    builder = windowing.store(store, serdes, retention_ms, logging=logging)
    parents = [grouped.parent(store) for grouped in groups]
    steps: list[Step] = []
    operators = []
    for number, (parent, aggregator) in enumerate(zip(parents, groups.values(), strict=True)):
        node = declaring.named(name, AGGREGATE, f"-cogroup-agg-{number}")
        operator, grace_ms = windowing.aggregate(store, Aggregation(initializer, aggregator, merger))
        operators.append(operator)
        steps.append(
            declaring.add_processor(node, operator, parent, stores=(store,), grace_ms=grace_ms)
            if steps
            else declaring.add_table(node, operator, parent, builder, grace_ms=grace_ms)
        )
    merged = MergedTable(operators)
    node = declaring.named(name, MERGE, "-cogroup-merge")
    step = declaring.add_processor(node, merged, *steps)
    keys = serdes[0] or declaring.key_serde
    return KTable(
        declaring, node, step, merged, (None if keys is None else windowing.keys(keys), serdes[1]), store_name=given
    )
