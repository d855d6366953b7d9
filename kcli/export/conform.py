"""Columns brought to the type that a table has: fields that a record's schema lacks are null, narrower numbers are
widened.

A table whose schema has evolved has more fields than the records of a single schema, and Iceberg and Delta have fewer
types than Arrow (no 16-bit integers in Iceberg).
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.types as pt


def conform_rows(rows: pa.RecordBatch, schema: pa.Schema, also: Sequence[str]) -> pa.RecordBatch:
    """Return the rows with the columns of `schema`, of its types, and unchanged the columns `also` that it lacks.

    A column or field that the rows lack is null. Raises ArrowInvalid for a value that does not fit its type.
    """
    names = rows.schema.names
    fields = [*schema, *(rows.schema.field(name) for name in also if name not in schema.names)]
    arrays = [
        conform(rows.column(each.name), each.type) if each.name in names else pa.nulls(rows.num_rows, each.type)
        for each in fields
    ]
    return pa.RecordBatch.from_arrays(arrays, names=[each.name for each in fields])


def conform(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return an array as one of this type, matching the fields of structs by name; one without values fits any type.
    Raises ArrowInvalid."""
    if array.type == kind:
        return array
    if array.null_count == len(array):
        return pa.nulls(len(array), kind)
    if pt.is_struct(kind) and pt.is_struct(array.type):
        children = []
        for i in range(kind.num_fields):
            field = kind.field(i)
            at = array.type.get_field_index(field.name)
            children.append(pa.nulls(len(array), field.type) if at < 0 else conform(array.field(at), field.type))
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=array.is_null())
    if pt.is_map(kind) and pt.is_map(array.type):
        keys, items = conform(array.keys, kind.key_type), conform(array.items, kind.item_type)
        return pa.MapArray.from_arrays(_offsets(array), keys, items, type=kind, mask=array.is_null())
    if pt.is_list(kind) and pt.is_list(array.type):
        values = conform(array.values, kind.value_type)
        return pa.ListArray.from_arrays(_offsets(array), values, type=kind, mask=array.is_null())
    return array.cast(kind)


def _offsets(array: pa.Array) -> pa.Array:
    """Return the offsets of a list or map array as an array of its own, because from_arrays takes no slice of one
    together with a mask."""
    return pa.array(array.offsets.to_numpy(), pa.int32())
