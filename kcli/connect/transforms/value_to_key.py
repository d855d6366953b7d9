"""ValueToKey: the record's key is made of fields of its value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kcli.connect.config.config_def import REQUIRED, ConfigDef, ConfigKey, Importance, Type
from kcli.connect.config.validators import distinct
from kcli.connect.data.builder import struct_schema
from kcli.connect.data.errors import DataError
from kcli.connect.data.maps import hash_map
from kcli.connect.data.records import ConnectRecord
from kcli.connect.data.schema import Schema, remembered
from kcli.connect.data.struct import Struct
from kcli.connect.transforms.requirements import require_map, require_struct
from kcli.connect.transforms.transform import PACKAGE, REPLACE_NULL, SCHEMAS_KEPT, Configured
from kcli.java.hashing import size_for

_PURPOSE: Final = "copying fields from value to key"


class ValueToKey(Configured):
    """The transform. See the module."""

    CLASS = f"{PACKAGE}.ValueToKey"
    CONFIG = ConfigDef(
        ConfigKey("fields", Type.LIST, REQUIRED, Importance.HIGH, "The fields of the value.", distinct(empty=False)),
        REPLACE_NULL,
    )

    def __init__(self, properties: Mapping[str, str | None]) -> None:
        super().__init__(properties)
        self._fields = self.words("fields")
        self._schema = remembered(self._made_schema, SCHEMAS_KEPT)

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        """Return the record with the other key."""
        if record.value_schema is None:
            values = require_map(record.value, _PURPOSE)
            made = hash_map({name: values.get(name) for name in self._fields}, size=size_for(len(self._fields)))
            return record.changed(key_schema=None, key=made)
        struct = require_struct(record.value, _PURPOSE, record.value_schema)
        key = Struct(self._schema(struct.schema))
        for name in self._fields:
            key.put(name, struct.get(name) if self.replaces_null else struct.get_without_default(name))
        return record.changed(key_schema=key.schema, key=key, value_schema=struct.schema)

    def _made_schema(self, schema: Schema) -> Schema:
        fields = []
        for name in self._fields:
            field = schema.field(name)
            if field is None:
                raise DataError(f"Field does not exist: {name}")
            fields.append((name, field.schema))
        return struct_schema(fields)
