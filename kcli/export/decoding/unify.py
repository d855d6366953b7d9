"""One type for values of several types: of versions of a schema, or of JSON texts without a schema.

    a field of only one struct        is in the result (all fields may be null)
    int and long, float and double    the wider type; an integer and a floating-point type: double
    null and another type             the other type
    decimals                          the larger number of digits before the point, and of digits after it
    lists, maps, structs              member by member

Other types have no common type: SchemaError names the field. With `text` their common type is string, because every
JSON value has a text.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial, reduce

import pyarrow as pa
import pyarrow.types as pt

from kcli.schema_client.errors import SchemaError


def unify_all(types: Iterable[pa.DataType], *, text: bool = False) -> pa.DataType:
    """Return the common type of all types; the null type if there are none. text: whether types without a common type
    become string. Raises SchemaError for such types without `text`."""
    return reduce(lambda one, other: unify(one, other, text=text), types, pa.null())


def unify(one: pa.DataType, other: pa.DataType, *, text: bool = False, path: str = "") -> pa.DataType:
    """Return the common type of both types. path: the name of the field that has these types, for errors. text: whether
    types without a common type become string. Raises SchemaError for such types without `text`."""
    if one == other or pt.is_null(other):
        return one
    if pt.is_null(one):
        return other
    if pt.is_struct(one) and pt.is_struct(other):
        return _unify_structs(one, other, text=text, path=path)
    if pt.is_map(one) and pt.is_map(other):
        key = unify(one.key_type, other.key_type, text=text, path=f"{path}.key")
        return pa.map_(key, unify(one.item_type, other.item_type, text=text, path=f"{path}.value"))
    if pt.is_list(one) and pt.is_list(other):
        return pa.list_(unify(one.value_type, other.value_type, text=text, path=f"{path}[]"))
    found = _unify_scalars(one, other)
    if found is not None:
        return found
    if text:
        return pa.string()
    raise SchemaError(f"{path.lstrip('.') or 'the value'} is {one} in one schema and {other} in another")


def settle(found: pa.DataType, *, keeps_nulls: bool = False) -> pa.DataType:
    """Return the type with null types and structs without fields replaced by string, because a table can have
    neither. keeps_nulls: whether null types stay."""
    kept = partial(settle, keeps_nulls=keeps_nulls)
    if pt.is_null(found):
        return found if keeps_nulls else pa.string()
    if pt.is_map(found):
        return pa.map_(found.key_type, kept(found.item_type))
    if pt.is_list(found):
        return pa.list_(kept(found.value_type))
    if pt.is_struct(found):
        return pa.struct([field.with_type(kept(field.type)) for field in found]) if found.num_fields else pa.string()
    return found


def filled(found: pa.DataType, earlier: pa.DataType) -> pa.DataType:
    """Return the type with the types of `earlier` where nothing is known (null types), field by field."""
    if pt.is_null(found):
        return earlier
    if pt.is_struct(found) and pt.is_struct(earlier):
        known = {field.name: field.type for field in earlier}
        return pa.struct([each.with_type(filled(each.type, known.get(each.name, each.type))) for each in found])
    if pt.is_map(found) and pt.is_map(earlier):
        return pa.map_(found.key_type, filled(found.item_type, earlier.item_type))
    if pt.is_list(found) and pt.is_list(earlier):
        return pa.list_(filled(found.value_type, earlier.value_type))
    return found


def _unify_structs(one: pa.StructType, other: pa.StructType, *, text: bool, path: str) -> pa.DataType:
    theirs = {field.name: field for field in other}
    fields = []
    for field in one:
        match = theirs.pop(field.name, None)
        if match is None:
            fields.append(field)
        else:
            unified = unify(field.type, match.type, text=text, path=f"{path}.{field.name}")
            fields.append(field.with_type(unified))
    return pa.struct([*fields, *theirs.values()])


def _unify_scalars(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    if pt.is_integer(one) and pt.is_integer(other):
        return max(one, other, key=lambda kind: kind.bit_width)
    if pt.is_decimal(one) or pt.is_decimal(other):
        return _unify_decimals(_as_decimal(one), _as_decimal(other))
    numbers = [kind for kind in (one, other) if pt.is_integer(kind) or pt.is_floating(kind)]
    if len(numbers) == 2:
        return pa.float64()
    return None


def _as_decimal(kind: pa.DataType) -> tuple[int, int] | None:
    if pt.is_decimal(kind):
        return kind.precision, kind.scale
    return {8: (3, 0), 16: (5, 0), 32: (10, 0), 64: (20, 0)}[kind.bit_width] if pt.is_integer(kind) else None


def _unify_decimals(one: tuple[int, int] | None, other: tuple[int, int] | None) -> pa.DataType | None:
    if one is None or other is None:
        return None
    scale = max(one[1], other[1])
    precision = max(one[0] - one[1], other[0] - other[1]) + scale
    return pa.decimal128(precision, scale) if precision <= 38 else None
