"""Regular expressions that clients send: RE2's syntax, and bounds on what compiling and matching may cost.

RE2 matches in linear time, but a program of many instructions is slow on every character, and RE2's parser unrolls
repetitions and the classes of Unicode before it checks its memory limit. So kcli bounds a pattern before RE2 parses it.
Measured: no pattern within the bounds takes more than 0.15 s to compile, or 10 ms to match a topic's name.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, Protocol

LENGTH_MAX: Final = 8192
"""The maximum length of a pattern, in characters."""
REPEATED_LENGTH_MAX: Final = 1024
"""The maximum length, in characters, of a pattern with a counted repetition `{n}`, which may repeat each character a
thousand times."""
UNICODE_CLASSES_MAX: Final = 64
"""The maximum number of Unicode classes (`\\pL`) in a pattern: each one stands for several hundred ranges."""
MEMORY_BYTES_MAX: Final = 1 << 20
"""The maximum memory, in bytes, of a compiled pattern and of the automaton that RE2 builds while it matches."""


WORK_AT_ONCE: Final = 1_000_000
"""The maximum work of matching in one turn of the event loop, in instructions of the program times characters of the
text. It takes a few milliseconds, even if the automaton does not fit into its memory."""
CALL_WORK: Final = 300
"""The work of each match that does not depend on its text, in the unit of WORK_AT_ONCE."""


class PatternError(ValueError):
    """An invalid pattern; the text says why, in RE2's words."""


class LinearRegex(Protocol):
    """A compiled pattern."""

    @property
    def pattern(self) -> str: ...

    @property
    def programsize(self) -> int: ...

    def fullmatch(self, text: str) -> object | None: ...


def matches_at_once(regex: LinearRegex, longest: int) -> int:
    """Return how many texts of up to `longest` characters may be matched in one turn of the event loop, at least 1."""
    return max(1, WORK_AT_ONCE // (regex.programsize * longest + CALL_WORK))


@lru_cache(32)
def compile_linear(pattern: str) -> LinearRegex:
    """Return the compiled pattern, without capturing groups. Raises PatternError."""
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
