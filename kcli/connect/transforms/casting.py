"""Cast: fields, or the whole key or value, as values of another type.

spec=int8              the whole key or value
spec=a:string,b:int8   fields of a struct or a map
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from kcli.connect.config.config_def import REQUIRED, ConfigDef, ConfigError, ConfigKey, Importance, Value
from kcli.connect.config.config_def import Type as OptionType
from kcli.connect.data.builder import basics, struct_schema, with_default
from kcli.connect.data.errors import ILLEGAL_ARGUMENT, DataError, JavaError
from kcli.connect.data.logical import encoded
from kcli.connect.data.maps import copy_size, hash_map
from kcli.connect.data.numbers import double_of, integer_of, narrow_integer, single_of
from kcli.connect.data.records import ConnectRecord
from kcli.connect.data.schema import Schema, Type, remembered
from kcli.connect.data.struct import Struct
from kcli.connect.data.texts import date_text, java_text
from kcli.connect.data.values import INTEGER_BITS, Date, Float32, class_name, type_of, typed
from kcli.connect.transforms.replacing import bad_pair, parts_of
from kcli.connect.transforms.requirements import require_map, require_struct
from kcli.connect.transforms.transform import PACKAGE, REPLACE_NULL, SCHEMAS_KEPT, OfKey, OfValue, Side
from kcli.java.values import java_double, java_float, java_integer, java_trim

_PURPOSE: Final = "cast types"
_OUTPUTS: Final = [
    Type.INT8, Type.INT16, Type.INT32, Type.INT64, Type.FLOAT32, Type.FLOAT64, Type.BOOLEAN, Type.STRING,
]  # fmt: skip
_INPUTS: Final = [*_OUTPUTS, Type.BYTES]
_SPEC: Final = "spec"


def _named(kinds: list[Type]) -> str:
    return f"[{', '.join(kind.name for kind in kinds)}]"


def _parsed(pairs: list[str]) -> dict[str | None, Type]:
    """Return the type of each field; of None for the whole key or value. Raises ConfigError."""
    made: dict[str | None, Type] = {}
    for pair in pairs:
        parts = parts_of(pair)
        if len(parts) > 2:
            raise bad_pair(pairs, pair)
        if not parts:
            raise JavaError("java.lang.ArrayIndexOutOfBoundsException", "Index 1 out of bounds for length 0")
        name = java_trim(parts[-1]).upper()
        if name not in Type.__members__:
            cause = f"No enum constant org.apache.kafka.connect.data.Schema.Type.{name}"
            raise ConfigError.of(
                f"Invalid type found in casting spec: {java_trim(parts[-1])}", f"{ILLEGAL_ARGUMENT}: {cause}"
            )
        if Type[name] not in _OUTPUTS:
            raise ConfigError(
                f"Cast transformation does not support casting to {name}; supported types are {_named(_OUTPUTS)}"
            )
        made[java_trim(parts[0]) if len(parts) == 2 else None] = Type[name]
    if None in made and len(pairs) > 1:
        raise ConfigError(
            "Cast transformations that specify a type to cast the entire value to may only specify a single cast in "
            "their spec"
        )
    return hash_map(made)


def _valid_spec(name: str, value: Value) -> None:
    del name
    if not value:
        raise ConfigError("Must specify at least one field to cast.")
    assert isinstance(value, list), value
    _parsed(value)


class Cast(Side):
    """The transform. See the module."""

    CONFIG = ConfigDef(
        ConfigKey(
            _SPEC, OptionType.LIST, REQUIRED, Importance.HIGH,
            "field:type,... or a type for the whole key or value: int8, int16, int32, int64, float32, float64, boolean "
            "or string.", _valid_spec,
        ),
        REPLACE_NULL,
    )  # fmt: skip

    def __init__(self, properties: Mapping[str, str | None]) -> None:
        super().__init__(properties)
        self._casts = _parsed(self.words(_SPEC))
        self._whole = self._casts.get(None)
        self._schema = remembered(self._made_schema, SCHEMAS_KEPT)

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        """Return the record with the cast values; null stays null."""
        schema, value = self.schema_of(record), self.value_of(record)
        if value is None:
            return record
        if schema is None:
            return self.made(record, None, self._without_schema(value))
        updated = self._schema(schema)
        if self._whole is not None:
            return self.made(record, updated, cast(schema, value, self._whole))
        struct = require_struct(value, _PURPOSE, schema)
        made = Struct(updated)
        for field in struct.schema.fields:
            each = struct.value_of(field, with_default=self.replaces_null)
            kind = self._casts.get(field.name)
            made.put(field.name, each if kind is None else cast(field.schema, each, kind))
        return self.made(record, updated, made)

    def _without_schema(self, value: Any) -> Any:
        if self._whole is not None:
            return cast(None, value, self._whole)
        values = require_map(value, _PURPOSE)
        casts = {name: cast(None, values.get(name), kind) for name, kind in self._casts.items()}
        return hash_map(values | casts, size=copy_size(len(values)))

    def _made_schema(self, schema: Schema) -> Schema:
        if self._whole is not None:
            made = Schema(self._whole, optional=schema.optional, **basics(schema))
        else:
            fields = [(field.name, self._field_schema(field.name, field.schema)) for field in schema.fields]
            made = struct_schema(fields, optional=schema.optional, **basics(schema))
        return made if schema.default is None else with_default(made, cast(schema, schema.default, made.type))

    def _field_schema(self, name: str, schema: Schema) -> Schema:
        kind = self._casts.get(name)
        if kind is None:
            return schema
        made = Schema(kind, optional=schema.optional)
        return made if schema.default is None else with_default(made, cast(schema, schema.default, kind))


def cast(schema: Schema | None, value: Any, kind: Type) -> Any:
    """Return a value as one of another type. schema: of the value. Raises DataError."""
    if value is None:
        return None
    known = type_of(value) if schema is None else schema.type
    if known is None:
        raise DataError(
            f"Cast transformation was passed a value of type class {class_name(value)} which is not supported by "
            "Connect's data API"
        )
    if known not in _INPUTS:
        raise DataError(
            f"Cast transformation does not support casting from {known.name}; supported types are {_named(_INPUTS)}"
        )
    if kind is Type.STRING:
        return _text(value, schema)
    if schema is not None:
        value = encoded(schema, value)
    if isinstance(value, bytes | Date):
        raise DataError(f"Unexpected type in Cast transformation: class {class_name(value)}")
    number = _parsed_number(value, kind) if isinstance(value, str) else _number(value, kind)
    if number is None:
        raise DataError(f"Value ({value}) was out of range for requested data type")
    return number if schema is not None else typed(number, Schema(kind))


def _text(value: Any, schema: Schema | None) -> str:
    if isinstance(value, Date):
        return date_text(value)
    return b64encode(value).decode() if isinstance(value, bytes) else java_text(value, schema)


def _number(value: bool | float | Decimal, kind: Type) -> bool | float:
    if kind is Type.BOOLEAN:
        return integer_of(value) != 0
    if kind is Type.FLOAT32:
        return Float32(single_of(value))
    if kind is Type.FLOAT64:
        return double_of(value)
    bits = INTEGER_BITS[kind]
    return narrow_integer(value, bits) if bits < 32 else integer_of(value, bits)


def _parsed_number(text: str, kind: Type) -> bool | float | None:
    if kind is Type.BOOLEAN:
        return text.lower() == "true"
    if kind is Type.FLOAT32:
        return java_float(text)
    return java_double(text) if kind is Type.FLOAT64 else java_integer(text, INTEGER_BITS[kind])


class CastKey(OfKey, Cast):
    """Of the key."""

    CLASS = f"{PACKAGE}.Cast$Key"


class CastValue(OfValue, Cast):
    """Of the value."""

    CLASS = f"{PACKAGE}.Cast$Value"
