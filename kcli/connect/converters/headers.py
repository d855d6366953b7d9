"""SimpleHeaderConverter: headers as text, from which their types are found again.

Source: org.apache.kafka.connect.storage.SimpleHeaderConverter.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kcli.connect.config.config_def import ConfigDef
from kcli.connect.converters.converter import NOTHING
from kcli.connect.data.parsing import parse
from kcli.connect.data.records import SchemaAndValue
from kcli.connect.data.schema import Schema
from kcli.connect.data.texts import header_text

_CONFIG: Final = ConfigDef()


class SimpleHeaderConverter:
    """The converter. See the module."""

    CLASS = "org.apache.kafka.connect.storage.SimpleHeaderConverter"

    def __init__(self, properties: Mapping[str, str | None]) -> None:
        del properties

    @classmethod
    def config(cls) -> ConfigDef:
        """Return the options: there are none."""
        return _CONFIG

    def from_connect_header(self, topic: str, key: str, schema: Schema | None, value: object) -> bytes | None:
        """Return the text of a header's value."""
        del topic, key
        return None if value is None else header_text(value, schema).encode("utf-8", "replace")

    def to_connect_header(self, topic: str, key: str, data: bytes | None) -> SchemaAndValue:
        """Return the value of a header's text."""
        del topic, key
        return NOTHING if data is None else SchemaAndValue(*parse(data.decode("utf-8", "replace")))
