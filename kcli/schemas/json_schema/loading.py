"""Functions of the loaders of all drafts: they check the types that the values of keywords must have."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Final, NamedTuple, NoReturn, cast

from kcli.schemas.json_schema.model import Limit
from kcli.schemas.json_schema.patterns import syntax_error
from kcli.schemas.json_schema.references import JsonObject
from kcli.schemas.json_schema.text import Json, refuse

_NAMES: Final = {dict: "an object", list: "an array", str: "a string", bool: "a boolean", type(None): "null"}


class Places(NamedTuple):
    """The keywords whose values are schemas: keywords with one schema, with an array of schemas, and with an object of
    schemas. `items` may have one schema or an array."""

    single: frozenset[str]
    arrays: frozenset[str]
    objects: frozenset[str]

    def within(self, raw: JsonObject) -> Iterator[JsonObject]:
        """Yield the schemas within a schema, if they are objects."""
        for keyword, value in raw.items():
            if keyword in self.single and isinstance(value, dict):
                yield value
            elif keyword in self.arrays and isinstance(value, list):
                yield from (each for each in value if isinstance(each, dict))
            elif keyword in self.objects and isinstance(value, dict):
                yield from (each for each in value.values() if isinstance(each, dict))


def kind_of(value: Json) -> str:
    """Return the type of a value for a message."""
    return _NAMES.get(type(value), "a number")


def an_object(value: Json, keyword: str) -> JsonObject:
    return value if isinstance(value, dict) else wrong(keyword, "an object", value)


def an_array(value: Json, keyword: str) -> list[Json]:
    return value if isinstance(value, list) else wrong(keyword, "an array", value)


def a_string(value: Json, keyword: str) -> str:
    return value if isinstance(value, str) else wrong(keyword, "a string", value)


def a_boolean(value: Json, keyword: str) -> bool:
    return value if isinstance(value, bool) else wrong(keyword, "a boolean", value)


def a_number(value: Json, keyword: str) -> Limit:
    return cast("Limit", value) if is_number(value) else wrong(keyword, "a number", value)


def an_integer(value: Json, keyword: str) -> int:
    """Return a number of 32 bits without a fraction."""
    if isinstance(value, int) and not isinstance(value, bool) and -(2**31) <= value < 2**31:
        return value
    return wrong(keyword, "an integer of 32 bits", value)


def strings(value: Json, keyword: str) -> list[str]:
    return [a_string(each, keyword) for each in an_array(value, keyword)]


def a_pattern(value: Json, keyword: str) -> str:
    """Return a string that is a regular expression of Java's."""
    pattern = a_string(value, keyword)
    error = syntax_error(pattern)
    return pattern if error is None else refuse(keyword, f"{error} in the regular expression {pattern[:200]!r}")


def is_number(value: Json) -> bool:
    return isinstance(value, int | Decimal) and not isinstance(value, bool)


def as_double(number: Limit) -> float:
    """Return the double nearest to a number; infinity for one that is too large."""
    try:
        return float(number)
    except OverflowError:
        return float("inf") if number > 0 else -float("inf")


def wrong(keyword: str, expected: str, value: Json) -> NoReturn:
    refuse(keyword, f"{expected} is needed, {kind_of(value)} found")
