"""The schema that a table needs for the rows of an export: columns and fields are added, and none is removed.

    a column or field that the table lacks       is added at the end; older rows have null
    one that only the table has                  stays; new rows have null
    a number of a type narrower than the table's is widened in the rows
    a wider one                                  the table's is widened, where its format can do that
    an unknown one (null), as of tombstones      is that of the table; string, if the table has no such column yet
    any other difference                         SchemaError, before anything is written

Types that no table has are refused, and tables with a column or field that takes no null: records may lack it. Integers
of 8 and 16 bits are stored as 32, times of ms as us.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.types as pt

from kcli.export.decoding.json_text import VARIANT
from kcli.export.decoding.unify import settle, unify
from kcli.schema_client.errors import SchemaError

Widens = Callable[[pa.DataType, pa.DataType], bool]
"""Returns whether a column of the first type can become one of the second while the table's files stay as they are."""


def storable(rows: pa.Schema, name: str, *, has_times: bool) -> pa.Schema:
    """Return the schema of an export's rows with the types in which tables store them; null types stay. name: the
    table's name, for errors. has_times: whether the format has times of day. Raises SchemaError."""

    def kind_of(kind: pa.DataType, path: str) -> pa.DataType:
        if kind == VARIANT or (pt.is_time(kind) and not has_times):
            what = "VARIANT" if kind == VARIANT else str(kind)
            raise SchemaError(f"{name}: {path} is {what}, which such a table cannot have")
        if pt.is_struct(kind):
            fields = (kind.field(i) for i in range(kind.num_fields))
            return pa.struct([pa.field(each.name, kind_of(each.type, f"{path}.{each.name}")) for each in fields])
        if pt.is_map(kind):
            return pa.map_(kind.key_type, kind_of(kind.item_type, f"{path}.value"))
        if pt.is_list(kind) or pt.is_large_list(kind):
            return pa.list_(pa.field("element", kind_of(kind.value_type, f"{path}[]")))
        if pt.is_integer(kind) and kind.bit_width < 32:
            return pa.int32()
        if pt.is_timestamp(kind):
            return pa.timestamp("us", kind.tz)
        return pa.time64("us") if pt.is_time(kind) else kind

    return pa.schema([pa.field(each.name, kind_of(each.type, each.name)) for each in rows])


def refuse_required(table: pa.Schema, name: str) -> None:
    """Raise SchemaError if a column or field of the table, at any depth, takes no null. name: the table's name."""
    due = [(each, each.name) for each in table]
    while due:
        field, path = due.pop()
        if not field.nullable:
            raise SchemaError(f"{name}: {path} takes no null, and records may lack it: drop its NOT NULL")
        kind = field.type
        if pt.is_map(kind):
            due.append((kind.item_field, f"{path}.value"))
        elif pt.is_struct(kind) or pt.is_list(kind) or pt.is_large_list(kind):
            due += [(each, f"{path}.{each.name}") for each in map(kind.field, range(kind.num_fields))]


def evolved(table: pa.Schema | None, rows: pa.Schema, name: str, widens: Widens) -> pa.Schema:
    """Return the schema that the table needs for its present rows and the new ones. table: None for a new table. name:
    the table's name, for errors. Raises SchemaError."""

    def column(old: pa.DataType, new: pa.DataType, path: str) -> pa.DataType:
        if old == new or pt.is_null(new):
            return old
        if pt.is_struct(old) and pt.is_struct(new):
            return pa.struct(fields(list(old), list(new), f"{path}."))
        if pt.is_map(old) and pt.is_map(new) and old.key_type == new.key_type:
            return pa.map_(old.key_type, column(old.item_type, new.item_type, f"{path}.value"))
        if pt.is_list(old) and pt.is_list(new):
            return pa.list_(pa.field("element", column(old.value_type, new.value_type, f"{path}[]")))
        try:
            common = unify(old, new)
        except SchemaError:
            common = None
        if common != old and not (common is not None and widens(old, common)):
            raise SchemaError(
                f"{name}: {path} is {old} in the table and {new} in the records: the table cannot take both"
            )
        return common

    def fields(old: list[pa.Field], new: list[pa.Field], path: str) -> list[pa.Field]:
        theirs = {each.name: each for each in new}
        found = []
        for each in old:
            match = theirs.pop(each.name, None)
            kind = each.type if match is None else column(each.type, match.type, path + each.name)
            found.append(pa.field(each.name, kind))
        return [*found, *(pa.field(each.name, settle(each.type)) for each in theirs.values())]

    return pa.schema(fields(list(table or ()), list(rows), ""))
