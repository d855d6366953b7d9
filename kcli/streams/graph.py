"""What a program has declared, step by step, before it becomes a topology.

A step knows its parents and its children, and adds its nodes and stores to the topology. Steps do so in the order of
their declaration, each after all of its parents; this decides the order of the topology's nodes. Source:
InternalStreamsBuilder, GraphNode of Kafka Streams.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heappop, heappush

from kcli.streams.errors import TopologyError
from kcli.streams.topology.topology import Topology

Write = Callable[[Topology, "Step"], None]


class Step:
    """A step of a program.

    name: the name of the node that sends the step's records. write: adds the step's nodes and stores to a topology.
    topics: the topics of a source. grace_ms: for how long after its end (for a session, after its last record) a window
    of a windowed aggregate is open. versioned: whether the step is a table with a versioned store; None if it is as
    versioned as what it is made of. keeps_null_keys: the step is a join that has a result for a record without a key.
    drops_null_keys: set for a repartition after which no step keeps records without a key.
    """

    def __init__(
        self,
        name: str,
        write: Write,
        *,
        topics: tuple[str, ...] = (),
        grace_ms: int | None = None,
        versioned: bool | None = None,
        is_repartition: bool = False,
        keeps_null_keys: bool = False,
    ) -> None:
        self.name, self.write, self.topics, self.grace_ms = name, write, topics, grace_ms
        self.versioned = versioned
        self.is_repartition, self.keeps_null_keys = is_repartition, keeps_null_keys
        self.drops_null_keys = False
        self.priority = 0
        self.parents: dict[Step, None] = {}
        self.children: dict[Step, None] = {}

    @property
    def parent_names(self) -> tuple[str, ...]:
        """The names of the nodes whose records the step gets."""
        return tuple(parent.name for parent in self.parents)

    def is_versioned(self) -> bool:
        """Return whether the step's changes are those of a versioned table, or are made of such changes alone."""
        if self.versioned is not None:
            return self.versioned
        return bool(self.parents) and all(parent.is_versioned() for parent in self.parents)

    def window_close_ms(self) -> int:
        """Return how long after its end a window of the step's table is open. Raises TopologyError if the table has no
        windows."""
        if self.grace_ms is not None:
            return self.grace_ms
        if not self.parents:
            raise TopologyError(
                "suppress until a window closes needs a table of windows, with nothing but tables before it"
            )
        return max(parent.window_close_ms() for parent in self.parents)


class Graph:
    """All steps of a program, as a graph; its root is the parent of the sources."""

    def __init__(self) -> None:
        self._root = Step("root", lambda _topology, _step: None)
        self._index = 0
        self._steps = 0

    def new_name(self, prefix: str) -> str:
        """Return a name with the next number."""
        name = f"{prefix}{self._index:010}"
        self._index += 1
        return name

    def new_store_name(self, prefix: str) -> str:
        """Return a store's name with the next number."""
        return self.new_name(f"{prefix}STATE-STORE-")

    def add(self, step: Step, *parents: Step) -> Step:
        """Add a step as a child of its parents; a step without parents is a source or a store. A step that is added
        again moves to the end of the order of declaration."""
        for parent in parents or (self._root,):
            parent.children[step] = None
            step.parents[parent] = None
        self._steps += 1
        step.priority = self._steps
        return step

    def write(self, topology: Topology) -> None:
        """Add the nodes and stores of all steps to a topology. Raises TopologyError."""
        self._merge_sources()
        for step in self._repartitions_without_null_keys():
            step.drops_null_keys = True
        waiting = [(0, self._root)]
        written: set[Step] = set()
        while waiting:
            _, step = heappop(waiting)
            if step not in written and written.issuperset(step.parents):
                step.write(topology, step)
                written.add(step)
                for child in step.children:
                    heappush(waiting, (child.priority, child))

    def _merge_sources(self) -> None:
        """Merge sources that have the same topics: the first of them gets the children of the others."""
        first: dict[str, Step] = {}
        for source in list(self._root.children):
            for topic in source.topics:
                main = first.setdefault(topic, source)
                if main is source:
                    continue
                if set(main.topics) != set(source.topics):
                    both = " and ".join(", ".join(each.topics) for each in (main, source))
                    raise TopologyError(f"two streams have the topic {topic}, but not all topics in common: {both}")
                for child in list(source.children):
                    del child.parents[source]
                    child.parents[main] = None
                    main.children[child] = None
                source.children.clear()
                self._root.children.pop(source, None)

    def _repartitions_without_null_keys(self) -> Iterator[Step]:
        keeps: dict[Step, bool] = {}

        def keeps_behind(step: Step) -> bool:
            if step not in keeps:
                behind = [keeps_behind(child) for child in step.children]
                keeps[step] = any(behind) or any(child.keeps_null_keys for child in step.children)
            return keeps[step]

        keeps_behind(self._root)
        return (step for step, kept in keeps.items() if step.is_repartition and not kept)
