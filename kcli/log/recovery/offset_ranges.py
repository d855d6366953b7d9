"""The offsets that the batches of a log have, as ranges, so that an offset in two batches counts once."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator

RANGES_MAX = 1 << 16
"""The maximum number of ranges that are kept. If a log has more gaps, as after compaction, the further gaps count as if
batches had these offsets."""


class OffsetRanges:
    """Ranges of offsets, in order; adjacent ranges are joined. To add a range after all others takes constant time.
    ranges: the first ranges to add, as (first, last), both inclusive."""

    def __init__(self, ranges: Iterable[tuple[int, int]] = ()) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        for first, last in ranges:
            self.add(first, last)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """The ranges as (first, last), both inclusive, in order."""
        return zip(self._firsts, self._lasts, strict=True)

    def has(self, offset: int) -> bool:
        """Return whether the offset has been added."""
        at = bisect_right(self._firsts, offset) - 1
        return at >= 0 and offset <= self._lasts[at]

    def add(self, first: int, last: int) -> bool:
        """Add the offsets `first` to `last`, both inclusive. Returns whether at least one of them was new."""
        firsts, lasts = self._firsts, self._lasts
        if not lasts or first > lasts[-1]:
            if lasts and (first == lasts[-1] + 1 or len(lasts) >= RANGES_MAX):
                lasts[-1] = last
            else:
                firsts.append(first)
                lasts.append(last)
            return True
        at = bisect_right(firsts, first) - 1
        if at >= 0 and last <= lasts[at]:
            return False
        begin = at if at >= 0 and lasts[at] >= first - 1 else at + 1
        end = bisect_right(firsts, last + 1)
        if begin < end:
            first, last = min(first, firsts[begin]), max(last, lasts[end - 1])
        firsts[begin:end], lasts[begin:end] = [first], [last]
        return True

    def lacking(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """Yield, as (first, last), the ranges of offsets from `first` to `last` that have not been added; all
        inclusive."""
        for number in range(max(0, bisect_right(self._firsts, first) - 1), len(self._firsts)):
            if self._firsts[number] > last:
                break
            if first < self._firsts[number]:
                yield first, self._firsts[number] - 1
            first = max(first, self._lasts[number] + 1)
        if first <= last:
            yield first, last
