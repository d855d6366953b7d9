"""Parses the JSON text of a schema, and writes its canonical text.

    text           value               canonical text
    1, -0          int                 1, 0
    1.50, 1e5      Decimal, exact      1.50, 1E+5
    NaN, Infinity  str                 "NaN", "Infinity"
    "\\u001f\\/"     str                 "\\u001F/"
    {}             dict                {}, keys in the order of the text; the last of equal keys counts

The canonical text is what Jackson writes of the tree that it reads with BigDecimals: no white space, characters other
than control characters as they are. Like Jackson, the parser ignores text after the first value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Final, NoReturn, TypeAlias

from kcli.java.hashing import java_order
from kcli.schemas.jackson import NUMBER_SIZE_MAX, json_text
from kcli.schemas.schema import DEPTH_MAX, InvalidSchema

Json: TypeAlias = "bool | int | Decimal | str | list[Json] | dict[str, Json] | None"

_EXPONENTS: Final = range(1 - 2**31, 2**31)
_TOKEN: Final = re.compile(r'"(?:[^"\\]++|\\.?)*+(?:"|\Z)|[\[\]{}]', re.DOTALL)
_SPACE: Final = re.compile(r"[ \t\n\r]*")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def parse_json(text: str) -> Json:
    """Return the first value of a text. Raises InvalidSchema."""
    if depth_of(text) > DEPTH_MAX:
        raise InvalidSchema(f"the schema is nested more than {DEPTH_MAX} deep")
    begin = _space_end(text, 0)
    try:
        value, end = _DECODER.raw_decode(text, begin)
    except json.JSONDecodeError as error:
        raise InvalidSchema(f"the schema is no JSON: {error}") from None
    if text[end - 1].isalnum() and (text[end : end + 1].isalnum() or text[end : end + 1] == "."):
        raise InvalidSchema(f"the schema is no JSON: unexpected {text[end]!r} at character {end}")
    if _SURROGATE.search(text) or ("\\u" in text and _SURROGATE.search(json_text(value))):
        raise InvalidSchema("the schema has one half of a surrogate pair")
    return value  # type: ignore[no-any-return]


def depth_of(text: str) -> int:
    """Return the depth of nested arrays and objects in a text."""
    depth = most = 0
    for match in _TOKEN.finditer(text):
        if match[0] in "[{":
            depth += 1
            most = max(most, depth)
        elif match[0] in "]}":
            depth -= 1
    return most


def sorted_keys(value: Json) -> Json:
    """Return the value with the keys of all its objects in the order of Java's strings."""
    if isinstance(value, dict):
        return {key: sorted_keys(value[key]) for key in java_sorted(list(value))}
    if isinstance(value, list):
        return [sorted_keys(each) for each in value]
    return value


def java_sorted(keys: Sequence[str]) -> list[str]:
    """Return the keys in the order of Java's String.compareTo."""
    return sorted(keys) if all(map(str.isascii, keys)) else sorted(keys, key=java_order)


def _space_end(text: str, begin: int) -> int:
    match = _SPACE.match(text, begin)
    return match.end() if match else begin


def _integer(text: str) -> int:
    _check_length(text)
    return int(text)


def _decimal(text: str) -> Decimal:
    _check_length(text)
    exponent = re.search(r"[eE]([+-]?\d+)", text)
    value = Decimal(text) if exponent is None or len(exponent[1]) <= len("-2147483648") else None
    if value is None or value.as_tuple().exponent not in _EXPONENTS:
        raise InvalidSchema("the schema has a number whose exponent has more than 32 bits")
    return value


def _check_length(text: str) -> None:
    if len(text) > NUMBER_SIZE_MAX:
        raise InvalidSchema(f"the schema has a number of {len(text):,} characters, {NUMBER_SIZE_MAX:,} are allowed")


_DECODER: Final = json.JSONDecoder(parse_int=_integer, parse_float=_decimal, parse_constant=str)


def refuse(where: str, reason: str) -> NoReturn:
    """Raise InvalidSchema. where: a JSON pointer or URI of the part of the schema at fault."""
    raise InvalidSchema(f"{where}: {reason}")
