"""Which schemas are written alike: parts of an anyOf that are, count once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Final

from kcli.schemas.json_schema.model import Anything, Array, Node, Number, Object, Reference, Text

_DEFAULTS: Final[dict[type[Node], Mapping[str, object]]] = {}
_KEYWORDS_ALONE: Final = (Anything, Array, Number, Object, Text)
"""The nodes that are written as {} if they say nothing."""


class Shapes:
    """The numbers of shapes. Nodes and values get equal numbers if they are written alike; a reference is written as
    its URI, not as its target. Each node and value is looked at once."""

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
        """Return the number of a node or value. What is within it gets its number first: so it needs no deep stack."""
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
        """Return the shape of what has parts, which have numbers."""
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
    """Return what is within a node or a value. What a reference leads to is not within it."""
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
    """Return the fields of a node that says nothing."""
    if node_type not in _DEFAULTS:
        _DEFAULTS[node_type] = vars(node_type())
    return _DEFAULTS[node_type]


def _plain(value: object) -> object:
    """Return what is equal for scalars that org.json writes alike: a number that is written without an exponent has no
    zeros at its end."""
    if isinstance(value, int | Decimal) and not isinstance(value, bool):
        text = str(value)
        return int, text.rstrip("0").rstrip(".") if "." in text and "E" not in text else text
    return type(value), value
