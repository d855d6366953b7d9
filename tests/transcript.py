"""Transcripts: a story as a text file, of prose, of commands, and of exactly what comes of each command.

    prose               any other line; it stays as it is
    > COMMAND WORDS     one event
        line            what came of it, four spaces in; written by `pytest --update-transcripts`

Commit only changes of a transcript that you can explain.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

COMMAND, INDENT = "> ", "    "

Play = Callable[[list[str]], Iterable[str]]
"""Runs one command, given as its words, and returns the lines that came of it."""


def replayed(text: str, play: Play) -> str:
    """The transcript as its commands run now: the prose and the commands of `text`, and their lines anew."""
    lines: list[str] = []
    follows_command = False
    for line in text.splitlines():
        if line.startswith(COMMAND):
            lines += [line, *(INDENT + each for each in play(shlex.split(line.removeprefix(COMMAND))))]
            follows_command = True
        elif not (follows_command and line.startswith(INDENT)):
            lines.append(line)
            follows_command = False
    return "\n".join(lines) + "\n"


def check(path: Path, replay: Callable[[str], str], pytestconfig: pytest.Config) -> None:
    """Compare a transcript with what `replay` makes of it now; with --update-transcripts, write that instead."""
    text = path.read_text()
    now = replay(text)
    if pytestconfig.getoption("--update-transcripts"):
        path.write_text(now)
    else:
        assert now == text
