"""Output of commands: data to stdout, notes to stderr, colours only on a terminal."""

from __future__ import annotations

import io
import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from kcli.errors import KcliError
from kcli.printable import printable, printable_json

_LINE_END = re.compile(r"(\n)")
_LAYOUT = re.compile(r"(\n|\x1b\[[0-9;]*[HJm])")
"""The control characters that commands write to a terminal: line ends, colours, clearing the screen."""


class PipeClosed(KcliError):
    """The reader of stdout has closed its end of the pipe (`| head`): kcli ends without a message, which is no
    failure."""

    exit_status = 0

    def __init__(self) -> None:
        super().__init__("")


@contextmanager
def verdict(status: int) -> Iterator[None]:
    """Return a context in which findings are written: the command ends with this exit status even if the reader closes
    stdout."""
    try:
        yield
    except PipeClosed as closed:
        closed.exit_status = status
        raise


class WriteFailed(KcliError):
    """Writing to stdout failed, for example on a full disk."""


class _Stdout(io.RawIOBase):
    """sys.stdout for the texts that Typer prints (help, version). It writes through the function `write`, and raises
    the errors of `write`."""

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return 1

    def isatty(self) -> bool:
        return os.isatty(1)

    def write(self, data: Any, /) -> int:
        view = memoryview(data)
        write(view)
        return view.nbytes


def take_streams() -> None:
    """Make sure that descriptors 0 to 2 are open, and that all text for stdout goes through `write`.

    A descriptor that the caller has closed (`>&-`) would else be reused for the first file that kcli opens, and output
    would be written into that file. Afterwards reading a closed stdin and writing to a closed stdout fail; text for a
    closed stderr is dropped.
    """
    for fd, mode in ((0, os.O_WRONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(fd)
        except OSError:
            os.set_inheritable(os.open(os.devnull, mode), True)  # open() takes the lowest free descriptor: fd
    encoding, errors = ("utf-8", "strict") if sys.stdout is None else (sys.stdout.encoding, sys.stdout.errors)
    sys.stdout = io.TextIOWrapper(_Stdout(), encoding, errors, write_through=True)
    if sys.stderr is None:
        sys.stderr = io.TextIOWrapper(io.FileIO(2, "w", closefd=False), "utf-8", "replace", write_through=True)


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
    """Write lines to stdout; bytes of file names that are not UTF-8 are written unchanged.

    The caller passes names and other foreign text through `printable`. This function escapes the control characters
    that are left in the text, except line ends and, on a terminal, colours.
    """
    parts = (_LAYOUT if on_terminal() else _LINE_END).split(text)
    parts[::2] = map(printable, parts[::2])
    write(memoryview("".join(parts).encode("utf-8", "surrogateescape")))


def json_line(value: dict[str, Any]) -> str:
    """Return the JSON text of an object, as a line."""
    import json

    return printable_json(json.dumps(value, ensure_ascii=False, separators=(",", ":"))) + "\n"


def note(text: str) -> None:
    """Write a line to stderr, with control characters escaped; errors of stderr are ignored."""
    with suppress(OSError):
        print(printable(text).encode("utf-8", "replace").decode(), file=sys.stderr, flush=True)


def on_terminal() -> bool:
    """Whether stdout is a terminal that may show colours: False also if the environment has NO_COLOR, or TERM=dumb."""
    return os.isatty(1) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def terminal_width() -> int:
    """Return the number of columns of the terminal."""
    return shutil.get_terminal_size().columns


def count_text(number: int, noun: str, plural: str | None = None) -> str:
    """Return a count with its noun: `1 record`, `2,000 records`. plural: the noun's plural if it is not the noun with
    an s."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def aligned(rows: Iterable[tuple[str, ...]]) -> str:
    """Return the rows as lines with aligned columns; control characters in the cells are escaped."""
    table = [tuple(map(printable, row)) for row in rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return "".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() + "\n" for row in table
    )
