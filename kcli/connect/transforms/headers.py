"""InsertHeader, DropHeaders, HeaderFrom: headers that are added, left out, or made of fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kcli.connect.config.config_def import REQUIRED, ConfigDef, ConfigError, ConfigKey, Importance, Type, Value
from kcli.connect.config.validators import distinct, non_null, one_of
from kcli.connect.data.builder import basics, struct_schema
from kcli.connect.data.errors import NULL_POINTER, JavaError
from kcli.connect.data.maps import copy_size, hash_map
from kcli.connect.data.parsing import parse
from kcli.connect.data.records import ConnectRecord, Header, checked_header
from kcli.connect.data.schema import Schema, remembered
from kcli.connect.data.struct import Struct
from kcli.connect.transforms.requirements import require_map, require_struct
from kcli.connect.transforms.transform import (
    PACKAGE,
    REPLACE_NULL,
    SCHEMAS_KEPT,
    Configured,
    OfKey,
    OfValue,
    Side,
)

_MOVE: Final = "move"
_HIGH: Final = Importance.HIGH


class InsertHeader(Configured):
    """Adds a header, whose value is of the type that its text has."""

    CLASS = f"{PACKAGE}.InsertHeader"
    CONFIG = ConfigDef(
        ConfigKey("header", Type.STRING, REQUIRED, _HIGH, "The header's name.", non_null),
        ConfigKey("value.literal", Type.STRING, REQUIRED, _HIGH, "The header's value.", non_null),
    )

    def __init__(self, properties: Mapping[str, str | None]) -> None:
        super().__init__(properties)
        schema, value = parse(self.text("value.literal"))
        self.header = Header(self.text("header"), value, schema)

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        """Return the record with the header."""
        return record.changed(headers=(*record.headers, self.header))


class DropHeaders(Configured):
    """Leaves out the headers of some names."""

    CLASS = f"{PACKAGE}.DropHeaders"
    CONFIG = ConfigDef(
        ConfigKey("headers", Type.LIST, REQUIRED, _HIGH, "The names of the headers.", distinct(empty=False))
    )

    def __init__(self, properties: Mapping[str, str | None]) -> None:
        super().__init__(properties)
        self.names = frozenset(self.words("headers"))

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        """Return the record without the headers."""
        return record.changed(headers=tuple(each for each in record.headers if each.key not in self.names))


def _non_empty_list(name: str, value: Value) -> None:
    if not value:
        raise ConfigError.of(name, value, "Empty list")


class HeaderFrom(Side):
    """Moves or copies fields to headers."""

    CONFIG = ConfigDef(
        ConfigKey("fields", Type.LIST, REQUIRED, _HIGH, "The fields.", _non_empty_list),
        ConfigKey("headers", Type.LIST, REQUIRED, _HIGH, "The header of each field, in order.", _non_empty_list),
        ConfigKey(
            "operation", Type.STRING, REQUIRED, _HIGH, "move: the fields go; copy: they stay.", one_of(_MOVE, "copy")
        ),
        REPLACE_NULL,
    )

    def __init__(self, properties: Mapping[str, str | None]) -> None:
        super().__init__(properties)
        self._fields, self._headers = self.words("fields"), self.words("headers")
        if len(self._fields) != len(self._headers):
            raise ConfigError("'fields' config must have the same number of elements as 'headers' config.")
        self._moves = self.options["operation"] == _MOVE
        self._purpose = f"header {self.text('operation')}"
        self._schema = remembered(self._made_schema, SCHEMAS_KEPT)

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        """Return the record with the headers."""
        schema, value = self.schema_of(record), self.value_of(record)
        if schema is None:
            values = require_map(value, self._purpose)
            pairs = zip(self._headers, self._fields, strict=True)
            headers = [Header(header, values.get(field)) for header, field in pairs]
            gone = set(self._fields) if self._moves else set()
            kept = {name: each for name, each in values.items() if name not in gone}
            kept = hash_map(kept, size=copy_size(len(values)))
            return self.made(record, None, kept, headers=(*record.headers, *headers))
        struct = require_struct(value, self._purpose, schema)
        updated = self._schema(schema) if self._moves else schema
        made = struct
        if self._moves:
            made = Struct(updated)
            for field in updated.fields:
                made.put(field.name, self._value(struct, field.name))
        headers = [self._header(*pair, struct, schema) for pair in zip(self._headers, self._fields, strict=True)]
        return self.made(record, updated, made, headers=(*record.headers, *headers))

    def _header(self, header: str, name: str, struct: Struct, schema: Schema) -> Header:
        value = None if struct.schema.field(name) is None else self._value(struct, name)
        field = schema.field(name)
        if field is None:
            raise JavaError(
                NULL_POINTER,
                'Cannot invoke "org.apache.kafka.connect.data.Field.schema()" because the return value of '
                '"org.apache.kafka.connect.data.Schema.field(String)" is null',
            )
        return checked_header(header, value, field.schema)

    def _value(self, struct: Struct, name: str) -> object:
        return struct.get(name) if self.replaces_null else struct.get_without_default(name)

    def _made_schema(self, schema: Schema) -> Schema:
        stay = [(field.name, field.schema) for field in schema.fields if field.name not in self._fields]
        return struct_schema(stay, **basics(schema))


class HeaderFromKey(OfKey, HeaderFrom):
    """Of the key."""

    CLASS = f"{PACKAGE}.HeaderFrom$Key"


class HeaderFromValue(OfValue, HeaderFrom):
    """Of the value."""

    CLASS = f"{PACKAGE}.HeaderFrom$Value"
