"""Keys and values of users' topics, decoded by the schemas that they were written with, as dump-segment shows them.

Only what begins with its schema's id is decoded: the headers of records (`__value_schema_id`) are not looked at here.
"""

from __future__ import annotations

from collections.abc import Callable

from kcli.inspector.decoded import DecodedJson
from kcli.schema_client.decoded import decoded_json, text_of
from kcli.schema_client.reading import PayloadReader

PayloadText = Callable[[int, bytes | None, bytes | None], tuple[str | None, str | None]]


def payload_json(reader: PayloadReader) -> DecodedJson:
    """Return a function (offset, key, value, is_control) that returns key and value of a record as a JSON object, None
    for a control record."""

    def decode(_: int, key: bytes | None, value: bytes | None, is_control: bool) -> str | None:
        return None if is_control else decoded_json(reader.read(key).as_key(), reader.read(value))

    return decode


def payload_text(reader: PayloadReader, fold: int) -> PayloadText:
    """Return a function (offset, key, value) that returns the texts of key and value for a table. fold: the maximum
    number of characters, -1 for all."""

    def decode(_: int, key: bytes | None, value: bytes | None) -> tuple[str | None, str | None]:
        return text_of(key, reader.read(key).as_key(), fold), text_of(value, reader.read(value), fold)

    return decode
