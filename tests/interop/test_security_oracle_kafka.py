"""Decisions of Kafka's own security classes, compared with kcli's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import is_soak
from tests.interop.kit import Oracle
from tests.security import authorizer_cases, jaas_cases, name_cases, oracle, principal_cases

QUESTIONS, SOAK_QUESTIONS = 5_000, 100_000
FIRST_SEED = 1_000
"""Seeds below are recorded."""


@pytest.fixture(scope="module")
def kafka(kafka_jars: Path) -> Iterator[Oracle]:
    started = oracle.start(kafka_jars)
    yield started
    started.close()


@pytest.mark.hypothesis
def test_authorizer(kafka: Oracle) -> None:
    seed, asked = FIRST_SEED, 0
    while asked < (SOAK_QUESTIONS if is_soak() else QUESTIONS):
        case = authorizer_cases.case(seed)
        theirs = kafka.ask(**case)
        assert authorizer_cases.answers(case) == theirs, seed
        seed, asked = seed + 1, asked + len(theirs)
    print(f"{asked:,} accesses decided as Kafka does, in {seed - FIRST_SEED:,} lives")


@pytest.mark.hypothesis
def test_principal_mapping(kafka: Oracle) -> None:
    seeds = range(FIRST_SEED, FIRST_SEED + (20_000 if is_soak() else 1_000))
    mapped = sum(principal_cases.compared(case, kafka.ask(**case)) for case in map(principal_cases.case, seeds))
    assert mapped > 3 * len(seeds)


@pytest.mark.hypothesis
def test_names_of_certificates(kafka: Oracle) -> None:
    is_old = kafka.ask("name", name=name_cases.LATIN) == name_cases.GARBLED
    tags = [name_cases.UTF8] if is_old else name_cases.TAGS
    seeds = range(FIRST_SEED, FIRST_SEED + (50_000 if is_soak() else 3_000))
    cases = (name_cases.case(seed, tags) for seed in seeds)
    assert sum(name_cases.compared(case, kafka.ask(**case)) for case in cases) > 0.8 * len(seeds)


@pytest.mark.hypothesis
def test_jaas(kafka: Oracle) -> None:
    for seed in range(FIRST_SEED, FIRST_SEED + (50_000 if is_soak() else 2_000)):
        case = jaas_cases.case(seed)
        assert jaas_cases.answers(case) == jaas_cases.without_secrets(kafka.ask(**case)), case


@pytest.mark.hypothesis
def test_jaas_files(kafka: Oracle) -> None:
    for seed in range(FIRST_SEED, FIRST_SEED + (50_000 if is_soak() else 1_000)):
        case = jaas_cases.file_case(seed)
        theirs = kafka.ask(**case)
        assert jaas_cases.file_answers(case) == (None if isinstance(theirs, str) else theirs), case


@pytest.mark.parametrize("what", ["authorizer", "principals", "jaas", "jaas_files"])
def test_answers_are_still_kafkas(kafka: Oracle, what: str) -> None:
    question, answer = next(oracle.recorded(what))
    assert kafka.ask(**question) == answer


@pytest.mark.parametrize(
    ("acl_name", "name", "theirs"),
    [
        ("$b", "$abc", "endless"),
        ("$abd", "$abc", "java.lang.StringIndexOutOfBoundsException"),
        ("a", " a", None),
        ("#", "#a", None),
    ],
)
def test_names_that_sort_before_the_wildcard(kafka: Oracle, acl_name: str, name: str, theirs: str | None) -> None:
    """Kafka's search for "*" does not end, or fails, where a name and an ACL's name have the same beginning with a
    character that sorts before "*"."""
    steps = [["add", 1, [3, acl_name, 3, "User:alice", "*", 3, 3]]]
    case = {"configs": {}, "steps": [*steps, ["access", "User:alice", "10.0.0.1", 3, 3, name, True]]}
    ours = authorizer_cases.answers(case)
    assert kafka.ask("authorize", **case) == ([theirs] if theirs else ours)
    assert isinstance(ours[0], str)
    assert ours[0].endswith("based on rule DefaultDeny")
