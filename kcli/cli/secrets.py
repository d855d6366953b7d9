"""Secrets that a command takes from a file, the environment or the terminal: on its command line all users of the
machine would see them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from kcli.errors import UnreadableInput, UsageError
from kcli.printable import is_utf8

SECRET_BYTES_MAX = 64 << 10


def read_secret(name: str, file: Path | None, variable: str | None) -> str:
    """Return a secret: the first line of the file of --NAME-file (- is standard input), or the value of the environment
    variable that --NAME-env names; without both options, the text that the user types, twice, at the terminal. name:
    the NAME of the options, such as "password". file, variable: the options' values.

    Raises UsageError, UnreadableInput.
    """
    if file is not None and variable is not None:
        raise UsageError(f"--{name}-file and --{name}-env exclude each other")
    if file is not None:
        secret = _first_line(file)
    elif variable is not None:
        if variable not in os.environ:
            raise UsageError(f"--{name}-env: the environment has no {variable}")
        secret = os.environ[variable]
    elif sys.stdin is not None and sys.stdin.isatty():
        secret = _asked(name)
    else:
        raise UsageError(f"no terminal to ask for the {name}: give --{name}-file or --{name}-env")
    if not secret:
        raise UsageError(f"the {name} is empty")
    if not is_utf8(secret):
        raise UsageError(f"the {name} is not UTF-8")
    return secret


def _first_line(file: Path) -> str:
    try:
        if str(file) == "-":
            data = sys.stdin.buffer.readline(SECRET_BYTES_MAX)
        else:
            with file.open("rb") as opened:
                data = opened.readline(SECRET_BYTES_MAX)
    except OSError as error:
        raise UnreadableInput.of(file, error) from None
    return data.rstrip(b"\r\n").decode("utf-8", "surrogateescape")


def _asked(name: str) -> str:
    from getpass import getpass

    try:
        secret, again = getpass(f"{name.capitalize()}: "), getpass("Again: ")
    except EOFError:
        raise UsageError(f"no {name}: the terminal's input has ended") from None
    if again != secret:
        raise UsageError(f"the two {name}s differ")
    return secret
