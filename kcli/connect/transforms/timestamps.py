"""TimestampConverter: a timestamp as a string, a number of Unix time, or a Date, Time or Timestamp of Connect.

string      by a pattern of Java's SimpleDateFormat (format), in UTC
unix        seconds, milliseconds, microseconds or nanoseconds since 1970 (unix.precision)
Date        the day           Time   the time of the day           Timestamp   both
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

from kcli.connect.config.config_def import REQUIRED, ConfigDef, ConfigError, ConfigKey, Importance
from kcli.connect.config.config_def import Type as OptionType
from kcli.connect.config.validators import one_of
from kcli.connect.data.builder import basics, struct_schema, with_default
from kcli.connect.data.errors import NULL_POINTER, ConnectError, DataError, JavaError
from kcli.connect.data.logical import DATE, DAY_MS, TIME, TIMESTAMP
from kcli.connect.data.maps import copy_size, hash_map
from kcli.connect.data.records import ConnectRecord
from kcli.connect.data.schema import INT64, STRING, Schema, Type, remembered
from kcli.connect.data.struct import Struct
from kcli.connect.data.values import LOGICAL_DATE, LOGICAL_TIME, LOGICAL_TIMESTAMP, Date, class_name, wrapped
from kcli.connect.transforms.requirements import require_map, require_struct
from kcli.connect.transforms.transform import PACKAGE, REPLACE_NULL, SCHEMAS_KEPT, OfKey, OfValue, Side
from kcli.java.dates import BadDate, BadPattern, DateFormat
from kcli.java.values import LONG_MAX, LONG_MIN

_PURPOSE: Final = "converting timestamp formats"
_STRING, _UNIX, _DATE, _TIME, _TIMESTAMP = "string", "unix", "Date", "Time", "Timestamp"
_SCHEMAS: Final = {_STRING: STRING, _UNIX: INT64, _DATE: DATE, _TIME: TIME, _TIMESTAMP: TIMESTAMP}
_LOGICAL: Final = {LOGICAL_DATE: _DATE, LOGICAL_TIME: _TIME, LOGICAL_TIMESTAMP: _TIMESTAMP}
_NANOS: Final = {"nanoseconds": 1, "microseconds": 1000, "milliseconds": 10**6, "seconds": 10**9}
_MILLI_NANOS: Final = 10**6


class TimestampConverter(Side):
    """The transform. See the module."""

    CONFIG = ConfigDef(
        ConfigKey(
            "field", OptionType.STRING, "", Importance.HIGH,
            "The field with the timestamp; empty if the whole key or value is one.",
        ),
        ConfigKey(
            "target.type", OptionType.STRING, REQUIRED, Importance.HIGH,
            "What the timestamp becomes.", one_of(*_SCHEMAS),
        ),
        ConfigKey(
            "format", OptionType.STRING, "", Importance.MEDIUM,
            "The pattern of strings, that of Java's SimpleDateFormat.",
        ),
        ConfigKey(
            "unix.precision", OptionType.STRING, "milliseconds", Importance.LOW,
            "The unit of numbers, read or made; less than a millisecond is lost.", one_of(*_NANOS),
        ),
        REPLACE_NULL,
    )  # fmt: skip

    def __init__(self, properties: Mapping[str, str | None]) -> None:
        super().__init__(properties)
        self._field, self._target = self.text("field"), self.text("target.type")
        pattern = self.text("format")
        if self._target == _STRING and not pattern:
            raise ConfigError("TimestampConverter requires format option to be specified when using string timestamps")
        try:
            self._format = DateFormat(pattern) if pattern else None
        except BadPattern as error:
            raise ConfigError.of(
                f"TimestampConverter requires a SimpleDateFormat-compatible pattern for string timestamps: {pattern}",
                f"java.lang.IllegalArgumentException: {error}",
            ) from None
        self._unit_nanos = _NANOS[self.text("unix.precision")]
        self._schema = remembered(self._made_schema, SCHEMAS_KEPT)

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        """Return the record with the converted timestamp; null stays null."""
        schema, value = self.schema_of(record), self.value_of(record)
        if schema is None:
            return self.made(record, None, self._without_schema(value))
        if not self._field:
            target = _SCHEMAS[self._target].changed(optional=schema.optional)
            return self.made(record, target, self._converted(value, _kind(schema), schema))
        struct = None if value is None else require_struct(value, _PURPOSE, schema)
        updated = self._schema(schema)
        return self.made(record, updated, None if struct is None else self._struct(struct, updated))

    def _without_schema(self, value: Any) -> Any:
        if value is None or not self._field:
            return self._converted(value, None, None)
        values = require_map(value, _PURPOSE)
        made = values | {self._field: self._converted(values.get(self._field), None, None)}
        return hash_map(made, size=copy_size(len(values)))

    def _made_schema(self, schema: Schema) -> Schema:
        target = _SCHEMAS[self._target]
        fields = [
            (field.name, target.changed(optional=field.schema.optional) if field.name == self._field else field.schema)
            for field in schema.fields
        ]
        made = struct_schema(fields, optional=schema.optional, **basics(schema))
        return made if schema.default is None else with_default(made, self._struct(schema.default, made))

    def _struct(self, struct: Struct, updated: Schema) -> Struct:
        made = Struct(updated)
        for field in struct.schema.fields:
            value = struct.value_of(field, with_default=self.replaces_null)
            if field.name == self._field:
                value = self._converted(value, _kind(field.schema), field.schema)
            made.put(field.name, value)
        return made

    def _converted(self, value: Any, kind: str | None, schema: Schema | None) -> Any:
        """Return a timestamp as one of the target's type. kind: its type; None if its class tells."""
        return None if value is None else self._target_of(self._millis(value, kind or _inferred(value), schema))

    def _millis(self, value: Any, kind: str, schema: Schema | None) -> int:
        if kind == _STRING:
            return self._parsed(value, schema)
        if kind == _UNIX:
            if class_name(value, schema) != "java.lang.Long":
                raise DataError(f"Expected Unix timestamp to be a Long, but found class {class_name(value, schema)}")
            return _saturated(_truncated(value * self._unit_nanos, _MILLI_NANOS))
        if not isinstance(value, Date):
            raise DataError(f"Expected {kind} to be a java.util.Date, but found class {class_name(value, schema)}")
        return value.millis

    def _parsed(self, value: Any, schema: Schema | None) -> int:
        if not isinstance(value, str):
            raise DataError(f"Expected string timestamp to be a String, but found class {class_name(value, schema)}")
        if self._format is None:
            raise JavaError(
                NULL_POINTER,
                'Cannot invoke "java.text.SimpleDateFormat.parse(String)" because "config.format" is null',
            )
        try:
            return self._format.parse(value, time.time_ns() // _MILLI_NANOS)
        except BadDate:
            raise DataError(
                f"Could not parse timestamp: value ({value}) does not match pattern ({self._format.pattern})"
            ) from None

    def _target_of(self, millis: int) -> Any:
        match self._target:
            case "string":
                assert self._format is not None
                return self._format.format(millis)
            case "unix":
                return _saturated(_truncated(millis * _MILLI_NANOS, self._unit_nanos))
            case "Date":
                return Date(wrapped(millis - millis % DAY_MS, 64))
            case "Time":
                return Date(millis % DAY_MS)
        return Date(millis)


def _kind(schema: Schema) -> str:
    """Return the type of a timestamp by its schema. Raises ConnectError."""
    if schema.name in _LOGICAL:
        return _LOGICAL[schema.name]
    if schema.type is Type.STRING:
        return _STRING
    if schema.type is Type.INT64:
        return _UNIX
    raise ConnectError(f"Schema {schema!r} does not correspond to a known timestamp type format")


def _inferred(value: Any) -> str:
    """Return the type of a timestamp by its class. Raises DataError."""
    kind = {Date: _TIMESTAMP, int: _UNIX, str: _STRING}.get(type(value))
    if kind is None:
        raise DataError(f"TimestampConverter does not support class {class_name(value)} objects as timestamps")
    return kind


def _truncated(number: int, by: int) -> int:
    return number // by if number >= 0 else -(-number // by)


def _saturated(number: int) -> int:
    return max(LONG_MIN, min(number, LONG_MAX))


class TimestampConverterKey(OfKey, TimestampConverter):
    """Of the key."""

    CLASS = f"{PACKAGE}.TimestampConverter$Key"


class TimestampConverterValue(OfValue, TimestampConverter):
    """Of the value."""

    CLASS = f"{PACKAGE}.TimestampConverter$Value"
