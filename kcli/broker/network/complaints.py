"""Limits the warnings that clients cause: at most one log line for each kind of warning in COMPLAINT_S seconds.

The kind of a warning consists of what is refused, the listener, and the reason. The first warning of a kind is logged
at once; later ones are counted, and logged as one line when COMPLAINT_S seconds are over, or when the server stops,
with their number and the detail of the last one (such as the client's address). A reason may contain text that a client
chooses (the subject of its certificate); therefore at most KINDS_MAX kinds are counted separately, and all further
reasons share one line.
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
    """The warnings of one server. now_s: a function that returns the time of a monotonic clock, in seconds."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._kinds: dict[tuple[str, str], _Kind] = {}

    def add(self, what: str, kind: str, detail: str = "") -> None:
        """Log `what: kind`, followed by `detail`; or only count the warning if one with the same `what` and `kind` was
        logged less than COMPLAINT_S ago. what: what is refused. kind: the reason, with the listener if that belongs to
        the kind. detail: what may differ between warnings of one kind, such as the client's address."""
        key, counts = (what, kind), "since the last such line"
        if key not in self._kinds and len(self._kinds) >= KINDS_MAX:
            key, counts = (what, ""), "for this and other reasons since the last such line"
        found = self._kinds.setdefault(key, _Kind(counts))
        found.line = f"{what}: {kind}{detail}"
        found.count += 1
        if self._now_s() - found.logged_at_s >= COMPLAINT_S:
            self._log(found)

    def report(self, *, at_end: bool = False) -> None:
        """Log the counted warnings of each kind whose last line is COMPLAINT_S old, and forget the kinds that had no
        warning since their last line. Called every few seconds. at_end: log all kinds, however old their last lines
        are."""
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
