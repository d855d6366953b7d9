"""Values that options take: times, keys, output formats."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any

import typer
from typer.models import TyperPath

from kcli.errors import UsageError
from kcli.printable import is_utf8

UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}


INT32_MAX, INT64_MAX = 2**31 - 1, 2**63 - 1

AS_BYTES = ("key", "why", "headers", "files", "targets")
"""Parameters whose texts stand for bytes of any kind: keys, values of headers, the paths of --files, and what
`kcli verify` checks."""


class Format(StrEnum):
    """How a command shows its result."""

    TABLE = "table"
    JSONL = "jsonl"


class DumpFormat(StrEnum):
    """How dump-segment shows a file."""

    TABLE = "table"
    KAFKA = "kafka"
    JSONL = "jsonl"


class Codec(StrEnum):
    """Compression codecs, in the order of their ids."""

    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


def current_ms() -> int:
    """Return the current time, in ms since 1970."""
    return int(time.time() * 1000)


def time_ms(text: str, option: str) -> int:
    """Return the epoch milliseconds of `1700000000000`, ISO 8601 (UTC without a zone) or a time ago (`-2h`, `-90s`).

    Raises UsageError, which names the option, for a text of another form and for a time beyond int64.
    """
    found = _time_ms(text, option)
    if not -INT64_MAX <= found <= INT64_MAX:
        raise UsageError(f"{option} {text!r} is beyond the times that a record can have: 64 bits of milliseconds")
    return found


def _time_ms(text: str, option: str) -> int:
    if ago := re.fullmatch(r"-(\d+)(ms|s|m|h|d|w)", text):
        return current_ms() - int(ago[1]) * UNITS_MS[ago[2]]
    if re.fullmatch(r"-?\d{1,19}", text):
        return int(text)
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        reason = "is no time: give epoch milliseconds, ISO 8601 (2026-11-20T22:14:03Z) or a time ago (-2h)"
        raise UsageError(f"{option} {text!r} {reason}") from None
    return int((parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp() * 1000)


def not_empty(values: Any) -> Any:
    """A callback for options and arguments with names: returns the value. Raises typer.BadParameter for an empty
    name."""
    if "" in (values if isinstance(values, list) else [values]):
        raise typer.BadParameter("the name is empty")
    return values


def utf8_path(value: Path | None) -> Path | None:
    """A callback for the path of a table: returns the value. Raises typer.BadParameter for a name that is not UTF-8,
    which pyarrow does not open."""
    if value is not None and not is_utf8(str(value)):
        raise typer.BadParameter(_not_utf8(str(value)))
    return value


def guard(parameter: Any) -> None:
    """Make a parameter of a command refuse values that no command can use.

    These are an empty path, which would stand for the current directory, an integer beyond int64, a float that is
    not finite, which Kafka's formats and protocol cannot have, and a name that is not UTF-8. Paths, and the texts of
    the parameters in AS_BYTES, need not be UTF-8."""
    own: Callable[..., Any] | None = parameter.callback
    is_path = isinstance(parameter.type, TyperPath)
    is_name = not is_path and parameter.name not in AS_BYTES

    def checked(context: Any, parameter: Any, value: Any) -> Any:
        for reason in _refusals(value, is_path=is_path, is_name=is_name):
            raise typer.BadParameter(reason, context, parameter)
        return value if own is None else own(context, parameter, value)

    parameter.callback = checked


def _refusals(value: Any, *, is_path: bool, is_name: bool) -> Iterator[str]:
    for each in value if isinstance(value, list | tuple) else [value]:
        if is_path and str(each) == "":
            yield "empty path"
        elif is_name and isinstance(each, str) and not is_utf8(each):
            yield _not_utf8(each)
        elif isinstance(each, int) and not -INT64_MAX - 1 <= each <= INT64_MAX:
            yield f"{each} is beyond 64 bits"
        elif isinstance(each, float) and not math.isfinite(each):
            yield f"{each} is no number"


def _not_utf8(name: str) -> str:
    shown = name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return f"'{shown}' is not UTF-8"


def key_bytes(text: str, option: str) -> bytes:
    """Return the bytes of the key in this option: those of the hexadecimal digits after 0x (the form in which binary
    keys are shown), else the text in UTF-8.

    Raises UsageError if anything but pairs of hexadecimal digits follows 0x. If such a key were taken as text, one with
    a mistyped digit would find no record, or would be produced as another key.
    """
    key = text.encode("utf-8", "surrogateescape")
    if not text.startswith("0x"):
        return key
    if re.fullmatch(r"0x([0-9a-fA-F]{2})+", text) is None:
        raise UsageError(
            f"{option} {text!r} is not hexadecimal, two digits for each byte, behind 0x; as text it is 0x{key.hex()}"
        )
    return bytes.fromhex(text[2:])


def chosen(names: list[str] | None, known: tuple[str, ...], option: str) -> set[str]:
    """Return `names` in Kafka's spelling; an empty set if `names` is None or empty. A name may be in any case, and a
    text may have several names, separated by commas.

    known: all valid names. Raises UsageError for any other name.
    """
    by_lower = {name.lower(): name for name in known}
    found = set()
    for name in (part.strip() for text in names or [] for part in text.split(",")):
        if name.lower() not in by_lower:
            raise UsageError(f"{option} {name!r} is none of {', '.join(known)}")
        found.add(by_lower[name.lower()])
    return found


def time_text(time_ms: int) -> str:
    """Return a time (epoch ms) as ISO 8601 in UTC; the number itself if `datetime` cannot represent the time."""
    try:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=time_ms)
    except OverflowError:
        return str(time_ms)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{time_ms % 1000:03}Z"


def distinct(names: list[str] | None, named: list[str] | None) -> list[str]:
    """Return the names given as arguments, then those given by an option, without duplicates; [] if both are None."""
    return list(dict.fromkeys([*(names or []), *(named or [])]))


def pairs(texts: Sequence[str] | None, option: str) -> dict[str, str]:
    """Return the values by name from texts of the form NAME=VALUE; {} for None. The last value of a name counts. Raises
    UsageError, which names the option."""
    found: dict[str, str] = {}
    for text in texts or []:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise UsageError(f"{option} {text!r} is not NAME=VALUE")
        found[name] = value
    return found
