"""kcli.streams beside Kafka Streams: the same programs with the same input, in Java's TopologyTestDriver.

Equal are the topology's text; the records of all topics, internal ones included, in their order; the stores, in the
order in which they iterate; and what peek and foreach have seen. With RocksDB stores in Kafka, the text and the records
are equal, but for changelogs, which have other headers there; window stores iterate by key, and may keep windows
longer. Windows that are sent when they are closed are compared with RocksDB stores alone (Case.emits_on_close), their
stores sorted. DSL stores have no cache (statestore.cache.max.bytes=0).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import is_soak
from tests.interop import kit
from tests.interop.kit import Oracle
from tests.streams import programs
from tests.streams.programs import CASES, SAMPLE, Case, answer, buffer_changelogs, cases, question, rendered
from tests.streams.random_programs import random_program

POM = Path(__file__).with_name("streams-pom.xml")
JAR = "kafka-streams-test-utils-4.3.0.jar"
ORACLE = Path(programs.__file__).with_name("StreamsOracle.java")
RECORDS = 60
SEEDS = range(20) if is_soak() else range(2)
RANDOM_PROGRAMS = 2000 if is_soak() else 60
FILES = sorted(CASES.glob("*.txt"))


@pytest.fixture(scope="module")
def oracle(kafka_jars: Path) -> Iterator[Oracle]:
    """Kafka Streams, whose jars are fetched once."""
    try:
        jars = kit.more_jars(POM, JAR)
    except kit.KafkaUnavailableError as error:
        pytest.skip(str(error))
    oracle = Oracle(kafka_jars, ORACLE, "-Dorg.slf4j.simpleLogger.defaultLogLevel=off", more_jars=jars)
    yield oracle
    oracle.close()


def asked(oracle: Oracle, case: Case, seed: int, count: int, tmp_path: Path, *, in_memory: bool) -> tuple[Any, Any]:
    """Return what kcli.streams and Kafka Streams make of a case, the stores sorted if Kafka's are not in memory."""
    program = question(case, seed, count)
    theirs = oracle.ask("run", in_memory=in_memory, state_dir=str(tmp_path), **program)
    ours = json.loads(json.dumps(answer(program)))
    for topic in buffer_changelogs(program["steps"]):
        for record in ours["outputs"].get(topic, []):
            record[2] = None  # Kafka Streams leaves the timestamp to the producer
    if not in_memory:
        for made in (ours, theirs):
            made["stores"] = {name: sorted(rows) for name, rows in made["stores"].items()}
    return ours, theirs


@pytest.mark.kafka
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_programs_do_what_kafka_streams_does(oracle: Oracle, path: Path, seed: int, tmp_path: Path) -> None:
    for case in cases(path):
        ours, theirs = asked(oracle, case, seed, RECORDS, tmp_path, in_memory=not case.emits_on_close)
        assert ours == theirs, case.name


@pytest.mark.kafka
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_programs_do_what_kafka_streams_does_with_rocksdb(oracle: Oracle, path: Path, tmp_path: Path) -> None:
    for case in cases(path):
        both = asked(oracle, case, len(SEEDS), RECORDS, tmp_path, in_memory=False)
        for made in both:
            del made["stores"]
            made["outputs"] = {topic: sent for topic, sent in made["outputs"].items() if "-changelog" not in topic}
        assert both[0] == both[1], case.name


@pytest.mark.kafka
def test_random_programs_do_what_kafka_streams_does(oracle: Oracle, tmp_path: Path) -> None:
    for seed in range(RANDOM_PROGRAMS):
        case = random_program(seed)
        ours, theirs = asked(oracle, case, seed, RECORDS, tmp_path, in_memory=True)
        assert ours == theirs, "\n".join([case.name, *case.lines])


@pytest.mark.kafka
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_stored_answers_are_kafka_streams(
    oracle: Oracle, path: Path, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    text = ""
    for case in cases(path):
        theirs = asked(oracle, case, *SAMPLE, tmp_path, in_memory=not case.emits_on_close)[1]
        text += rendered(case, theirs)
    stored = path.with_suffix(".expected")
    if pytestconfig.getoption("--update-transcripts"):
        stored.write_text(text)
    assert stored.read_text() == text
