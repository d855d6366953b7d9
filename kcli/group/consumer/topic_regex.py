"""Subscriptions by regular expression (KIP-848): the syntax of RE2, and time linear in the topic's name.

Kafka runs RE2/J, we run RE2: one syntax, apart from what is refused here. RE2 also refuses nested repetitions that add
up to more than 1,000 times, and `linear_regex` long ones: RE2/J takes those at the cost of its broker.
Source: Utils.throwIfRegularExpressionIsInvalid, TopicRegexResolver.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from kcli.group.errors import ErrorCode, GroupError
from kcli.linear_regex import LinearRegex, PatternError, compile_linear

RE2J_REASONS = {
    "bad repetition operator": "invalid nested repetition operator",
    "invalid character class": "invalid character class",
    "invalid character class range": "invalid character class range",
    "invalid escape sequence": "invalid escape sequence",
    "invalid named capture group": "invalid named capture",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid repetition size": "invalid repeat count",
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "no argument for repetition operator": "missing argument to repetition operator",
    "trailing \\": "trailing backslash at end of expression",
    "unexpected )": "regexp/syntax: internal error",
}
"""RE2's words for what is wrong, and RE2/J's."""

QUOTED_ESCAPED_OR_NAMED = re.compile(r"\\Q.*?(?:\\E|\Z)|\\(.)|\(\?P?<(\w+)>", re.DOTALL)


def compile_regex(pattern: str) -> LinearRegex:
    """Raises GroupError with INVALID_REGULAR_EXPRESSION and Kafka's message."""
    try:
        compiled = compile_linear(pattern)
    except PatternError as error:
        raise _invalid(pattern, RE2J_REASONS.get(str(error), str(error))) from None
    _refuse_what_re2j_refuses(pattern)
    return compiled


def matching(topic_names: Iterable[str], patterns: Iterable[str]) -> dict[str, set[str]]:
    """For each pattern the topics whose whole names it matches; none for one that does not compile."""
    matched: dict[str, set[str]] = {pattern: set() for pattern in patterns}
    compiled: list[LinearRegex] = []
    for pattern in matched:
        try:
            compiled.append(compile_regex(pattern))
        except GroupError:
            continue
    names = list(topic_names)
    for regex in compiled:
        matched[regex.pattern].update(filter(regex.fullmatch, names))
    return matched


def _refuse_what_re2j_refuses(pattern: str) -> None:
    names: set[str] = set()
    for part in QUOTED_ESCAPED_OR_NAMED.finditer(pattern):
        escaped, name = part.groups()
        if escaped == "C":
            raise _invalid(pattern, "invalid escape sequence")
        if name in names:
            raise _invalid(pattern, "duplicate capture group name")
        if name is not None:
            names.add(name)


def _invalid(pattern: str, reason: str) -> GroupError:
    message = f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {reason}."
    return GroupError(ErrorCode.INVALID_REGULAR_EXPRESSION, message)
