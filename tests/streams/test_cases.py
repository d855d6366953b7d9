"""Each case of tests/streams/cases, with a small input: what kcli.streams makes of it is what Kafka Streams made.

tests/interop/test_streams_kafka.py asks Kafka Streams itself, with longer inputs, and writes the files *.expected.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.streams.programs import CASES, SAMPLE, answer, cases, question, rendered

FILES = sorted(CASES.glob("*.txt"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_cases_are_what_kafka_streams_made_of_them(path: Path) -> None:
    made = "".join(rendered(case, answer(question(case, *SAMPLE))) for case in cases(path))
    assert made == path.with_suffix(".expected").read_text()


def test_names_of_cases_are_distinct() -> None:
    names = [case.name for path in FILES for case in cases(path)]
    assert sorted(set(names)) == sorted(names)
