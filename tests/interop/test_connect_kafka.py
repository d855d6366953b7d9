"""kcli.connect beside Kafka's converters, transforms and predicates, on random data: equal are the results, and the
classes and messages of errors.

Left out: what Java 17 prints of some floats and doubles in more digits than it needs; later versions do not.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import is_soak
from tests.connect import questions
from tests.connect.questions import ANSWERS, SAMPLE, SETS, answer, differences, stored
from tests.interop.kit import Oracle

ORACLE = Path(questions.__file__).with_name("ConnectOracle.java")
SEEDS = range(100, 300) if is_soak() else range(100, 103)


@pytest.fixture(scope="module")
def oracle(kafka_jars: Path) -> Iterator[Oracle]:
    made = Oracle(kafka_jars, ORACLE, "-Dorg.slf4j.simpleLogger.defaultLogLevel=off")
    yield made
    made.close()


@pytest.mark.kafka
@pytest.mark.parametrize("name", sorted(SETS))
def test_data_becomes_what_kafka_makes_of_it(oracle: Oracle, name: str) -> None:
    for seed in SEEDS:
        for each in questions.questions(name, seed):
            ours = json.loads(json.dumps(answer(each)))
            assert not differences(each, ours, oracle.ask(**each)), f"seed {seed}"


@pytest.mark.kafka
@pytest.mark.parametrize("name", sorted(SETS))
def test_stored_answers_are_kafkas(oracle: Oracle, name: str, pytestconfig: pytest.Config) -> None:
    theirs = [stored(each, oracle.ask(**each)) for each in questions.questions(name, SAMPLE)]
    path = ANSWERS / f"{name}.jsonl"
    if pytestconfig.getoption("--update-transcripts"):
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join(theirs) + "\n")
    assert path.read_text().splitlines() == theirs
