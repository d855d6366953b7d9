"""Punctuations: calls of a processor's function, scheduled at intervals of stream time or of the clock.

If several intervals have passed, one call is made, and the next is due at the next multiple of the interval. Source:
PunctuationQueue, PunctuationSchedule of Kafka Streams.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from kcli.java.priority_queue import PriorityQueue
from kcli.streams.topology.processor import Punctuator

N = TypeVar("N")


@dataclass(eq=False)
class Punctuation(Generic[N]):
    """A punctuation of a node: the time of its next call, the interval, and the function to call."""

    node: N
    due_ms: int
    interval_ms: int
    punctuator: Punctuator
    is_cancelled: bool = False

    def cancel(self) -> None:
        self.is_cancelled = True


class Punctuations(Generic[N]):
    """The punctuations of a task for one kind of time."""

    def __init__(self) -> None:
        self._queue: PriorityQueue[Punctuation[N]] = PriorityQueue(lambda each: each.due_ms)

    def __iter__(self) -> Iterator[Punctuation[N]]:
        return (each for each in self._queue if not each.is_cancelled)

    def add(self, punctuation: Punctuation[N]) -> None:
        self._queue.offer(punctuation)

    def advance(self, time_ms: int, call: Callable[[Punctuation[N], int], None]) -> None:
        """Make all calls that are due at this time, the earliest first."""
        while len(self._queue) and self._queue.peek().due_ms <= time_ms:
            punctuation = self._queue.poll()
            if not punctuation.is_cancelled:
                call(punctuation, time_ms)
            if not punctuation.is_cancelled:
                punctuation.due_ms += (
                    (time_ms - punctuation.due_ms) // punctuation.interval_ms + 1
                ) * punctuation.interval_ms
                self._queue.offer(punctuation)
