"""Numbers of other numbers, as Java's Number.longValue, intValue and doubleValue give them, and of texts.

Source: java.lang.Number, java.math.BigDecimal.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Final, TypeAlias

from kcli.connect.data.logical import scale_of
from kcli.connect.data.values import wrapped
from kcli.java.values import INT_MAX, INT_MIN, as_float

_DECIMAL: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE]([+-]?\d+))?")
_EXPONENT_MAX: Final = 20
_DOUBLE_BITS: Final = 53
Number: TypeAlias = "int | float | Decimal"


def integer_of(number: Number, bits: int = 64) -> int:
    """Return a number without its fraction as a signed integer. A float that is too large is the largest integer;
    other numbers lose their highest bits. bits: 32 or 64."""
    if isinstance(number, float):
        if math.isnan(number):
            return 0
        limit = 1 << bits - 1
        return int(max(-limit, min(number, limit - 1))) if abs(number) < limit else limit - 1 if number > 0 else -limit
    if isinstance(number, Decimal) and scale_of(number) <= -bits:
        return 0
    if isinstance(number, Decimal) and number.adjusted() < 0:
        return 0
    return wrapped(int(number), bits)


def narrow_integer(number: Number, bits: int) -> int:
    """Return a number as Java's byteValue and shortValue give it, by way of an int."""
    return wrapped(integer_of(number, 32), bits)


def double_of(number: Number) -> float:
    """Return a number as a double. A decimal has no negative zero."""
    try:
        return float(number) or (0.0 if isinstance(number, Decimal) else float(number))
    except OverflowError:
        return math.copysign(math.inf, number)


def single_of(number: Number) -> float:
    """Return a number as a float, rounded once."""
    if isinstance(number, int) and abs(number) >> _DOUBLE_BITS:
        shift = number.bit_length() - _DOUBLE_BITS  # the double keeps in its last bit that there was more
        kept = abs(number) >> shift
        kept |= kept << shift != abs(number)
        return as_float(math.copysign(math.ldexp(kept, shift), number))
    return as_float(double_of(number))


def decimal_text(text: str) -> Decimal | None:
    """Return the decimal of a text, as the constructor of Java's BigDecimal reads it; None if it is none."""
    match = _DECIMAL.fullmatch(text)
    if match is None or not INT_MIN <= int((match[1] or "0")[:_EXPONENT_MAX]) <= INT_MAX:
        return None
    value = Decimal(text)
    return value if INT_MIN < scale_of(value) <= INT_MAX else None
