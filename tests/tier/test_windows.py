"""An object read in windows: whatever is read in whatever order, the bytes are right and few are in memory."""

from __future__ import annotations

import itertools
from concurrent.futures import Future
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.errors import UnreadableInput
from kcli.tier import windows
from kcli.tier.windows import WindowedSource

DATA = bytes(i * 7 % 251 for i in range(1000))
FIRST, MAX, TAIL = 8, 64, 5


class Remote:
    """What fetches DATA. ranges: those that were fetched."""

    def __init__(self, size: int) -> None:
        self.data = DATA[:size]
        self.ranges: list[tuple[int, int]] = []
        self.broken_from = size

    def source(self) -> WindowedSource:
        return WindowedSource(
            "x", len(self.data), memoryview(self.data)[:FIRST], self.fetch, lambda each: each.result()
        )

    def fetch(self, start: int, stop: int) -> Future[memoryview]:
        self.ranges.append((start, stop))
        future: Future[memoryview] = Future()
        if stop > self.broken_from:
            future.set_exception(UnreadableInput("x", "gone"))
        else:
            future.set_result(memoryview(self.data)[start:stop])
        return future


@given(st.integers(0, 1000), st.lists(st.tuples(st.integers(0, 1010), st.integers(0, 300)), max_size=30))
def test_any_order(size: int, reads: list[tuple[int, int]]) -> None:
    with mock.patch.multiple(windows, FIRST_BYTES=FIRST, WINDOW_BYTES_MAX=MAX, TAIL_BYTES=TAIL):
        remote = Remote(size)
        source = remote.source()
        assert source.size() == size
        for position, length in reads:
            buffer = bytearray(length)
            got = source.read_at(position, memoryview(buffer))
            assert buffer[:got] == remote.data[position : position + length]
            assert got == len(remote.data[position : position + length])
        assert all(0 <= start < stop <= size and stop - start <= MAX for start, stop in remote.ranges)
        source.close()


@pytest.mark.parametrize("step", [1, 5, 8, 100, 1000])
def test_in_order_each_byte_once(step: int) -> None:
    with mock.patch.multiple(windows, FIRST_BYTES=FIRST, WINDOW_BYTES_MAX=MAX, TAIL_BYTES=TAIL):
        remote = Remote(1000)
        source = remote.source()
        for position in range(0, 1000, step):
            source.read_at(position, memoryview(bytearray(step)))
        ends = [FIRST, *(stop for _, stop in remote.ranges)]
        assert [start for start, _ in remote.ranges] == ends[:-1]
        assert ends[-1] == 1000
        assert [stop - start for start, stop in remote.ranges][:5] == [16, 32, 64, 64, 64]


def test_a_jump_fetches_little() -> None:
    with mock.patch.multiple(windows, FIRST_BYTES=FIRST, WINDOW_BYTES_MAX=MAX, TAIL_BYTES=TAIL):
        remote = Remote(1000)
        source = remote.source()
        for position in (900, 500, 3):
            source.read_at(position, memoryview(bytearray(4)))
        assert remote.ranges == [(900, 908), (500, 508), (3, 11)]


def test_what_follows_an_index_is_in_order() -> None:
    """Reads that pass over some bytes, or go back by some: each window is fetched once."""
    with mock.patch.multiple(windows, FIRST_BYTES=FIRST, WINDOW_BYTES_MAX=MAX, TAIL_BYTES=TAIL):
        for step, length in ((7, 2), (3, 7)):
            remote = Remote(1000)
            source = remote.source()
            for position in range(0, 1000, step):
                buffer = bytearray(length)
                got = source.read_at(position, memoryview(buffer))
                assert buffer[:got] == DATA[position : position + length]
            assert all(start >= stop for (_, stop), (start, _) in itertools.pairwise([(0, FIRST), *remote.ranges]))
            assert [stop - start for start, stop in remote.ranges][2:5] == [64, 64, 64]
            source.close()


def test_a_window_that_fails() -> None:
    """An error is raised when its bytes are asked for, not before, and again when they are asked for again."""
    with mock.patch.multiple(windows, FIRST_BYTES=FIRST, WINDOW_BYTES_MAX=MAX, TAIL_BYTES=TAIL):
        remote = Remote(1000)
        remote.broken_from = 500
        source = remote.source()
        assert source.read_at(0, memoryview(bytearray(300))) == 300
        for _ in range(2):
            with pytest.raises(UnreadableInput):
                source.read_at(300, memoryview(bytearray(300)))
        buffer = bytearray(10)
        assert source.read_at(5, memoryview(buffer)) == 10
        assert buffer == DATA[5:15]
