"""The model by which schemas are compared: trees of nodes, each of one type, with references between them.

    Anything         {} or true                        Nothing      false
    Text, Number, Array, Object, Boolean, Null         a type, or keywords of one without `type`
    Enumeration      enum                              Constant     const
    Combined         allOf, anyOf, oneOf; also a schema with keywords of several nodes, as an allOf of them
    Negation         not                               Conditional  if, then, else
    Reference        $ref

The nodes are those of everit's library, into which Confluent's registry loads schemas of every draft: the results of
its comparison depend on which node a keyword belongs to. Nodes are compared by identity; only the loaders change them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TypeAlias

from kcli.schemas.json_schema.text import Json

Limit: TypeAlias = "int | Decimal"


@dataclass(eq=False)
class Node:
    """The base of all nodes. has_default: whether the schema has the keyword `default`. notes: title and other
    annotations, and unknown keywords."""

    has_default: bool = field(default=False, kw_only=True)
    notes: Mapping[str, Json] = field(default_factory=dict, kw_only=True)

    @property
    def is_connect_bytes(self) -> bool:
        """Whether Kafka Connect's converter made the schema for bytes; a decimal may then be a number or a text."""
        return self.notes.get("connect.type") == "bytes"


@dataclass(eq=False)
class Anything(Node):
    """A schema that allows any value. is_true: whether it is written as true, not as {}."""

    is_true: bool = False


@dataclass(eq=False)
class Nothing(Node):
    pass


@dataclass(eq=False)
class Boolean(Node):
    pass


@dataclass(eq=False)
class Null(Node):
    pass


@dataclass(eq=False)
class Text(Node):
    """Restricts strings. is_required: whether the value must be a string, by `type`."""

    is_required: bool = False
    min_length: int | None = None
    max_length: int | None = None
    pattern: str | None = None
    format: str | None = None


@dataclass(eq=False)
class Number(Node):
    """Restricts numbers. exclusive...: draft 4's Boolean exclusiveMinimum and exclusiveMaximum."""

    is_required: bool = False
    is_integer: bool = False
    minimum: Limit | None = None
    maximum: Limit | None = None
    exclusive_minimum: Limit | None = None
    exclusive_maximum: Limit | None = None
    multiple_of: Limit | None = None
    exclusive: tuple[bool, bool] = (False, False)


@dataclass(eq=False)
class Array(Node):
    """Restricts arrays. items: the schema of all items. tuple_items: the schemas of the first items. allows_additional:
    False if there may be no items after these. additional, unevaluated: the schema of the items after these."""

    is_required: bool = False
    min_items: int | None = None
    max_items: int | None = None
    is_unique: bool = False
    items: Node | None = None
    tuple_items: Sequence[Node] = ()
    allows_additional: bool = True
    additional: Node | None = None
    contains: Node | None = None
    min_contains: Limit | None = None
    max_contains: Limit | None = None
    unevaluated: Node | None = None


@dataclass(eq=False)
class Object(Node):
    """Restricts objects. required: in the order of the text. patterns: patternProperties. needs: for a property, the
    properties that an object with it must have. dependents: for a property, the schema that an object with it must
    fit."""

    is_required: bool = False
    min_properties: int | None = None
    max_properties: int | None = None
    properties: Mapping[str, Node] = field(default_factory=dict)
    required: Sequence[str] = ()
    allows_additional: bool = True
    additional: Node | None = None
    patterns: Mapping[str, Node] = field(default_factory=dict)
    needs: Mapping[str, frozenset[str]] = field(default_factory=dict)
    dependents: Mapping[str, Node] = field(default_factory=dict)
    names: Node | None = None
    unevaluated: Node | None = None


@dataclass(eq=False)
class Combined(Node):
    """Combines schemas. criterion: allOf, anyOf or oneOf. is_generated: whether the text has no such keyword, and the
    node was made of several keywords or types of one schema."""

    criterion: str = "allOf"
    parts: Sequence[Node] = ()
    is_generated: bool = False


@dataclass(eq=False)
class Conditional(Node):
    condition: Node | None = None
    consequence: Node | None = None
    alternative: Node | None = None


@dataclass(eq=False)
class Constant(Node):
    value: Json = None


@dataclass(eq=False)
class Enumeration(Node):
    values: Sequence[Json] = ()


@dataclass(eq=False)
class Negation(Node):
    negated: Node = field(default_factory=Nothing)


@dataclass(eq=False)
class Reference(Node):
    """A `$ref`. target: None until the schema with the URI is loaded."""

    uri: str = ""
    target: Node = field(default_factory=Anything)


TYPES: dict[str, type[Node]] = {
    "string": Text,
    "integer": Number,
    "number": Number,
    "boolean": Boolean,
    "null": Null,
    "array": Array,
    "object": Object,
}


def value_key(value: Json) -> object:
    """Return a key that is equal for equal JSON values. As in Java, 1 and 1.0 are not equal, nor are 1.0 and 1.00."""
    match value:
        case bool() | None | str():
            return value if isinstance(value, str) else (bool, value)
        case Decimal():
            return Decimal, value.as_tuple()
        case list():
            return list, tuple(map(value_key, value))
        case dict():
            return dict, frozenset((key, value_key(each)) for key, each in value.items())
        case _:
            return int, value
