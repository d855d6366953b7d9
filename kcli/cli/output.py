"""Where commands write: data to stdout, notes to stderr, colour only on a terminal."""

from __future__ import annotations

import io
import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from kcli.errors import KcliError


class PipeClosed(KcliError):
    """The reader of stdout has gone (`| head`): there is nothing to say and no failure."""

    exit_status = 0

    def __init__(self) -> None:
        super().__init__("")


@contextmanager
def verdict(status: int) -> Iterator[None]:
    """Around writing what is found: the command ends with this status too where the reader of stdout goes."""
    try:
        yield
    except PipeClosed as closed:
        closed.exit_status = status
        raise


class WriteFailed(KcliError):
    """Stdout cannot take more: a full disk, perhaps."""


class _Stdout(io.RawIOBase):
    """Stdout for what is printed by others (help, versions): through `write`, and with its errors."""

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
    """Make sure that descriptors 0 to 2 are streams, and that all of stdout goes through `write`.

    One that the caller has closed (`>&-`) would else be that of the first file that is opened: text would be written
    into it. Reading or writing what was closed fails from here on; what goes to a closed stderr is dropped.
    """
    for fd, mode in ((0, os.O_WRONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(fd)
        except OSError:
            os.set_inheritable(os.open(os.devnull, mode), True)  # the lowest descriptor that is free: this one
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
    """Write text to stdout; what is no text (a file name's odd bytes) as it was."""
    write(memoryview(text.encode("utf-8", "surrogateescape")))


def json_line(value: dict[str, Any]) -> str:
    """A line of JSON."""
    import json

    return json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n"


def note(text: str) -> None:
    """Write a line to stderr; one that cannot be written is dropped."""
    with suppress(OSError):
        print(text.encode("utf-8", "replace").decode(), file=sys.stderr, flush=True)


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
