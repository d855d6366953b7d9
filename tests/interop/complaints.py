"""Lines of real Kafka's log that do not occur with directories of Kafka's own."""

from __future__ import annotations

import re
from typing import Final

EXPECTED: Final = (
    "Performing controller activation"
    "|Attempting to close NetworkClient that has already been closed"
    "|EventPerformanceMonitor"  # the machine is slow
)
"""Of any node of Kafka's."""


def complaints(log: str, levels: str = "WARN|ERROR|FATAL", also: str = "") -> list[str]:
    """Return the lines of a log with those levels, without those that Kafka always logs and those of `also`; each is a
    pattern."""
    expected = re.compile("|".join(filter(None, (EXPECTED, also))))
    found = re.compile(f" ({levels}) ")
    lines = log.splitlines()
    return [
        line
        for line, following in zip(lines, [*lines[1:], ""], strict=True)
        if found.search(line) and not expected.search(line) and not _is_too_early(line, following)
    ]


def _is_too_early(line: str, following: str) -> bool:
    """Whether a node has sent a request to a controller that was not active yet, or no longer, and sends it again: on a
    slow machine this occurs with any directory."""
    return "Unexpected error handling request RequestHeader(" in line and "NotControllerException" in following
