"""ReplaceField: fields left out (exclude), the only ones that stay (include), fields with other names (renames)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kcli.connect.config.config_def import ConfigDef, ConfigError, ConfigKey, Importance, Type, Value
from kcli.connect.config.validators import distinct
from kcli.connect.data.builder import basics, struct_schema
from kcli.connect.data.maps import hash_map
from kcli.connect.data.records import ConnectRecord
from kcli.connect.data.schema import Schema, remembered
from kcli.connect.data.struct import Struct
from kcli.connect.transforms.requirements import require_map, require_struct, require_text
from kcli.connect.transforms.transform import PACKAGE, REPLACE_NULL, SCHEMAS_KEPT, OfKey, OfValue, Side
from kcli.java.hashing import size_for

_PURPOSE: Final = "field replacement"
_RENAMES: Final = "renames"


def parts_of(pair: str) -> list[str]:
    """Return the parts between colons as String.split does: without empty ones at the end."""
    parts = pair.split(":")
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return [] if len(parts) == 1 and not parts[0] and pair else parts


def bad_pair(pairs: list[str], pair: str) -> ConfigError:
    """Return the error for a part of a list of pairs, which Cast, too, says of `renames`."""
    return ConfigError.of(_RENAMES, pairs, f"Invalid rename mapping: {pair}")


def _parsed(pairs: list[str]) -> dict[str, str]:
    made = {}
    for pair in pairs:
        parts = parts_of(pair)
        if len(parts) != 2:
            raise bad_pair(pairs, pair)
        made[parts[0]] = parts[1]
    return hash_map(made)


def _valid_pairs(name: str, value: Value) -> None:
    del name
    assert isinstance(value, list), value
    _parsed(value)


class ReplaceField(Side):
    """The transform. See the module."""

    CONFIG = ConfigDef(
        ConfigKey("exclude", Type.LIST, "", Importance.MEDIUM, "The fields that are left out.", distinct()),
        ConfigKey("include", Type.LIST, "", Importance.MEDIUM, "The fields that stay; if empty, all.", distinct()),
        ConfigKey(_RENAMES, Type.LIST, "", Importance.MEDIUM, "Other names for fields: old:new,...", _valid_pairs),
        REPLACE_NULL,
    )

    def __init__(self, properties: Mapping[str, str | None]) -> None:
        super().__init__(properties)
        self._exclude = frozenset(self.words("exclude"))
        self._include = frozenset(self.words("include"))
        self._renames = _parsed(self.words(_RENAMES))
        self._origins = {new: old for old, new in self._renames.items()}
        self._schema = remembered(self._made_schema, SCHEMAS_KEPT)

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        """Return the record with the fields that stay."""
        schema, value = self.schema_of(record), self.value_of(record)
        if value is None:
            return record
        if schema is None:
            values = require_map(value, _PURPOSE)
            kept = {self._renames.get(name, name): each for name, each in values.items() if self._stays(name)}
            return self.made(record, None, hash_map(kept, size=size_for(len(values))))
        struct = require_struct(value, _PURPOSE, schema)
        updated = self._schema(struct.schema)
        made = Struct(updated)
        for field in updated.fields:
            origin = self._origins.get(field.name, field.name)
            made.put(field.name, struct.get(origin) if self.replaces_null else struct.get_without_default(origin))
        return self.made(record, updated, made)

    def _stays(self, name: object) -> bool:
        name = require_text(name)
        return name not in self._exclude and (not self._include or name in self._include)

    def _made_schema(self, schema: Schema) -> Schema:
        stay = [field for field in schema.fields if self._stays(field.name)]
        return struct_schema(
            [(self._renames.get(field.name, field.name), field.schema) for field in stay], **basics(schema)
        )


class ReplaceFieldKey(OfKey, ReplaceField):
    """Of the key."""

    CLASS = f"{PACKAGE}.ReplaceField$Key"


class ReplaceFieldValue(OfValue, ReplaceField):
    """Of the value."""

    CLASS = f"{PACKAGE}.ReplaceField$Value"
