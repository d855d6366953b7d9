"""Values from text, with schemas of their own: true, 12, 1.5, 2021-05-06, [1, 2], {"a": 1}; what is nothing else is a
string. SimpleHeaderConverter reads headers this way, and InsertHeader its literal.

    integer     the narrowest of INT8 to INT64 that holds it; beyond, a Decimal
    fraction    FLOAT32, FLOAT64 if it is too large
    date        Time, Date or Timestamp in ISO 8601's format, in UTC
    array, map  with the narrowest schema for all elements; without one if there is none

Text with too many arrays and maps inside each other is a string.

Source: org.apache.kafka.connect.data.Values.parseString.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Any, Final, NamedTuple

from kcli.connect.data.errors import DataError
from kcli.connect.data.logical import DATE, TIME, TIMESTAMP, decimal_schema, scale_of
from kcli.connect.data.numbers import decimal_text, double_of, integer_of
from kcli.connect.data.schema import BOOLEAN, FLOAT32, FLOAT64, INT8, INT16, INT32, INT64, STRING, Schema, Type
from kcli.connect.data.texts import DATE_PATTERN, TIME_PATTERN, TIMESTAMP_PATTERN
from kcli.connect.data.values import INTEGER_BITS, Date, Float32, typed, wrapped
from kcli.java.dates import BadDate, DateFormat
from kcli.java.values import LONG_MAX, LONG_MIN, as_float, java_trim


class Parsed(NamedTuple):
    """A value and its schema."""

    schema: Schema | None
    value: Any


_TOKEN: Final = re.compile(r'[:,{}\[\]"]|(?:\\.?|[^\\:,{}\[\]"])+', re.DOTALL)
"""A delimiter, or text up to the next one that has no backslash before it."""
_SIZE_MAX: Final = 20
"""More digits before the point than an INT64 has."""
_TEMPORAL: Final = {
    len("12:34:56.789Z"): (TIME, DateFormat(TIME_PATTERN)),
    len("2021-05-06T12:34:56.789Z"): (TIMESTAMP, DateFormat(TIMESTAMP_PATTERN)),
    len("2021-05-06"): (DATE, DateFormat(DATE_PATTERN)),
}
_INTEGERS: Final = (INT8, INT16, INT32, INT64)
_WIDTHS: Final = (Type.INT8, Type.INT16, Type.INT32, Type.INT64, Type.FLOAT32, Type.FLOAT64)
_LITERALS: Final = (("null", None), ("true", Parsed(BOOLEAN, value=True)), ("false", Parsed(BOOLEAN, value=False)))


def parse(text: str) -> Parsed:
    """Return the value of a text."""
    if not text:
        return Parsed(STRING, text)
    try:
        return _Parser(text).value(embedded=False) or Parsed(None, None)
    except RecursionError:
        return Parsed(STRING, text)


class _Parser:
    """A text, read up to `at`. peeked: the token before `at`, if it is not taken yet."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.peeked: str | None = None

    @property
    def has_next(self) -> bool:
        return self.peeked is not None or self.at < len(self.text)

    @property
    def mark(self) -> int:
        return self.at - len(self.peeked or "")

    def rewind(self, mark: int) -> None:
        self.at, self.peeked = mark, None

    def take(self) -> str:
        """Return the next token."""
        token = self._next() if self.peeked is None else self.peeked
        self.peeked = None
        return token

    def takes(self, expected: str) -> bool:
        """Return whether the next token, without white space, is this one, and take it if it is."""
        if self.peeked is None:
            if self.at == len(self.text):
                return False
            self.peeked = self._next()
        while not java_trim(self.peeked) and self.at < len(self.text):
            self.peeked = self._next()
        if java_trim(self.peeked) != expected:
            return False
        self.peeked = None
        return True

    def _next(self) -> str:
        match = _TOKEN.match(self.text, self.at)
        if match is None:
            return ""
        self.at = match.end()
        return match[0]

    def value(self, *, embedded: bool) -> Parsed | None:
        """Return the value that comes next; None for null. embedded: whether it is within an array or a map. Raises
        DataError for an embedded value that is none."""
        if not self.has_next:
            return None
        if embedded and self.takes('"'):
            return self._quoted()
        for literal, parsed in _LITERALS:
            mark = self.mark
            if self.takes(literal) and (embedded or not self.has_next):
                return parsed
            self.rewind(mark)
        mark = self.mark
        try:
            if self.takes("["):
                return self._array()
            if self.takes("{"):
                return self._map()
        except DataError:
            self.rewind(mark)
        token = self.take()
        return self._of_token(java_trim(token), embedded=embedded) if java_trim(token) else Parsed(STRING, token)

    def _of_token(self, token: str, *, embedded: bool) -> Parsed:
        starts_with_digit = token[0].isdecimal()
        if starts_with_digit:
            temporal = self._temporal(token)
            if temporal is not None:
                return temporal
        if starts_with_digit or token[0] in "+-":
            number = _number(token)
            if number is not None:
                return number
        if embedded:
            raise DataError("Failed to parse embedded value")
        return Parsed(STRING, self.text)

    def _temporal(self, token: str) -> Parsed | None:
        """Return a time or a date, which colons may have split into five tokens."""
        mark = begin = self.mark
        for _ in range(4):
            if not self.has_next:
                break
            self.take()
        else:
            found = _temporal(token + self.text[begin : self.at])
            if found is not None:
                return found
        self.rewind(mark)
        return _temporal(token)

    def _quoted(self) -> Parsed:
        parts = []
        while self.has_next and not self.takes('"'):
            parts.append(self.take())
        content = "".join(parts)
        return _temporal(content) or Parsed(STRING, content)

    def _array(self) -> Parsed:
        values: list[Any] = []
        merged = _Merged()
        while self.has_next:
            if self.takes("]"):
                if merged.schema is None:
                    return Parsed(Schema(Type.ARRAY), values)
                return Parsed(
                    Schema(Type.ARRAY, value_schema=merged.schema), [_converted(merged.schema, each) for each in values]
                )
            if self.takes(","):
                raise DataError(f"Unable to parse an empty array element: {self.text}")
            element = self.value(embedded=True)
            merged.add(element)
            values.append(element and element.value)
            mark = self.mark
            if self.takes("]"):
                self.rewind(mark)
            elif not self.takes(","):
                raise DataError("Array elements missing ',' delimiter")
        raise DataError(f"Array is missing terminating ']': {self.text}")

    def _map(self) -> Parsed:
        entries: dict[Any, Any] = {}
        keys, values = _Merged(), _Merged()
        while self.has_next:
            if self.takes("}"):
                return _map_of(entries, keys.schema, values.schema)
            if self.takes(","):
                raise DataError(f"Unable to parse a map entry with no key or value: {self.text}")
            key = self.value(embedded=True)
            if key is None or key.value is None:
                raise DataError(f"Map entry may not have a null key: {self.text}")
            if not self.takes(":"):
                raise DataError(f"Map entry is missing ':' at {self.at} in {self.text}")
            if isinstance(key.value, list | dict):
                raise DataError("a key of a map that is an array or a map itself")
            value = self.value(embedded=True)
            entries[key.value] = value and value.value
            self.takes(",")
            keys.add(key)
            values.add(value)
        raise DataError(f"Map is missing terminating '}}': {self.text}")


