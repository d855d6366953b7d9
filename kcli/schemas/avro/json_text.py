"""JSON as Avro's parser reads it: texts to values, which kcli.schemas.jackson prints.

integer   an int, of any size; -0 is 0
fraction  a float, also `1.0` and `1e3`; printed as Java's Double.toString prints it, NaN and infinities in quotes
object    a dict; of equal names the last value counts, in the place of the first
comments  /* */ and //, which the JSON specification does not know, are white space before the end of the value

Every value is nested at most DEPTH_MAX deep, so that recursion over its levels is safe.
"""

from __future__ import annotations

import json
import re
from itertools import accumulate
from typing import Final, NoReturn, TypeAlias

from kcli.java.values import java_trim
from kcli.schemas.jackson import NUMBER_SIZE_MAX, json_text, too_deep
from kcli.schemas.schema import DEPTH_MAX, InvalidSchema

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

_MESSAGE_MAX: Final = 2000
"""The greatest length of an error message, in characters."""
_STRUCTURE: Final = re.compile(r'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)|//[^\r\n]*+|/\*|[\[\]{}]', re.DOTALL)
_NO_STRUCTURE: Final = re.compile(r'(?:"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)|[^"/\[\]{}]++)++', re.DOTALL)
_STEPS: Final = {"[": 1, "{": 1, "]": -1, "}": -1}
_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]|[\ud800-\udfff]")
_CONTROL: Final = re.compile(r"[\x00-\x1f]")


def parse_json(text: str) -> Json:
    """Return the value of a text. Raises InvalidSchema, also for a text without a value, or with more than one."""
    blank = _without_comments(text)
    start = len(blank) - len(blank.lstrip(" \t\r\n"))
    if start == len(blank):
        raise InvalidSchema("Cannot parse <null> schema")
    try:
        value, end = _DECODER.raw_decode(blank, start)
    except json.JSONDecodeError as error:
        line, column = text.count("\n", 0, error.pos) + 1, error.pos - text.rfind("\n", 0, error.pos)
        raise InvalidSchema(f"the schema is no JSON: {error.msg}, at line {line}, column {column}") from None
    dangling = java_trim(text[end:])
    if dangling:
        raise refused(f"dangling content after end of schema: {dangling}")
    if _SURROGATE.search(text):
        _check_characters(json_text(value))
    return value  # type: ignore[no-any-return]


def refused(message: str) -> InvalidSchema:
    """Return the error with this message, which may contain parts of a schema: it becomes one line, and is cut if it is
    long."""
    line = _CONTROL.sub(" ", message)
    return InvalidSchema(line if len(line) <= _MESSAGE_MAX else f"{line[:_MESSAGE_MAX]}...")


def same_json(one: Json, other: Json) -> bool:
    """Return whether two values are equal as Jackson compares them: 1 and 1.0 differ, the order of names is free."""
    return one is other or json_text(_sorted(one)) == json_text(_sorted(other))


def is_number(value: Json) -> bool:
    """Return whether a value is an integer or a fraction."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def is_integer(value: Json, bits: int) -> bool:
    """Return whether a value is an integer of up to `bits` bits."""
    return isinstance(value, int) and not isinstance(value, bool) and -(1 << bits - 1) <= value < 1 << bits - 1


def _without_comments(text: str) -> str:
    """Return the text with spaces in place of comments. Raises InvalidSchema if it is nested too deep."""
    structure = _NO_STRUCTURE.sub("", text)
    if "/" not in structure:
        if max(accumulate(map(_STEPS.__getitem__, structure)), default=0) > DEPTH_MAX:
            raise too_deep()
        return text
    depth = copied = position = 0
    pieces = []
    while each := _STRUCTURE.search(text, position):
        start, position = each.span()
        match text[start]:
            case "[" | "{":
                depth += 1
                if depth > DEPTH_MAX:
                    raise too_deep()
            case "]" | "}":
                depth -= 1
            case "/":
                if text[start + 1] == "*":
                    position = text.find("*/", position) + len("*/")
                    if position < len("*/"):
                        raise InvalidSchema("the schema is no JSON: a comment without an end")
                pieces += [text[copied:start], " " * (position - start)]
                copied = position
    return "".join([*pieces, text[copied:]]) if pieces else text


def _check_characters(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        half = ord(text[error.start])
        raise InvalidSchema(f"the schema has half a surrogate pair, U+{half:04X}, which is no character") from None


def _integer(digits: str) -> int:
    if len(digits) > NUMBER_SIZE_MAX:
        raise InvalidSchema(f"a number has {len(digits):,} digits, at most {NUMBER_SIZE_MAX:,} are allowed")
    return int(digits)


def _fraction(digits: str) -> float:
    if len(digits) > NUMBER_SIZE_MAX:
        raise InvalidSchema(f"a number has {len(digits):,} digits, at most {NUMBER_SIZE_MAX:,} are allowed")
    return float(digits)


def _no_number(name: str) -> NoReturn:
    raise InvalidSchema(f"the schema is no JSON: {name} is no number in JSON")


_DECODER: Final = json.JSONDecoder(parse_int=_integer, parse_float=_fraction, parse_constant=_no_number)


def _sorted(value: Json) -> Json:
    match value:
        case dict():
            return {name: _sorted(value[name]) for name in sorted(value)}
        case list():
            return [_sorted(each) for each in value]
    return value
