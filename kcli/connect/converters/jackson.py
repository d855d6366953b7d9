"""JSON read as Java's Jackson reads it into a tree, with ALLOW_LEADING_ZEROS_FOR_NUMBERS: text behind the first value
is passed over. Fractions are Decimal, with all their digits; no bytes at all are MISSING.

Source: ObjectMapper.readTree, StreamReadConstraints of Jackson 2.21.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any, Final

from kcli.schemas.jackson import NUMBER_SIZE_MAX

DEPTH_MAX: Final = 500
"""The greatest number of arrays and objects inside each other."""
_TOKENS: Final = re.compile(r'"(?:[^"\\]|\\.)*"?|-?\d+', re.DOTALL)
"""Strings and integers. A string without an end takes all that is left, or each of its quotes would be tried as a
beginning: quadratic in the length of a text that anyone may have written."""
_SCHEMA: Final = b'{"schema":'
_PAYLOAD: Final = ',"payload":'
_END: Final = frozenset(" \t\r\n")
_WHITE: Final = " \t\r\n"


class _Missing:
    """The node that Jackson has for no JSON at all."""


MISSING: Final = _Missing()


class BadJson(ValueError):
    """Bytes that are not JSON."""


def read_tree(data: bytes) -> Any:
    """Return the value of JSON. Raises BadJson."""
    try:
        text = data.decode(json.detect_encoding(data))
    except UnicodeDecodeError as error:
        raise BadJson(str(error)) from None
    text = text.removeprefix("\ufeff").lstrip(_WHITE)
    if not text:
        return MISSING
    try:
        return _first_value(text)
    except ValueError:
        stripped = _TOKENS.sub(_without_zeros, text)
        if stripped == text:
            raise BadJson("not JSON") from None
    try:
        return _first_value(stripped)
    except ValueError as error:
        raise BadJson(str(error)) from None


def head_of(data: bytes) -> bytes | None:
    """Return the bytes before the payload of {"schema":...,"payload":...} as JsonConverter writes it; None for JSON
    that looks different. data: JSON."""
    if not data.startswith(_SCHEMA):
        return None
    try:
        text = data.decode()
        end = _DECODER.raw_decode(text, len(_SCHEMA))[1]
    except (ValueError, RecursionError):
        return None
    if not text.startswith(_PAYLOAD, end) or payload_behind(data, len(text[:end].encode()) + len(_PAYLOAD)) is MISSING:
        return None
    return text[: end + len(_PAYLOAD)].encode()


def payload_behind(data: bytes, start: int) -> Any:
    """Return the value that begins at `start` and is the last one of an object; MISSING if it is not as simple."""
    try:
        text = data[start:].decode()
        value, end = _DECODER.raw_decode(text)
    except (ValueError, RecursionError):
        return MISSING
    is_deep = text.count("[") + text.count("{") > DEPTH_MAX - 1
    return value if text[end:] == "}" and not is_deep else MISSING


def _first_value(text: str) -> Any:
    try:
        value, end = _DECODER.raw_decode(text)
    except RecursionError:
        raise BadJson("nested too deep") from None
    if end < len(text) and text[end] not in _END and not isinstance(value, str | list | dict):
        raise BadJson("a number or literal that does not end")
    if text.count("[", 0, end) + text.count("{", 0, end) > DEPTH_MAX and _depth(value) > DEPTH_MAX:
        raise BadJson("nested too deep")
    return value


def _depth(value: Any) -> int:
    """Return how many arrays and objects are inside each other."""
    depth, level = 0, [value]
    while level := [each for each in level if isinstance(each, list | dict)]:
        depth += 1
        level = [each for outer in level for each in (outer.values() if isinstance(outer, dict) else outer)]
    return depth


def _without_zeros(match: re.Match[str]) -> str:
    token = match[0]
    if token[0] == '"':
        return token
    sign = token[0] == "-"
    return token[:sign] + (token[sign:].lstrip("0") or "0")


def _integer(text: str) -> int:
    if len(text) > NUMBER_SIZE_MAX:
        raise BadJson("a number that is too long")
    return int(text)


def _fraction(text: str) -> Decimal:
    if len(text) > NUMBER_SIZE_MAX:
        raise BadJson("a number that is too long")
    return Decimal(text)


def _constant(text: str) -> Any:
    raise BadJson(f"{text} is not JSON")


_DECODER: Final = json.JSONDecoder(parse_int=_integer, parse_float=_fraction, parse_constant=_constant)
