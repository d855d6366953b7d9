"""Numbers of options as the normalized text has them: decimal, with at most three digits behind the point.

    0x1F -> 31    010 -> 8    1e3 -> 1000    0.12345 -> 0.123    2.50 -> 2.5    nan, 08 -> as they are

Source: NumberUtils.createNumber of Apache Commons Lang and Java's DecimalFormat, which Confluent's registry uses.
"""

from __future__ import annotations

import re
from decimal import ROUND_HALF_EVEN, Context, Decimal
from struct import pack, unpack

_INTEGER = re.compile(r"(-?)(?:0[xX]([0-9a-fA-F]{1,40})|(0[0-7]{1,60})|(0|[1-9][0-9]{0,60}))[lL]?")
_FLOATING = re.compile(r"-?(?:[0-9]{1,60}(?:\.[0-9]{0,60})?|\.[0-9]{1,60})(?:[eE][+-]?[0-9]{1,3})?([fFdD]?)")
_FLOAT_DIGITS_MAX = 9
_EXACT_BELOW = 1e15
_FLOAT_MIN, _FLOAT_MAX = 1.1754944e-38, 3.4028235e38
_CONTEXT = Context(prec=2_000)
_STEP = Decimal("0.001")


def normalized_number(text: str) -> str:
    """Return a number of an option in its normalized form; a text that is no number stays as it is."""
    if match := _INTEGER.fullmatch(text):
        sign, hexadecimal, octal, decimal = match.groups()
        value = int(hexadecimal, 16) if hexadecimal else int(octal, 8) if octal else int(decimal)
        return f"{sign}{value}" if value else "0"
    match = _FLOATING.fullmatch(text)
    if match is None or (text.lstrip("-")[:1] == "0" and text.lstrip("-")[1:2].isdigit() and not {*text} & {*".eE"}):
        return text
    return _rounded(_exact(text.rstrip("fFdD"), is_double=match[1] in ("d", "D")))


def _exact(text: str, *, is_double: bool) -> Decimal:
    """Return the value that DecimalFormat prints: that of the Float, Double or BigDecimal that Commons Lang makes of
    the text."""
    decimal, double = Decimal(text), float(text)
    if not is_double and (not double or _FLOAT_MIN <= abs(double) <= _FLOAT_MAX):
        single: float = unpack("f", pack("f", double))[0]
        if _shortest(single) == Decimal(repr(double)):
            return _of_double(single)
    return _of_double(double) if Decimal(repr(double)) == decimal else decimal


def _of_double(value: float) -> Decimal:
    """Return the exact value of a double, which decides how it is rounded; of a large double the digits that Java
    prints."""
    return Decimal(value) if abs(value) < _EXACT_BELOW else Decimal(repr(value))


def _shortest(single: float) -> Decimal:
    """Return the shortest decimal that Java parses to this Float."""
    texts = (f"{single:.{digits}e}" for digits in range(_FLOAT_DIGITS_MAX))
    return next((Decimal(text) for text in texts if unpack("f", pack("f", float(text)))[0] == single), Decimal(single))


def _rounded(value: Decimal) -> str:
    rounded = value.quantize(_STEP, ROUND_HALF_EVEN, _CONTEXT)
    return f"{rounded:f}".rstrip("0").rstrip(".")
