"""The types of Avro's schemas, as the parser makes them.

A named type is one object, however often schemas refer to it; a second definition of the same type in a text is another
object. The comparison of readers and writers identifies types by object identity; `same_schema` compares them as
Schema.equals of Avro for Java does.

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
        """Return the name as it is written inside namespace `space`: the simple name if the namespace is the same,
        unless the simple name is that of one of Avro's own types."""
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
    """A value of one of the branches."""

    branches: list[Schema]
    type: str = "union"


@dataclass(eq=False, slots=True)
class Fixed:
    """A fixed number of bytes, `size`. aliases: None if the text has none."""

    name: Name
    size: int
    doc: str | None
    aliases: tuple[Name, ...]
    props: dict[str, Json]
    type: str = "fixed"


@dataclass(eq=False, slots=True)
class Enum:
    """One of several symbols. default: the symbol that a reader uses in place of a symbol that it does not know.

    A symbol that is no string in the text is None; the check of names refuses it."""

    name: Name
    symbols: list[str | None]
    default: str | None
    doc: str | None
    aliases: tuple[Name, ...]
    props: dict[str, Json]
    type: str = "enum"


@dataclass(eq=False, slots=True)
class Field:
    """A field of a record. default: the field's value if the writer's record has no such field; only valid if
    has_default."""

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
    """A record: named fields. is_error: whether the text has the type `error` for it."""

    name: Name
    is_error: bool
    doc: str | None
    aliases: tuple[Name, ...] = ()
    fields: dict[str, Field] = field(default_factory=dict)
    props: dict[str, Json] = field(default_factory=dict)
    type: str = "record"


@dataclass(eq=False, slots=True)
class Unresolved:
    """A name whose type is not defined yet. No Unresolved is left once a text is parsed to its end."""

    full: str
    type: str = "record"


NamedType: TypeAlias = Record | Enum | Fixed
Schema: TypeAlias = Primitive | Array | Map | Union | Record | Enum | Fixed | Unresolved


def full_name(schema: Schema) -> str:
    """Return the full name of a named type; for other types the name of the type, such as "array"."""
    match schema:
        case Record() | Enum() | Fixed():
            return schema.name.full
        case Unresolved():
            return schema.full
    return schema.type


def alias_names(schema: NamedType) -> list[str]:
    """Return the full names of the aliases. An alias without a namespace starts with a dot if the type itself has a
    namespace."""
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
    """Return whether two schemas of the same type are equal, apart from the types that they contain."""
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
    """Return the docs, aliases and enum defaults of a schema, in a form that can be compared."""
    match schema:
        case Record():
            fields = [(each.doc, frozenset(each.aliases)) for each in schema.fields.values()]
            return schema.doc, frozenset(alias_names(schema)), fields
        case Enum():
            return schema.doc, frozenset(alias_names(schema)), schema.default
        case Fixed():
            return schema.doc, frozenset(alias_names(schema))
    return None
