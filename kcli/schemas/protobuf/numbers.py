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
_FLOAT_DIGITS = 7
"""How many digits a Java Float has for sure."""
_FLOAT_MIN, _FLOAT_MAX = 1.1754944e-38, 3.4028235e38
_CONTEXT = Context(prec=800)
_STEP = Decimal("0.001")


def normalized_number(text: str) -> str:
    """Return a number of an option in its normalized form; what is no number stays as it is."""
    if match := _INTEGER.fullmatch(text):
        sign, hexadecimal, octal, decimal = match.groups()
        value = int(hexadecimal, 16) if hexadecimal else int(octal, 8) if octal else int(decimal)
        return f"{sign}{value}" if value else "0"
    match = _FLOATING.fullmatch(text)
    if match is None or (text.lstrip("-")[:1] == "0" and text.lstrip("-")[1:2].isdigit() and not {*text} & {*".eE"}):
        return text
    return _rounded(_exact(text.rstrip("fFdD"), is_double=match[1] in ("d", "D")))


def _exact(text: str, *, is_double: bool) -> Decimal:
    """Return the value of the Float or Double that a Java program makes of a number."""
    decimal = Decimal(text)
    double = float(text)
    digits = len(decimal.normalize(_CONTEXT).as_tuple().digits)
    if not is_double and digits <= _FLOAT_DIGITS and (not double or _FLOAT_MIN <= abs(double) <= _FLOAT_MAX):
        return Decimal(unpack("f", pack("f", double))[0])
    return Decimal(double) if Decimal(repr(double)) == decimal else decimal


def _rounded(value: Decimal) -> str:
    rounded = value.quantize(_STEP, ROUND_HALF_EVEN, _CONTEXT)
    return f"{rounded:f}".rstrip("0").rstrip(".")
