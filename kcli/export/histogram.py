"""A histogram of records and bytes by timestamp: at most 256 buckets, whose width grows with the span of time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

BUCKETS = 256
FIRST_WIDTH_MS = 1


@dataclass(slots=True)
class Histogram:
    """Records and bytes by timestamp. buckets: number (time_ms // width_ms) -> [records, bytes].

    The width is a power of two, in ms, so that two histograms can be merged exactly.
    """

    width_ms: int = FIRST_WIDTH_MS
    buckets: dict[int, list[int]] = field(default_factory=dict)

    def add(self, times_ms: Any, sizes: Any) -> None:
        """Count records, given by two int64 arrays of one length: timestamps in ms and sizes in bytes."""
        if len(times_ms) == 0:
            return
        self._fit(int(times_ms.min()), int(times_ms.max()))
        numbers = np.floor_divide(times_ms, self.width_ms)
        low = int(numbers.min())
        records = np.bincount(numbers - low)
        weights = np.bincount(numbers - low, weights=sizes)
        for at in np.flatnonzero(records).tolist():
            self._count(low + at, int(records[at]), int(weights[at]))

    def merge(self, other: Histogram) -> None:
        """Add the counts of another histogram, which is not changed."""
        while other.width_ms < self.width_ms:
            other = other.coarser()
        while self.width_ms < other.width_ms:
            self._coarsen()
        if other.buckets:
            self._fit(min(other.buckets) * other.width_ms, (max(other.buckets) + 1) * other.width_ms - 1)
            while other.width_ms < self.width_ms:
                other = other.coarser()
        for number, (records, size) in other.buckets.items():
            self._count(number, records, size)

    def coarser(self) -> Histogram:
        """Return this histogram with buckets twice as wide."""
        wider = Histogram(self.width_ms * 2)
        for number, (records, size) in self.buckets.items():
            wider._count(number // 2, records, size)
        return wider

    def _coarsen(self) -> None:
        wider = self.coarser()
        self.width_ms, self.buckets = wider.width_ms, wider.buckets

    def _fit(self, low_ms: int, high_ms: int) -> None:
        """Widen the buckets until at most BUCKETS of them cover both the buckets in use and the times low_ms to
        high_ms."""
        while True:
            first = min([low_ms // self.width_ms, *self.buckets])
            last = max([high_ms // self.width_ms, *self.buckets])
            if last - first < BUCKETS:
                return
            self._coarsen()

    def _count(self, number: int, records: int, size: int) -> None:
        known = self.buckets.setdefault(number, [0, 0])
        known[0] += records
        known[1] += size

    def series(self, points: int) -> tuple[int, int, list[tuple[int, int]]]:
        """Return (first, last, spans) of the records: the ms at which the lowest bucket begins and the highest one
        ends, and (records, bytes) for each of the equal spans of time between these. 0, 0 and [] without records.

        points: the maximum number of spans; buckets are joined until there are no more than that.
        """
        if not self.buckets:
            return 0, 0, []
        shown = self
        while max(shown.buckets) - min(shown.buckets) >= points:
            shown = shown.coarser()
        first, last = min(shown.buckets), max(shown.buckets)
        none = [0, 0]
        found = [tuple(shown.buckets.get(number, none)) for number in range(first, last + 1)]
        return (
            first * shown.width_ms,
            (last + 1) * shown.width_ms - 1,
            [(records, size) for records, size in found],
        )
