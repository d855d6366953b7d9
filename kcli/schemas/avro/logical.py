"""Logical types: which one a schema has. If the attribute `logicalType` does not fit the schema's type, it is an
ordinary property.

Confluent's registry adds two: `map`, an array of records with a key and a value, and `variant`.

Source: Avro specification 1.12, "Logical Types".
"""

from __future__ import annotations

import math
from typing import Final

from kcli.schemas.avro.json_text import Json, is_integer, refused
from kcli.schemas.avro.types import Array, Enum, Fixed, Map, Primitive, Record, Schema

LOGICAL_TYPE: Final = "logicalType"
_UUID_SIZE: Final = 16
_DURATION_SIZE: Final = 12
_OF_PRIMITIVES: Final = {
    "big-decimal": "bytes",
    "date": "int",
    "time-millis": "int",
    "time-micros": "long",
    "timestamp-millis": "long",
    "timestamp-micros": "long",
    "timestamp-nanos": "long",
    "local-timestamp-millis": "long",
    "local-timestamp-micros": "long",
    "local-timestamp-nanos": "long",
}
_FORBIDDEN: Final = ("avro.java.string", "java-class", "java-key-class", "java-element-class")
"""Properties that name Java classes: with one of them a schema has no logical type."""


def logical_type(schema: Schema) -> str | None:
    """Return the name of a schema's logical type; None if it has none, or if it does not fit the schema's type."""
    if not isinstance(schema, (Primitive, Array, Map, Record, Enum, Fixed)):
        return None
    name = schema.props.get(LOGICAL_TYPE)
    if not isinstance(name, str) or any(isinstance(schema.props.get(each), str) for each in _FORBIDDEN):
        return None
    return name if _fits(schema, name) else None


def ordered_props(schema: Array | Map | Record) -> dict[str, Json]:
    """Return the properties of an array, map or record, with the logical type first. Raises InvalidSchema for an
    integer of more than 64 bits, which Avro for Java does not keep."""
    for name, value in schema.props.items():
        if not keeps_integers(value):
            raise refused(f"Can't set a property to null: {name!r}")
    logical = logical_type(schema)
    return schema.props if logical is None else {LOGICAL_TYPE: logical, **schema.props}


def keeps_integers(value: Json) -> bool:
    """Return whether all integers of a value have at most 64 bits."""
    match value:
        case bool():
            return True
        case int():
            return is_integer(value, 64)
        case list():
            return all(keeps_integers(each) for each in value)
        case dict():
            return all(keeps_integers(each) for each in value.values())
    return True


def _fits(schema: Schema, name: str) -> bool:
    match name, schema:
        case "uuid", Primitive(type="string"):
            return True
        case "uuid", Fixed(size=size):
            return size == _UUID_SIZE
        case "duration", Fixed(size=size):
            return size == _DURATION_SIZE
        case "decimal", Primitive(type="bytes") | Fixed():
            return _is_decimal(schema.props, schema.size if isinstance(schema, Fixed) else None)
        case "map", Array(items=Record(fields=fields)):
            return list(fields) == ["key", "value"]
        case "variant", Record(fields=fields):
            return set(fields) == {"metadata", "value"} and all(each.schema.type == "bytes" for each in fields.values())
        case _, Primitive(type=primitive):
            return _OF_PRIMITIVES.get(name) == primitive
    return False


def _is_decimal(props: dict[str, Json], size: int | None) -> bool:
    """Return whether the precision and the scale of a decimal are allowed. size: the size of a fixed; None for
    bytes."""
    precision, scale = props.get("precision"), props.get("scale", 0)
    if not (isinstance(precision, int) and isinstance(scale, int)):
        return False
    if not (is_integer(precision, 32) and is_integer(scale, 32)):
        return False
    digits = precision if size is None else math.floor(math.log10(2) * (8 * size - 1))
    return 0 < precision <= digits and 0 <= scale <= precision
