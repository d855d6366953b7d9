"""The defaults of fields: which values are allowed for a type.

A default of a union may be of any of its branches; that of a record may lack the fields that have defaults.

Source: Avro specification 1.12, "Complex Types"; Schema.isValidDefault of Avro for Java.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kcli.schemas.avro.json_text import Json, is_integer, is_number, refused
from kcli.schemas.avro.printing import schema_text
from kcli.schemas.avro.types import Array, Map, Primitive, Record, Schema, Union, Unresolved
from kcli.schemas.jackson import json_text
from kcli.schemas.schema import InvalidSchema


def check_default(schema: Schema, value: Json) -> bool:
    """Return whether a type allows a value as default. A type whose name is not resolved yet allows any object."""
    return _Check(set()).allows(schema, value)


def check_resolved_defaults(records: Sequence[Record]) -> None:
    """Check the defaults of the fields of records once all names are resolved. Only defaults with parts (objects and
    arrays) are checked: the result of `check_default` for others was final. Raises InvalidSchema.

    A default that is an object needs the fields of its record. Therefore each record is checked after the records that
    it contains. The default of a record that contains itself through its default would never end.
    """
    if not any(_has_parts(field.default) for record in records for field in record.fields.values()):
        return
    check = _Check({id(each) for each in records})
    for record in _contained_first(records):
        for field in record.fields.values():
            if _has_parts(field.default) and not check.allows(field.schema, field.default):
                wanted = f"not a {schema_text(field.schema)}"
                raise refused(f"Invalid default for field {field.name}: {json_text(field.default)} {wanted}")
        check.unchecked.discard(id(record))


class _Check:
    """Compares values with types. Each pair is compared once, as the branches of nested unions have exponentially many
    combinations.

    unchecked: the records whose fields' defaults are not checked yet.
    """

    def __init__(self, unchecked: set[int]) -> None:
        self.unchecked = unchecked
        self._known: dict[tuple[int, int], bool] = {}

    def allows(self, schema: Schema, value: Json) -> bool:
        match schema:
            case Primitive():
                return _allows_primitive(schema.type, value)
            case Array():
                return isinstance(value, list) and all(self._allows_once(schema.items, each) for each in value)
            case Map():
                return isinstance(value, dict) and all(
                    self._allows_once(schema.values, each) for each in value.values()
                )
            case Union():
                return any(self._allows_once(each, value) for each in schema.branches)
            case Unresolved():
                return isinstance(value, dict)
            case Record():
                return isinstance(value, dict) and self._allows_record(schema, value)
        return isinstance(value, str)

    def _allows_once(self, schema: Schema, value: Json) -> bool:
        if not _has_parts(value):
            return self.allows(schema, value)
        pair = id(schema), id(value)
        if pair not in self._known:
            self._known[pair] = self.allows(schema, value)
        return self._known[pair]

    def _allows_record(self, record: Record, value: dict[str, Json]) -> bool:
        if id(record) in self.unchecked:
            raise InvalidSchema("Schema fields not set yet")
        return all(
            self._allows_once(field.schema, value[name]) if name in value else field.has_default
            for name, field in record.fields.items()
        )


def _has_parts(value: Json) -> bool:
    return isinstance(value, (dict, list))


def _allows_primitive(kind: str, value: Json) -> bool:
    match kind:
        case "null":
            return value is None
        case "boolean":
            return isinstance(value, bool)
        case "int":
            return is_integer(value, 32)
        case "long":
            return is_integer(value, 64)
        case "float" | "double":
            return is_number(value)
    return isinstance(value, str)


def _contained_first(records: Sequence[Record]) -> Iterator[Record]:
    """Yield the records so that each follows the records that it contains, except those that contain it in turn."""
    new = {id(each) for each in records}
    for root in records:
        if id(root) not in new:
            continue
        new.discard(id(root))
        stack = [(root, _inner_records(root))]
        while stack:
            record, inner = stack[-1]
            following = next((each for each in inner if id(each) in new), None)
            if following is None:
                stack.pop()
                yield record
            else:
                new.discard(id(following))
                stack.append((following, _inner_records(following)))


def _inner_records(record: Record) -> Iterator[Record]:
    stack = [each.schema for each in reversed(record.fields.values())]
    while stack:
        match stack.pop():
            case Record() as inner:
                yield inner
            case Array() as array:
                stack.append(array.items)
            case Map() as mapped:
                stack.append(mapped.values)
            case Union() as union:
                stack += reversed(union.branches)
