"""SetSchemaMetadata: another name or version for the schema of a struct."""

from __future__ import annotations

from collections.abc import Mapping

from kcli.connect.config.config_def import ConfigDef, ConfigError, ConfigKey, Importance, Type
from kcli.connect.data.errors import DataError
from kcli.connect.data.records import ConnectRecord
from kcli.connect.data.schema import Schema, remembered
from kcli.connect.data.struct import Struct
from kcli.connect.transforms.transform import PACKAGE, REPLACE_NULL, SCHEMAS_KEPT, OfKey, OfValue, Side


class SetSchemaMetadata(Side):
    """The transform. See the module."""

    CONFIG = ConfigDef(
        ConfigKey("schema.name", Type.STRING, None, Importance.HIGH, "The schema's name."),
        ConfigKey("schema.version", Type.INT, None, Importance.HIGH, "The schema's version."),
        REPLACE_NULL,
    )

    def __init__(self, properties: Mapping[str, str | None]) -> None:
        super().__init__(properties)
        about = {"name": self.options["schema.name"], "version": self.options["schema.version"]}
        self._about = {name: value for name, value in about.items() if value is not None}
        if not self._about:
            raise ConfigError("Neither schema name nor version configured")
        self._schema = remembered(self._made_schema, SCHEMAS_KEPT)

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        """Return the record with the other schema."""
        schema, value = self.schema_of(record), self.value_of(record)
        if schema is None:
            if value is None:
                return record
            raise DataError("Schema required for [updating schema metadata]")
        updated = self._schema(schema)
        if not isinstance(value, Struct):
            return self.made(record, updated, value)
        made = Struct(updated)
        for field in updated.fields:
            made.put(field.name, value.value_of(field, with_default=self.replaces_null))
        return self.made(record, updated, made)

    def _made_schema(self, schema: Schema) -> Schema:
        return schema.changed(fields=schema.fields, **self._about)


class SetSchemaMetadataKey(OfKey, SetSchemaMetadata):
    """Of the key."""

    CLASS = f"{PACKAGE}.SetSchemaMetadata$Key"


class SetSchemaMetadataValue(OfValue, SetSchemaMetadata):
    """Of the value."""

    CLASS = f"{PACKAGE}.SetSchemaMetadata$Value"
