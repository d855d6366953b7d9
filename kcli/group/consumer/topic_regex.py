"""Subscriptions by regular expression (KIP-848): the syntax of RE2, and time linear in the topic's name.

Kafka runs RE2/J, we run RE2: one syntax, apart from what is refused here. RE2 also refuses nested repetitions that add
up to more than 1,000 times, and `linear_regex` long ones: RE2/J takes those at the cost of its broker.
Source: Utils.throwIfRegularExpressionIsInvalid, TopicRegexResolver.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from kcli.group.errors import ErrorCode, GroupError
from kcli.linear_regex import LinearRegex, PatternError, compile_linear, matches_at_once

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

COMPILED_AT_ONCE = 10_000
"""Instructions that are compiled in some milliseconds."""

QUOTED_ESCAPED_OR_NAMED = re.compile(r"\\Q.*?(?:\\E|\Z)|\\(.)|\(\?P?<(\w+)>", re.DOTALL)


def compile_regex(pattern: str) -> LinearRegex:
    """Raises GroupError with INVALID_REGULAR_EXPRESSION and Kafka's message."""
    try:
        compiled = compile_linear(pattern)
    except PatternError as error:
        raise _invalid(pattern, RE2J_REASONS.get(str(error), str(error))) from None
    _refuse_what_re2j_refuses(pattern)
    return compiled


class Search:
    """For each of some patterns the topics whose whole names it matches; none for one that does not compile.

    It goes in slices of a few milliseconds, or of one pattern's compilation.
    """

    def __init__(self, topic_names: Iterable[str], patterns: Iterable[str]) -> None:
        self.matched: dict[str, set[str]] = {pattern: set() for pattern in patterns}
        self._names = list(topic_names)
        self._slices = self._all()
        self.is_over = False

    def go_on(self) -> None:
        """The next slice. is_over: there is none behind it."""
        self.is_over = next(self._slices, None) is None

    def _all(self) -> Iterator[int]:
        """Yields before each slice but the first what there is left to do."""
        names, longest = self._names, max(map(len, self._names), default=0)
        room = 1.0  # of this slice
        for left, pattern in zip(range(len(self.matched), 0, -1), self.matched, strict=True):
            if room <= 0:
                yield left
                room = 1.0
            try:
                regex = compile_regex(pattern)
            except GroupError:
                room -= len(pattern) / COMPILED_AT_ONCE
                continue
            room -= regex.programsize / COMPILED_AT_ONCE
            at_once, position = matches_at_once(regex, longest), 0
            while position < len(names):
                if room <= 0:
                    yield left
                    room = 1.0
                count = min(max(1, int(at_once * room)), len(names) - position)
                self.matched[pattern].update(filter(regex.fullmatch, names[position : position + count]))
                position += count
                room -= count / at_once


def matching(topic_names: Iterable[str], patterns: Iterable[str]) -> dict[str, set[str]]:
    """What a search finds, at once."""
    search = Search(topic_names, patterns)
    while not search.is_over:
        search.go_on()
    return search.matched


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