class _Merged:
    """The common schema of some values; None if there are none, or they have none in common."""

    def __init__(self) -> None:
        self.schema: Schema | None = None
        self._is_compatible = True

    def add(self, parsed: Parsed | None) -> None:
        """Merge the schema of a value."""
        if parsed is None or parsed.schema is None or not self._is_compatible:
            return
        self.schema = parsed.schema if self.schema is None else _merged(self.schema, parsed.schema)
        self._is_compatible = self.schema is not None


def _merged(one: Schema, other: Schema) -> Schema | None:
    """Return the schema for values of both: the wider number; of two schemas of one type the latter."""
    if one.type is other.type:
        return other
    if one.type in _WIDTHS and other.type in _WIDTHS:
        return max(one, other, key=lambda each: _WIDTHS.index(each.type))
    return None


def _map_of(entries: dict[Any, Any], of_keys: Schema | None, of_values: Schema | None) -> Parsed:
    if of_keys is None:
        return Parsed(Schema(Type.MAP), entries)
    if of_values is None:
        return Parsed(
            Schema(Type.MAP, key_schema=of_keys), {_converted(of_keys, key): each for key, each in entries.items()}
        )
    made = {_converted(of_keys, key): _converted(of_values, each) for key, each in entries.items()}
    return Parsed(Schema(Type.MAP, key_schema=of_keys, value_schema=of_values), made)


def _converted(schema: Schema, value: Any) -> Any:
    """Return a value as one of the schema that was merged of its own. Raises DataError for None."""
    if value is None:
        raise DataError("Unable to convert a null value to a schema that requires a value")
    if schema.type not in _WIDTHS or isinstance(value, Date | bool | str):
        return value
    if schema.type in (Type.FLOAT32, Type.FLOAT64):
        double = double_of(value)
        return Float32(as_float(double)) if schema.type is Type.FLOAT32 else double
    return typed(wrapped(integer_of(value), INTEGER_BITS[schema.type]), schema)


def _number(token: str) -> Parsed | None:
    value = decimal_text(token)
    if value is None:
        return None
    scale = scale_of(value)
    integer = _integer(value)
    if integer is not None:
        schema = next(each for each in _INTEGERS if wrapped(integer, INTEGER_BITS[each.type]) == integer)
        return Parsed(schema, typed(integer, schema))
    double = double_of(value)
    single = as_float(double)
    if scale and math.isfinite(single):
        return Parsed(FLOAT32, Float32(single))
    if scale and math.isfinite(double):
        return Parsed(FLOAT64, double)
    return Parsed(decimal_schema(scale), value)


def _integer(value: Decimal) -> int | None:
    """Return a decimal as an integer of 64 bits; None if it is none."""
    if not value:
        return 0
    if not 0 <= value.adjusted() < _SIZE_MAX:
        return None
    integer = int(value)
    return integer if integer == value and LONG_MIN <= integer <= LONG_MAX else None


def _temporal(token: str) -> Parsed | None:
    token = token.replace("\\:", ":")
    schema, date_format = _TEMPORAL.get(len(token), (None, None))
    if date_format is None:
        return None
    try:
        return Parsed(schema, Date(date_format.parse(token)))
    except BadDate:
        return None
