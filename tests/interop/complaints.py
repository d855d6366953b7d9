"""What real Kafka's log says that it does not say of directories of its own."""

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
    """The lines of a log at those levels, but for what Kafka says wherever it runs, and `also`; a pattern each."""
    expected = re.compile("|".join(filter(None, (EXPECTED, also))))
    found = re.compile(f" ({levels}) ")
    return [line for line in log.splitlines() if found.search(line) and not expected.search(line)]
