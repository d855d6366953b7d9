"""Where commands write: data to stdout, notes to stderr, colour only on a terminal."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable
from typing import Any

from kcli.errors import KcliError


class PipeClosed(KcliError):
    """The reader of stdout has gone (`| head`): there is nothing to say and no failure."""

    exit_status = 0

    def __init__(self) -> None:
        super().__init__("")


class WriteFailed(KcliError):
    """Stdout cannot take more: a full disk, perhaps."""


def write(data: memoryview) -> None:
    """Write all of `data` to stdout, past Python's buffers. Raises PipeClosed, WriteFailed."""
    try:
        while data:
            data = data[os.write(1, data) :]
    except BrokenPipeError:
        raise PipeClosed from None
    except OSError as error:
        raise WriteFailed(f"standard output: {error.strerror}") from None


def write_text(text: str) -> None:
    """Write text to stdout; what is no text (a file name's odd bytes) as it was."""
    write(memoryview(text.encode("utf-8", "surrogateescape")))


def json_line(value: dict[str, Any]) -> str:
    """A line of JSON."""
    import json

    return json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n"


def note(text: str) -> None:
    """Write a line to stderr."""
    print(text.encode("utf-8", "replace").decode(), file=sys.stderr)


def on_terminal() -> bool:
    """Stdout is a terminal that may show colour."""
    return os.isatty(1) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def terminal_width() -> int:
    """Columns of the terminal."""
    return shutil.get_terminal_size().columns


def printable(text: str) -> str:
    """A path on one line: what would move the cursor is escaped."""
    return "".join(char if char.isprintable() or "\udc80" <= char <= "\udcff" else repr(char)[1:-1] for char in text)


def aligned(rows: Iterable[tuple[str, ...]]) -> str:
    """Lines whose columns begin below each other."""
    table = list(rows)
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return "".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() + "\n" for row in table
    )
