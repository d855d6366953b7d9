"""Which schemas are written alike: parts of an anyOf that are, count once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
        known = self._known.get(id(value))
        if known is not None:
            return known
        match value:
            case Reference():
                shape: object = (Reference, value.uri, self._number(value.notes))
            case Node():
                shape = self._node(value)
            case Mapping():
                shape = (dict, frozenset([(key, self._number(each)) for key, each in value.items()]))
            case list() | tuple():
                shape = (list, *[self._number(each) for each in value])
            case _:
                return self._numbers.setdefault(_plain(value), len(self._numbers))
        number = self._numbers.setdefault(shape, len(self._numbers))
        self._known[id(value)] = number
        self._alive.append(value)
        return number

    def _node(self, node: Node) -> object:
        defaults = _defaults(type(node))
        written = {
            name: each for name, each in vars(node).items() if each != defaults[name] and each not in ([], (), {})
        }
        notes = self._number(written.pop("notes", {}))
        if isinstance(node, _KEYWORDS_ALONE) and not written:
            return Node, notes
        return type(node), notes, frozenset([(name, self._number(each)) for name, each in written.items()])


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
