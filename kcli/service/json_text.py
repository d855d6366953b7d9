"""JSON as Jackson writes and reads it, whose bytes clients and other registries compare."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Final, NoReturn

from kcli.schemas.jackson import NUMBER_SIZE_MAX

Json = dict[str, "Json"] | list["Json"] | str | int | float | bool | None

_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_LIMIT: Final = "from `StreamReadConstraints.getMaxNumberLength()`"
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


def loads(data: bytes, *, numbers_as_text: bool = False) -> Json:
    """Return the value of a JSON text in UTF-8, UTF-16 or UTF-32, with or without a byte order mark, as Jackson reads
    it. numbers_as_text: whether a number stands as it is written, for a map of texts. Raises BadJson."""
    decoder = _WITH_TEXTS if numbers_as_text else _DECODER
    try:
        text = data.decode(json.detect_encoding(data))
        value: Json = decoder.decode(text)
        if "\\ud" in text or "\\uD" in text:
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        raise BadJson("the JSON is nested too deep") from None
    except UnicodeDecodeError as error:
        raise BadJson(f"Invalid {error.encoding.upper()} in byte {error.start}") from None
    except UnicodeEncodeError:
        raise BadJson("a surrogate stands alone in a string") from None
    except BadJson:
        raise
    except ValueError as error:
        raise BadJson(str(error)) from None
    return value


def _sized(number: Callable[[str], Json]) -> Callable[[str], Json]:
    """Return a function that makes a number of its text. It raises BadJson for more digits than Jackson takes."""

    def made(text: str) -> Json:
        size = len(text) - text.count("-") - text.count(".")
        if size > NUMBER_SIZE_MAX:
            raise BadJson(f"Number value length ({size}) exceeds the maximum allowed ({NUMBER_SIZE_MAX}, {_LIMIT})")
        return number(text)

    return made


def _refuse(token: str) -> NoReturn:
    raise BadJson(f"Non-standard token '{token}': a number is finite")


_DECODER: Final = json.JSONDecoder(parse_int=_sized(int), parse_float=_sized(float), parse_constant=_refuse)
_WITH_TEXTS: Final = json.JSONDecoder(parse_int=_sized(str), parse_float=_sized(str), parse_constant=_refuse)


def pruned(fields: dict[str, object]) -> dict[str, object]:
    """Return an object without the fields that are None, empty texts or empty lists, which Jackson's NON_EMPTY leaves
    out."""
    return {name: value for name, value in fields.items() if value is not None and value not in ("", [], ())}
