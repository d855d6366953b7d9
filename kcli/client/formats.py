r"""A record as text.

table   topic-partition  offset  time  key K  value V  headers A=B ...     fields as kcli dump-segment shows them
jsonl   dump-segment's object without the fields that a consumer does not receive; kcli produce reads it
%s      kcat's format string (-f)
          %t topic  %p partition  %o offset  %T timestamp (ms, -1 for none)
          %k key  %K its length  %s value  %S its length  %R its length in 4 bytes, big endian  %h headers a=b,c=d
          %%  \n \r \t \xHH  \\       a null has the length -1; its text is empty, or NULL with -Z
"""

from __future__ import annotations

import base64
import re
import struct
from collections.abc import Callable
from functools import partial
from json.encoder import encode_basestring

from formats.kernels.text.table_lines import iso_time
from kcli.client.consuming import Record
from kcli.errors import UsageError
from kcli.printable import printable, printable_json, shown

Printer = Callable[[Record], bytes]
FieldText = Callable[[bytes | None, Record, int], str]
Style = tuple[bytes, bytes]


def quoted(text: str) -> str:
    """Return a text as a JSON string."""
    return printable_json(encode_basestring(text))


def jsonl(record: Record) -> bytes:
    """Return a record as a JSON line."""
    topic, partition, offset, timestamp, timestamp_type, key, value, headers, leader_epoch = record
    pairs = ",".join([f"[{quoted(name)},{json_field(data)}]" for name, data in headers]) if headers else ""
    return (
        f'{{"topic":{quoted(topic)},"partition":{partition},"offset":{offset},'
        f'"timestamp":{"null" if timestamp is None else timestamp},"timestamp_type":"{timestamp_type}",'
        f'"key":{json_field(key)},"value":{json_field(value)},"headers":[{pairs}],'
        f'"leader_epoch":{"null" if leader_epoch is None else leader_epoch}}}\n'
    ).encode()


def json_field(data: bytes | None) -> str:
    """Return bytes as JSON: null for None, a string, or {"base64": ...} for bytes that are not UTF-8."""
    if data is None:
        return "null"
    try:
        return quoted(data.decode())
    except UnicodeDecodeError:
        return f'{{"base64":"{base64.b64encode(data).decode()}"}}'


def _text(data: bytes | None, _: Record, fold: int) -> str:
    return shown(data, fold)


def table(fold: int, styles: list[Style] | None, key_text: FieldText = _text, value_text: FieldText = _text) -> Printer:
    """Return a function that returns a record as a line of the table. fold: the maximum number of bytes shown of a key
    or value, -1 for all. styles: the terminal codes around partition, offset, time, labels and values; None for no
    codes. key_text, value_text: return the text of a key or value: (bytes, its record, fold) -> text."""
    place, offset, time, label, value = styles or [(b"", b"")] * 5

    def dressed(style: Style, text: str) -> bytes:
        return style[0] + text.encode() + style[1]

    labels = {name: dressed(label, name) for name in ("key", "value", "headers")}

    def line(record: Record) -> bytes:
        moment = "no time" if record.timestamp is None else iso_time(record.timestamp)
        parts = [
            dressed(place, f"{printable(record.topic)}-{record.partition}"),
            dressed(offset, str(record.offset)),
            dressed(time, moment),
            labels["key"] + b" " + dressed(value, key_text(record.key, record, fold)),
            labels["value"] + b" " + dressed(value, value_text(record.value, record, fold)),
        ]
        if record.headers:
            pairs = (f"{shown(name.encode(), fold)}={shown(data, fold)}" for name, data in record.headers)
            parts.append(labels["headers"] + b" " + dressed(value, " ".join(pairs)))
        return b"  ".join(parts) + b"\n"

    return line


def _literal(text: bytes, _: Record) -> bytes:
    return text


def _length(data: bytes | None) -> int:
    return -1 if data is None else len(data)


_PLAIN_ESCAPES = {"n": b"\n", "r": b"\r", "t": b"\t"}
_PIECE = re.compile(r"%(.)|\\x([0-9a-fA-F]{2})|\\(.)|([^%\\]+)|(.)", re.DOTALL)


def unescaped(text: str) -> bytes:
    r"""Return the delimiter that the text of an option stands for: \n, \r, \t and \xHH are replaced, and a backslash
    before any other character is removed."""
    return b"".join(
        bytes.fromhex(found[2])
        if found[2]
        else _PLAIN_ESCAPES.get(found[3], found[3].encode())
        if found[3]
        else found[0].encode()
        for found in _PIECE.finditer(text)
    )


def percent(text: str, null: bytes) -> Printer:
    """Return a function that returns a record in the form of the format string `text`. null: stands for null keys,
    values and headers. Raises UsageError."""

    def data(value: bytes | None) -> bytes:
        return null if value is None else value

    def headers(record: Record) -> bytes:
        return b",".join(name.encode() + b"=" + data(value) for name, value in record.headers)

    tokens: dict[str, Printer] = {
        "t": lambda record: record.topic.encode(),
        "p": lambda record: b"%d" % record.partition,
        "o": lambda record: b"%d" % record.offset,
        "T": lambda record: b"%d" % (-1 if record.timestamp is None else record.timestamp),
        "k": lambda record: data(record.key),
        "K": lambda record: b"%d" % _length(record.key),
        "s": lambda record: data(record.value),
        "S": lambda record: b"%d" % _length(record.value),
        "R": lambda record: struct.pack(">i", _length(record.value)),
        "h": headers,
        "%": lambda _: b"%",
    }
    parts: list[Printer] = []
    for found in _PIECE.finditer(text):
        if found[1] is None and found[0] != "%":
            parts.append(partial(_literal, unescaped(found[0])))
        elif found[1] in tokens:
            parts.append(tokens[found[1]])
        else:
            raise UsageError(f"-f: no token {found[0]!r}: there are {' '.join(f'%{token}' for token in tokens)}")
    return lambda record: b"".join([part(record) for part in parts])
