"""Values as Java and Connect print them.

java_text     toString, which StringConverter writes. Java prints the address of an array of bytes: here it is [B@0
header_text   Values.convertToString, which SimpleHeaderConverter writes
date_text     a date by its size: a time on or before the first day, a date at midnight, else a timestamp, all in UTC

Source: Object.toString of each class; org.apache.kafka.connect.data.Values.
"""

from __future__ import annotations

from base64 import b64encode
from decimal import Decimal
from typing import Any, Final

from kcli.connect.data.errors import DataError
from kcli.connect.data.logical import DAY_MS
from kcli.connect.data.schema import Schema, Type
from kcli.connect.data.struct import Struct
from kcli.connect.data.values import Date, Float32, class_name
from kcli.java.dates import DateFormat
from kcli.java.values import double_text, float_text

TIME_PATTERN: Final = "HH:mm:ss.SSS'Z'"
DATE_PATTERN: Final = "yyyy-MM-dd"
TIMESTAMP_PATTERN: Final = f"{DATE_PATTERN}'T'{TIME_PATTERN}"
_TIME: Final = DateFormat(TIME_PATTERN)
_DATE: Final = DateFormat(DATE_PATTERN)
_TIMESTAMP: Final = DateFormat(TIMESTAMP_PATTERN)
_TO_STRING: Final = DateFormat("EEE MMM dd HH:mm:ss zzz y")


def java_text(value: Any, schema: Schema | None = None) -> str:
    """Return a value as Java's toString prints it. schema: the value's, if it has one."""
    if isinstance(value, str):
        return value
    if value is None:
        return "null"
    if isinstance(value, Struct):
        pairs = zip(value.schema.fields, value.values, strict=True)
        return f"Struct{{{','.join(f'{f.name}={java_text(v, f.schema)}' for f, v in pairs if v is not None)}}}"
    if isinstance(value, list):
        of_values = schema and schema.value_schema
        return f"[{', '.join(java_text(each, of_values) for each in value)}]"
    if isinstance(value, dict):
        of_keys, of_values = schema and schema.key_schema, schema and schema.value_schema
        entries = (f"{java_text(key, of_keys)}={java_text(each, of_values)}" for key, each in value.items())
        return f"{{{', '.join(entries)}}}"
    if isinstance(value, bytes):
        return "[B@0"
    return _TO_STRING.format(value.millis) if isinstance(value, Date) else number_text(value, schema)


def number_text(value: Any, schema: Schema | None = None) -> str:
    """Return a number or a boolean as Java's toString prints it; another value as Python's str does."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        is_float = isinstance(value, Float32) or (schema is not None and schema.type is Type.FLOAT32)
        return float_text(value) if is_float else double_text(value)
    if isinstance(value, Decimal):
        return str(value.copy_abs() if value.is_zero() else value)
    return str(value)


def date_text(value: Date) -> str:
    """Return a date in ISO 8601's format."""
    if value.millis < DAY_MS:
        return _TIME.format(value.millis)
    return _TIMESTAMP.format(value.millis) if value.millis % DAY_MS else _DATE.format(value.millis)


def header_text(value: Any, schema: Schema | None = None) -> str:
    """Return a value, which is not None, as the text that `parsing` reads. Raises DataError for a value of a class that
    is none of Connect's data."""
    out: list[str] = []
    _append(out, value, schema, embedded=False)
    return "".join(out)


def _append(out: list[str], value: Any, schema: Schema | None, *, embedded: bool) -> None:
    if value is None:
        out.append("null")
    elif isinstance(value, (str, bytes)):
        text = _escaped(value) if embedded and isinstance(value, str) else value
        text = text if isinstance(text, str) else b64encode(text).decode()
        out.append(f'"{text}"' if embedded else text)
    elif isinstance(value, (int, float, Decimal)):
        out.append(number_text(value, schema))
    elif isinstance(value, list):
        _append_all(out, "[]", [((each, schema and schema.value_schema),) for each in value])
    elif isinstance(value, dict):
        of_keys, of_values = schema and schema.key_schema, schema and schema.value_schema
        _append_all(out, "{}", [((key, of_keys), (each, of_values)) for key, each in value.items()])
    elif isinstance(value, Struct):
        fields = value.schema.fields
        _append_all(out, "{}", [((field.name, None), (value.value_of(field), field.schema)) for field in fields])
    elif isinstance(value, Date):
        out.append(date_text(value))
    else:
        raise DataError(f"Failed to serialize unexpected value type {class_name(value)}: {value}")


def _append_all(out: list[str], around: str, entries: list[tuple[tuple[Any, Schema | None], ...]]) -> None:
    """Append entries between commas. around: the brackets. entries: each one a value, or a key and a value, with their
    schemas."""
    out.append(around[0])
    for number, entry in enumerate(entries):
        if number:
            out.append(",")
        for place, (value, schema) in enumerate(entry):
            if place:
                out.append(":")
            _append(out, value, schema, embedded=True)
    out.append(around[1])


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
