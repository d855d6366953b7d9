"""What kcli.connect makes of data is what Kafka's own classes made of it, as the folder answers has it.

tests/interop/test_connect_kafka.py asks Kafka itself, with more data, and writes the answers.
"""

from __future__ import annotations

import json

import pytest

from tests.connect.questions import ANSWERS, SAMPLE, SETS, answer, differences, questions, stored


@pytest.mark.parametrize("name", sorted(SETS))
def test_answers_are_kafkas(name: str) -> None:
    answers = (ANSWERS / f"{name}.jsonl").read_text().splitlines()
    asked = questions(name, SAMPLE)
    assert len(asked) == len(answers)
    for each, theirs in zip(asked, answers, strict=True):
        ours = json.loads(stored(each, json.loads(json.dumps(answer(each)))))
        assert not differences(each, ours, json.loads(theirs))
