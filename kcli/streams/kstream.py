"""KStream: an endless stream of records, each of which is a fact of its own.

`name` names the nodes of a step; without it they get a number. After a step that may change keys, the next step that
needs all records of a key in one partition sends them through a repartition topic. Source: KStream, BranchedKStream of
Kafka Streams.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast, overload

from kcli.streams.context import AnySerde, AnySupplier, Declaring, has_versions
from kcli.streams.errors import TopologyError
from kcli.streams.graph import Step
from kcli.streams.serdes import Serde
from kcli.streams.topology.operators.fixed_key import fixed_key
from kcli.streams.topology.operators.stateless import (
    branched,
    filtered,
    flat_mapped,
    mapped,
    pass_through,
    peeked,
    values_flat_mapped,
    values_mapped,
)
from kcli.streams.topology.operators.stream_join import StreamJoin, WindowedInput
from kcli.streams.topology.operators.stream_table import StreamTableJoin
from kcli.streams.topology.operators.table import store_view
from kcli.streams.topology.operators.table_source import TableSource
from kcli.streams.topology.processor import ProcessorSupplier
from kcli.streams.topology.stores.join_buffer import JoinBufferBuilder
from kcli.streams.topology.stores.key_value import table_store
from kcli.streams.topology.stores.outer_join import OuterJoinStoreBuilder
from kcli.streams.topology.stores.versioned import VersionedKeyValueStoreBuilder
from kcli.streams.topology.stores.window import WindowStoreBuilder
from kcli.streams.topology.topology import TopicNameExtractor, Topology
from kcli.streams.windows import JoinWindows

if TYPE_CHECKING:
    from kcli.streams.grouped_stream import KGroupedStream
    from kcli.streams.ktable import GlobalKTable, KTable

K = TypeVar("K")
V = TypeVar("V")
K2 = TypeVar("K2")
V2 = TypeVar("V2")
V3 = TypeVar("V3")


class KStream(Generic[K, V]):
    """A stream of records with keys K and values V, both of which may be None.

    The fields are for the next steps. declaring: the program. name, step: the node that sends the records, and its
    step. needs_repartition: whether keys may have changed since the last repartition.
    """

    def __init__(
        self,
        declaring: Declaring,
        name: str,
        step: Step,
        serdes: tuple[AnySerde, AnySerde] = (None, None),
        *,
        needs_repartition: bool = False,
    ) -> None:
        self.declaring, self.name, self.step = declaring, name, step
        self.key_serde, self.value_serde = serdes
        self.needs_repartition = needs_repartition
        self._repartition: Step | None = None

    # records one by one

    def filter(self, predicate: Callable[[K, V], bool], *, name: str | None = None) -> KStream[K, V]:
        """Return the stream of the records for which the predicate is true."""
        return self._with("FILTER", name, filtered(predicate, keep=True), value_serde=self.value_serde)

    def filter_not(self, predicate: Callable[[K, V], bool], *, name: str | None = None) -> KStream[K, V]:
        """Return the stream of the records for which the predicate is false."""
        return self._with("FILTER", name, filtered(predicate, keep=False), value_serde=self.value_serde)

    def map(self, mapper: Callable[[K, V], tuple[K2, V2]], *, name: str | None = None) -> KStream[K2, V2]:
        """Return the stream of the mapper's key and value for each record."""
        return self._rekeyed("MAP", name, mapped(mapper))

    def map_values(self, mapper: Callable[[V], V2], *, name: str | None = None) -> KStream[K, V2]:
        """Return the stream with the mapper's value in each record."""
        return self._with("MAPVALUES", name, values_mapped(mapper))

    def flat_map(
        self, mapper: Callable[[K, V], Iterable[tuple[K2, V2]]], *, name: str | None = None
    ) -> KStream[K2, V2]:
        """Return the stream of all keys and values of the mapper for each record."""
        return self._rekeyed("FLATMAP", name, flat_mapped(mapper))

    def flat_map_values(self, mapper: Callable[[V], Iterable[V2]], *, name: str | None = None) -> KStream[K, V2]:
        """Return the stream with each of the mapper's values in a record of its own."""
        return self._with("FLATMAPVALUES", name, values_flat_mapped(mapper))

    def select_key(self, mapper: Callable[[K, V], K2], *, name: str | None = None) -> KStream[K2, V]:
        """Return the stream with the mapper's key in each record."""
        step = self._select_key(mapper, name)
        return KStream(self.declaring, step.name, step, (None, self.value_serde), needs_repartition=True)

    def peek(self, action: Callable[[K, V], object], *, name: str | None = None) -> KStream[K, V]:
        """Call the action for each record; return the same stream."""
        return self._with("PEEK", name, peeked(action), value_serde=self.value_serde)

    def foreach(self, action: Callable[[K, V], object], *, name: str | None = None) -> None:
        """Call the action for each record."""
        self._add("FOREACH", name, peeked(action, is_last=True))

    def split(self, *, name: str | None = None) -> BranchedKStream[K, V]:
        """Return a BranchedKStream, which sends each record to one of several branches."""
        return BranchedKStream(self, name)

    def merge(self, other: KStream[K, V], *, name: str | None = None) -> KStream[K, V]:
        """Return the stream of the records of both streams."""
        node = self.declaring.named(name, "KSTREAM-MERGE-")
        step = self.declaring.add_processor(node, pass_through(), self.step, other.step)
        return KStream(self.declaring, node, step, needs_repartition=self.needs_repartition or other.needs_repartition)

    # processors of the program's own

    def process(
        self, supplier: ProcessorSupplier[K, V, K2, V2], *state_stores: str, name: str | None = None
    ) -> KStream[K2, V2]:
        """Return the stream of the records that the program's own processors forward. supplier: makes a processor for
        each task. state_stores: the names of the stores that the processors use."""
        step = self._process("PROCESSOR", supplier, state_stores, name)
        return KStream(self.declaring, step.name, step, needs_repartition=True)

    def process_values(
        self, supplier: ProcessorSupplier[K, V, K, V2], *state_stores: str, name: str | None = None
    ) -> KStream[K, V2]:
        """As `process`, with processors that do not change keys: the stream needs no repartition. Forwarding another
        key is a ProcessingError."""
        step = self._process("PROCESSVALUES", fixed_key(supplier), state_stores, name)
        return self._like_this(step)

    # topics

    def to(
        self,
        topic: str | TopicNameExtractor,
        *,
        key_serde: Serde[K] | None = None,
        value_serde: Serde[V] | None = None,
        name: str | None = None,
    ) -> None:
        """Send the records to a topic, or to the one that a function of key, value and metadata returns for each."""
        node = self.declaring.named(name, "KSTREAM-SINK-")
        keys, values = key_serde or self.key_serde, value_serde or self.value_serde

        def write(topology: Topology, step: Step) -> None:
            topology.add_sink(node, topic, *step.parent_names, key_serde=keys, value_serde=values)

        self.declaring.graph.add(Step(node, write), self.step)

    def repartition(
        self,
        *,
        key_serde: Serde[K] | None = None,
        value_serde: Serde[V] | None = None,
        number_of_partitions: int | None = None,
        name: str | None = None,
    ) -> KStream[K, V]:
        """Send the records through a repartition topic; return the stream of its records. number_of_partitions: None
        for as many as the topics before or beside it have. name: the topic's name, without the application's id and the
        suffix."""
        if number_of_partitions is not None and number_of_partitions < 1:
            raise TopologyError(f"number_of_partitions must be positive, not {number_of_partitions}")
        prefix = name or self.declaring.graph.new_name("KSTREAM-REPARTITION-")
        serdes = key_serde or self.key_serde, value_serde or self.value_serde
        repartition = self.declaring.new_repartition(prefix, *serdes, number_of_partitions)
        step = self.declaring.graph.add(repartition, self.step)
        return KStream(self.declaring, step.name, step, serdes)

    # tables and groups

    def to_table(
        self,
        *,
        name: str | None = None,
        store_name: str | None = None,
        key_serde: Serde[K] | None = None,
        value_serde: Serde[V] | None = None,
        history_retention_ms: int | None = None,
        logging: bool = True,
    ) -> KTable[K, V]:
        """Return the table in which a record is the new value of its key, and None deletes it. store_name: the name of
        the table's store; without a name the table has a store only if a later step needs it. history_retention_ms:
        the store is versioned, and keeps for so long what values were before. logging: whether the store has a
        changelog topic."""
        from kcli.streams.ktable import KTable

        declaring = self.declaring
        versioned = has_versions(store_name, history_retention_ms)
        node = declaring.named(name, "KSTREAM-TOTABLE-")
        store = store_name or declaring.graph.new_store_name("KSTREAM-TOTABLE-")
        serdes = key_serde or self.key_serde, value_serde or self.value_serde
        parent = self.step
        if self.needs_repartition:
            parent = declaring.graph.add(declaring.new_repartition(node, *serdes), parent)
        table = TableSource(store, is_materialized=store_name is not None)
        builder = table_store(store, serdes, logging=logging, history_retention_ms=history_retention_ms)

        def write(topology: Topology, step: Step) -> None:
            topology.add_processor(node, table, *step.parent_names)
            if table.is_materialized:
                topology.add_state_store(builder, node)

        step = declaring.graph.add(Step(node, write, versioned=versioned), parent)
        return KTable(declaring, node, step, table, serdes)

    def group_by_key(
        self, *, key_serde: Serde[K] | None = None, value_serde: Serde[V] | None = None, name: str | None = None
    ) -> KGroupedStream[K, V]:
        """Return the records grouped by their keys. name: the name of the repartition topic, if the stream needs
        one."""
        from kcli.streams.grouped_stream import Grouped, KGroupedStream

        given = key_serde is not None or value_serde is not None or name is not None
        serdes = (key_serde, value_serde) if given else (self.key_serde, self.value_serde)
        return KGroupedStream(
            Grouped(self.declaring, self.step, serdes, needs_repartition=self.needs_repartition, repartition_name=name)
        )

    def group_by(
        self,
        key_selector: Callable[[K, V], K2],
        *,
        key_serde: Serde[K2] | None = None,
        value_serde: Serde[V] | None = None,
        name: str | None = None,
    ) -> KGroupedStream[K2, V]:
        """Return the records grouped by the selector's keys; they go through a repartition topic. name: the name of the
        step and of the topic."""
        from kcli.streams.grouped_stream import Grouped, KGroupedStream

        step = self._select_key(key_selector, name)
        given = key_serde is not None or value_serde is not None or name is not None
        serdes = (key_serde, value_serde if given else self.value_serde)
        return KGroupedStream(Grouped(self.declaring, step, serdes, needs_repartition=True, repartition_name=name))

    # joins

    @overload
    def join(
        self,
        other: KStream[K, V2],
        joiner: Callable[[V, V2], V3],
        windows: JoinWindows,
        *,
        name: str | None = None,
        store_name: str | None = None,
        key_serde: Serde[K] | None = None,
        value_serde: Serde[V] | None = None,
        other_value_serde: Serde[V2] | None = None,
    ) -> KStream[K, V3]: ...

    @overload
    def join(
        self,
        other: KTable[K, V2],
        joiner: Callable[[V, V2], V3],
        *,
        name: str | None = None,
        key_serde: Serde[K] | None = None,
        value_serde: Serde[V] | None = None,
        grace_ms: int | None = None,
    ) -> KStream[K, V3]: ...

    @overload
    def join(
        self,
        other: GlobalKTable[K2, V2],
        joiner: Callable[[V, V2], V3],
        *,
        key_selector: Callable[[K, V], K2],
        name: str | None = None,
    ) -> KStream[K, V3]: ...

    def join(self, other: Any, joiner: Any, windows: Any = None, **about: Any) -> Any:
        """Return the stream of this stream's records, each joined with a record of `other`.

        other: a stream, whose records are joined within `windows`; a table, whose value at the time is joined; or a
        global table, with a `key_selector` for its key. joiner: gets this stream's value and the other one. grace_ms:
        records wait for so long, by the stream's time, for the values of a versioned table.
        """
        return self._join(other, joiner, windows, keeps=(False, False), **about)

    @overload
    def left_join(
        self,
        other: KStream[K, V2],
        joiner: Callable[[V, V2 | None], V3],
        windows: JoinWindows,
        *,
        name: str | None = None,
        store_name: str | None = None,
        key_serde: Serde[K] | None = None,
        value_serde: Serde[V] | None = None,
        other_value_serde: Serde[V2] | None = None,
    ) -> KStream[K, V3]: ...

    @overload
    def left_join(
        self,
        other: KTable[K, V2],
        joiner: Callable[[V, V2 | None], V3],
        *,
        name: str | None = None,
        key_serde: Serde[K] | None = None,
        value_serde: Serde[V] | None = None,
        grace_ms: int | None = None,
    ) -> KStream[K, V3]: ...

    @overload
    def left_join(
        self,
        other: GlobalKTable[K2, V2],
        joiner: Callable[[V, V2 | None], V3],
        *,
        key_selector: Callable[[K, V], K2],
        name: str | None = None,
    ) -> KStream[K, V3]: ...

    def left_join(self, other: Any, joiner: Any, windows: Any = None, **about: Any) -> Any:
        """As `join`; a record of this stream that finds no record of `other` is joined with None."""
        return self._join(other, joiner, windows, keeps=(True, False), **about)

    def outer_join(
        self,
        other: KStream[K, V2],
        joiner: Callable[[V | None, V2 | None], V3],
        windows: JoinWindows,
        *,
        name: str | None = None,
        store_name: str | None = None,
        key_serde: Serde[K] | None = None,
        value_serde: Serde[V] | None = None,
        other_value_serde: Serde[V2] | None = None,
    ) -> KStream[K, V3]:
        """As `left_join`; a record of `other` that finds no record of this stream is joined with None, too."""
        about: dict[str, Any] = {
            "name": name,
            "store_name": store_name,
            "key_serde": key_serde,
            "value_serde": value_serde,
        }
        joined = self._join_stream(other, joiner, windows, (True, True), other_value_serde=other_value_serde, **about)
        return cast("KStream[K, V3]", joined)

    def _join(self, other: Any, joiner: Any, windows: Any, *, keeps: tuple[bool, bool], **about: Any) -> Any:
        from kcli.streams.ktable import GlobalKTable, KTable

        match other:
            case KStream():
                return self._join_stream(other, joiner, windows, keeps, **about)
            case KTable():
                return self._join_table(other, joiner, keeps=keeps[0], **about)
            case GlobalKTable():
                return self._join_global_table(other, joiner, keeps=keeps[0], **about)
        raise TopologyError(f"a stream can be joined with a stream, a table or a global table, not with {other!r}")

    def _join_stream(  # noqa: PLR0913 (all but four are passed by name)
        self,
        other: KStream[Any, Any],
        joiner: Any,
        windows: Any,
        keeps: tuple[bool, bool],
        *,
        name: str | None = None,
        store_name: str | None = None,
        key_serde: AnySerde = None,
        value_serde: AnySerde = None,
        other_value_serde: AnySerde = None,
    ) -> KStream[Any, Any]:
        if not isinstance(windows, JoinWindows):
            raise TopologyError(f"a join of two streams needs windows, which are JoinWindows, not {windows!r}")
        declaring = self.declaring
        left = self._for_join(f"{name}-left" if name else self.name, key_serde, value_serde)
        right = other._for_join(f"{name}-right" if name else other.name, key_serde, other_value_serde)
        windowed = [declaring.named(name, "KSTREAM-WINDOWED-", f"-{each}-windowed") for each in ("this", "other")]
        suffixes = (
            "-outer-this-join" if keeps[1] else "-this-join",
            "-outer-other-join" if keeps[0] else "-other-join",
        )
        kinds = ("OUTERTHIS" if keeps[1] else "JOINTHIS", "OUTEROTHER" if keeps[0] else "JOINOTHER")
        generated = [declaring.graph.new_name(f"KSTREAM-{kind}-") for kind in kinds]
        sides = [name + suffix if name else each for each, suffix in zip(generated, suffixes, strict=True)]
        merge = declaring.named(name, "KSTREAM-MERGE-", "-merge")
        stores = [
            WindowStoreBuilder(
                name=(store_name + suffix if store_name else each) + "-store",
                key_serde=key_serde or stream.key_serde,
                value_serde=serde or stream.value_serde,
                retention_ms=windows.retention_ms,
                window_size_ms=windows.size_ms,
                retain_duplicates=True,
                logs_headers=True,
            )
            for each, suffix, stream, serde in zip(
                generated, suffixes, (left, right), (value_serde, other_value_serde), strict=True
            )
        ]
        unjoined = None
        if keeps[0]:
            shared = (
                f"{store_name}-{'outer' if keeps[1] else 'left'}-shared-join"
                if store_name
                else f"KSTREAM-OUTERSHARED-{generated[0][-10:]}"
            )
            unjoined = OuterJoinStoreBuilder(
                name=f"{shared}-store",
                key_serde=stores[0].key_serde,
                value_serde=stores[0].value_serde,
                other_value_serde=stores[1].value_serde or declaring.value_serde,
            )
        for stream, node, store in zip((left, right), windowed, stores, strict=True):
            declaring.add_processor(node, _windowed_input(store.name), stream.step)
        names = (stores[0].name, stores[1].name)
        join = StreamJoin(windows, joiner, names, None if unjoined is None else unjoined.name, keeps)

        def write(topology: Topology, _step: Step) -> None:
            topology.add_processor(sides[0], join.side(is_left=True), windowed[0])
            topology.add_processor(sides[1], join.side(is_left=False), windowed[1])
            topology.add_processor(merge, pass_through(), *sides)
            topology.add_state_store(stores[0], windowed[0], sides[1])
            topology.add_state_store(stores[1], windowed[1], sides[0])
            if unjoined is not None:
                topology.add_state_store(unjoined, *sides)

        step = declaring.graph.add(Step(merge, write, keeps_null_keys=any(keeps)), left.step, right.step)
        return KStream(declaring, merge, step, (key_serde, None))

    def _join_table(
        self,
        table: KTable[Any, Any],
        joiner: Any,
        *,
        keeps: bool,
        name: str | None = None,
        key_serde: AnySerde = None,
        value_serde: AnySerde = None,
        grace_ms: int | None = None,
    ) -> KStream[Any, Any]:
        stream = self._for_join(name or self.name, key_serde, value_serde)
        node = self.declaring.named(name, "KSTREAM-LEFTJOIN-" if keeps else "KSTREAM-JOIN-")
        view = table.operator.view()
        buffer: JoinBufferBuilder | None = None
        if grace_ms is not None:
            if not table.step.is_versioned():
                raise TopologyError(f"{node}: a join with a grace period needs a versioned table; {table.name} is none")
            serdes = key_serde or stream.key_serde, value_serde or stream.value_serde
            buffer = JoinBufferBuilder(
                name=f"{node}-Buffer", key_serde=serdes[0], value_serde=serdes[1], grace_ms=grace_ms
            )
        supplier = StreamTableJoin(
            view, joiner, lambda key, _value: key, keeps=keeps, buffer=None if buffer is None else buffer.name
        )

        def write(topology: Topology, step: Step) -> None:
            topology.add_processor(node, supplier, *step.parent_names)
            topology.connect_processor_and_state_stores(node, *view.stores)
            if buffer is not None:
                _check_history(topology, view.stores, buffer)
                topology.add_state_store(buffer, node)

        step = self.declaring.graph.add(Step(node, write, keeps_null_keys=keeps), stream.step)
        return KStream(self.declaring, node, step, (key_serde or stream.key_serde, None))

    def _join_global_table(
        self, table: GlobalKTable[Any, Any], joiner: Any, *, keeps: bool, key_selector: Any, name: str | None = None
    ) -> KStream[Any, Any]:
        node = self.declaring.named(name, "KSTREAM-LEFTJOIN-")
        supplier = StreamTableJoin(store_view(table.store_name), joiner, key_selector, keeps=keeps)
        return self._like_this(self.declaring.add_processor(node, supplier, self.step, keeps_null_keys=keeps))

    # steps

    def _for_join(self, name: str, key_serde: AnySerde, value_serde: AnySerde) -> KStream[K, V]:
        """Return the stream for a join: through a repartition topic of this name if its keys may have changed."""
        if not self.needs_repartition:
            return self
        serdes = key_serde or self.key_serde, value_serde or self.value_serde
        repartition = self.declaring.new_repartition(name, *serdes)
        if self._repartition is None or name != self.name:
            self._repartition = self.declaring.graph.add(repartition, self.step)
        return KStream(self.declaring, repartition.name, self._repartition, serdes)

    def _add(self, kind: str, name: str | None, supplier: AnySupplier) -> Step:
        node = self.declaring.named(name, f"KSTREAM-{kind}-")
        return self.declaring.add_processor(node, supplier, self.step)

    def _with(
        self, kind: str, name: str | None, supplier: AnySupplier, value_serde: AnySerde = None
    ) -> KStream[K, Any]:
        return self._like_this(self._add(kind, name, supplier), value_serde)

    def _like_this(self, step: Step, value_serde: AnySerde = None) -> KStream[K, Any]:
        serdes = self.key_serde, value_serde
        return KStream(self.declaring, step.name, step, serdes, needs_repartition=self.needs_repartition)

    def _rekeyed(self, kind: str, name: str | None, supplier: AnySupplier) -> KStream[Any, Any]:
        step = self._add(kind, name, supplier)
        return KStream(self.declaring, step.name, step, needs_repartition=True)

    def _select_key(self, mapper: Callable[[Any, Any], Any], name: str | None) -> Step:
        return self._add("KEY-SELECT", name, mapped(lambda key, value: (mapper(key, value), value)))

    def _process(self, kind: str, supplier: AnySupplier, stores: tuple[str, ...], name: str | None) -> Step:
        node = name or self.declaring.graph.new_name(f"KSTREAM-{kind}-")
        return self.declaring.add_processor(node, supplier, self.step, stores=stores)


