"""The order in which Java's TreeSet iterates over elements whose order changes while they are in it. A TreeSet is a
red-black tree, in which an element keeps the place that its order gave it when it was added. Source: TreeMap (put,
fixAfterInsertion)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

E = TypeVar("E")

LEFT, RIGHT = 0, 1


class _Node(Generic[E]):
    def __init__(self, element: E, parent: _Node[E] | None) -> None:
        self.element, self.parent = element, parent
        self.children: list[_Node[E] | None] = [None, None]
        self.is_red = True

    @property
    def side(self) -> int:
        """The side of its parent on which the node is."""
        assert self.parent is not None
        return LEFT if self.parent.children[LEFT] is self else RIGHT


class TreeSet(Generic[E]):
    """A set of elements. order: returns the key by which an element is compared at present; of elements with equal keys
    the set keeps the first."""

    def __init__(self, order: Callable[[E], Any]) -> None:
        self._order = order
        self._root: _Node[E] | None = None

    def __iter__(self) -> Iterator[E]:
        return self._in_order(self._root)

    def add(self, element: E) -> None:
        """Add an element, unless the search for its place meets an element with an equal key."""
        parent, node, side = None, self._root, LEFT
        while node is not None:
            own, other = self._order(element), self._order(node.element)
            if own == other:
                return
            side = LEFT if own < other else RIGHT
            parent, node = node, node.children[side]
        added = _Node(element, parent)
        if parent is None:
            self._root = added
        else:
            parent.children[side] = added
        self._balance(added)

    def _balance(self, node: _Node[E]) -> None:
        while (parent := node.parent) is not None and parent.is_red:
            grandparent = parent.parent
            assert grandparent is not None
            side = parent.side
            uncle = grandparent.children[1 - side]
            if uncle is not None and uncle.is_red:
                parent.is_red = uncle.is_red = False
                grandparent.is_red = True
                node = grandparent
                continue
            if node.side != side:
                node = parent
                self._rotate(node, side)
                parent = node.parent
                assert parent is not None
            parent.is_red = False
            grandparent.is_red = True
            self._rotate(grandparent, 1 - side)
        assert self._root is not None
        self._root.is_red = False

    def _rotate(self, node: _Node[E], side: int) -> None:
        """Rotate the node downwards, towards `side`: its child on the other side takes its place, and becomes its
        parent."""
        child = node.children[1 - side]
        assert child is not None
        moved = child.children[side]
        node.children[1 - side] = moved
        if moved is not None:
            moved.parent = node
        child.parent = node.parent
        if node.parent is None:
            self._root = child
        else:
            node.parent.children[node.side] = child
        child.children[side] = node
        node.parent = child

    def _in_order(self, node: _Node[E] | None) -> Iterator[E]:
        if node is not None:
            yield from self._in_order(node.children[LEFT])
            yield node.element
            yield from self._in_order(node.children[RIGHT])
