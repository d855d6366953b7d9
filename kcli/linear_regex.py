"""Regular expressions that clients send: RE2's syntax, and bounds on what compiling and matching may cost.

RE2 matches in linear time, but a program of many instructions is slow on every character, and the parser unrolls
repetitions and the classes of Unicode before it looks at its memory: so a pattern is bounded before RE2 sees it.
Measured: no pattern within the bounds takes more than 0.15 s to compile, or 10 ms to match a topic's name.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, Protocol

LENGTH_MAX: Final = 8192
"""Characters of a pattern."""
REPEATED_LENGTH_MAX: Final = 1024
"""Characters of a pattern with a counted repetition, `{n}`: each character may stand for a thousand."""
UNICODE_CLASSES_MAX: Final = 64
"""Classes such as `\\pL`, of several hundred ranges each."""
MEMORY_BYTES_MAX: Final = 1 << 20
"""Of the compiled program, and of the automaton that is built while it matches."""


WORK_AT_ONCE: Final = 1_000_000
"""Instructions times characters that are a few milliseconds' work where the automaton does not fit its memory."""
CALL_WORK: Final = 300
"""What each match costs beside that."""


class PatternError(ValueError):
    """A pattern that is none; its text says why, in RE2's words."""


class LinearRegex(Protocol):
    """A compiled pattern."""

    @property
    def pattern(self) -> str: ...

    @property
    def programsize(self) -> int: ...

    def fullmatch(self, text: str) -> object | None: ...


def matches_at_once(regex: LinearRegex, longest: int) -> int:
    """How many texts of up to `longest` characters may be matched before others are to have their turn."""
    return max(1, WORK_AT_ONCE // (regex.programsize * longest + CALL_WORK))


@lru_cache(32)
def compile_linear(pattern: str) -> LinearRegex:
    """The pattern, compiled; it captures nothing. Raises PatternError."""
    most = REPEATED_LENGTH_MAX if "{" in pattern else LENGTH_MAX
    if len(pattern) > most:
        raise PatternError(f"{len(pattern):,} characters, {most:,} are allowed")
    if pattern.count("\\p") + pattern.count("\\P") > UNICODE_CLASSES_MAX:
        raise PatternError(f"more than {UNICODE_CLASSES_MAX} Unicode classes")
    import re2

    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    options.max_mem = MEMORY_BYTES_MAX
    try:
        compiled: LinearRegex = re2.compile(pattern, options)
    except re2.error as error:
        raise PatternError(str(error.args[0], "utf-8", "replace").split(": ", 1)[0]) from None
    return compiled