class BranchedKStream(Generic[K, V]):
    """A stream whose records each go to the first branch with a true predicate, or to the default branch."""

    def __init__(self, stream: KStream[K, V], name: str | None) -> None:
        self._stream = stream
        self._predicates: list[Callable[[K, V], bool]] = []
        self._children: list[str] = []
        self._branches: dict[str, KStream[K, V]] = {}
        node = stream.declaring.named(name, "KSTREAM-BRANCH-")
        splitter = branched(self._predicates, self._children)
        self._step = stream.declaring.add_processor(node, splitter, stream.step)

    def branch(self, predicate: Callable[[K, V], bool], *, name: str | None = None) -> BranchedKStream[K, V]:
        """Add a branch. Its name is the split's name followed by `name`, or by the branch's number if `name` is
        None."""
        self._predicates.append(predicate)
        self._add(str(len(self._predicates)) if name is None else name)
        return self

    def default_branch(self, *, name: str | None = None) -> dict[str, KStream[K, V]]:
        """Add the branch of all other records. Returns all branches by their names."""
        self._add("0" if name is None else name)
        return self._branches

    def no_default_branch(self) -> dict[str, KStream[K, V]]:
        """Return all branches by their names; a record without a true predicate is dropped."""
        return self._branches

    def _add(self, suffix: str) -> None:
        stream, node = self._stream, self._step.name + suffix
        self._children.append(node)
        stream.declaring.graph.new_name(node)
        step = stream.declaring.add_processor(node, pass_through(), self._step)
        serdes = stream.key_serde, stream.value_serde
        branch = KStream[K, V](stream.declaring, node, step, serdes, needs_repartition=stream.needs_repartition)
        self._branches[node] = branch


def _check_history(topology: Topology, stores: Iterable[str], buffer: JoinBufferBuilder) -> None:
    """Raise TopologyError for a versioned store that forgets values before the buffer's records are joined."""
    for name in stores:
        store = topology.stores[name]
        if not isinstance(store, VersionedKeyValueStoreBuilder):
            raise TopologyError(f"a join with a grace period needs a versioned table; the store {name} is none")
        if store.history_retention_ms < buffer.grace_ms:
            raise TopologyError(
                f"the store {name} has a history of {store.history_retention_ms} ms, and a join with it a grace period "
                f"of {buffer.grace_ms} ms, which is longer"
            )


def _windowed_input(store: str) -> AnySupplier:
    return lambda: WindowedInput(store)
