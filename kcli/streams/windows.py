"""Windows: the spans of time in which the records of a key are grouped or joined. All times are milliseconds.

    TimeWindows     tumbling [n * size, (n + 1) * size), or hopping if advance_ms is smaller than size_ms
    SlidingWindows  [t - difference, t], one for each distinct set of records
    SessionWindows  from the first to the last record of a span without a gap of inactivity
    JoinWindows     for a record of the left stream at t: [t - before, t + after] of the right stream

A window takes records up to grace_ms after its end, in stream time. Source: the classes of these names in Kafka
Streams.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from kcli.streams.errors import TopologyError

K = TypeVar("K")


class Window(NamedTuple):
    """A span of time. `end` is exclusive in a time window, and inclusive in a session or sliding window."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Windowed(Generic[K]):
    """A key of a windowed table: the key of its records and the window."""

    key: K
    window: Window

    def __str__(self) -> str:
        return f"[{self.key}@{self.window.start}/{self.window.end}]"


@dataclass(frozen=True, kw_only=True)
class TimeWindows:
    """Windows of a fixed size, tumbling unless advance_ms is given."""

    size_ms: int
    advance_ms: int = 0
    grace_ms: int = 0

    def __post_init__(self) -> None:
        if self.size_ms <= 0:
            raise TopologyError(f"a window's size_ms must be positive, not {self.size_ms}")
        if not 0 <= self.advance_ms <= self.size_ms:
            raise TopologyError(
                f"advance_ms must be from 1 to the window's size_ms {self.size_ms}, not {self.advance_ms}"
            )
        _check_grace(self.grace_ms)

    def windows_for(self, timestamp: int) -> Iterator[Window]:
        """Yield the windows that take a record with this timestamp, the earliest first."""
        advance = self.advance_ms or self.size_ms
        start = max(0, timestamp - self.size_ms + advance) // advance * advance
        while start <= timestamp:
            yield Window(start, start + self.size_ms)
            start += advance

    @property
    def retention_ms(self) -> int:
        """How long a store keeps such a window, from its start."""
        return self.size_ms + self.grace_ms


@dataclass(frozen=True, kw_only=True)
class SlidingWindows:
    """Windows of all records of a key that are at most time_difference_ms apart."""

    time_difference_ms: int
    grace_ms: int = 0

    def __post_init__(self) -> None:
        if self.time_difference_ms < 0:
            raise TopologyError(f"time_difference_ms must not be negative: {self.time_difference_ms}")
        _check_grace(self.grace_ms)

    @property
    def retention_ms(self) -> int:
        """How long a store keeps such a window, from its start."""
        return 2 * self.time_difference_ms + self.grace_ms


@dataclass(frozen=True, kw_only=True)
class SessionWindows:
    """Windows that end when a key has no record for inactivity_gap_ms."""

    inactivity_gap_ms: int
    grace_ms: int = 0

    def __post_init__(self) -> None:
        if self.inactivity_gap_ms <= 0:
            raise TopologyError(f"inactivity_gap_ms must be positive, not {self.inactivity_gap_ms}")
        _check_grace(self.grace_ms)

    @property
    def retention_ms(self) -> int:
        """How long a store keeps such a window, from its end."""
        return self.inactivity_gap_ms + self.grace_ms


@dataclass(frozen=True, kw_only=True)
class JoinWindows:
    """How far records of two streams may be apart to be joined: the right one at most before_ms earlier and at most
    after_ms later than the left one."""

    before_ms: int
    after_ms: int
    grace_ms: int = 0

    def __post_init__(self) -> None:
        if self.size_ms < 0:
            raise TopologyError(
                f"before_ms {self.before_ms} and after_ms {self.after_ms} make a window that ends before it starts"
            )
        _check_grace(self.grace_ms)

    @classmethod
    def of(cls, time_difference_ms: int, grace_ms: int = 0) -> JoinWindows:
        """Return the windows for records that are at most time_difference_ms apart."""
        if time_difference_ms < 0:
            raise TopologyError(f"time_difference_ms must not be negative: {time_difference_ms}")
        return cls(before_ms=time_difference_ms, after_ms=time_difference_ms, grace_ms=grace_ms)

    @property
    def size_ms(self) -> int:
        """The length of the window in the right stream."""
        return self.before_ms + self.after_ms

    @property
    def retention_ms(self) -> int:
        """How long a store keeps a record for the join."""
        return self.size_ms + self.grace_ms


def _check_grace(grace_ms: int) -> None:
    if grace_ms < 0:
        raise TopologyError(f"grace_ms must not be negative: {grace_ms}")
