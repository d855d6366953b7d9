"""The transcripts of a group (tests/group/transcripts/*.txt) are what tests/group/story.py prints."""

from functools import partial
from pathlib import Path

import pytest

from tests.group.story import Story
from tests.transcript import check, replayed

TRANSCRIPTS = sorted(Path(__file__).with_name("transcripts").glob("*.txt"))


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=[path.stem for path in TRANSCRIPTS])
def test_transcript(path: Path, pytestconfig: pytest.Config) -> None:
    check(path, partial(replayed, play=Story().play), pytestconfig)


def test_there_are_transcripts() -> None:
    assert len(TRANSCRIPTS) >= 8
