"""Schemas: the type of a value and what is said of it.

Source: org.apache.kafka.connect.data.Schema, ConnectSchema, Field.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from functools import lru_cache
from typing import Any, Final, TypeVar

from kcli.connect.data.errors import DataError

T = TypeVar("T")


class Type(Enum):
    """The type of a value."""

    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT32 = "float32"
    FLOAT64 = "float64"
    BOOLEAN = "boolean"
    STRING = "string"
    BYTES = "bytes"
    ARRAY = "array"
    MAP = "map"
    STRUCT = "struct"

    __hash__ = object.__hash__


class Field:
    """A field of a struct. index: its place among the fields."""

    __slots__ = ("index", "name", "schema")

    def __init__(self, name: str, index: int, schema: Schema) -> None:
        self.name = name
        self.index = index
        self.schema = schema

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Field):
            return NotImplemented
        return self.index == other.index and self.name == other.name and self.schema == other.schema

    def __hash__(self) -> int:
        return hash((self.name, self.index))

    def __repr__(self) -> str:
        return f"Field{{name={self.name}, index={self.index}, schema={self.schema!r}}}"


class Schema:
    """A schema, which nothing changes.

    parameters: of a logical type. fields: of a STRUCT. key_schema: of a MAP. value_schema: of a MAP or an ARRAY. The
    constructor checks nothing; `builder` makes schemas that are checked.
    """

    __slots__ = (
        "_fields", "_hash", "_named", "default", "doc", "key_schema", "name", "optional", "parameters", "type",
        "value_schema", "version",
    )  # fmt: skip

    def __init__(  # noqa: PLR0913  (what a schema consists of)
        self,
        kind: Type,
        *,
        optional: bool = False,
        default: Any = None,
        name: str | None = None,
        version: int | None = None,
        doc: str | None = None,
        parameters: Mapping[str, str] | None = None,
        fields: Iterable[Field] = (),
        key_schema: Schema | None = None,
        value_schema: Schema | None = None,
    ) -> None:
        self.type = kind
        self.optional = optional
        self.default = default
        self.name = name
        self.version = version
        self.doc = doc
        self.parameters = parameters
        self.key_schema = key_schema
        self.value_schema = value_schema
        self._fields: Final = tuple(fields)
        self._named: Final = {field.name: field for field in self._fields}
        self._hash: int | None = None

    @property
    def fields(self) -> tuple[Field, ...]:
        """The fields of a STRUCT. Raises DataError for another type."""
        if self.type is not Type.STRUCT:
            raise DataError("Cannot list fields on non-struct type")
        return self._fields

    def field(self, name: str) -> Field | None:
        """Return the field of this name of a STRUCT, if there is one. Raises DataError for another type."""
        if self.type is not Type.STRUCT:
            raise DataError("Cannot look up fields on non-struct type")
        return self._named.get(name)

    def changed(self, **changes: Any) -> Schema:
        """Return a schema that differs in these arguments of the constructor."""
        known: dict[str, Any] = {
            "optional": self.optional,
            "default": self.default,
            "name": self.name,
            "version": self.version,
            "doc": self.doc,
            "parameters": self.parameters,
            "fields": self._fields,
            "key_schema": self.key_schema,
            "value_schema": self.value_schema,
        }
        return Schema(self.type, **known | changes)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Schema):
            return NotImplemented
        return (
            self.type is other.type
            and hash(self) == hash(other)
            and self.optional == other.optional
            and self.version == other.version
            and self.name == other.name
            and self.doc == other.doc
            and self.parameters == other.parameters
            and self._fields == other._fields
            and self.key_schema == other.key_schema
            and self.value_schema == other.value_schema
            and same(self.default, other.default)
        )

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(
                (self.type, self.optional, self.name, self.version, self._fields, self.key_schema, self.value_schema)
            )
        return self._hash

    def __repr__(self) -> str:
        return f"Schema{{{self.name}:{self.type.name}}}" if self.name is not None else f"Schema{{{self.type.name}}}"


def same(one: Any, other: Any) -> bool:
    """Return whether two values are equal, as Java has it: NaN is equal to NaN, and 0.0 is not to -0.0."""
    if isinstance(one, float) and isinstance(other, float):
        return math.isnan(one) if math.isnan(other) else one == other and _sign(one) == _sign(other)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    return bool(one == other)


def _sign(value: float) -> float:
    return math.copysign(1, value)


def remembered(make: Callable[[Schema], T], size: int) -> Callable[[Schema], T]:
    """Return a function that remembers what it has made of the last schemas, at least `size`: most records have the
    very same schema object, and an equal one is found, too."""
    of_equal = lru_cache(size)(make)
    of_same: dict[int, tuple[Schema, T]] = {}

    def find(schema: Schema) -> T:
        known = of_same.get(id(schema))
        if known is not None and known[0] is schema:
            return known[1]
        made = of_equal(schema)
        if len(of_same) >= size:
            of_same.clear()
        of_same[id(schema)] = schema, made
        return made

    return find


INT8: Final = Schema(Type.INT8)
INT16: Final = Schema(Type.INT16)
INT32: Final = Schema(Type.INT32)
INT64: Final = Schema(Type.INT64)
FLOAT32: Final = Schema(Type.FLOAT32)
FLOAT64: Final = Schema(Type.FLOAT64)
BOOLEAN: Final = Schema(Type.BOOLEAN)
STRING: Final = Schema(Type.STRING)
BYTES: Final = Schema(Type.BYTES)
OPTIONAL_INT16: Final = Schema(Type.INT16, optional=True)
OPTIONAL_INT32: Final = Schema(Type.INT32, optional=True)
OPTIONAL_INT64: Final = Schema(Type.INT64, optional=True)
OPTIONAL_FLOAT32: Final = Schema(Type.FLOAT32, optional=True)
OPTIONAL_FLOAT64: Final = Schema(Type.FLOAT64, optional=True)
OPTIONAL_BOOLEAN: Final = Schema(Type.BOOLEAN, optional=True)
OPTIONAL_STRING: Final = Schema(Type.STRING, optional=True)
OPTIONAL_BYTES: Final = Schema(Type.BYTES, optional=True)
