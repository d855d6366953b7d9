"""Finds schemas with the same text: equal parts of an anyOf count once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Final

from kcli.schemas.json_schema.model import Anything, Array, Node, Number, Object, Reference, Text

_DEFAULTS: Final[dict[type[Node], Mapping[str, object]]] = {}
_KEYWORDS_ALONE: Final = (Anything, Array, Number, Object, Text)
"""The nodes that are written as {} if they have no keywords."""


class Shapes:
    """Numbers the shapes of nodes and values: two have the same number if they have the same text. The text of a
    reference is its URI, not its target. Each node and value is examined once."""

    def __init__(self) -> None:
        self._numbers: dict[object, int] = {}
        self._known: dict[int, int] = {}
        self._alive: list[object] = []

    def distinct(self, nodes: Sequence[Node]) -> list[Node]:
        """Return the first node of each shape."""
        found: dict[int, Node] = {}
        for node in nodes:
            found.setdefault(self._number(node), node)
        return list(found.values())

    def _number(self, value: object) -> int:
        """Return the number of a node or value. The nodes and values within it get their numbers first, without deep
        recursion."""
        stack = [value]
        while stack:
            each = stack[-1]
            missing = [] if id(each) in self._known else [part for part in _parts(each) if self._is_missing(part)]
            if not missing:
                stack.pop()
            if not missing and self._is_missing(each):
                self._known[id(each)] = self._numbers.setdefault(self._shape(each), len(self._numbers))
                self._alive.append(each)
            stack += missing
        return self._number_of(value)

    def _is_missing(self, value: object) -> bool:
        return isinstance(value, Node | Mapping | list | tuple) and id(value) not in self._known

    def _number_of(self, value: object) -> int:
        known = self._known.get(id(value))
        return self._numbers.setdefault(_plain(value), len(self._numbers)) if known is None else known

    def _shape(self, value: object) -> object:
        """Return the shape of a node or value whose parts have numbers already."""
        match value:
            case Reference():
                return Reference, value.uri, self._number_of(value.notes)
            case Node():
                return self._node(value)
            case Mapping():
                return dict, frozenset([(key, self._number_of(each)) for key, each in value.items()])
            case list() | tuple():
                return list, *[self._number_of(each) for each in value]
        raise AssertionError(value)

    def _node(self, node: Node) -> object:
        defaults = _defaults(type(node))
        written = {
            name: each for name, each in vars(node).items() if each != defaults[name] and each not in ([], (), {})
        }
        written.pop("notes", None)
        notes = self._number_of(node.notes)
        if isinstance(node, _KEYWORDS_ALONE) and not written:
            return Node, notes
        return type(node), notes, frozenset([(name, self._number_of(each)) for name, each in written.items()])


def _parts(value: object) -> Iterable[object]:
    """Return the nodes and values within a node or value. The target of a reference is not within the reference."""
    match value:
        case Reference():
            return (value.notes,)
        case Node():
            return vars(value).values()
        case Mapping():
            return value.values()
        case list() | tuple():
            return value
    return ()


def _defaults(node_type: type[Node]) -> Mapping[str, object]:
    """Return the fields of a node without keywords."""
    if node_type not in _DEFAULTS:
        _DEFAULTS[node_type] = vars(node_type())
    return _DEFAULTS[node_type]


def _plain(value: object) -> object:
    """Return a key that is equal for scalars that org.json writes in the same way: it drops zeros at the end of a
    number without an exponent."""
    if isinstance(value, int | Decimal) and not isinstance(value, bool):
        text = str(value)
        return int, text.rstrip("0").rstrip(".") if "." in text and "E" not in text else text
    return type(value), value
