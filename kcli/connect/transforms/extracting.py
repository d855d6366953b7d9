"""ExtractField: a field becomes the key or value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kcli.connect.config.config_def import REQUIRED, ConfigDef, ConfigKey, Importance, Type
from kcli.connect.data.errors import ILLEGAL_ARGUMENT, JavaError
from kcli.connect.data.records import ConnectRecord
from kcli.connect.transforms.field_path import FIELD_SYNTAX, FieldPath
from kcli.connect.transforms.requirements import require_map, require_struct
from kcli.connect.transforms.transform import PACKAGE, REPLACE_NULL, OfKey, OfValue, Side

_PURPOSE: Final = "field extraction"


class ExtractField(Side):
    """The transform. See the module."""

    CONFIG = ConfigDef(
        ConfigKey("field", Type.STRING, REQUIRED, Importance.MEDIUM, "The field, named as field.syntax.version says."),
        REPLACE_NULL,
        FIELD_SYNTAX,
    )

    def __init__(self, properties: Mapping[str, str | None]) -> None:
        super().__init__(properties)
        self._name = self.text("field")
        self._path = FieldPath(self._name, self.text(FIELD_SYNTAX.name))

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        """Return the record with the field's value; null for null."""
        schema, value = self.schema_of(record), self.value_of(record)
        if schema is None:
            found = None if value is None else self._path.of_map(require_map(value, _PURPOSE))
            return self.made(record, None, found)
        struct = None if value is None else require_struct(value, _PURPOSE, schema)
        field = self._path.field(schema)
        if field is None:
            raise JavaError(ILLEGAL_ARGUMENT, f"Unknown field: {self._name}")
        found = None if struct is None else self._path.of_struct(struct, with_default=self.replaces_null)
        return self.made(record, field.schema, found)


class ExtractFieldKey(OfKey, ExtractField):
    """Of the key."""

    CLASS = f"{PACKAGE}.ExtractField$Key"


class ExtractFieldValue(OfValue, ExtractField):
    """Of the value."""

    CLASS = f"{PACKAGE}.ExtractField$Value"
