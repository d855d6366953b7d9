"""InsertField: fields of what the record is known by, and a field that is always the same.

A name with "!" at its end is a required field, with "?" or nothing an optional one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from kcli.connect.config.config_def import ConfigDef, ConfigError, ConfigKey, Importance, Type
from kcli.connect.data.builder import basics, struct_schema
from kcli.connect.data.logical import TIMESTAMP
from kcli.connect.data.maps import copy_size, hash_map
from kcli.connect.data.records import ConnectRecord
from kcli.connect.data.schema import INT32, INT64, STRING, Schema, remembered
from kcli.connect.data.struct import Struct
from kcli.connect.data.values import Date, Int32
from kcli.connect.transforms.requirements import require_map, require_sink_record, require_struct
from kcli.connect.transforms.transform import PACKAGE, REPLACE_NULL, SCHEMAS_KEPT, OfKey, OfValue, Side

_PURPOSE: Final = "field insertion"
_TOPIC, _PARTITION, _OFFSET, _TIMESTAMP, _STATIC = (
    f"{name}.field" for name in ("topic", "partition", "offset", "timestamp", "static")
)
_STATIC_VALUE: Final = "static.value"
_SCHEMAS: Final = {_TOPIC: STRING, _PARTITION: INT32, _OFFSET: INT64, _TIMESTAMP: TIMESTAMP, _STATIC: STRING}


class _Spec(NamedTuple):
    """A field to insert."""

    name: str
    is_optional: bool


def _key(name: str, about: str) -> ConfigKey:
    return ConfigKey(name, Type.STRING, None, Importance.MEDIUM, about)


class InsertField(Side):
    """The transform. See the module."""

    CONFIG = ConfigDef(
        _key(_TOPIC, "The field for the topic."),
        _key(_PARTITION, "The field for the partition."),
        _key(_OFFSET, "The field for the offset; for sinks only."),
        _key(_TIMESTAMP, "The field for the record's timestamp."),
        _key(_STATIC, f"The field for {_STATIC_VALUE}."),
        _key(_STATIC_VALUE, f"The value of the field that {_STATIC} names."),
        REPLACE_NULL,
    )

    def __init__(self, properties: Mapping[str, str | None]) -> None:
        super().__init__(properties)
        self._specs = {name: _spec(self.text(name)) for name in _SCHEMAS if self.options[name] is not None}
        if not self._specs:
            raise ConfigError("No field insertion configured")
        if _STATIC in self._specs and self.options[_STATIC_VALUE] is None:
            raise ConfigError.of(
                _STATIC_VALUE, None, f"No value specified for static field: {self._specs[_STATIC].name}"
            )
        self._schema = remembered(self._made_schema, SCHEMAS_KEPT)

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        """Return the record with the fields."""
        schema, value = self.schema_of(record), self.value_of(record)
        if value is None:
            return record
        if schema is None:
            values = require_map(value, _PURPOSE)
            return self.made(record, None, hash_map(values | dict(self._values(record)), size=copy_size(len(values))))
        struct = require_struct(value, _PURPOSE, schema)
        updated = self._schema(struct.schema)
        made = Struct(updated)
        for field in struct.schema.fields:
            made.put(field.name, struct.value_of(field, with_default=self.replaces_null))
        for name, each in self._values(record):
            made.put(name, Date(each) if name == self._timestamp_name else each)
        return self.made(record, updated, made)

    @property
    def _timestamp_name(self) -> str | None:
        spec = self._specs.get(_TIMESTAMP)
        return None if spec is None else spec.name

    def _values(self, record: ConnectRecord) -> Iterator[tuple[str, Any]]:
        for option, spec in self._specs.items():
            value = self._value(option, record)
            if value is not None or option == _TOPIC:
                yield spec.name, value

    def _value(self, option: str, record: ConnectRecord) -> Any:
        match option:
            case "topic.field":
                return record.topic
            case "partition.field":
                return None if record.partition is None else Int32(record.partition)
            case "offset.field":
                return require_sink_record(record, _PURPOSE).offset
            case "timestamp.field":
                return record.timestamp
        return self.text(_STATIC_VALUE)

    def _made_schema(self, schema: Schema) -> Schema:
        fields = [(field.name, field.schema) for field in schema.fields]
        for option, spec in self._specs.items():
            fields.append((spec.name, _SCHEMAS[option].changed(optional=spec.is_optional)))
        return struct_schema(fields, **basics(schema))


def _spec(text: str) -> _Spec:
    return _Spec(text[:-1] if text[-1:] in ("!", "?") else text, not text.endswith("!"))


class InsertFieldKey(OfKey, InsertField):
    """Of the key."""

    CLASS = f"{PACKAGE}.InsertField$Key"


class InsertFieldValue(OfValue, InsertField):
    """Of the value."""

    CLASS = f"{PACKAGE}.InsertField$Value"
