"""Structs of Connect as rows of Arrow, for sinks that write tables and Parquet files.

    INT8, INT16, INT32      int32              STRUCT     struct
    INT64                   int64              ARRAY      list
    FLOAT32, FLOAT64        float32, float64   MAP        map
    BOOLEAN, STRING, BYTES  bool, string, binary
    Decimal                 decimal128(38, scale)
    Date, Time, Timestamp   date32, time32(ms), timestamp(ms, UTC)

A column takes null if its schema is optional; a missing value has the default of its schema, as in Struct.get.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from kcli.connect.data.errors import DataError
from kcli.connect.data.logical import encoded
from kcli.connect.data.schema import Schema, Type, remembered
from kcli.connect.data.struct import Struct
from kcli.connect.data.values import LOGICAL_DATE, LOGICAL_DECIMAL, LOGICAL_TIME, LOGICAL_TIMESTAMP

PRECISION: Final = 38
PLAIN: Final = {
    Type.INT8: pa.int32(), Type.INT16: pa.int32(), Type.INT32: pa.int32(), Type.INT64: pa.int64(),
    Type.FLOAT32: pa.float32(), Type.FLOAT64: pa.float64(), Type.BOOLEAN: pa.bool_(), Type.STRING: pa.string(),
    Type.BYTES: pa.binary(),
}  # fmt: skip
LOGICAL: Final = {
    LOGICAL_DATE: pa.date32(), LOGICAL_TIME: pa.time32("ms"), LOGICAL_TIMESTAMP: pa.timestamp("ms", "UTC"),
}  # fmt: skip
Convert = Callable[[Any], Any]


def type_of(schema: Schema) -> pa.DataType:
    """Return the type of the values of a schema. Raises DataError."""
    if schema.name in LOGICAL:
        return LOGICAL[schema.name]
    if schema.name == LOGICAL_DECIMAL:
        scale = (schema.parameters or {}).get("scale", "")
        if not scale.isdigit() or int(scale) > PRECISION:
            raise DataError(f"a decimal with the scale {scale or 'none'}: columns have 0 to {PRECISION}")
        return pa.decimal128(PRECISION, int(scale))
    match schema.type:
        case Type.STRUCT:
            return pa.struct([_field(each.name, each.schema) for each in schema.fields])
        case Type.ARRAY:
            return pa.list_(_field("element", _known(schema.value_schema)))
        case Type.MAP:
            return pa.map_(type_of(_known(schema.key_schema)), _field("value", _known(schema.value_schema)))
        case _:
            return PLAIN[schema.type]


def columns_of(schema: Schema) -> pa.Schema:
    """Return the columns of a struct's schema. Raises DataError."""
    return pa.schema([_field(each.name, each.schema) for each in schema.fields])


def rows_of(structs: Sequence[Struct]) -> pa.RecordBatch:
    """Return structs of one schema as rows. Raises DataError for a value that its column cannot have."""
    schema = structs[0].schema
    columns = _columns(schema)
    arrays = []
    for index, (column, field) in enumerate(zip(columns, schema.fields, strict=True)):
        values, default = [each.values[index] for each in structs], field.schema.default
        if default is not None:
            values = [default if each is None else each for each in values]
        convert = _converter(field.schema)
        try:
            arrays.append(pa.array(values if convert is None else map(convert, values), column.type))
        except (pa.ArrowException, OverflowError, ValueError, TypeError) as error:
            raise DataError(f"field {field.name}: {error}") from error
    return pa.RecordBatch.from_arrays(arrays, schema=columns)


def _field(name: str, schema: Schema) -> pa.Field:
    return pa.field(name, type_of(schema), schema.optional)


_columns = remembered(columns_of, 1000)


def _convert_of(schema: Schema) -> Convert | None:
    """Return what makes of a schema's value what Arrow takes; None if that is the value itself."""
    if schema.name == LOGICAL_DECIMAL:
        return None
    if schema.name in LOGICAL:
        return lambda value: None if value is None else encoded(schema, value)
    match schema.type:
        case Type.STRUCT:
            fields = [(each, _converter(each.schema)) for each in schema.fields]
            return lambda value: None if value is None else _dict(value, fields)
        case Type.ARRAY:
            of_items = _converter(_known(schema.value_schema))
            if of_items is None:
                return None
            return lambda value: None if value is None else [of_items(each) for each in value]
        case Type.MAP:
            of_keys, of_values = (_converter(_known(each)) for each in (schema.key_schema, schema.value_schema))
            return lambda value: None if value is None else _pairs(value, of_keys, of_values)
    return None


_converter = remembered(_convert_of, 1000)


def _dict(struct: Struct, fields: Sequence[tuple[Any, Convert | None]]) -> dict[str, Any]:
    values = ((field.name, struct.value_of(field), convert) for field, convert in fields)
    return {name: value if convert is None else convert(value) for name, value, convert in values}


def _pairs(value: Mapping[Any, Any], of_keys: Convert | None, of_values: Convert | None) -> list[tuple[Any, Any]]:
    return [
        (key if of_keys is None else of_keys(key), each if of_values is None else of_values(each))
        for key, each in value.items()
    ]


def _known(schema: Schema | None) -> Schema:
    if schema is None:
        raise DataError("an array or a map without a schema for its elements")
    return schema
