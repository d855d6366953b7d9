"""Matching of topic names by regular expression (KIP-848): RE2's syntax, in time linear in the length of the name.

Kafka uses RE2/J, kcli uses RE2. `compile_regex` refuses expressions whose syntax RE2 has and RE2/J has not. Two
kinds of expressions that RE2/J accepts are refused here, as they cost the broker time and memory: RE2 refuses nested
repetitions of more than 1,000 in total, `kcli.java.linear_regex` refuses long expressions. Source:
Utils.throwIfRegularExpressionIsInvalid, TopicRegexResolver.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator

from kcli.group.errors import GroupError
from kcli.java.linear_regex import LinearRegex, PatternError, compile_linear, matches_at_once
from kcli.protocol.error_code import ErrorCode

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
"""RE2's error message -> RE2/J's for the same error."""

COMPILED_AT_ONCE = 10_000
"""The largest number of program instructions that RE2 compiles in one slice; so many take some milliseconds."""

AUTHORIZED_AT_ONCE = 500
"""The largest number of topics that are authorized in one slice; so many take an authorizer with many ACLs some
milliseconds."""

QUOTED_ESCAPED_OR_NAMED = re.compile(r"\\Q.*?(?:\\E|\Z)|\\(.)|\(\?P?<(\w+)>", re.DOTALL)


def compile_regex(pattern: str) -> LinearRegex:
    """Compile a regular expression. Raises GroupError INVALID_REGULAR_EXPRESSION, with Kafka's message."""
    try:
        compiled = compile_linear(pattern)
    except PatternError as error:
        raise _invalid(pattern, RE2J_REASONS.get(str(error), str(error))) from None
    _refuse_what_re2j_refuses(pattern)
    return compiled


class Search:
    """A search for the topics whose whole names match each pattern; a pattern that does not compile matches none.

    It runs in slices of a few milliseconds, or of one pattern's compilation if that takes longer. describable: the
    topics that may be found, None for all of them. matched: topics by pattern. is_over: whether all slices have run.
    """

    def __init__(
        self, topic_names: Iterable[str], patterns: Iterable[str], describable: Container[str] | None = None
    ) -> None:
        self.matched: dict[str, set[str]] = {pattern: set() for pattern in patterns}
        self._names = list(topic_names)
        self._describable = describable
        self._slices = self._all()
        self.is_over = False

    def go_on(self) -> None:
        """Run the next slice, and set `is_over` after the last."""
        self.is_over = next(self._slices, None) is None

    def _all(self) -> Iterator[int]:
        """Run the search as a generator, which yields after each slice but the last. It yields the number of patterns
        that are not done yet."""
        names, longest = self._names, max(map(len, self._names), default=0)
        room = 1.0  # the fraction of this slice that is left, from 1 to 0
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
            if self._describable is not None:
                at_once = min(at_once, AUTHORIZED_AT_ONCE)
            while position < len(names):
                if room <= 0:
                    yield left
                    room = 1.0
                count = min(max(1, int(at_once * room)), len(names) - position)
                found = filter(regex.fullmatch, names[position : position + count])
                if self._describable is not None:
                    found = filter(self._describable.__contains__, found)
                self.matched[pattern].update(found)
                position += count
                room -= count / at_once


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
