"""Java's PriorityQueue: sorted by priority, and equal elements in the order of its heap."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kcli.java.priority_queue import PriorityQueue


def polled(elements: list[tuple[int, str]]) -> list[tuple[int, str]]:
    queue: PriorityQueue[tuple[int, str]] = PriorityQueue(lambda element: element[0])
    for element in elements:
        queue.offer(element)
    return [queue.poll() for _ in range(len(queue))]


@given(st.lists(st.tuples(st.integers(0, 5), st.text(max_size=1))))
def test_elements_come_by_priority(elements: list[tuple[int, str]]) -> None:
    found = polled(elements)
    assert sorted(found) == sorted(elements)
    assert [each[0] for each in found] == sorted(each[0] for each in elements)


def test_equal_elements_come_as_from_javas_heap() -> None:
    assert [name for _, name in polled([(1, "a"), (1, "b"), (1, "c"), (1, "d")])] == ["a", "d", "c", "b"]
