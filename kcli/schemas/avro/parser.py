"""JSON values to schemas, as Avro 1.12 for Java parses them.

One parser reads the texts of a schema's references, then the schema itself: a text may use types that earlier texts
define. A name may be used before its type is defined in the same text. Where Avro for Java differs from the
specification (a type may be defined twice if both definitions are equal; unknown attributes are kept; a default may be
of any branch of a union), this parser follows Avro for Java.

Source: Avro specification 1.12, "Schema Declaration"; the behaviour of Schema.Parser and of its name resolution.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from kcli.java.values import java_double
from kcli.schemas.avro.defaults import check_default, check_resolved_defaults
from kcli.schemas.avro.json_text import Json, is_integer, refused
from kcli.schemas.avro.logical import ordered_props
from kcli.schemas.avro.names import check_part, check_strict
from kcli.schemas.avro.printing import schema_text
from kcli.schemas.avro.types import (
    PRIMITIVES,
    Array,
    Enum,
    Field,
    Fixed,
    Map,
    Name,
    NamedType,
    Primitive,
    Record,
    Schema,
    Union,
    Unresolved,
    full_name,
    same_schema,
)
from kcli.schemas.jackson import json_text

FIXED_SIZE_MAX: Final = (1 << 31) - 1 - 8
"""The largest array of a Java VM."""
_SCHEMA_RESERVED: Final = frozenset(
    ("doc", "fields", "items", "name", "namespace", "size", "symbols", "values", "type", "aliases")
)
_ENUM_RESERVED: Final = _SCHEMA_RESERVED | {"default"}
_FIELD_RESERVED: Final = frozenset(("default", "doc", "name", "order", "type", "aliases"))
_ORDERS: Final = frozenset(("ASCENDING", "DESCENDING", "IGNORE"))

Put = Callable[[Schema], None]


class Parser:
    """Parses texts, and keeps the named types that they define.

    strict: whether names and defaults are checked by the rules for new schemas.
    """

    def __init__(self, *, strict: bool) -> None:
        self._strict = strict
        self._types: dict[str, NamedType] = {}
        self._new: list[Record] = []
        self._unresolved: list[tuple[Unresolved, Put]] = []
        self._unions: list[Union] = []

    def parse(self, node: Json) -> Schema:
        """Return the schema of a JSON value. Raises InvalidSchema."""
        self._new, self._unresolved, self._unions = [], [], []
        schema = self._schema(node, "")
        if isinstance(schema, Unresolved):
            raise refused(f"Undefined schema: {schema.full}")
        self._resolve()
        return self._types[schema.name.full] if isinstance(schema, (Record, Enum, Fixed)) else schema

    def _resolve(self) -> None:
        for unresolved, put in self._unresolved:
            found = self._types.get(unresolved.full)
            if found is None:
                raise refused(f"Undefined schema: {unresolved.full}")
            put(found)
        for union in self._unions:
            _check_branches(union)
        if self._strict and self._new:
            check_resolved_defaults(self._new)

    def _schema(self, node: Json, space: str) -> Schema:
        """Return the schema of a JSON value. space: the namespace around it."""
        match node:
            case str():
                return self._find(node, space)
            case list():
                return self._union(node, space)
            case dict():
                return self._declared(node, space)
        raise refused(f"Schema not yet supported: {json_text(node)}")

    def _declared(self, node: dict[str, Json], space: str) -> Schema:
        kind = _required_text(node, "type", "No type")
        match kind:
            case "record" | "error":
                return self._record(node, space, is_error=kind == "error")
            case "enum":
                return self._enum(node, space)
            case "fixed":
                return self._fixed(node, space)
            case "array" | "map":
                return self._collection(node, space, kind)
        if kind in PRIMITIVES:
            return Primitive(kind, _props(node, _SCHEMA_RESERVED))
        return self._find(kind, space)

    def _find(self, text: str, space: str) -> Schema:
        """Return the type that a name refers to: in the namespace `space`, else without a namespace."""
        if text in PRIMITIVES:
            return Primitive(text)
        full = f"{space}.{text}" if space and "." not in text else text
        return self._types.get(full) or self._types.get(text) or Unresolved(full)

    def _union(self, node: list[Json], space: str) -> Union:
        union = Union([self._schema(each, space) for each in node])
        unresolved = [(i, each) for i, each in enumerate(union.branches) if isinstance(each, Unresolved)]
        for i, each in unresolved:
            self._unresolved.append((each, partial(union.branches.__setitem__, i)))
        _check_branches(union)
        if unresolved:
            self._unions.append(union)
        return union

    def _collection(self, node: dict[str, Json], space: str, kind: str) -> Array | Map:
        part = "items" if kind == "array" else "values"
        if part not in node:
            raise refused(f"{kind.capitalize()} has no {part} type: {json_text(node)}")
        inner = self._schema(node[part], space)
        props = _props(node, _SCHEMA_RESERVED)
        collection = Array(inner, props) if kind == "array" else Map(inner, props)
        if isinstance(inner, Unresolved):
            self._unresolved.append((inner, partial(setattr, collection, part)))
        collection.props = ordered_props(collection)
        return collection

    def _record(self, node: dict[str, Json], space: str, *, is_error: bool) -> Record:
        record = Record(self._declared_name(node, space), is_error, _text(node, "doc"))
        _check_no_primitive(record.name)
        fields = node.get("fields")
        if not isinstance(fields, list):
            raise refused(f"Record has no fields: {json_text(node)}")
        parsed = [self._field(each, record.name.space) for each in fields]
        for position, each in enumerate(parsed):
            other = record.fields.setdefault(each.name, each)
            if other is not each:
                others = f"{_described(each, position)} and {_described(other, parsed.index(other))}"
                raise refused(f"Duplicate field {each.name} in record {record.name.full}: {others}.")
            if isinstance(each.schema, Unresolved):
                self._unresolved.append((each.schema, partial(setattr, each, "schema")))
        record.props = _props(node, _SCHEMA_RESERVED)
        record.props = ordered_props(record)
        record.aliases = self._aliases(node, record.name)
        if self._put(record):
            self._new.append(record)
        return record

    def _field(self, node: Json, space: str) -> Field:
        if not isinstance(node, dict):
            raise refused(f"No field name: {json_text(node)}")
        name = _required_text(node, "name", "No field name")
        if "type" not in node:
            raise refused(f"No field type: {json_text(node)}")
        schema = self._schema(node["type"], space)
        default = node.get("default")
        if schema.type in ("float", "double") and isinstance(default, str):
            default = _number(default)
        order = _order(node)
        field = Field(name, schema, _text(node, "doc"), "default" in node, default, order, (), {})
        if self._strict:
            check_strict(name)
            if field.has_default and not check_default(schema, default):
                wanted = f"not a {schema_text(schema)}"
                raise refused(f"Invalid default for field {name}: {json_text(default)} {wanted}")
        field.props = _props(node, _FIELD_RESERVED)
        field.aliases = tuple(_alias_texts(node))
        return field

    def _enum(self, node: dict[str, Json], space: str) -> Enum:
        name = self._declared_name(node, space)
        symbols = node.get("symbols")
        if not isinstance(symbols, list):
            raise refused(f"Enum has no symbols: {json_text(node)}")
        _check_no_primitive(name)
        texts = [each if isinstance(each, str) else None for each in symbols]
        self._check_symbols(texts)
        default = _text(node, "default")
        if default is not None and default not in texts:
            known = ", ".join(map(str, texts))
            raise refused(f"The Enum Default: {default} is not in the enum symbol set: [{known}]")
        props = _props(node, _ENUM_RESERVED)
        enum = Enum(name, texts, default, _text(node, "doc"), self._aliases(node, name), props)
        self._put(enum)
        return enum

    def _check_symbols(self, symbols: list[str | None]) -> None:
        seen: set[str | None] = set()
        for each in symbols:
            if self._strict:
                check_strict(each)
            if each in seen:
                raise refused(f"Duplicate enum symbol: {'null' if each is None else each}")
            seen.add(each)

    def _fixed(self, node: dict[str, Json], space: str) -> Fixed:
        name = self._declared_name(node, space)
        size = node.get("size")
        if not is_integer(size, 32) or not isinstance(size, int):
            raise refused(f"Invalid or no size: {json_text(node)}")
        _check_no_primitive(name)
        if size < 0:
            raise refused(f"Malformed data. Length is negative: {size}")
        if size > FIXED_SIZE_MAX:
            raise refused(f"Cannot read arrays longer than {FIXED_SIZE_MAX} bytes in Java library")
        props = _props(node, _SCHEMA_RESERVED)
        fixed = Fixed(name, size, _text(node, "doc"), self._aliases(node, name), props)
        self._put(fixed)
        return fixed

    def _declared_name(self, node: dict[str, Json], space: str) -> Name:
        declared = _text(node, "namespace")
        text = _required_text(node, "name", "No name in schema")
        return self._name(text, space if declared is None else declared)

    def _name(self, text: str, space: str) -> Name:
        """Return the Name that a text stands for. Its namespace is the part before the last dot, or `space` if the text
        has no dot."""
        before, dot, simple = text.rpartition(".")
        if self._strict:
            check_strict(simple)
        return Name(simple, before if dot else space)

    def _aliases(self, node: dict[str, Json], name: Name) -> tuple[Name, ...]:
        return tuple(dict.fromkeys(self._name(each, name.space) for each in _alias_texts(node)))

    def _put(self, schema: NamedType) -> bool:
        """Keep a named type; return whether the name was free. Raises InvalidSchema if another type has the name."""
        full = schema.name.full
        if self._strict:
            *spaces, simple = full.split(".")
            for each in spaces:
                check_part(each, "Namespace part")
            check_part(simple, "Name")
        known = self._types.setdefault(full, schema)
        if known is not schema and not same_schema(known, schema):
            raise refused(f"Can't redefine: {full}")
        return known is schema


def _check_branches(union: Union) -> None:
    """Check that no branch is a union or of the same type as another one. Raises InvalidSchema."""
    names: set[str] = set()
    for each in union.branches:
        if isinstance(each, Union):
            raise refused(f"Nested union: {schema_text(union)}")
        if isinstance(each, Unresolved):
            continue
        name = full_name(each)
        if name in names:
            raise refused(f"Duplicate in union:{name}")
        names.add(name)


def _check_no_primitive(name: Name) -> None:
    if name.full in PRIMITIVES:
        raise refused(f"Schemas may not be named after primitives: {name.full}")


def _described(field: Field, position: int) -> str:
    return f"{field.name} type:{field.schema.type.upper()} pos:{position}"


def _text(node: dict[str, Json], key: str) -> str | None:
    """Return an attribute that is a string; None for another value."""
    value = node.get(key)
    return value if isinstance(value, str) else None


def _required_text(node: dict[str, Json], key: str, error: str) -> str:
    text = _text(node, key)
    if text is None:
        raise refused(f"{error}: {json_text(node)}")
    return text


def _props(node: dict[str, Json], reserved: frozenset[str]) -> dict[str, Json]:
    if reserved.issuperset(node):
        return {}
    return {name: value for name, value in node.items() if name not in reserved}


def _order(node: dict[str, Json]) -> str:
    if "order" not in node:
        return "ascending"
    order = node["order"]
    if not isinstance(order, str):
        raise refused(f"the order of a field is no string: {json_text(order)}")
    if order.upper() not in _ORDERS:
        raise refused(f"No enum constant org.apache.avro.Schema.Field.Order.{order.upper()}")
    return order.upper().lower()


def _number(text: str) -> float:
    number = java_double(text)
    if number is None:
        raise refused(f"For input string: {json_text(text)}")
    return number


def _alias_texts(node: dict[str, Json]) -> list[str]:
    if "aliases" not in node:
        return []
    aliases = node["aliases"]
    if not isinstance(aliases, list):
        raise refused(f"aliases not an array: {json_text(node)}")
    texts = []
    for each in aliases:
        if not isinstance(each, str):
            raise refused(f"alias not a string: {json_text(each)}")
        texts.append(each)
    return list(dict.fromkeys(texts))
