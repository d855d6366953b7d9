"""Findings that follow from others: the cause is told, and counts what follows from it.

    causes = Causes()
    causes.add(finding, lambda other: ...)    a cause, and which findings follow from it
    causes.settle(findings)                   the causes and what follows from none of them, in order

A cause may itself follow from one that was added before it. Each finding counts for the first cause that takes it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace

from kcli.inspector.verify.findings import Finding

Takes = Callable[[Finding], bool]


class Causes:
    """The causes of one partition, or of one log directory."""

    def __init__(self) -> None:
        self._causes: list[tuple[Finding, Takes, Counter[str]]] = []

    def __bool__(self) -> bool:
        return bool(self._causes)

    def add(self, cause: Finding, takes: Takes) -> None:
        """A finding from which those follow for which `takes` is true."""
        if not self.takes(cause):
            self._causes.append((cause, takes, Counter(cause.consequences)))

    def takes(self, finding: Finding) -> bool:
        """Count the finding where it follows from a cause. Notes never do: they are true whatever the cause."""
        if finding.severity == "info":
            return False
        for _, takes, counted in self._causes:
            if takes(finding):
                counted[finding.kind] += 1
                for kind, number in finding.consequences.items():
                    counted[kind] += number
                return True
        return False

    def settle(self, findings: Iterable[Finding]) -> list[Finding]:
        """The causes, then the findings that follow from none."""
        alone = [finding for finding in findings if not self.takes(finding)]
        causes = [replace(cause, consequences=dict(counted)) for cause, _, counted in self._causes]
        return causes + alone
