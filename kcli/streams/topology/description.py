"""The text of a topology, as Kafka Streams prints it: sub-topologies with their nodes, and for each its neighbours.

    Topologies:
       Sub-topology: 0
        Source: KSTREAM-SOURCE-0000000000 (topics: [in])
          --> KSTREAM-SINK-0000000001
        Sink: KSTREAM-SINK-0000000001 (topic: out)
          <-- KSTREAM-SOURCE-0000000000

Kafka sorts nodes by how many nodes their records can reach, then by name. It sorts the neighbours of a node in the same
way, but by the numbers at the time when each was added, and adds them in the order in which a HashMap iterates over
their names; so does this module. Source: InternalTopologyBuilder (describe), HashSet.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from kcli.java.hashing import hash_map_order
from kcli.java.tree_set import TreeSet


@dataclass(eq=False)
class Described:
    """A node to describe. topics: the topics of a source, or the topic of a sink; empty for a sink whose topics a
    function returns. size: the number of nodes that records of this node can reach, and this node."""

    kind: str
    name: str
    predecessor_names: tuple[str, ...]
    topics: tuple[str, ...] = ()
    stores: tuple[str, ...] = ()
    is_global: bool = False
    size: int = 1
    predecessors: TreeSet[Described] = field(default_factory=lambda: TreeSet(_place))
    successors: TreeSet[Described] = field(default_factory=lambda: TreeSet(_place))

    def lines(self) -> list[str]:
        match self.kind:
            case "Source":
                about = f"topics: {_java_set(self.topics)}"
            case "Sink":
                about = f"topic: {self.topics[0]}" if self.topics else "extractor class: a function"
            case _:
                about = f"stores: {_java_set(self.stores)}"
        lines = [f"    {self.kind}: {self.name} ({about})"]
        if self.kind != "Sink":
            lines.append(f"      --> {_names(self.successors)}")
        if self.kind != "Source":
            lines.append(f"      <-- {_names(self.predecessors)}")
        return lines


def _place(node: Described) -> tuple[int, str]:
    """Return the key by which Kafka sorts nodes."""
    return -node.size, node.name


def describe(groups: Sequence[Sequence[Described]]) -> str:
    """Return the text. groups: the nodes of each sub-topology, in the order of their addition to the topology."""
    text = "Topologies:\n "
    for number, group in enumerate(groups):
        _connect(group)
        is_global = any(node.is_global for node in group)
        nodes = sorted(group, key=_place)
        lines = [f"  Sub-topology: {number}" + " for global store (will not generate tasks)" * is_global]
        lines += [line for node in nodes for line in node.lines()]
        text += "\n".join(lines) + "\n" * (1 if is_global else 2)
    return text


def _connect(group: Sequence[Described]) -> None:
    by_name = {node.name: node for node in group}
    for name in hash_map_order(hash_map_order(by_name)):
        node = by_name[name]
        for predecessor_name in node.predecessor_names:
            predecessor = by_name[predecessor_name]
            node.predecessors.add(predecessor)
            predecessor.successors.add(node)
            _grow(predecessor, node.size)


def _grow(node: Described, size: int) -> None:
    node.size += size
    for predecessor in node.predecessors:
        _grow(predecessor, size)


def _names(nodes: Iterable[Described]) -> str:
    return ", ".join(node.name for node in nodes) or "none"


def _java_set(names: Sequence[str]) -> str:
    return f"[{', '.join(hash_map_order(names))}]"
