"""Warnings about what clients do, which come as often as clients do it: one line for each kind in COMPLAINT_S seconds.

A line has the last detail (such as a client's address) and counts how often its kind has come since the kind's last
line; those that come after the kind's last line are told once COMPLAINT_S seconds are over, or at the end. A kind is
what is refused, at which listener, and the reason. Reasons may hold a client's text (the subject of its certificate):
KINDS_MAX kinds are told apart at a time, the others have one line together.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

COMPLAINT_S: Final = 30.0
KINDS_MAX: Final = 100

log = logging.getLogger("kcli.broker")


@dataclass(slots=True)
class _Kind:
    counts: str
    line: str = ""
    logged_at_s: float = -math.inf
    count: int = 0


class Complaints:
    """The warnings of one server. now_s: a monotonic clock, in seconds."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._kinds: dict[tuple[str, str], _Kind] = {}

    def add(self, what: str, kind: str, detail: str = "") -> None:
        """Log `what: kind, detail`, or count it until the kind is due again."""
        key, counts = (what, kind), "since the last such line"
        if key not in self._kinds and len(self._kinds) >= KINDS_MAX:
            key, counts = (what, ""), "for this and other reasons since the last such line"
        found = self._kinds.setdefault(key, _Kind(counts))
        found.line = f"{what}: {kind}{detail}"
        found.count += 1
        if self._now_s() - found.logged_at_s >= COMPLAINT_S:
            self._log(found)

    def report(self, *, at_end: bool = False) -> None:
        """Log what has been counted, of the kinds that are due again, and forget kinds that have not come since their
        last line. Called every few seconds. at_end: of all kinds."""
        for key, kind in list(self._kinds.items()):
            if not at_end and self._now_s() - kind.logged_at_s < COMPLAINT_S:
                continue
            if kind.count:
                self._log(kind)
            else:
                del self._kinds[key]

    def _log(self, kind: _Kind) -> None:
        log.warning("%s (%d %s)", kind.line, kind.count, kind.counts)
        kind.logged_at_s, kind.count = self._now_s(), 0
