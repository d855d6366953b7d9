"""Records parsed from bytes: delimited text, or the JSON lines that consume and dump-segment print.

text   [key SEPARATOR] value DELIMITER ...     the last delimiter may be missing; without a separator the key is null
jsonl  {"value": FIELD, "key": FIELD, "headers": [[name, FIELD], ...], "partition": n, "timestamp": ms, "topic": ...}
       FIELD is null, a string (UTF-8) or {"base64": "..."}; only value is required; other members are ignored,
       and so are lines with "is_control": true: only brokers write control records

With an encoder, a key or value may be any JSON, also in the format `text`; null stays null.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from kcli.errors import KcliError

MAX_PIECE_BYTES = 256 << 20
READ_BYTES = 1 << 16

Header = tuple[str, bytes | None]
Encode = Callable[[Any], bytes]
"""Returns the bytes of a JSON value. Raises BadValue, a ValueError."""


class BadInput(KcliError):
    """A line of the text or JSON lines to be produced is not a valid record."""

    exit_status = 2


class Encoders(NamedTuple):
    """The functions that encode a key and a value that are JSON; None for a key or value that is bytes or text
    already."""

    key: Encode | None = None
    value: Encode | None = None


NO_ENCODERS = Encoders()


class NewRecord(NamedTuple):
    """A record to produce. partition, timestamp (epoch ms), topic: None if the input has none."""

    key: bytes | None
    value: bytes | None
    headers: Sequence[Header] = ()
    partition: int | None = None
    timestamp: int | None = None
    topic: str | None = None


def pieces(read: Callable[[int], bytes], delimiter: bytes) -> Iterator[bytes]:
    """Yield the bytes between delimiters as soon as they are read. read(n): returns at most n bytes, b"" at the end of
    the input.

    Raises BadInput for a piece longer than MAX_PIECE_BYTES.
    """
    buffer = bytearray()
    while chunk := read(READ_BYTES):
        unsearched = max(0, len(buffer) - len(delimiter) + 1)
        buffer += chunk
        if buffer.find(delimiter, unsearched) >= 0:
            *whole, rest = bytes(buffer).split(delimiter)
            buffer = bytearray(rest)
            yield from whole
        if len(buffer) > MAX_PIECE_BYTES:
            raise BadInput(f"no delimiter within {MAX_PIECE_BYTES >> 20} MiB")
    if buffer:
        yield bytes(buffer)


def text_records(
    lines: Iterator[bytes], separator: bytes | None, *, empty_is_null: bool, encoders: Encoders = NO_ENCODERS
) -> Iterator[NewRecord]:
    """Yield a record for each line. The key is what comes before the first separator in the line, the value what comes
    after it; in a line without the separator, and with `separator` None, the key is null and the whole line is the
    value. empty_is_null: whether empty keys and values become null. Raises BadInput, with the number of the line, for a
    key or value that an encoder does not accept."""
    for number, line in enumerate(lines, 1):
        key, value = None, line
        if separator is not None:
            before, found, after = line.partition(separator)
            if found:
                key, value = before, after
        record = NewRecord(key or None, value or None) if empty_is_null else NewRecord(key, value)
        if encoders is NO_ENCODERS:
            yield record
            continue
        try:
            encoded = record._replace(
                key=_encoded_text(record.key, encoders.key, "key"),
                value=_encoded_text(record.value, encoders.value, "value"),
            )
        except BadInput as error:
            raise BadInput(f"line {number} {error}") from None
        yield encoded


def _encoded_text(data: bytes | None, encode: Encode | None, name: str) -> bytes | None:
    if data is None or encode is None:
        return data
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"has a {name} that is not JSON ({error})") from None
    return _encoded(value, encode, name)


def _encoded(value: Any, encode: Encode, name: str) -> bytes | None:
    try:
        return None if value is None else encode(value)
    except ValueError as error:
        raise BadInput(f"has a {name} that does not fit its schema: {error}") from None


def json_records(lines: Iterator[bytes], encoders: Encoders = NO_ENCODERS) -> Iterator[NewRecord]:
    """Yield a record for each line, except empty lines and those of control records. Raises BadInput with the number of
    the line."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            record = None if isinstance(row, dict) and row.get("is_control") is True else _record(row, encoders)
        except (BadInput, ValueError, RecursionError) as error:
            reason = error if isinstance(error, BadInput) else f"is not JSON ({error})"
            raise BadInput(f"line {number} {reason}") from None
        if record is not None:
            yield record


def _record(row: Any, encoders: Encoders) -> NewRecord:
    if not isinstance(row, dict):
        raise BadInput("is not an object")
    if "value" not in row:
        raise BadInput('has no "value"')
    topic = row.get("topic")
    if topic is not None and not isinstance(topic, str):
        raise BadInput(f'has {topic!r} for "topic"')
    headers = row.get("headers") or []
    if not isinstance(headers, list):
        raise BadInput('has no list of [name, value] for "headers"')
    return NewRecord(
        _field(row.get("key"), "key") if encoders.key is None else _encoded(row.get("key"), encoders.key, "key"),
        _field(row["value"], "value") if encoders.value is None else _encoded(row["value"], encoders.value, "value"),
        [_header(header) for header in headers],
        _number(row, "partition"),
        _number(row, "timestamp"),
        topic,
    )


def _field(value: Any, name: str) -> bytes | None:
    if value is None:
        return None
    try:
        if isinstance(value, str):
            return value.encode()
        if isinstance(value, dict) and list(value) == ["base64"] and isinstance(value["base64"], str):
            return base64.b64decode(value["base64"], validate=True)
    except (UnicodeEncodeError, binascii.Error):
        pass
    raise BadInput(f'has for {json.dumps(name)} neither null, text nor {{"base64": ...}}')


def _header(header: Any) -> Header:
    if not isinstance(header, list) or len(header) != 2 or not isinstance(header[0], str):
        raise BadInput("has a header that is not [name, value]")
    return header[0], _field(header[1], f"header {header[0]}")


def _number(row: dict[str, Any], name: str) -> int | None:
    value = row.get(name)
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63):
        return value
    raise BadInput(f'has {value!r} for "{name}"')
