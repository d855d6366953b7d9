"""Findings that follow from others: the cause is told, and counts what follows from it.

    causes = Causes()
    causes.add(finding, lambda other: ...)    a cause, and which findings follow from it
    causes.settle(findings)                   the causes and what follows from none of them, in order

A cause may itself follow from one that was added before it: what follows from it then counts for that one. Each finding
counts for the first cause that takes it. Offsets that are lost by what follows are lost by the cause.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from kcli.inspector.verify.findings import Finding, offsets_text

Takes = Callable[[Finding], bool]


@dataclass(slots=True)
class _Cause:
    finding: Finding
    takes: list[Takes]
    counted: Counter[str] = field(default_factory=Counter)

    def take(self, other: Finding) -> None:
        self.counted[other.kind] += 1
        self.counted.update(other.consequences)
        first, last = other.lost_first_offset, other.lost_last_offset
        if first is not None and self.finding.lost_first_offset is None and self.finding.lost_last_offset is None:
            found = f"{self.finding.found}; {offsets_text(first, last)} lost"
            self.finding = replace(self.finding, found=found, lost_first_offset=first, lost_last_offset=last)


class Causes:
    """The causes of one partition, or of one log directory."""

    def __init__(self) -> None:
        self._causes: list[_Cause] = []

    def __bool__(self) -> bool:
        return bool(self._causes)

    def add(self, cause: Finding, takes: Takes) -> None:
        """A finding from which those follow for which `takes` is true."""
        earlier = self._taker(cause)
        if earlier is None:
            self._causes.append(_Cause(cause, [takes], Counter(cause.consequences)))
        else:
            earlier.take(cause)
            earlier.takes.append(takes)

    def takes(self, finding: Finding) -> bool:
        """Count the finding where it follows from a cause. Notes never do: they are true whatever the cause."""
        cause = self._taker(finding)
        if cause is not None:
            cause.take(finding)
        return cause is not None

    def _taker(self, finding: Finding) -> _Cause | None:
        if finding.severity == "info":
            return None
        return next((each for each in self._causes if any(takes(finding) for takes in each.takes)), None)

    def settle(self, findings: Iterable[Finding]) -> list[Finding]:
        """The causes, then the findings that follow from none."""
        alone = [finding for finding in findings if not self.takes(finding)]
        causes = [replace(cause.finding, consequences=dict(cause.counted)) for cause in self._causes]
        return causes + alone
