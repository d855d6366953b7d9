"""Values parsed from text as Java parses them. Time is linear in the length of the text, because clients send the text.

java_trim      String.trim: removes characters up to U+0020 (space) at both ends
java_split     String.split(","): without empty words at the end
comma_list     String.split("\\\\s*,\\\\s*", -1): with empty words
java_integer   Integer.parseInt, Long.parseLong, Short.parseShort
java_double    Double.parseDouble: decimal and hexadecimal, NaN, Infinity, a suffix d or f
java_float     Float.parseFloat
double_text    Double.toString, as Java 19 and later print: the shortest text that is no other double
float_text     Float.toString, likewise
"""

from __future__ import annotations

import math
from collections.abc import Callable
from struct import Struct
from typing import Final

_TRIMMED: Final = "".join(map(chr, range(ord(" ") + 1)))
_WHITE: Final = " \t\n\x0b\f\r"
_DECIMAL: Final = frozenset("0123456789.eE+-")
_HEXADECIMAL: Final = frozenset("0123456789abcdefABCDEF.pP+-")
_FLOAT: Final = Struct(">f")
INT_MIN: Final = -(1 << 31)
INT_MAX: Final = (1 << 31) - 1
LONG_MIN: Final = -(1 << 63)
LONG_MAX: Final = (1 << 63) - 1
_DIGITS_MAX: Final = 19
"""The number of digits of the largest 64-bit integer."""


def java_trim(text: str) -> str:
    """Return the text without the characters up to U+0020 at both ends, as String.trim does."""
    return text.strip(_TRIMMED)


def java_split(text: str) -> list[str]:
    """Return the words between commas; none for a text of commas only, one empty word for an empty text."""
    words = text.rstrip(",").split(",")
    return [] if text and words == [""] else words


def comma_list(text: str) -> list[str]:
    """Return the words between commas, without the white space around the commas."""
    first, *others = text.split(",")
    if not others:
        return [first]
    return [first.rstrip(_WHITE), *(each.strip(_WHITE) for each in others[:-1]), others[-1].lstrip(_WHITE)]


def java_integer(text: str, bits: int = 32) -> int | None:
    """Parse an integer; None if the text is no integer, or the integer does not fit into `bits` bits."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not digits.isdecimal():
        return None
    significant = digits.lstrip("0")
    if len(significant) > _DIGITS_MAX:
        return None
    number = int(significant or "0")
    number = -number if text[0] == "-" else number
    return number if -(1 << bits - 1) <= number < 1 << bits - 1 else None


def java_double(text: str) -> float | None:
    """Parse a double; None if the text is no number."""
    text = java_trim(text)
    sign = -1.0 if text[:1] == "-" else 1.0
    word = text[1:] if text[:1] in ("+", "-") else text
    if word in ("NaN", "Infinity"):
        return sign * float(word)
    is_hexadecimal = word[:2] in ("0x", "0X")
    word = word[:-1] if word[-1:] in ("d", "D", "f", "F") else word
    try:
        if is_hexadecimal:
            return sign * _hexadecimal(word[2:])
        return sign * float(word) if word[:1] not in ("+", "-") and _DECIMAL.issuperset(word) else None
    except ValueError:
        return None


def java_float(text: str) -> float | None:
    """Parse a float, rounded to 32 bits from the nearest double; None if the text is no number."""
    value = java_double(text)
    return None if value is None else as_float(value)


def as_float(value: float) -> float:
    """Return a double rounded to 32 bits, as Java casts it to a float."""
    try:
        rounded: float = _FLOAT.unpack(_FLOAT.pack(value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)
    return rounded


def double_text(value: float) -> str:
    """Return a double as Java prints it: `0.5`, `1.0E-5`, `1.7976931348623157E308`."""
    return _number_text(value, repr(value))


def float_text(value: float) -> str:
    """Return a float as Java prints it. value: it is rounded to 32 bits."""
    value = as_float(value)
    if not math.isfinite(value):
        return double_text(value)
    return _number_text(
        value, next(text for text in map(_float_digits(value), range(9)) if as_float(float(text)) == value)
    )


def _float_digits(value: float) -> Callable[[int], str]:
    return lambda digits: f"{value:.{digits}e}"


def _number_text(value: float, shortest: str) -> str:
    """Return a number as Java prints it. shortest: its digits, as Python prints them."""
    if not math.isfinite(value):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(float(shortest))
    from decimal import Decimal

    digits, _, exponent = f"{Decimal(shortest).normalize():E}".partition("E")
    return f"{digits if '.' in digits else digits + '.0'}E{int(exponent)}"


def _hexadecimal(word: str) -> float:
    """Return the double of a hexadecimal text. Raises ValueError, also for a text without an exponent, which Python's
    float.fromhex accepts."""
    if word[:1] in ("+", "-") or not _HEXADECIMAL.issuperset(word) or not ("p" in word or "P" in word):
        raise ValueError(word)
    try:
        return float.fromhex("0x" + word)
    except OverflowError:
        return float("inf")
