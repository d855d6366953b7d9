"""The normalized form: attributes are in one order, and defaults are of their field's type.

    properties  sorted by name, behind `logicalType`, `precision` and a `scale` other than 0 of a logical type that fits
    aliases     full names, sorted
    defaults    converted to the field's type, or to the first branch of its union: 1 of a double is 1.0; left out where
                they do not fit
    objects     in properties and defaults, sorted by name
    namespaces  only as part of names; the printer writes the attribute where it is needed

Source: the behaviour of `normalize` of Confluent's registry.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable
from typing import Final

from kcli.java.hashing import java_order
from kcli.schemas.avro.json_text import Json, is_integer, refused
from kcli.schemas.avro.logical import LOGICAL_TYPE, keeps_integers, logical_type
from kcli.schemas.avro.types import (
    Array,
    Enum,
    Field,
    Fixed,
    Map,
    NamedType,
    Primitive,
    Record,
    Schema,
    Union,
    Unresolved,
    alias_names,
)
from kcli.schemas.jackson import too_deep
from kcli.schemas.schema import DEPTH_MAX

_FLOAT: Final = struct.Struct(">f")
_FLOAT_DIGITS_MAX: Final = 9


class _Unfit(Exception):
    """A default that does not fit its type at all."""


def normalized_json(schema: Schema, known: Iterable[str]) -> Json:
    """Return the JSON value of a schema's normalized form. known: the full names of types that are only named.

    Raises InvalidSchema for what Confluent's registry cannot normalize: integers of more than 64 bits in properties, a
    default that does not fit the first branch of a union.
    """
    return _Normalizer(known).schema(schema, 0)


class _Normalizer:
    def __init__(self, known: Iterable[str]) -> None:
        self._known = set(known)

    def schema(self, schema: Schema, depth: int) -> Json:
        if depth > DEPTH_MAX:
            raise too_deep()
        match schema:
            case Primitive():
                return {"type": schema.type, **_props(schema)} if schema.props else schema.type
            case Union():
                return [self.schema(each, depth + 1) for each in schema.branches]
            case Array():
                return {"type": "array", "items": self.schema(schema.items, depth + 1), **_props(schema)}
            case Map():
                return {"type": "map", "values": self.schema(schema.values, depth + 1), **_props(schema)}
            case Unresolved():
                return schema.full
        if schema.name.full in self._known:
            return schema.name.full
        self._known.add(schema.name.full)
        return self._named(schema, depth)

    def _named(self, schema: NamedType, depth: int) -> Json:
        node: dict[str, Json] = {"name": schema.name.full, "type": schema.type}
        match schema:
            case Record():
                node["fields"] = [self._field(each, depth + 2) for each in schema.fields.values()]
            case Enum():
                node["symbols"] = list(schema.symbols)
            case Fixed():
                node["size"] = schema.size
        logical = _logical_props(schema)
        if schema.doc:
            logical["doc"] = schema.doc
        if schema.aliases:
            logical["aliases"] = [*sorted(alias_names(schema), key=java_order)]
        if isinstance(schema, Enum) and schema.default is not None:
            logical["default"] = schema.default
        return node | logical | _sorted_props(schema.props)

    def _field(self, field: Field, depth: int) -> Json:
        node: dict[str, Json] = {"name": field.name, "type": self.schema(field.schema, depth + 1)}
        node["order"] = field.order
        if field.doc is not None:
            node["doc"] = field.doc
        if field.aliases:
            node["aliases"] = [*sorted(field.aliases, key=java_order)]
        if field.has_default:
            try:
                node["default"] = _sorted(_converted(field.schema, field.default))
            except _Unfit:
                if isinstance(field.default, (list, dict)):
                    raise refused(f"the default of field {field.name} has no normalized form") from None
        return node | _sorted_props(field.props)


def _props(schema: Primitive | Array | Map) -> dict[str, Json]:
    return _logical_props(schema) | _sorted_props(schema.props)


def _logical_props(schema: Primitive | Array | Map | NamedType) -> dict[str, Json]:
    name = logical_type(schema)
    if name is None:
        return {}
    logical: dict[str, Json] = {LOGICAL_TYPE: name}
    if name == "decimal":
        logical["precision"] = schema.props["precision"]
        if schema.props.get("scale", 0) != 0:
            logical["scale"] = schema.props["scale"]
    return logical


def _sorted_props(props: dict[str, Json]) -> dict[str, Json]:
    for name, value in props.items():
        if not keeps_integers(value):
            raise refused(f"the property {name!r} has an integer of more than 64 bits and no normalized form")
    return {name: _sorted(props[name]) for name in sorted(props, key=java_order)}


def _sorted(value: Json) -> Json:
    match value:
        case dict():
            return {name: _sorted(value[name]) for name in sorted(value, key=java_order)}
        case list():
            return [_sorted(each) for each in value]
    return value


def _converted(schema: Schema | None, value: Json) -> Json:
    """Convert a default to a type. schema: the type; None for any. Raises _Unfit."""
    if isinstance(schema, Union):
        if not schema.branches:
            raise _Unfit
        schema = schema.branches[0]
    match value:
        case None | bool():
            return value
        case str():
            return _converted_text(schema, value)
        case int() | float():
            return _converted_number(schema, value)
        case list():
            if value and schema is not None and not isinstance(schema, Array):
                raise _Unfit
            items = schema.items if isinstance(schema, Array) else None
            return [_converted(items, each) for each in value]
    return {name: _converted(_part(schema, name), each) for name, each in value.items()}


def _part(schema: Schema | None, name: str) -> Schema | None:
    match schema:
        case Map():
            return schema.values
        case Record():
            if name not in schema.fields:
                raise _Unfit
            return schema.fields[name].schema
    return None


def _converted_text(schema: Schema | None, value: str) -> str:
    kind = "string" if schema is None else schema.type
    if kind in ("bytes", "fixed"):
        return value.encode("iso-8859-1", "replace").decode("iso-8859-1")
    if kind in ("string", "enum"):
        return value
    raise _Unfit


def _converted_number(schema: Schema | None, value: float) -> Json:
    kind = None if schema is None else schema.type
    if isinstance(value, int):
        if not is_integer(value, 64):
            raise _Unfit
        if kind in (None, "int", "long"):
            return value
    elif kind is None:
        return value
    if kind == "double":
        return float(value)
    if kind == "float":
        return _float(float(value))
    raise _Unfit


def _float(value: float) -> float:
    """Return the double that prints with the same digits as Java prints for the nearest 32-bit float."""
    if not math.isfinite(value):
        return value
    try:
        packed = _FLOAT.pack(value)
    except OverflowError:
        return math.copysign(math.inf, value)
    (rounded,) = _FLOAT.unpack(packed)
    for digits in range(1, _FLOAT_DIGITS_MAX + 1):
        shortest = float(f"{rounded:.{digits}g}")
        if _FLOAT.pack(shortest) == packed:
            return shortest
    return float(rounded)
