"""The order in which Java's PriorityQueue returns elements of equal priority: its binary heap differs from that of
Python's heapq. Source: PriorityQueue (offer, poll)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

E = TypeVar("E")


class PriorityQueue(Generic[E]):
    """A queue whose first element has the lowest priority number. priority: of an element; it must not change while
    the element is in the queue."""

    def __init__(self, priority: Callable[[E], int]) -> None:
        self._priority = priority
        self._heap: list[E] = []

    def __len__(self) -> int:
        return len(self._heap)

    def __iter__(self) -> Iterator[E]:
        return iter(self._heap)

    def peek(self) -> E:
        """Return the first element, without removing it. Raises IndexError if the queue is empty."""
        return self._heap[0]

    def offer(self, element: E) -> None:
        """Add an element."""
        heap, position = self._heap, len(self._heap)
        heap.append(element)
        while position > 0:
            parent = (position - 1) >> 1
            if self._priority(element) >= self._priority(heap[parent]):
                break
            heap[position] = heap[parent]
            position = parent
        heap[position] = element

    def poll(self) -> E:
        """Remove the first element and return it. Raises IndexError if there is none."""
        heap = self._heap
        first, last = heap[0], heap.pop()
        if heap:
            position, half = 0, len(heap) >> 1
            while position < half:
                child = 2 * position + 1
                if child + 1 < len(heap) and self._priority(heap[child]) > self._priority(heap[child + 1]):
                    child += 1
                if self._priority(last) <= self._priority(heap[child]):
                    break
                heap[position] = heap[child]
                position = child
            heap[position] = last
        return first
