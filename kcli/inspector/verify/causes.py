"""Findings that are consequences of other findings: only the cause is reported, with the number of its consequences.

    causes = Causes()
    causes.add(finding, lambda other: ...)    adds a cause, and a predicate for its consequences
    causes.settle(findings)                   returns the causes, then the findings without a cause, in order

A cause may be a consequence of a cause added before it, which then counts the consequences of both. Each finding counts
for the first cause whose predicate is true. If a cause in one partition has no lost offsets, it gets those of the first
of its consequences that has lost offsets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from kcli.inspector.verify.findings import Finding, offsets_text

Takes = Callable[[Finding], bool]


@dataclass(slots=True)
class _Cause:
    finding: Finding | None
    takes: list[Takes]
    is_of_many: bool
    counted: Counter[str] = field(default_factory=Counter)

    def take(self, other: Finding) -> None:
        self.counted[other.kind] += 1
        self.counted.update(other.consequences)
        if self.is_of_many or self.finding is None:  # a finding can have the lost offsets of one partition only
            return
        first, last = other.lost_first_offset, other.lost_last_offset
        if first is not None and self.finding.lost_first_offset is None and self.finding.lost_last_offset is None:
            found = f"{self.finding.found}; {offsets_text(first, last)} lost"
            self.finding = replace(self.finding, found=found, lost_first_offset=first, lost_last_offset=last)


class Causes:
    """The causes of findings in one partition, or in one log directory. tell: a function that is called with each
    consequence."""

    def __init__(self, tell: Callable[[Finding], None] = lambda _: None) -> None:
        self._tell = tell
        self._causes: list[_Cause] = []

    def __bool__(self) -> bool:
        return bool(self._causes)

    def add(self, cause: Finding, takes: Takes, *, is_of_many: bool = False) -> None:
        """Add a cause. takes: returns whether another finding is a consequence of the cause. is_of_many: whether its
        consequences are in several partitions."""
        earlier = self._taker(cause)
        if earlier is None:
            self._causes.append(_Cause(cause, [takes], is_of_many, Counter(cause.consequences)))
        else:
            self._tell(cause)
            earlier.take(cause)
            earlier.takes.append(takes)

    def leave_out(self, takes: Takes) -> None:
        """Leave out the consequences of a cause that is a finding in another log directory. takes: see `add`."""
        self._causes.append(_Cause(None, [takes], is_of_many=True))

    def takes(self, finding: Finding) -> bool:
        """Return whether the finding is a consequence of one of the causes; if so, count it for that cause. A finding
        of severity "info" is never a consequence."""
        cause = self._taker(finding)
        if cause is not None:
            self._tell(finding)
            cause.take(finding)
        return cause is not None

    def _taker(self, finding: Finding) -> _Cause | None:
        if finding.severity == "info":
            return None
        return next((each for each in self._causes if any(takes(finding) for takes in each.takes)), None)

    def settle(self, findings: Iterable[Finding]) -> list[Finding]:
        """Return the causes, with their numbers of consequences, then the findings without a cause."""
        alone = [finding for finding in findings if not self.takes(finding)]
        causes = [replace(cause.finding, consequences=dict(cause.counted)) for cause in self._causes if cause.finding]
        return causes + alone
