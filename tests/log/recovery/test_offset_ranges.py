"""Offsets that two batches have count once."""

from __future__ import annotations

from random import Random

import pytest

from kcli.log.recovery import offset_ranges
from kcli.log.recovery.offset_ranges import OffsetRanges


@pytest.mark.parametrize("seed", range(20))
def test_ranges_are_as_a_set(seed: int) -> None:
    random, ranges, known = Random(seed), OffsetRanges(), set[int]()
    for _ in range(300):
        first = random.randrange(400)
        added = set(range(first, first + random.randrange(1, 12)))
        assert ranges.add(first, max(added)) == bool(added - known)
        known |= added


def test_the_number_of_ranges_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offset_ranges, "RANGES_MAX", 4)
    ranges = OffsetRanges()
    assert all(ranges.add(offset, offset) for offset in range(0, 100, 2))
    assert not ranges.add(98, 98)
    assert ranges.add(1, 1)
