"""The JSON that Java's Jackson writes of a tree, without white space: the texts of Avro and JSON Schema.

integer    as it is
fraction   a float as Java's Double.toString prints it, NaN and infinities in quotes; a Decimal with all of its digits
string     control characters as \\u001F, in capital letters; all other characters as they are

Source: JsonNode.toString, JsonGenerator and StreamReadConstraints of Jackson.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from json.encoder import encode_basestring
from typing import Final, TypeAlias

from kcli.java.values import double_text
from kcli.schemas.schema import DEPTH_MAX, InvalidSchema

Tree: TypeAlias = "bool | int | float | Decimal | str | Sequence[Tree] | Mapping[str, Tree] | None"

NUMBER_SIZE_MAX: Final = 1000
"""The greatest length of a number, in characters, by Jackson's StreamReadConstraints."""
_ESCAPED: Final = re.compile(r'[\x00-\x1f"\\]')
_ESCAPES: Final = {
    **{chr(each): f"\\u{each:04X}" for each in range(0x20)},
    "\b": "\\b",
    "\t": "\\t",
    "\n": "\\n",
    "\f": "\\f",
    "\r": "\\r",
    '"': '\\"',
    "\\": "\\\\",
}


def json_text(value: Tree) -> str:
    """Return the text of a value. Raises InvalidSchema if the value is nested too deep."""
    out: list[str] = []
    _write(value, 0, out)
    return "".join(out)


def string_text(text: str) -> str:
    """Return a string in quotes. Unlike Python's json, Jackson writes escapes in capital letters."""
    quoted = encode_basestring(text)
    return quoted if "\\u00" not in quoted else f'"{_ESCAPED.sub(lambda each: _ESCAPES[each[0]], text)}"'


def too_deep() -> InvalidSchema:
    """Return the error for a schema that is nested too deep."""
    return InvalidSchema(f"the schema is nested deeper than {DEPTH_MAX} levels")


def _write(value: Tree, depth: int, out: list[str]) -> None:
    """Append the text of a value to `out`. depth: the number of values around it."""
    match value:
        case str():
            out.append(string_text(value))
        case None:
            out.append("null")
        case bool():
            out.append("true" if value else "false")
        case int():
            out.append(str(value))
        case float():
            text = double_text(value)
            out.append(text if math.isfinite(value) else f'"{text}"')
        case Decimal():
            out.append(str(value.copy_abs() if value.is_zero() else value))
        case dict():
            _write_object(value, _deeper(depth) if value else depth, out)
        case list():
            _write_array(value, _deeper(depth) if value else depth, out)


def _write_array(values: Sequence[Tree], depth: int, out: list[str]) -> None:
    separator = "["
    for each in values:
        out.append(separator)
        if isinstance(each, str):  # most values are: not worth a call
            out.append(string_text(each))
        else:
            _write(each, depth, out)
        separator = ","
    out.append("]" if values else "[]")


def _write_object(values: Mapping[str, Tree], depth: int, out: list[str]) -> None:
    separator = "{"
    for name, each in values.items():
        out += (separator, string_text(name), ":")
        if isinstance(each, str):
            out.append(string_text(each))
        else:
            _write(each, depth, out)
        separator = ","
    out.append("}" if values else "{}")


def _deeper(depth: int) -> int:
    if depth >= DEPTH_MAX:
        raise too_deep()
    return depth + 1
