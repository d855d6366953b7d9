"""JSON as Jackson writes and reads it, whose bytes clients and other registries compare."""

from __future__ import annotations

import json
import re

Json = dict[str, "Json"] | list["Json"] | str | int | float | bool | None

_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_PAIR = re.compile("[\U00010000-\U0010ffff]")
_ESCAPE = re.compile(r"\\(u00[01][0-9a-f]|.)")


class BadJson(ValueError):
    """A text that is no JSON, or JSON that is too deep. The message is one line."""


def dumps(value: object) -> bytes:
    """Return a value as JSON without blanks. Control characters are written as \\u001F, characters of two UTF-16 units
    as \\uD83D\\uDE00, all others as they are."""
    text = _ENCODER.encode(value)
    if "\\u00" in text:
        text = _ESCAPE.sub(_upper, text)
    if not text.isascii():
        text = _PAIR.sub(_escaped, text)
    return text.encode("utf-8", "replace")


def _escaped(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be").hex().upper()
    return f"\\u{units[:4]}\\u{units[4:]}"


def _upper(match: re.Match[str]) -> str:
    escape = match[1]
    return f"\\u{escape[1:].upper()}" if len(escape) > 1 else match[0]


def loads(data: bytes) -> Json:
    """Return the value of a JSON text. Raises BadJson."""
    try:
        text = data.decode()
        value: Json = json.loads(text)
        if "\\ud" in text or "\\uD" in text:
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        raise BadJson("the JSON is nested too deep") from None
    except UnicodeDecodeError as error:
        raise BadJson(f"Invalid UTF-8 in byte {error.start}") from None
    except UnicodeEncodeError:
        raise BadJson("a surrogate stands alone in a string") from None
    except ValueError as error:
        raise BadJson(str(error)) from None
    return value


def pruned(fields: dict[str, object]) -> dict[str, object]:
    """Return an object without the fields that are None, empty texts or empty lists, which Jackson's NON_EMPTY leaves
    out."""
    return {name: value for name, value in fields.items() if value is not None and value not in ("", [], ())}
