"""Text as Java writes it: UTF-8 with Java's replacement characters, doubles, and Jackson's compact JSON.

Kafka's dump tool prints strings that it decoded with `new String(bytes, UTF_8)` and JSON by Jackson's `toString`; both
differ from Python's in small ways that show in a line-by-line comparison.
"""

import re
from json.encoder import encode_basestring
from math import copysign, isinf, isnan
from typing import Any, Final

_SURROGATE: Final = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_ESCAPED: Final = re.compile(r"\\(?:u00(..)|.)")


def java_utf8(data: bytes | memoryview) -> str:
    """Return the text that Java decodes UTF-8 bytes to.

    It differs from the text of bytes.decode(errors="replace") in one case: for a surrogate encoded in three bytes, or
    for the first two of these bytes, Java has one U+FFFD, Python one U+FFFD for each byte.
    """
    raw = bytes(data)
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return _SURROGATE.sub(b"\xff", raw).decode("utf-8", "replace")


def java_double(value: float) -> str:
    """Return a double as Java's `Double.toString` prints it: at least one digit behind the point, `E` outside of 1e-3
    .. 1e7.

    The digits are Java 17's, except for some powers of two and a few doubles beyond 1e22: Java 17 prints one digit more
    than they need.
    """
    if isnan(value):
        return "NaN"
    if isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    sign = "-" if copysign(1, value) < 0 else ""
    figures, exponent = _shortest(abs(value))
    if value != 0 and not -3 <= exponent < 7:
        return f"{sign}{figures[0]}.{figures[1:] or '0'}E{exponent}"
    figures = "0" * -exponent + figures
    whole = max(exponent, 0) + 1
    return f"{sign}{figures[:whole].ljust(whole, '0')}.{figures[whole:] or '0'}"


def _shortest(value: float) -> tuple[str, int]:
    """Return the shortest digits that identify the double, and the power of ten of the first digit."""
    if 2**53 <= value < 2**63:
        # Java 17 rounds off the decimal digits that a double cannot hold, but for some numbers it keeps one of them.
        spare = len(str(2 ** max(int(value).bit_length() - 55, 0))) - 1
        digits = str((int(value) + 10**spare // 2) // 10**spare)
        return digits.rstrip("0"), len(digits) - 1 + spare
    for places in range(1, 17):
        mantissa, _, power = f"{value:.{places}e}".partition("e")
        if float(f"{mantissa}e{power}") == value:
            break
    return mantissa.replace(".", "").rstrip("0") or "0", int(power)


def quoted(text: str) -> str:
    """Return a JSON string as Jackson prints it: only quotes, backslashes and control characters are escaped."""
    plain = encode_basestring(text)
    return _ESCAPED.sub(_upper_hex, plain) if "\\u00" in plain else plain


def jackson(node: Any) -> str:
    """Return the text of a JSON tree as Jackson prints it: without spaces."""
    if isinstance(node, str):
        return quoted(node)
    if node is None:
        return "null"
    if isinstance(node, bool):
        return "true" if node else "false"
    if isinstance(node, int):
        return str(node)
    if isinstance(node, float):
        text = java_double(node)
        return f'"{text}"' if text[-1] in "Ny" else text
    if isinstance(node, dict):
        return "{" + ",".join([f'"{key}":{jackson(value)}' for key, value in node.items()]) + "}"
    return "[" + ",".join([jackson(value) for value in node]) + "]"


def _upper_hex(match: re.Match[str]) -> str:
    return f"\\u00{match[1].upper()}" if match[1] else match[0]
