"""StringConverter: values as Java's toString prints them, and strings of bytes.

Source: org.apache.kafka.connect.storage.StringConverter.
"""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from typing import Final

from kcli.connect.config.config_def import ConfigDef, ConfigKey, Importance, Type, Width
from kcli.connect.converters.converter import KafkaConverter, converter_config
from kcli.connect.data.errors import SerializationError
from kcli.connect.data.records import SchemaAndValue
from kcli.connect.data.schema import OPTIONAL_STRING, Schema
from kcli.connect.data.texts import java_text

ENCODING: Final = "converter.encoding"
_CONFIG: Final = converter_config(
    ConfigKey(
        ENCODING, Type.STRING, "UTF-8", Importance.HIGH,
        "The character set of the strings, by the name that Java has for it.",
        None, None, -1, Width.MEDIUM, "Encoding",
    )
)  # fmt: skip


class StringConverter(KafkaConverter):
    """The converter. See the module."""

    CLASS = "org.apache.kafka.connect.storage.StringConverter"

    def __init__(self, properties: Mapping[str, str | None]) -> None:
        encoding = str(self.config().parse(properties)[ENCODING])
        try:
            self._encoding = codecs.lookup(encoding).name
        except LookupError:
            raise SerializationError(f"Unsupported encoding {encoding}") from None

    @classmethod
    def config(cls) -> ConfigDef:
        """Return the options."""
        return _CONFIG

    def from_connect(self, topic: str, schema: Schema | None, value: object) -> bytes | None:
        """Return the text of a value."""
        del topic
        if value is None:
            return None
        text = java_text(value, schema)
        if self._encoding == "utf-16" and text:
            text = text.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "replace")
            return codecs.BOM_UTF16_BE + text.encode("utf-16-be")
        return text.encode(self._encoding, "replace") if text else b""

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        """Return the string of bytes."""
        del topic
        if data is None:
            return SchemaAndValue(OPTIONAL_STRING, None)
        if self._encoding == "utf-16" and not data.startswith((codecs.BOM_UTF16_BE, codecs.BOM_UTF16_LE)):
            return SchemaAndValue(OPTIONAL_STRING, data.decode("utf-16-be", "replace"))
        return SchemaAndValue(OPTIONAL_STRING, data.decode(self._encoding, "replace"))
