"""What streams, tables and their groups have in common while a program is declared."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kcli.streams.errors import TopologyError
from kcli.streams.graph import Graph, Step
from kcli.streams.serdes import Serde
from kcli.streams.topology.operators.stateless import filtered
from kcli.streams.topology.processor import ProcessorSupplier
from kcli.streams.topology.stores.store import StoreBuilder
from kcli.streams.topology.topology import Topology

GENERATED = re.compile(r"KSTREAM.*-[0-9]{10}")
REPARTITION = "-repartition"

AnySerde = Serde[Any] | None
AnySupplier = ProcessorSupplier[Any, Any, Any, Any]


@dataclass(frozen=True)
class Declaring:
    """The program that is declared: its steps, and the default serdes."""

    graph: Graph
    key_serde: AnySerde
    value_serde: AnySerde

    def named(self, name: str | None, prefix: str, suffix: str = "") -> str:
        """Return the name of a node: `name` and the suffix, or a generated name if `name` is None. Both take the next
        number, so that naming one node does not change the generated names of the others."""
        generated = self.graph.new_name(prefix)
        return generated if name is None else name + suffix

    def add_processor(self, name: str, supplier: AnySupplier, *parents: Step, **about: Any) -> Step:
        """Add the step of one processor. about: `stores`, the names of the stores that the processor uses, and the
        keyword arguments of Step."""
        stores = about.pop("stores", ())

        def write(topology: Topology, step: Step) -> None:
            topology.add_processor(name, supplier, *step.parent_names)
            if stores:
                topology.connect_processor_and_state_stores(name, *stores)

        return self.graph.add(Step(name, write, **about), *parents)

    def add_table(
        self,
        name: str,
        supplier: AnySupplier,
        parent: Step,
        store: StoreBuilder[Any] | None,
        *,
        grace_ms: int | None = None,
        versioned: bool | None = None,
    ) -> Step:
        """Add the step of a table, with its store. grace_ms, versioned: as for Step."""

        def write(topology: Topology, step: Step) -> None:
            topology.add_processor(name, supplier, *step.parent_names)
            if store is not None:
                topology.add_state_store(store, name)

        return self.graph.add(Step(name, write, grace_ms=grace_ms, versioned=versioned), parent)

    def new_repartition(
        self, prefix: str, key_serde: AnySerde, value_serde: AnySerde, partitions: int | None = None
    ) -> Step:
        """Return the step of a repartition topic: a filter, a sink and a source. The step is not part of the program
        until it is added.

        prefix: the first part of the topic's name; also of the nodes' names, unless the prefix is a generated name.
        partitions: their number; None if the topics before and beside it decide.
        """
        topic = prefix if prefix.endswith(REPARTITION) else prefix + REPARTITION
        sink, nulls, source = (self.graph.new_name(f"KSTREAM-{each}-") for each in ("SINK", "FILTER", "SOURCE"))
        if not GENERATED.fullmatch(prefix):
            sink, nulls, source = f"{topic}-sink", f"{topic}-filter", f"{topic}-source"

        def write(topology: Topology, step: Step) -> None:
            topology.internal_topics.add(topic)
            if partitions is not None:
                topology.partition_counts[topic] = partitions
            predicate: Callable[[Any, Any], bool] = (
                (lambda key, _value: key is not None) if step.drops_null_keys else (lambda _key, _value: True)
            )
            topology.add_processor(nulls, filtered(predicate, keep=True), *step.parent_names)
            topology.add_sink(sink, topic, nulls, key_serde=key_serde, value_serde=value_serde)
            topology.add_source(source, topic, key_serde=key_serde, value_serde=value_serde)

        return Step(source, write, is_repartition=True)


def has_versions(store_name: str | None, history_retention_ms: int | None) -> bool:
    """Return whether a table has a versioned store. Raises TopologyError if that has no name."""
    if history_retention_ms is not None and store_name is None:
        raise TopologyError("history_retention_ms makes a versioned store, which needs a store_name")
    return history_retention_ms is not None
