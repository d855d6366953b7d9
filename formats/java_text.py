"""Text as Java writes it: UTF-8 with Java's replacement characters, doubles, and Jackson's compact JSON.

Kafka's dump tool prints strings that it decoded with `new String(bytes, UTF_8)` and JSON by Jackson's `toString`; both
differ from Python's in small ways that show in a line-by-line comparison.
"""

import re
from json.encoder import encode_basestring
from math import isinf, isnan
from typing import Any, Final

_SURROGATE: Final = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_ESCAPED: Final = re.compile(r"\\(?:u00(..)|.)")


def java_utf8(data: bytes | memoryview) -> str:
    """Decode as Java does: one U+FFFD for a surrogate in three bytes (or its first two), where Python gives one for
    each byte; everything else alike."""
    raw = bytes(data)
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return _SURROGATE.sub(b"\xff", raw).decode("utf-8", "replace")


def java_double(value: float) -> str:
    """A double as `Double.toString` gives it (JDK 19 and later; older ones sometimes print more digits than needed)."""
    if isnan(value):
        return "NaN"
    if isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0:
        return repr(value)
    digits, _, power = f"{abs(value):.1e}".partition("e")
    if float(f"{digits}e{power}") != abs(value):
        mantissa, _, power = repr(abs(value)).partition("e")
        whole, _, fraction = mantissa.partition(".")
        plain = (whole + fraction).lstrip("0")
        power = str(int(power or 0) + len(whole) - 1 if whole != "0" else int(power or 0) - _zeros(fraction) - 1)
        plain = plain.rstrip("0")
        digits = f"{plain[0]}.{plain[1:] or '0'}"
    exponent = int(power)
    sign = "-" if value < 0 else ""
    if not -3 <= exponent < 7:
        return f"{sign}{digits}E{exponent}"
    figures = digits.replace(".", "")
    if exponent < 0:
        return f"{sign}0.{'0' * (-exponent - 1)}{figures[:1]}{figures[1:].rstrip('0')}"
    whole = figures[: exponent + 1].ljust(exponent + 1, "0")
    return f"{sign}{whole}.{figures[exponent + 1 :].rstrip('0') or '0'}"


def _zeros(fraction: str) -> int:
    return len(fraction) - len(fraction.lstrip("0"))


def jackson(node: Any) -> str:
    """JSON as Jackson prints a tree: no spaces, nothing but quotes, backslashes and control characters escaped."""
    if isinstance(node, str):
        text = encode_basestring(node)
        return _ESCAPED.sub(_upper_hex, text) if "\\u00" in text else text
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
