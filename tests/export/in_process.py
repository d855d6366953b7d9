"""A stand-in for Spark that runs tasks in this process, one after the other: for tests of everything except Spark."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable
from typing import Any, Self

from pyspark import cloudpickle


class Count:
    """An accumulator."""

    def __init__(self, value: int) -> None:
        self.value = value

    def add(self, term: int) -> None:
        """Count so much more."""
        self.value += term


class Tasks:
    """What parallelize gives: map and collect."""

    def __init__(self, items: Iterable[Any]) -> None:
        self._items = list(items)

    def map(self, task: Callable[[Any], Any]) -> Self:
        """Run the tasks; their input and output is pickled, as on a real worker."""
        self._items = [_copied(task(_copied(item))) for item in self._items]
        return self

    def collect(self) -> list[Any]:
        """What they gave."""
        return self._items


def _copied(item: Any) -> Any:
    return pickle.loads(cloudpickle.dumps(item))  # type: ignore[no-untyped-call]


class Tracker:
    """Nothing runs when it is asked."""

    def getActiveStageIds(self) -> list[int]:  # noqa: N802 (Spark's name)
        """No stage."""
        return []


class InProcess:
    """A context."""

    defaultParallelism = 2  # noqa: N815 (Spark's name)

    def accumulator(self, value: int) -> Count:
        """A counter."""
        return Count(value)

    def statusTracker(self) -> Tracker:  # noqa: N802 (Spark's name)
        """What knows how far tasks are."""
        return Tracker()

    def parallelize(self, items: list[Any], count: int) -> Tasks:
        """Tasks of one item each."""
        assert len(items) == count, "a task for each item"
        return Tasks(items)
