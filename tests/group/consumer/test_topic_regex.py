"""Subscriptions by regular expression. Kafka is asked about the same expressions in tests/interop."""

from __future__ import annotations

import pytest

from kcli.group.consumer.topic_regex import Search, compile_regex
from kcli.group.errors import GroupError
from kcli.protocol.error_code import ErrorCode
from tests.group.consumer.regexes import INVALID, TOPICS, VALID, matching


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
    """A pattern matches whole names, independently of other patterns; one that does not compile matches nothing."""
    assert matching(TOPICS, ["orders", "orders.*", "(", "a|ab"]) == {
        "orders": {"orders"},
        "orders.*": {"orders", "orders-eu", "orders.eu.v1"},
        "(": set(),
        "a|ab": {"a", "ab"},
    }
    assert matching([], ["a"]) == {"a": set()}
    assert matching(iter(TOPICS), []) == {}


def test_no_backtracking() -> None:
    """Python's own engine would need for ever for this expression."""
    name = "a" * 249
    assert matching([name], ["(a*)*b", "(a|aa)+"]) == {"(a*)*b": set(), "(a|aa)+": {name}}


def test_a_slow_pattern_is_matched_in_slices() -> None:
    """Where RE2's automaton does not fit its memory, each name takes milliseconds."""
    names = [f"{'a' * 200}-{i}" for i in range(200)]
    patterns = ["a+-1.", "(a?){500}a{500}", "(", "(.?){1000}"]
    search, slices = Search(names, patterns), 0
    while not search.is_over:
        search.go_on()
        slices += 1
    assert slices > len(names)
    tens = {name for name in names if len(name) == 203 and name[201] == "1"}
    assert search.matched == dict(zip(patterns, (tens, set(), set(), set(names)), strict=True))


def test_what_is_quick_takes_one_slice() -> None:
    search = Search([f"topic-{i}" for i in range(500)], ["topic-.*", "t.*1", "x"])
    search.go_on()
    assert search.is_over
    assert len(search.matched["topic-.*"]) == 500
