"""What a converter is, and the options that all have.

Source: org.apache.kafka.connect.storage.Converter, HeaderConverter, ConverterConfig.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final, Protocol

from kcli.connect.config.config_def import REQUIRED, ConfigDef, ConfigKey, Importance, Type
from kcli.connect.config.validators import one_of
from kcli.connect.data.records import SchemaAndValue
from kcli.connect.data.schema import Schema

NOTHING: Final = SchemaAndValue(None, None)
KEY, VALUE, HEADER = "key", "value", "header"
CONVERTER_TYPE: Final = "converter.type"


class Converter(Protocol):
    """A converter of keys, values and headers. Raises DataError.

    CLASS: the name of Kafka's class. properties: the options without their prefix (`key.converter.`), and
    converter.type: key, value or header. The constructor raises ConfigError.
    """

    CLASS: ClassVar[str]

    def __init__(self, properties: Mapping[str, str | None]) -> None: ...

    @classmethod
    def config(cls) -> ConfigDef:
        """Return the converter's options."""

    def from_connect(self, topic: str, schema: Schema | None, value: object) -> bytes | None:
        """Return the bytes of a value. Of a key or value None is a tombstone."""

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        """Return the value of bytes."""


class HeaderConverter(Protocol):
    """A converter of headers; each Converter of Kafka's is one, too, but for those with a schema registry."""

    CLASS: ClassVar[str]

    def __init__(self, properties: Mapping[str, str | None]) -> None: ...

    @classmethod
    def config(cls) -> ConfigDef:
        """Return the converter's options."""

    def from_connect_header(self, topic: str, key: str, schema: Schema | None, value: object) -> bytes | None:
        """Return the bytes of a header's value. key: the header's."""

    def to_connect_header(self, topic: str, key: str, data: bytes | None) -> SchemaAndValue:
        """Return the value of a header's bytes."""


class KafkaConverter:
    """Base of the converters that convert headers as they convert keys and values."""

    def from_connect(self, topic: str, schema: Schema | None, value: object) -> bytes | None:
        """Return the bytes of a value."""
        raise NotImplementedError

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        """Return the value of bytes."""
        raise NotImplementedError

    def from_connect_header(self, topic: str, key: str, schema: Schema | None, value: object) -> bytes | None:
        """Return the bytes of a header's value."""
        del key
        return self.from_connect(topic, schema, value)

    def to_connect_header(self, topic: str, key: str, data: bytes | None) -> SchemaAndValue:
        """Return the value of a header's bytes."""
        del key
        return self.to_connect(topic, data)


def converter_config(*keys: ConfigKey) -> ConfigDef:
    """Return the options of a converter. keys: those that are its own."""
    about = "What the converter is for: keys, values or headers. The worker sets it."
    kind = ConfigKey(CONVERTER_TYPE, Type.STRING, REQUIRED, Importance.LOW, about, one_of(KEY, VALUE, HEADER))
    return ConfigDef(kind, *keys)
