"""Subscriptions by regular expression. Kafka is asked about the same expressions in tests/interop."""

from __future__ import annotations

import pytest

from kcli.group.consumer.topic_regex import compile_regex, matching
from kcli.group.errors import ErrorCode, GroupError
from tests.group.consumer.regexes import INVALID, TOPICS, VALID


@pytest.mark.parametrize("pattern", VALID)
def test_valid(pattern: str) -> None:
    assert compile_regex(pattern).pattern == pattern


@pytest.mark.parametrize("pattern", INVALID)
def test_invalid(pattern: str) -> None:
    with pytest.raises(GroupError) as refused:
        compile_regex(pattern)
    assert refused.value.code == ErrorCode.INVALID_REGULAR_EXPRESSION
    expected = f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {INVALID[pattern]}."
    assert refused.value.message == expected


def test_matching() -> None:
    """Whole names, every pattern for itself; what does not compile matches nothing."""
    assert matching(TOPICS, ["orders", "orders.*", "(", "a|ab"]) == {
        "orders": {"orders"},
        "orders.*": {"orders", "orders-eu", "orders.eu.v1"},
        "(": set(),
        "a|ab": {"a", "ab"},
    }
    assert matching([], ["a"]) == {"a": set()}
    assert matching(iter(TOPICS), []) == {}


def test_no_backtracking() -> None:
    """An expression that would take Python's own engine for ever."""
    name = "a" * 249
    assert matching([name], ["(a*)*b", "(a|aa)+"]) == {"(a*)*b": set(), "(a|aa)+": {name}}
