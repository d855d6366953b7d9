"""Transcripts: commands on the samples with exactly what they print. tests/cli/transcripts/*.txt

    prose that says what to look at
    $ kcli ARGUMENTS         (run in samples/)
    what goes to stdout
    what goes to stderr, each line behind "stderr: "
    exit STATUS              (where it is not 0)

`pytest --update-transcripts` writes them anew from their commands; commit only differences that you can explain.
"""

import re
import shlex
from pathlib import Path

import pytest

from tests.cli.run import kcli
from tests.transcript import check

TRANSCRIPTS = sorted(Path(__file__).with_name("transcripts").glob("*.txt"))
ELAPSED = re.compile(r"\d+\.\d\d s$", re.MULTILINE)


def replayed(text: str) -> str:
    """The transcript with what its commands print now."""
    parts: list[str] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            ended = kcli(*shlex.split(line.removeprefix("$ kcli")))
            parts += [line, *ELAPSED.sub("0.00 s", ended.stdout).splitlines()]
            parts += [f"stderr: {each}" for each in ended.stderr.splitlines()]
            parts += [f"exit {ended.status}"] if ended.status else []
            parts.append("")
        elif not any(part.startswith("$ ") for part in parts):
            parts.append(line)
    return "\n".join(parts).rstrip() + "\n"


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=[path.stem for path in TRANSCRIPTS])
def test_transcript(path: Path, pytestconfig: pytest.Config) -> None:
    check(path, replayed, pytestconfig)


def test_there_are_transcripts() -> None:
    assert len(TRANSCRIPTS) >= 10
