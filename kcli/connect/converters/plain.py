"""The converters of bytes, booleans and numbers, as Kafka's serializers write them: big-endian.

Source: org.apache.kafka.connect.converters.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import ClassVar, Final

from kcli.connect.config.config_def import ConfigDef
from kcli.connect.converters.converter import KafkaConverter, converter_config
from kcli.connect.data.errors import DataError
from kcli.connect.data.records import SchemaAndValue
from kcli.connect.data.schema import (
    OPTIONAL_BOOLEAN,
    OPTIONAL_BYTES,
    OPTIONAL_FLOAT32,
    OPTIONAL_FLOAT64,
    OPTIONAL_INT16,
    OPTIONAL_INT32,
    OPTIONAL_INT64,
    Schema,
    Type,
)
from kcli.connect.data.values import class_name

_PACKAGE: Final = "org.apache.kafka.connect.converters"
_CONFIG: Final = converter_config()
_BOOLEANS: Final = {b"\0": False, b"\1": True}


class ByteArrayConverter(KafkaConverter):
    """Bytes as they are."""

    CLASS = f"{_PACKAGE}.ByteArrayConverter"

    def __init__(self, properties: Mapping[str, str | None]) -> None:
        del properties

    @classmethod
    def config(cls) -> ConfigDef:
        """Return the options."""
        return _CONFIG

    def from_connect(self, topic: str, schema: Schema | None, value: object) -> bytes | None:
        """Return the bytes."""
        del topic
        if schema is not None and schema.type is not Type.BYTES:
            raise DataError(f"Invalid schema type for ByteArrayConverter: {schema.type.name}")
        if value is None or isinstance(value, bytes):
            return value
        raise DataError(f"ByteArrayConverter is not compatible with objects of type class {class_name(value, schema)}")

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        """Return the bytes with their schema."""
        del topic
        return SchemaAndValue(OPTIONAL_BYTES, data)


class BooleanConverter(KafkaConverter):
    """One byte, 0 or 1."""

    CLASS = f"{_PACKAGE}.BooleanConverter"

    def __init__(self, properties: Mapping[str, str | None]) -> None:
        self.config().parse(properties)

    @classmethod
    def config(cls) -> ConfigDef:
        """Return the options."""
        return _CONFIG

    def from_connect(self, topic: str, schema: Schema | None, value: object) -> bytes | None:
        """Return the byte."""
        del topic
        if schema is not None and schema.type is not Type.BOOLEAN:
            raise DataError(f"Invalid schema type for BooleanConverter: {schema.type.name}")
        if value is None:
            return None
        if not isinstance(value, bool):
            kind = class_name(value, schema)
            raise DataError(f"BooleanConverter is not compatible with objects of type class {kind}")
        return b"\1" if value else b"\0"

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        """Return the boolean."""
        del topic
        if data is not None and data not in _BOOLEANS:
            raise DataError("Failed to deserialize boolean: ")
        return SchemaAndValue(OPTIONAL_BOOLEAN, None if data is None else _BOOLEANS[data])


class _NumberConverter(KafkaConverter):
    """Base of the converters of numbers."""

    CLASS: ClassVar[str]
    _SCHEMA: ClassVar[Schema]
    _LAYOUT: ClassVar[struct.Struct]
    _NAME: ClassVar[str]
    _VALUES: ClassVar[str]

    def __init__(self, properties: Mapping[str, str | None]) -> None:
        self.config().parse(properties)

    @classmethod
    def config(cls) -> ConfigDef:
        """Return the options."""
        return _CONFIG

    def from_connect(self, topic: str, schema: Schema | None, value: object) -> bytes | None:
        """Return the bytes of a number of the converter's width."""
        del topic
        if value is None:
            return None
        if class_name(value, schema) != self._VALUES:
            raise DataError(f"Failed to serialize to {self._NAME} (was class {class_name(value, schema)}): ")
        assert isinstance(value, int | float)
        try:
            return self._LAYOUT.pack(value)
        except OverflowError:
            return self._LAYOUT.pack(float("inf" if value > 0 else "-inf"))

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        """Return the number."""
        del topic
        if data is not None and len(data) != self._LAYOUT.size:
            raise DataError(f"Failed to deserialize {self._NAME}: ")
        return SchemaAndValue(self._SCHEMA, None if data is None else self._LAYOUT.unpack(data)[0])


class ShortConverter(_NumberConverter):
    """Two bytes."""

    CLASS = f"{_PACKAGE}.ShortConverter"
    _SCHEMA = OPTIONAL_INT16
    _LAYOUT = struct.Struct(">h")
    _NAME = "short"
    _VALUES = "java.lang.Short"


class IntegerConverter(_NumberConverter):
    """Four bytes."""

    CLASS = f"{_PACKAGE}.IntegerConverter"
    _SCHEMA = OPTIONAL_INT32
    _LAYOUT = struct.Struct(">i")
    _NAME = "integer"
    _VALUES = "java.lang.Integer"


class LongConverter(_NumberConverter):
    """Eight bytes."""

    CLASS = f"{_PACKAGE}.LongConverter"
    _SCHEMA = OPTIONAL_INT64
    _LAYOUT = struct.Struct(">q")
    _NAME = "long"
    _VALUES = "java.lang.Long"


class FloatConverter(_NumberConverter):
    """Four bytes, IEEE 754."""

    CLASS = f"{_PACKAGE}.FloatConverter"
    _SCHEMA = OPTIONAL_FLOAT32
    _LAYOUT = struct.Struct(">f")
    _NAME = "float"
    _VALUES = "java.lang.Float"


class DoubleConverter(_NumberConverter):
    """Eight bytes, IEEE 754."""

    CLASS = f"{_PACKAGE}.DoubleConverter"
    _SCHEMA = OPTIONAL_FLOAT64
    _LAYOUT = struct.Struct(">d")
    _NAME = "double"
    _VALUES = "java.lang.Double"
