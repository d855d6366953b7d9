"""HoistField: a key or value becomes the only field of a struct, or of a map without a schema."""

from __future__ import annotations

from collections.abc import Mapping

from kcli.connect.config.config_def import REQUIRED, ConfigDef, ConfigKey, Importance, Type
from kcli.connect.data.builder import struct_schema
from kcli.connect.data.records import ConnectRecord
from kcli.connect.data.schema import Schema, remembered
from kcli.connect.data.struct import Struct
from kcli.connect.transforms.transform import PACKAGE, SCHEMAS_KEPT, OfKey, OfValue, Side


class HoistField(Side):
    """The transform. See the module."""

    CONFIG = ConfigDef(
        ConfigKey("field", Type.STRING, REQUIRED, Importance.MEDIUM, "The name of the field that is made.")
    )

    def __init__(self, properties: Mapping[str, str | None]) -> None:
        super().__init__(properties)
        self._field = self.text("field")
        self._schema = remembered(self._made_schema, SCHEMAS_KEPT)

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        """Return the record with the struct or map."""
        schema, value = self.schema_of(record), self.value_of(record)
        if schema is None:
            return self.made(record, None, {self._field: value})
        updated = self._schema(schema)
        return self.made(record, updated, Struct(updated).put(self._field, value))

    def _made_schema(self, schema: Schema) -> Schema:
        return struct_schema([(self._field, schema)])


class HoistFieldKey(OfKey, HoistField):
    """Of the key."""

    CLASS = f"{PACKAGE}.HoistField$Key"


class HoistFieldValue(OfValue, HoistField):
    """Of the value."""

    CLASS = f"{PACKAGE}.HoistField$Value"
