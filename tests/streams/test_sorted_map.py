"""SortedMap beside a dict that is sorted when it is read."""

from __future__ import annotations

import random

import pytest

from kcli.streams.topology.stores.sorted_map import SortedMap


@pytest.mark.parametrize("seed", range(20))
def test_a_map_is_in_the_order_of_its_keys(seed: int) -> None:
    chance = random.Random(seed)
    found: SortedMap[int, int] = SortedMap()
    wanted: dict[int, int] = {}
    for step in range(600):
        key = chance.randrange(chance.choice((8, 400)))
        match chance.choices(("put", "pop", "range", "drop", "first"), (60, 30, 3, 1, 1))[0]:
            case "put":
                found.put(key, step)
                wanted[key] = step
            case "pop":
                assert found.pop(key) == wanted.pop(key, None)
            case "range":
                first, last = sorted((key, chance.randrange(400)))
                rows = [(each, wanted[each]) for each in sorted(wanted) if first <= each <= last]
                assert list(found.range(first, last)) == rows
                assert list(found.range(first, last, reverse=True)) == rows[::-1]
            case "drop":
                found.drop_below(key // 4)
                wanted = {each: value for each, value in wanted.items() if each >= key // 4}
            case "first" if wanted:
                assert found.first() == min(wanted.items())
        assert len(found) == len(wanted)
        assert found.get(key) == wanted.get(key)
    assert list(found.range()) == sorted(wanted.items())


def test_a_key_that_comes_and_goes_is_not_kept() -> None:
    found: SortedMap[int, int] = SortedMap()
    for _ in range(10_000):
        found.put(1, 1)
        found.pop(1)
    assert len(found._new) < 100
