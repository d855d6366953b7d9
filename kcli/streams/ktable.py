"""KTable: a table whose rows change with each record, and GlobalKTable: the whole of a topic as a table.

`name` names the nodes of a step, `store_name` the store of its table. A table whose store has no name has a store only
if a later step looks values up in the table, or needs the old values of its changes. With `history_retention_ms` the
store is versioned: it keeps for so long what values were before. Source: KTable, GlobalKTable of Kafka Streams.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from kcli.streams.context import AnySerde, Declaring, has_versions
from kcli.streams.errors import TopologyError
from kcli.streams.graph import Step
from kcli.streams.kstream import KStream
from kcli.streams.serdes import Serde
from kcli.streams.suppressed import Suppressed
from kcli.streams.topology.operators.foreign_key import (
    SUBSCRIPTION_KEY,
    AnswerChange,
    AnswerSubscription,
    ForeignKeyJoin,
    Receive,
    Resolve,
    Subscribe,
    response_serde,
    subscription_serde,
)
from kcli.streams.topology.operators.stateless import new_values
from kcli.streams.topology.operators.suppress import SuppressedTable, Suppression
from kcli.streams.topology.operators.table import TableOperator
from kcli.streams.topology.operators.table_aggregate import regrouped
from kcli.streams.topology.operators.table_join import JoinKind, table_join
from kcli.streams.topology.operators.table_source import TableSource
from kcli.streams.topology.operators.table_stateless import TableFilter, TableMap
from kcli.streams.topology.stores.key_value import KeyValueStoreBuilder, table_store
from kcli.streams.topology.stores.store import StoreBuilder
from kcli.streams.topology.stores.suppress_buffer import SuppressBufferBuilder
from kcli.streams.topology.topology import Topology

if TYPE_CHECKING:
    from kcli.streams.grouped_table import KGroupedTable

K = TypeVar("K")
V = TypeVar("V")
K2 = TypeVar("K2")
V2 = TypeVar("V2")
V3 = TypeVar("V3")


class GlobalKTable(Generic[K, V]):
    """The whole of a topic as a table, for joins by any key. store_name: the name of its store."""

    def __init__(self, store_name: str) -> None:
        self.store_name = store_name


class KTable(Generic[K, V]):
    """A table with keys K and values V. store_name: the name that its store was given, None if it has none.

    The other fields are for the next steps. declaring: the program. name, step: the node that sends the changes, and
    its step. operator: reads values of the table.
    """

    def __init__(
        self,
        declaring: Declaring,
        name: str,
        step: Step,
        operator: TableOperator,
        serdes: tuple[AnySerde, AnySerde],
        *,
        store_name: str | None = None,
    ) -> None:
        self.store_name = store_name
        self.declaring, self.name, self.step, self.operator = declaring, name, step, operator
        self.key_serde, self.value_serde = serdes

    def filter(
        self,
        predicate: Callable[[K, V], bool],
        *,
        name: str | None = None,
        store_name: str | None = None,
        key_serde: Serde[K] | None = None,
        value_serde: Serde[V] | None = None,
        history_retention_ms: int | None = None,
    ) -> KTable[K, V]:
        """Return the table of the rows for which the predicate is true."""
        return self._filter(predicate, name, store_name, (key_serde, value_serde), history_retention_ms, keep=True)

    def filter_not(
        self,
        predicate: Callable[[K, V], bool],
        *,
        name: str | None = None,
        store_name: str | None = None,
        key_serde: Serde[K] | None = None,
        value_serde: Serde[V] | None = None,
        history_retention_ms: int | None = None,
    ) -> KTable[K, V]:
        """Return the table of the rows for which the predicate is false."""
        return self._filter(predicate, name, store_name, (key_serde, value_serde), history_retention_ms, keep=False)

    def map_values(
        self,
        mapper: Callable[[V], V2],
        *,
        name: str | None = None,
        store_name: str | None = None,
        key_serde: Serde[K] | None = None,
        value_serde: Serde[V2] | None = None,
        history_retention_ms: int | None = None,
    ) -> KTable[K, V2]:
        """Return the table with the mapper's value in each row; the mapper does not get None."""
        prefix = "KTABLE-MAPVALUES-"
        versioned = self._versioned(store_name, (key_serde, value_serde), history_retention_ms)
        self._burn(prefix, store_name, (key_serde, value_serde))
        operator = TableMap(self.operator, lambda _key, value: mapper(value), store_name)
        own = key_serde or self.key_serde, value_serde
        builder = self._store_of(store_name, own, history_retention_ms)
        return self._derived(prefix, name, operator, own, builder, versioned)

    def to_stream(self, *, name: str | None = None) -> KStream[K, V]:
        """Return the stream of the table's changes: each record has the new value of a row, or None if the row is
        deleted."""
        node = self.declaring.named(name, "KTABLE-TOSTREAM-")
        step = self.declaring.add_processor(node, new_values(), self.step)
        return KStream(self.declaring, node, step, (self.key_serde, self.value_serde))

    def suppress(self, suppressed: Suppressed, *, name: str | None = None) -> KTable[K, V]:
        """Return the table whose changes wait in a buffer: of the changes of a row, only the last is sent.
        Raises TopologyError for a versioned table."""
        if self.step.is_versioned():
            raise TopologyError(f"suppress is only for tables without versions; {self.name} is versioned")
        node = name or self.declaring.graph.new_name("KTABLE-SUPPRESS-")
        suppression = self._suppression(suppressed)
        store = f"{name}-store" if name else self.declaring.graph.new_store_name("KTABLE-SUPPRESS-")
        operator = SuppressedTable(self.operator, suppression, store)
        builder = SuppressBufferBuilder(name=store, key_serde=self.key_serde, value_serde=self.value_serde)
        step = self.declaring.add_table(node, operator, self.step, builder, versioned=False)
        return KTable(self.declaring, node, step, operator, (self.key_serde, self.value_serde))

    def group_by(
        self,
        selector: Callable[[K, V], tuple[K2, V2]],
        *,
        key_serde: Serde[K2] | None = None,
        value_serde: Serde[V2] | None = None,
        name: str | None = None,
    ) -> KGroupedTable[K2, V2]:
        """Return the rows grouped anew; the selector makes a new key and value of each row. name: the name of the step
        and of the repartition topic."""
        from kcli.streams.grouped_table import KGroupedTable

        node = self.declaring.named(name, "KTABLE-SELECT-")
        step = self.declaring.add_processor(node, regrouped(selector, is_versioned=self.step.is_versioned()), self.step)
        self.operator.send_old_values(force=True)
        return KGroupedTable(self.declaring, step, (key_serde, value_serde), name)

    @overload
    def join(
        self,
        other: KTable[K, V2],
        joiner: Callable[[V, V2], V3],
        *,
        name: str | None = None,
        store_name: str | None = None,
        key_serde: Serde[K] | None = None,
        value_serde: Serde[V3] | None = None,
        history_retention_ms: int | None = None,
    ) -> KTable[K, V3]: ...

    @overload
    def join(
        self,
        other: KTable[K2, V2],
        joiner: Callable[[V, V2], V3],
        *,
        foreign_key: Callable[[V], K2 | None],
        name: str | None = None,
        store_name: str | None = None,
        key_serde: Serde[K] | None = None,
        value_serde: Serde[V3] | None = None,
        history_retention_ms: int | None = None,
    ) -> KTable[K, V3]: ...

    def join(self, other: Any, joiner: Any, *, foreign_key: Any = None, **about: Any) -> Any:
        """Return the table of this table's rows, each joined with a row of `other`.

        other: a table, whose row has the same key, or the key that `foreign_key` makes of this table's value. joiner:
        gets this table's value and the other one.
        """
        if foreign_key is not None:
            return self._join_foreign(other, joiner, foreign_key, keeps=False, **about)
        return self._join(other, joiner, JoinKind.INNER, **about)

    @overload
    def left_join(
        self,
        other: KTable[K, V2],
        joiner: Callable[[V, V2 | None], V3],
        *,
        name: str | None = None,
        store_name: str | None = None,
        key_serde: Serde[K] | None = None,
        value_serde: Serde[V3] | None = None,
        history_retention_ms: int | None = None,
    ) -> KTable[K, V3]: ...

    @overload
    def left_join(
        self,
        other: KTable[K2, V2],
        joiner: Callable[[V, V2 | None], V3],
        *,
        foreign_key: Callable[[V], K2 | None],
        name: str | None = None,
        store_name: str | None = None,
        key_serde: Serde[K] | None = None,
        value_serde: Serde[V3] | None = None,
        history_retention_ms: int | None = None,
    ) -> KTable[K, V3]: ...

    def left_join(self, other: Any, joiner: Any, *, foreign_key: Any = None, **about: Any) -> Any:
        """As `join`; a row of this table without a row of `other` is joined with None."""
        if foreign_key is not None:
            return self._join_foreign(other, joiner, foreign_key, keeps=True, **about)
        return self._join(other, joiner, JoinKind.LEFT, **about)

    def outer_join(
        self,
        other: KTable[K, V2],
        joiner: Callable[[V | None, V2 | None], V3],
        *,
        name: str | None = None,
        store_name: str | None = None,
        key_serde: Serde[K] | None = None,
        value_serde: Serde[V3] | None = None,
        history_retention_ms: int | None = None,
    ) -> KTable[K, V3]:
        """As `left_join`; a row of `other` without a row of this table is joined with None, too."""
        about: dict[str, Any] = {"key_serde": key_serde, "value_serde": value_serde}
        about["history_retention_ms"] = history_retention_ms
        return self._join(other, joiner, JoinKind.OUTER, name=name, store_name=store_name, **about)

    # steps

    def _filter(
        self,
        predicate: Callable[[Any, Any], bool],
        name: str | None,
        store_name: str | None,
        serdes: tuple[AnySerde, AnySerde],
        history_retention_ms: int | None,
        *,
        keep: bool,
    ) -> KTable[K, V]:
        prefix = "KTABLE-FILTER-"
        versioned = self._versioned(store_name, serdes, history_retention_ms)
        self._burn(prefix, store_name, serdes)
        operator = TableFilter(self.operator, predicate, store_name, keep=keep, is_versioned=self.step.is_versioned())
        own = serdes[0] or self.key_serde, serdes[1] or self.value_serde
        builder = self._store_of(store_name, own, history_retention_ms)
        return self._derived(prefix, name, operator, own, builder, versioned)

    def _burn(self, prefix: str, store_name: str | None, serdes: tuple[AnySerde, AnySerde]) -> None:
        """Skip the number of a store that has serdes but no name, as Kafka Streams does: later names have the same
        numbers."""
        if store_name is None and serdes != (None, None):
            self.declaring.graph.new_store_name(prefix)

    @staticmethod
    def _versioned(
        store_name: str | None, serdes: tuple[AnySerde, AnySerde], history_retention_ms: int | None
    ) -> bool | None:
        """Return whether a table made of this one has versions; None if it is as this one. As in Kafka Streams, giving
        serdes alone is enough for it not to have them. Raises TopologyError."""
        has = has_versions(store_name, history_retention_ms)
        return None if store_name is None and serdes == (None, None) else has

    @staticmethod
    def _store_of(
        store_name: str | None, serdes: tuple[AnySerde, AnySerde], history_retention_ms: int | None
    ) -> StoreBuilder[Any] | None:
        if store_name is None:
            return None
        return table_store(store_name, serdes, history_retention_ms=history_retention_ms)

    def _derived(
        self,
        prefix: str,
        name: str | None,
        operator: TableOperator,
        serdes: tuple[AnySerde, AnySerde],
        store: StoreBuilder[Any] | None,
        versioned: bool | None,
    ) -> KTable[Any, Any]:
        node = self.declaring.named(name, prefix)
        step = self.declaring.add_table(node, operator, self.step, store, versioned=versioned)
        store_name = None if store is None else store.name
        return KTable(self.declaring, node, step, operator, serdes, store_name=store_name)

    def _suppression(self, suppressed: Suppressed) -> Suppression:
        bounds: dict[str, Any] = {"records_max": suppressed.records_max, "bytes_max": suppressed.bytes_max}
        if suppressed.wait_ms is None:
            close_ms = self.step.window_close_ms()
            return Suppression(
                close_ms, lambda record: record.key.window.end, skips_tombstones=True, fails=True, **bounds
            )
        fails = not suppressed.emits_early
        return Suppression(suppressed.wait_ms, lambda record: record.timestamp, fails=fails, **bounds)

    def _join(
        self,
        other: KTable[Any, Any],
        joiner: Any,
        kind: JoinKind,
        *,
        name: str | None = None,
        store_name: str | None = None,
        key_serde: AnySerde = None,
        value_serde: AnySerde = None,
        history_retention_ms: int | None = None,
    ) -> KTable[Any, Any]:
        _check_table(other)
        versioned = has_versions(store_name, history_retention_ms)
        declaring = self.declaring
        is_materialized = any(each is not None for each in (store_name, key_serde, value_serde))
        store = store_name or (declaring.graph.new_store_name("KTABLE-MERGE-") if is_materialized else None)
        merge = declaring.named(name, "KTABLE-MERGE-")
        if kind is not JoinKind.INNER:
            self.operator.send_old_values(force=True)
        if kind is JoinKind.OUTER:
            other.operator.send_old_values(force=True)
        are_versioned = self.step.is_versioned(), other.step.is_versioned()
        operator = table_join(self.operator, other.operator, joiner, kind, store, are_versioned=are_versioned)
        this_name = declaring.named(name, "KTABLE-JOINTHIS-", "-join-this")
        other_name = declaring.named(name, "KTABLE-JOINOTHER-", "-join-other")
        serdes = key_serde or self.key_serde, value_serde

        def write(topology: Topology, _step: Step) -> None:
            topology.add_processor(this_name, operator.left, self.name)
            topology.add_processor(other_name, operator.right, other.name)
            topology.add_processor(merge, operator, this_name, other_name)
            topology.connect_processor_and_state_stores(this_name, *operator.left.other_view.stores)
            topology.connect_processor_and_state_stores(other_name, *operator.left.own_view.stores)
            if store is not None:
                builder = table_store(store, serdes, history_retention_ms=history_retention_ms)
                topology.add_state_store(builder, merge)

        step = declaring.graph.add(Step(merge, write, versioned=versioned), self.step, other.step)
        return KTable(declaring, merge, step, operator, serdes, store_name=store)

    def _join_foreign(  # noqa: PLR0913 (all but three are passed by name)
        self,
        other: KTable[Any, Any],
        joiner: Any,
        foreign_key: Any,
        *,
        keeps: bool,
        name: str | None = None,
        store_name: str | None = None,
        key_serde: AnySerde = None,
        value_serde: AnySerde = None,
        history_retention_ms: int | None = None,
    ) -> KTable[Any, Any]:
        _check_table(other)
        versioned = has_versions(store_name, history_retention_ms)
        declaring, graph = self.declaring, self.declaring.graph
        other.operator.send_old_values(force=True)
        self.operator.send_old_values(force=True)
        (keys, values), (foreign_keys, foreign_values) = self._serdes("left"), other._serdes("right")

        def node(prefix: str, suffix: str) -> str:
            return declaring.named(name, f"KTABLE-{prefix}-", suffix)

        registration = node("FK-JOIN-SUBSCRIPTION-REGISTRATION", "-subscription-registration") + "-topic"
        subscribe = node("FK-JOIN-SUBSCRIPTION-REGISTRATION", "-subscription-registration-processor")
        registration_sink = node("SINK", "-subscription-registration-sink")
        registration_source = node("SOURCE", "-subscription-registration-source")
        store = node("FK-JOIN-SUBSCRIPTION-STATE-STORE", "-subscription-store")
        receive = node("FK-JOIN-SUBSCRIPTION-PROCESSOR", "-subscription-receive")
        answer = node("FK-JOIN-SUBSCRIPTION-PROCESSOR", "-subscription-join-foreign")
        answer_change = node("FK-JOIN-SUBSCRIPTION-PROCESSOR", "-foreign-join-subscription")
        response = node("FK-JOIN-SUBSCRIPTION-RESPONSE", "-subscription-response") + "-topic"
        response_sink = node("SINK", "-subscription-response-sink")
        response_source = node("SOURCE", "-subscription-response-source")
        resolve = node("FK-JOIN-SUBSCRIPTION-RESPONSE-RESOLVER-PROCESSOR", "-subscription-response-resolver")
        result = node("FK-JOIN-OUTPUT", "-result")
        result_store = store_name or graph.new_store_name("KTABLE-FK-JOIN-OUTPUT-")

        views = self.operator.view(), other.operator.view()
        join = ForeignKeyJoin(
            foreign_key,
            joiner,
            store,
            (keys, foreign_keys),
            values,
            views,
            keeps=keeps,
            are_versioned=(self.step.is_versioned(), other.step.is_versioned()),
        )
        subscriptions = KeyValueStoreBuilder(
            name=store,
            key_serde=SUBSCRIPTION_KEY,
            value_serde=subscription_serde(keys),
            timestamped=True,
            logs_headers=True,
        )
        table = TableSource(result_store, is_materialized=store_name is not None)
        serdes = key_serde or self.key_serde, value_serde

        def step(
            of: str, write: Callable[[Topology, Step], None], *parents: Step, versioned: bool | None = None
        ) -> Step:
            return graph.add(Step(of, write, versioned=versioned), *parents)

        def write_registration(topology: Topology, _step: Step) -> None:
            topology.internal_topics.add(registration)
            serde = subscription_serde(keys)
            topology.add_sink(registration_sink, registration, subscribe, key_serde=foreign_keys, value_serde=serde)
            topology.add_source(registration_source, registration, key_serde=foreign_keys, value_serde=serde)
            topology.add_state_store(subscriptions)

        def write_response(topology: Topology, _step: Step) -> None:
            topology.internal_topics.add(response)
            serde = response_serde(foreign_values)
            topology.add_sink(
                response_sink,
                response,
                answer,
                answer_change,
                key_serde=keys,
                value_serde=serde,
                partition_of=lambda answered: answered.partition,
            )
            topology.add_source(response_source, response, key_serde=keys, value_serde=serde)

        def write_result(topology: Topology, _step: Step) -> None:
            topology.add_processor(result, table, resolve)
            if table.is_materialized:
                topology.add_state_store(
                    table_store(result_store, serdes, history_retention_ms=history_retention_ms), result
                )

        sent = declaring.add_processor(subscribe, lambda: Subscribe(join), self.step)
        registered = step(registration_source, write_registration, sent)
        received = declaring.add_processor(receive, lambda: Receive(join), registered, stores=(store,))
        answered = declaring.add_processor(answer, lambda: AnswerSubscription(join), received, stores=join.right.stores)
        changed = declaring.add_processor(answer_change, lambda: AnswerChange(join), other.step, stores=(store,))
        responded = step(response_source, write_response, answered, changed)
        resolved = declaring.add_processor(resolve, lambda: Resolve(join), responded, stores=join.left.stores)
        last = step(result, write_result, resolved, versioned=versioned)
        return KTable(declaring, result, last, table, serdes, store_name=store_name)

    def _serdes(self, side: str) -> tuple[Serde[Any], Serde[Any]]:
        """Return the serdes of a table of a foreign-key join, or the default ones."""
        keys, values = self.key_serde or self.declaring.key_serde, self.value_serde or self.declaring.value_serde
        if keys is None or values is None:
            what = "key" if keys is None else "value"
            raise TopologyError(
                f"the {side} table {self.name} of a foreign-key join has no {what}_serde, and there is no default"
            )
        return keys, values


def _check_table(other: object) -> None:
    if not isinstance(other, KTable):
        raise TopologyError(f"a table can be joined with a table, not with {other!r}")
