"""Flatten: the fields of structs or maps within each other become fields of one, named by all the names on the way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from kcli.connect.config.config_def import ConfigDef, ConfigKey, Importance
from kcli.connect.config.config_def import Type as OptionType
from kcli.connect.data.builder import basics, struct_schema, with_default
from kcli.connect.data.errors import DataError
from kcli.connect.data.records import ConnectRecord
from kcli.connect.data.schema import Schema, Type, remembered
from kcli.connect.data.struct import Struct
from kcli.connect.data.values import class_name, type_of
from kcli.connect.transforms.requirements import require_map, require_struct, require_text
from kcli.connect.transforms.transform import PACKAGE, SCHEMAS_KEPT, OfKey, OfValue, Side

_PURPOSE: Final = "flattening"


class Flatten(Side):
    """The transform. See the module."""

    CONFIG = ConfigDef(
        ConfigKey("delimiter", OptionType.STRING, ".", Importance.MEDIUM, "What stands between two names.")
    )

    def __init__(self, properties: Mapping[str, str | None]) -> None:
        super().__init__(properties)
        self._delimiter = self.text("delimiter")
        self._schema = remembered(self._made_schema, SCHEMAS_KEPT)

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        """Return the record with a flat key or value."""
        schema, value = self.schema_of(record), self.value_of(record)
        if value is None:
            return record
        if schema is None:
            return self.made(record, None, dict(self._flat_map(require_map(value, _PURPOSE), "")))
        struct = require_struct(value, _PURPOSE, schema)
        updated = self._schema(schema)
        made = Struct(updated)
        self._fill(made, struct, "")
        return self.made(record, updated, made)

    def _name(self, prefix: str, name: str) -> str:
        return f"{prefix}{self._delimiter}{name}" if prefix else name

    def _flat_map(self, values: dict[Any, Any], prefix: str) -> Iterator[tuple[str, Any]]:
        for key, value in values.items():
            name = self._name(prefix, require_text(key))
            kind = None if value is None else type_of(value)
            if kind is None and value is not None:
                raise DataError(
                    f"Flatten transformation was passed a value of type class {class_name(value)} which is not "
                    "supported by Connect's data API"
                )
            if kind is Type.STRUCT:
                raise DataError(
                    f"Flatten transformation does not support class {class_name(value)} for record without schemas "
                    f"(for field {name})."
                )
            if kind is Type.MAP:
                yield from self._flat_map(value, name)
            else:
                yield name, value

    def _fill(self, made: Struct, struct: Struct, prefix: str) -> None:
        for field in struct.schema.fields:
            name = self._name(prefix, field.name)
            if field.schema.type is not Type.STRUCT:
                made.put(name, struct.value_of(field))
            elif (inner := struct.value_of(field, with_default=False)) is not None:
                self._fill(made, inner, name)

    def _made_schema(self, schema: Schema) -> Schema:
        fields = self._flat_fields(schema, "", schema.default, is_optional=schema.optional)
        return struct_schema(fields, **basics(schema))

    def _flat_fields(
        self, schema: Schema, prefix: str, default: Struct | None, *, is_optional: bool
    ) -> Iterator[tuple[str, Schema]]:
        """Yield the fields of a struct's schema. default: of the struct; is_optional: whether it may be null."""
        for field in schema.fields:
            name = self._name(prefix, field.name)
            may_be_null = is_optional or field.schema.optional
            of_field = field.schema.default
            if of_field is None and default is not None:
                of_field = default.value_of(default.schema.fields[field.index])
            if field.schema.type is Type.MAP:
                raise DataError(
                    f"Flatten transformation does not support MAP for record with schemas (for field {name})."
                )
            if field.schema.type is Type.STRUCT:
                yield from self._flat_fields(field.schema, name, of_field, is_optional=may_be_null)
            else:
                value_schema = field.schema.value_schema
                made = Schema(
                    field.schema.type, optional=may_be_null, value_schema=value_schema, **basics(field.schema)
                )
                yield name, made if of_field is None else with_default(made, of_field)


class FlattenKey(OfKey, Flatten):
    """Of the key."""

    CLASS = f"{PACKAGE}.Flatten$Key"


class FlattenValue(OfValue, Flatten):
    """Of the value."""

    CLASS = f"{PACKAGE}.Flatten$Value"
