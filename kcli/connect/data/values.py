"""Values that Python has no type for, and the names of Java's classes, which messages of Connect carry."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final, Self

from kcli.connect.data.schema import Schema, Type

LOGICAL_DECIMAL: Final = "org.apache.kafka.connect.data.Decimal"
LOGICAL_DATE: Final = "org.apache.kafka.connect.data.Date"
LOGICAL_TIME: Final = "org.apache.kafka.connect.data.Time"
LOGICAL_TIMESTAMP: Final = "org.apache.kafka.connect.data.Timestamp"
_LOGICAL_DATES: Final = (LOGICAL_DATE, LOGICAL_TIME, LOGICAL_TIMESTAMP)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Int8(int):
    """A byte of Java, in a value without a schema."""

    __slots__ = ()


class Int16(int):
    """A short of Java, in a value without a schema."""

    __slots__ = ()


class Int32(int):
    """An int of Java, in a value without a schema."""

    __slots__ = ()


class Float32(float):
    """A float of Java, in a value without a schema."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, order=True)
class Date:
    """A java.util.Date, a value of the logical types Date, Time and Timestamp: milliseconds since 1970, UTC."""

    millis: int

    @classmethod
    def of(cls, moment: datetime) -> Self:
        """Return the date of a moment, which has a time zone."""
        return cls((moment - _EPOCH) // timedelta(milliseconds=1))

    @property
    def moment(self) -> datetime:
        """The moment in UTC. Raises OverflowError outside of the years 1 to 9999."""
        return _EPOCH + timedelta(milliseconds=self.millis)


class StructValue:
    """Base of Struct."""

    __slots__ = ()


INTEGER_BITS: Final = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32, Type.INT64: 64}
_INTEGERS: Final[dict[Type, type[int]]] = {Type.INT8: Int8, Type.INT16: Int16, Type.INT32: Int32}
_LIMITS: Final = {kind: 1 << bits - 1 for kind, bits in INTEGER_BITS.items()}
_NUMBER_CLASSES: Final = {
    Type.INT8: "java.lang.Byte",
    Type.INT16: "java.lang.Short",
    Type.INT32: "java.lang.Integer",
    Type.INT64: "java.lang.Long",
    Type.FLOAT32: "java.lang.Float",
    Type.FLOAT64: "java.lang.Double",
}
_CLASSES: Final[dict[type, str]] = {
    bool: "java.lang.Boolean",
    Int8: "java.lang.Byte",
    Int16: "java.lang.Short",
    Int32: "java.lang.Integer",
    int: "java.lang.Long",
    Float32: "java.lang.Float",
    float: "java.lang.Double",
    str: "java.lang.String",
    bytes: "[B",
    Date: "java.util.Date",
    Decimal: "java.math.BigDecimal",
    list: "java.util.ArrayList",
    dict: "java.util.HashMap",
}
_TYPES: Final[dict[type, Type]] = {
    bool: Type.BOOLEAN,
    Int8: Type.INT8,
    Int16: Type.INT16,
    Int32: Type.INT32,
    int: Type.INT64,
    Float32: Type.FLOAT32,
    float: Type.FLOAT64,
    str: Type.STRING,
    bytes: Type.BYTES,
    list: Type.ARRAY,
    dict: Type.MAP,
}


def type_of(value: Any) -> Type | None:
    """Return the type of a value without a schema, as ConnectSchema.schemaType tells it by the value's class; None for
    a class that is none of Connect's data, such as a date."""
    found = _TYPES.get(type(value))
    return Type.STRUCT if found is None and isinstance(value, StructValue) else found


def class_name(value: Any, schema: Schema | None = None) -> str:
    """Return the name of a value's class in Java; "null" for None. schema: of the value, which tells the width of an
    int or a float."""
    if value is None:
        return "null"
    kind = type(value)
    if schema is not None and (kind is int or kind is float) and (schema.type in INTEGER_BITS) is (kind is int):
        return _NUMBER_CLASSES.get(schema.type, _CLASSES[kind])
    if kind in _CLASSES:
        return _CLASSES[kind]
    return (
        "org.apache.kafka.connect.data.Struct"
        if isinstance(value, StructValue)
        else f"{kind.__module__}.{kind.__qualname__}"
    )


def fits(schema: Schema, value: Any) -> bool:
    """Return whether the class of a value, which is not None, is one that the schema allows."""
    kind = type(value)
    if schema.name == LOGICAL_DECIMAL:
        return kind is Decimal
    if schema.name in _LOGICAL_DATES:
        return kind is Date
    expected = schema.type
    if expected in _LIMITS:
        limit = _LIMITS[expected]
        return (kind is int and -limit <= value < limit) or kind is _INTEGERS.get(expected)
    if kind is float:
        return expected is Type.FLOAT32 or expected is Type.FLOAT64
    return type_of(value) is expected


def typed(value: Any, schema: Schema) -> Any:
    """Return a number of a schema as a value that has its width without the schema."""
    if type(value) is int and schema.type in _INTEGERS:
        return _INTEGERS[schema.type](value)
    return Float32(value) if type(value) is float and schema.type is Type.FLOAT32 else value


def wrapped(value: int, bits: int) -> int:
    """Return an integer's lowest bits as a signed integer, as Java casts it to a narrower type."""
    half = 1 << bits - 1
    return (value + half & (1 << bits) - 1) - half
