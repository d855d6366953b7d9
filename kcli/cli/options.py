"""Values that options take: times, keys, output formats."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

import typer
from typer.models import TyperPath

from kcli.errors import UsageError

UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}


INT32_MAX, INT64_MAX = 2**31 - 1, 2**63 - 1


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
    """The time, in epoch milliseconds."""
    return int(time.time() * 1000)


def time_ms(text: str, option: str) -> int:
    """Epoch milliseconds from `1700000000000`, ISO 8601 (UTC where it names no zone) or a time ago (`-2h`, `-90s`).

    Raises UsageError, which names the option; for a time that a record cannot have too (int64).
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
    """A callback of options and arguments whose values name something. Raises typer.BadParameter."""
    if "" in (values if isinstance(values, list) else [values]):
        raise typer.BadParameter("the name is empty")
    return values


def guard(parameter: Any) -> None:
    """Make a parameter of a command refuse what no command can mean, in one place for all of them.

    An empty path would stand for the current directory; an integer beyond int64, or a number that is none (nan), has no
    place in Kafka's formats and protocol.
    """
    own: Callable[..., Any] | None = parameter.callback

    def checked(context: Any, asked: Any, value: Any) -> Any:
        for reason in _refusals(value, is_path=isinstance(parameter.type, TyperPath)):
            raise typer.BadParameter(reason, context, asked)
        return value if own is None else own(context, asked, value)

    parameter.callback = checked


def _refusals(value: Any, *, is_path: bool) -> Iterator[str]:
    for each in value if isinstance(value, list | tuple) else [value]:
        if is_path and str(each) == "":
            yield "empty path"
        elif isinstance(each, int) and not -INT64_MAX - 1 <= each <= INT64_MAX:
            yield f"{each} is beyond 64 bits"
        elif isinstance(each, float) and not math.isfinite(each):
            yield f"{each} is no number"


def key_bytes(text: str) -> bytes:
    """The key that --key names: hexadecimal behind 0x, as keys that are no text are shown; else UTF-8."""
    if re.fullmatch(r"0x([0-9a-fA-F]{2})+", text):
        return bytes.fromhex(text[2:])
    return text.encode("utf-8", "surrogateescape")


def chosen(names: list[str] | None, known: tuple[str, ...], option: str) -> set[str]:
    """The names as Kafka writes them, whatever their case; comma-separated ones too. Raises UsageError."""
    by_lower = {name.lower(): name for name in known}
    found = set()
    for name in (part.strip() for text in names or [] for part in text.split(",")):
        if name.lower() not in by_lower:
            raise UsageError(f"{option} {name!r} is none of {', '.join(known)}")
        found.add(by_lower[name.lower()])
    return found


def time_text(time_ms: int) -> str:
    """A time in milliseconds since 1970, UTC; the number where no calendar has it."""
    try:
        return f"{datetime(1970, 1, 1) + timedelta(milliseconds=time_ms):%Y-%m-%dT%H:%M:%S}.{time_ms % 1000:03}Z"  # noqa: DTZ001
    except OverflowError:
        return str(time_ms)


def distinct(names: list[str] | None, named: list[str] | None) -> list[str]:
    """Names that may be given as arguments and by an option, each once, in order."""
    return list(dict.fromkeys([*(names or []), *(named or [])]))


def pairs(texts: Sequence[str] | None, option: str) -> dict[str, str]:
    """NAME=VALUE, several times. Raises UsageError."""
    found: dict[str, str] = {}
    for text in texts or []:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise UsageError(f"{option} {text!r} is not NAME=VALUE")
        found[name] = value
    return found
