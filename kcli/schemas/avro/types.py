"""The types of Avro's schemas, as the parser makes them.

A named type is one object, however often schemas refer to it; of a type that a text defines twice, the second
definition is an object of its own. Pairs of objects are known by identity where readers and writers are compared;
`same_schema` says what Schema.equals says.

Source: Avro specification 1.12, "Schema Declaration".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from kcli.schemas.avro.json_text import Json, same_json

PRIMITIVES: Final = frozenset(("null", "boolean", "int", "long", "float", "double", "bytes", "string"))
TYPES: Final = PRIMITIVES | {"record", "enum", "array", "map", "union", "fixed"}


class Name(NamedTuple):
    """The name of a named type. space: its namespace, "" for none."""

    simple: str
    space: str

    @property
    def full(self) -> str:
        """The name with its namespace."""
        return f"{self.space}.{self.simple}" if self.space else self.simple

    def within(self, space: str) -> str:
        """Return how a schema in a namespace writes the name: the simple name if the namespace is the same and the
        simple name is not that of a type of Avro."""
        return self.simple if self.space and self.space == space and self.simple not in TYPES else self.full


@dataclass(eq=False, slots=True)
class Primitive:
    """A type without parts. type: one of PRIMITIVES."""

    type: str
    props: dict[str, Json] = field(default_factory=dict)


@dataclass(eq=False, slots=True)
class Array:
    """An array of items."""

    items: Schema
    props: dict[str, Json]
    type: str = "array"


@dataclass(eq=False, slots=True)
class Map:
    """A map of strings to values."""

    values: Schema
    props: dict[str, Json]
    type: str = "map"


@dataclass(eq=False, slots=True)
class Union:
    """One of its branches."""

    branches: list[Schema]
    type: str = "union"


@dataclass(eq=False, slots=True)
class Fixed:
    """So many bytes. aliases: None if the text has none."""

    name: Name
    size: int
    doc: str | None
    aliases: tuple[Name, ...]
    props: dict[str, Json]
    type: str = "fixed"


@dataclass(eq=False, slots=True)
class Enum:
    """One of its symbols. default: the symbol that a reader takes for one that it does not know.

    A symbol is None where the text has another value than a string; it is refused when the names are checked."""

    name: Name
    symbols: list[str | None]
    default: str | None
    doc: str | None
    aliases: tuple[Name, ...]
    props: dict[str, Json]
    type: str = "enum"


@dataclass(eq=False, slots=True)
class Field:
    """A field of a record. default: its value where the writer has no such field, if has_default."""

    name: str
    schema: Schema
    doc: str | None
    has_default: bool
    default: Json
    order: str
    aliases: tuple[str, ...]
    props: dict[str, Json]


@dataclass(eq=False, slots=True)
class Record:
    """Named fields. is_error: whether the text calls it an error."""

    name: Name
    is_error: bool
    doc: str | None
    aliases: tuple[Name, ...] = ()
    fields: dict[str, Field] = field(default_factory=dict)
    props: dict[str, Json] = field(default_factory=dict)
    type: str = "record"


@dataclass(eq=False, slots=True)
class Unresolved:
    """A name that no schema has yet. Where a text is parsed to its end, none is left."""

    full: str
    type: str = "record"


NamedType: TypeAlias = Record | Enum | Fixed
Schema: TypeAlias = Primitive | Array | Map | Union | Record | Enum | Fixed | Unresolved


def full_name(schema: Schema) -> str:
    """Return the full name of a named type, the type's name of another one."""
    match schema:
        case Record() | Enum() | Fixed():
            return schema.name.full
        case Unresolved():
            return schema.full
    return schema.type


def alias_names(schema: NamedType) -> list[str]:
    """Return the full names of the aliases; one without a namespace starts with a dot if the type has a namespace."""
    return [f".{each.simple}" if schema.name.space and not each.space else each.full for each in schema.aliases]


def same_schema(one: Schema, other: Schema, *, with_docs: bool = False) -> bool:
    """Return whether two schemas are equal: names, types, order, properties and defaults of fields.

    with_docs: docs, aliases and the defaults of enums count, too.
    """
    stack = [(one, other)]
    seen: set[tuple[int, int]] = set()
    while stack:
        one, other = stack.pop()
        if one is other or (id(one), id(other)) in seen:
            continue
        seen.add((id(one), id(other)))
        if one.type != other.type or not _alike(one, other) or (with_docs and _docs(one) != _docs(other)):
            return False
        parts, other_parts = _parts(one), _parts(other)
        if len(parts) != len(other_parts):
            return False
        stack += zip(parts, other_parts, strict=True)
    return True


def _alike(one: Schema, other: Schema) -> bool:
    """Return whether two schemas of a type are equal but for the types that they contain."""
    match one, other:
        case (Fixed(), Fixed()):
            return one.name == other.name and one.size == other.size and same_json(one.props, other.props)
        case (Enum(), Enum()):
            return one.name == other.name and one.symbols == other.symbols and same_json(one.props, other.props)
        case (Record(), Record()):
            fields = zip(one.fields.values(), other.fields.values(), strict=False)
            return (
                one.name == other.name and same_json(one.props, other.props) and all(_alike_fields(*f) for f in fields)
            )
        case (Union(), Union()):
            return True
        case (Primitive() | Array() | Map(), Primitive() | Array() | Map()):
            return same_json(one.props, other.props)
    return False


def _alike_fields(one: Field, other: Field) -> bool:
    return (
        (one.name, one.order, one.has_default) == (other.name, other.order, other.has_default)
        and same_json(one.default, other.default)
        and same_json(one.props, other.props)
    )


def _parts(schema: Schema) -> list[Schema]:
    """Return the schemas that a schema contains, in order."""
    match schema:
        case Array():
            return [schema.items]
        case Map():
            return [schema.values]
        case Union():
            return schema.branches
        case Record():
            return [each.schema for each in schema.fields.values()]
    return []


def _docs(schema: Schema) -> object:
    """Return what a schema tells to people and to readers of other names, to be compared."""
    match schema:
        case Record():
            fields = [(each.doc, frozenset(each.aliases)) for each in schema.fields.values()]
            return schema.doc, frozenset(alias_names(schema)), fields
        case Enum():
            return schema.doc, frozenset(alias_names(schema)), schema.default
        case Fixed():
            return schema.doc, frozenset(alias_names(schema))
    return None
