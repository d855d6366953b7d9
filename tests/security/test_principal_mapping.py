"""ssl.principal.mapping.rules: Kafka's answers, recorded, and what kcli refuses."""

from __future__ import annotations

import time

import pytest

from kcli.security.principal_mapping import InvalidMappingRule, InvalidReplacement, NoMatchingRule, PrincipalMapping
from tests.security import oracle, principal_cases


def test_answers_of_kafka() -> None:
    assert sum(principal_cases.compared(*each) for each in oracle.recorded("principals")) > 2_000


def test_the_rules_of_kafkas_documentation() -> None:
    mapping = PrincipalMapping(principal_cases.KAFKA_DOCS)
    assert mapping.name("CN=serviceuser,OU=ServiceUsers,O=Unknown,L=Unknown,ST=Unknown,C=Unknown") == "serviceuser"
    assert mapping.name("CN=adminUser,OU=Admin,O=Unknown,L=Unknown,ST=Unknown,C=Unknown") == "adminuser@admin"
    assert mapping.name("O=other") == "O=other"


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("(?=a)", "not supported"),
        ("(?<!a)b", "not supported"),
        (r"(a)\1", r"\\1 is not supported"),
        ("a*+", "possessive"),
        (r"\bCN", r"\\b is not supported"),
        (r"\p{L}", r"\\p is not supported"),
        ("[a[b]]", "classes within classes"),
        ("[a-z&&[^b]]", "classes within classes"),
        ("(a*)*", "may be empty"),
        ("((a)|b*)+", "may be empty"),
        ("a{2", "Illegal repetition"),
        ("(a", "missing"),
        ("a" * 9_000, "9,000 characters"),
        ("((a{1000}){1000}){1000}", "repetition"),
    ],
)
def test_patterns_that_are_refused_at_the_start(pattern: str, reason: str) -> None:
    with pytest.raises(InvalidMappingRule, match=reason):
        PrincipalMapping(f"DEFAULT,RULE:{pattern}/x/")


@pytest.mark.parametrize("replacement", ["$2", "${who}", "$", "$x", "$9999999999"])
def test_replacements_that_are_refused_at_the_start(replacement: str) -> None:
    """Kafka starts with such rules, and fails whenever the pattern matches."""
    with pytest.raises(InvalidReplacement, match=r"ssl\.principal\.mapping\.rules"):
        PrincipalMapping(f"RULE:.*/{replacement}/")


def test_line_breaks_match_no_pattern() -> None:
    with pytest.raises(NoMatchingRule):
        PrincipalMapping("RULE:CN=(.*)$/$1/").name("CN=admin\n")
    assert PrincipalMapping("RULE:CN=(.*)$/$1/,DEFAULT").name("CN=admin\n") == "CN=admin\n"


def test_a_hostile_subject_takes_no_time() -> None:
    """Java's engine takes hours for this subject and six wildcards, as in a rule of Kafka's documentation."""
    mapping = PrincipalMapping(principal_cases.KAFKA_DOCS)
    began = time.process_time()
    mapping.name("CN=a" + ",OU=,O=,L=,ST=" * 5_000)
    assert time.process_time() - began < 20
