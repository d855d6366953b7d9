"""A record as text, with key and value decoded by the schemas that they were written with.

table   JSON in place of bytes; bytes that do not decode are followed by the reason
jsonl   the object of kcli.client.formats, and in it
          "decoded": {"key": JSON, "key_schema": id, "value": JSON, "value_schema": id}
        for what does not decode, "key_error" or "value_error" is the reason; `key` and `value` are the bytes, as ever
%s      %k and %s are JSON; bytes that do not decode are bytes

A key without a schema id was not encoded by a schema: most keys are plain text. It is shown in the same way as without
a registry.
"""

from __future__ import annotations

from kcli.client import formats
from kcli.client.consuming import Record
from kcli.client.formats import Printer, Style
from kcli.schema_client.decoded import Decoded, decoded_json, text_of
from kcli.schema_client.reading import PayloadReader
from kcli.schema_client.wire import KEY_HEADER, VALUE_HEADER, header_of


def table(reader: PayloadReader, fold: int, styles: list[Style] | None) -> Printer:
    """Return a function that returns a record as a line of the table. fold, styles: as kcli.client.formats.table."""
    return formats.table(
        fold,
        styles,
        lambda data, record, fold: text_of(data, _key(reader, record), fold),
        lambda data, record, fold: text_of(data, _value(reader, record), fold),
    )


def jsonl(reader: PayloadReader) -> Printer:
    """Return a function that returns a record as a JSON line."""

    def line(record: Record) -> bytes:
        decoded = decoded_json(_key(reader, record), _value(reader, record))
        return formats.jsonl(record)[:-2] + b',"decoded":' + decoded.encode() + b"}\n"

    return line


def percent(reader: PayloadReader, text: str, null: bytes) -> Printer:
    """Return a function that returns a record in the form of a format string, as kcli.client.formats.percent."""
    printer = formats.percent(text, null)

    def line(record: Record) -> bytes:
        key, value = _key(reader, record).text, _value(reader, record).text
        return printer(
            record._replace(
                key=record.key if key is None else key.encode(),
                value=record.value if value is None else value.encode(),
            )
        )

    return line


def _key(reader: PayloadReader, record: Record) -> Decoded:
    return reader.read(record.key, header_of(record.headers, KEY_HEADER)).as_key()


def _value(reader: PayloadReader, record: Record) -> Decoded:
    return reader.read(record.value, header_of(record.headers, VALUE_HEADER))
