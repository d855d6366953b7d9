"""The transcripts of a quorum (tests/raft/transcripts/*.txt) are what tests/raft/story.py prints."""

from functools import partial
from pathlib import Path

import pytest

from tests.raft.story import Quorum
from tests.transcript import check, replayed

TRANSCRIPTS = sorted(Path(__file__).with_name("transcripts").glob("*.txt"))


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=[path.stem for path in TRANSCRIPTS])
def test_transcript(path: Path, pytestconfig: pytest.Config) -> None:
    check(path, partial(replayed, play=Quorum().play), pytestconfig)


def test_there_are_transcripts() -> None:
    assert len(TRANSCRIPTS) >= 8
