"""Structs, and the check that a value fits a schema.

Source: org.apache.kafka.connect.data.Struct, ConnectSchema.validateValue.
"""

from __future__ import annotations

from typing import Any

from kcli.connect.data.errors import DataError
from kcli.connect.data.schema import Field, Schema, Type, same
from kcli.connect.data.values import StructValue, class_name, fits


class Struct(StructValue):
    """The values of a schema's fields, in the fields' order.

    Structs are made, filled, and not changed any more once they are part of a record.
    """

    __slots__ = ("schema", "values")

    def __init__(self, schema: Schema) -> None:
        if schema.type is not Type.STRUCT:
            raise DataError(f"Not a struct schema: {schema!r}")
        self.schema = schema
        self.values: list[Any] = [None] * len(schema.fields)

    def put(self, name: str, value: Any) -> Struct:
        """Set the value of a field. Returns the struct. Raises DataError for an unknown field, or a value that does not
        fit its schema."""
        field = self._known(name)
        validate(field.schema, value, f'field: "{name}"')
        self.values[field.index] = value
        return self

    def get(self, name: str) -> Any:
        """Return the value of a field; the default of its schema if it has none. Raises DataError."""
        return self.value_of(self._known(name))

    def get_without_default(self, name: str) -> Any:
        """Return the value of a field. Raises DataError for an unknown field."""
        return self.values[self._known(name).index]

    def value_of(self, field: Field, *, with_default: bool = True) -> Any:
        """Return the value of a field of the struct's schema."""
        value = self.values[field.index]
        return field.schema.default if value is None and with_default else value

    def validate(self) -> None:
        """Raise DataError if the value of a field does not fit the field's schema."""
        for field, value in zip(self.schema.fields, self.values, strict=True):
            if value is not None or not (field.schema.optional or field.schema.default is not None):
                validate(field.schema, value, f'field: "{field.name}"')

    def _known(self, name: str) -> Field:
        field = self.schema.field(name)
        if field is None:
            raise DataError(f"{name} is not a valid field name")
        return field

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Struct):
            return NotImplemented
        return self.schema == other.schema and same(self.values, other.values)

    def __hash__(self) -> int:
        return hash((self.schema, repr(self.values)))

    def __repr__(self) -> str:
        pairs = zip(self.schema.fields, self.values, strict=True)
        return f"Struct{{{','.join(f'{field.name}={value!r}' for field, value in pairs if value is not None)}}}"


def validate(schema: Schema, value: Any, location: str = "value") -> None:
    """Raise DataError if a value does not fit a schema. location: what the value is, for the message."""
    if value is None:
        if not schema.optional:
            raise DataError(f"Invalid value: null used for required {location}, schema type: {schema.type.name}")
        return
    if not fits(schema, value):
        named = f' "{schema.name}"' if schema.name is not None else ""
        raise DataError(
            f"Invalid Java object for schema{named} with type {schema.type.name}: "
            f"class {class_name(value)} for {location}"
        )
    if schema.type is Type.STRUCT:
        if value.schema is not schema and value.schema != schema:
            raise DataError("Struct schemas do not match.")
        value.validate()
    elif schema.type is Type.ARRAY:
        entry = f"element of array {location}"
        of_entries = _known(schema.value_schema, entry)
        for each in value:
            validate(of_entries, each, entry)
    elif schema.type is Type.MAP:
        key_location, value_location = f"key of map {location}", f"value of map {location}"
        of_keys, of_values = _known(schema.key_schema, key_location), _known(schema.value_schema, value_location)
        for key, each in value.items():
            validate(of_keys, key, key_location)
            validate(of_values, each, value_location)


def _known(schema: Schema | None, location: str) -> Schema:
    if schema is None:
        raise DataError(f"No schema defined for {location}")
    return schema
