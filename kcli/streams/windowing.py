"""How the records of a key are aggregated: all of them, in windows of time, or in sessions. Each kind makes the
operator, the store and the serde of the table's keys."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple

from kcli.streams.context import AnySerde
from kcli.streams.errors import TopologyError
from kcli.streams.serdes import Serde, session_windowed, time_windowed
from kcli.streams.topology.operators.aggregate import Aggregation, StreamAggregate
from kcli.streams.topology.operators.session import SessionAggregate
from kcli.streams.topology.operators.sliding import SlidingWindowAggregate
from kcli.streams.topology.operators.table import TableOperator
from kcli.streams.topology.operators.window_aggregate import EmitStrategy, TimeWindowAggregate
from kcli.streams.topology.stores.key_value import table_store
from kcli.streams.topology.stores.session import SessionStoreBuilder
from kcli.streams.topology.stores.store import StoreBuilder
from kcli.streams.topology.stores.window import WindowStoreBuilder
from kcli.streams.windows import SessionWindows, SlidingWindows, TimeWindows

SEGMENT_MS_MIN = 60_000

Serdes = tuple[AnySerde, AnySerde]


class Aggregate(NamedTuple):
    """An operator. grace_ms: how long a window is open after its end; None without windows."""

    operator: TableOperator
    grace_ms: int | None = None


class Windowing(ABC):
    """A kind of windows, or none."""

    @abstractmethod
    def aggregate(self, store: str, aggregation: Aggregation) -> Aggregate:
        """Return the operator that aggregates records into a store of this name."""

    @abstractmethod
    def store(self, name: str, serdes: Serdes, retention_ms: int | None, *, logging: bool) -> StoreBuilder[Any]:
        """Return the definition of the table's store. retention_ms: how long it keeps a window, None for as long as
        needed; without windows, how long it keeps versions of a value, None for the last one only. Raises TopologyError
        if that is too short."""

    def versioned(self, retention_ms: int | None) -> bool | None:  # noqa: ARG002 (a table without windows asks for it)
        """Return whether the table is versioned; None if it is as what it is made of."""
        return None

    @abstractmethod
    def keys(self, serde: Serde[Any]) -> Serde[Any]:
        """Return the serde of the table's keys. serde: of the keys without windows."""


class NoWindows(Windowing):
    """All records of a key."""

    def aggregate(self, store: str, aggregation: Aggregation) -> Aggregate:
        return Aggregate(StreamAggregate(store, aggregation))

    def store(self, name: str, serdes: Serdes, retention_ms: int | None, *, logging: bool) -> StoreBuilder[Any]:
        return table_store(name, serdes, logging=logging, history_retention_ms=retention_ms)

    def versioned(self, retention_ms: int | None) -> bool | None:
        return retention_ms is not None

    def keys(self, serde: Serde[Any]) -> Serde[Any]:
        return serde


@dataclass(frozen=True)
class TimeWindowing(Windowing):
    """Tumbling, hopping or sliding windows. emit: when a window sends its aggregate."""

    windows: TimeWindows | SlidingWindows
    emit: EmitStrategy = EmitStrategy.ON_WINDOW_UPDATE

    @property
    def _size_ms(self) -> int:
        return self.windows.size_ms if isinstance(self.windows, TimeWindows) else self.windows.time_difference_ms

    def aggregate(self, store: str, aggregation: Aggregation) -> Aggregate:
        windows = self.windows
        operator: TableOperator = (
            TimeWindowAggregate(store, aggregation, self.emit, windows)
            if isinstance(windows, TimeWindows)
            else SlidingWindowAggregate(store, aggregation, self.emit, windows)
        )
        return Aggregate(operator, windows.grace_ms)

    def store(self, name: str, serdes: Serdes, retention_ms: int | None, *, logging: bool) -> StoreBuilder[Any]:
        # Kafka's store of windows that are sent when they are closed keeps them a millisecond longer
        more_ms = 1 if self.emit is EmitStrategy.ON_WINDOW_CLOSE else 0
        return WindowStoreBuilder(
            name=name,
            key_serde=serdes[0],
            value_serde=serdes[1],
            retention_ms=_retention_ms(name, retention_ms, self.windows.retention_ms) + more_ms,
            window_size_ms=self._size_ms,
            timestamped=True,
            logging=logging,
        )

    def keys(self, serde: Serde[Any]) -> Serde[Any]:
        return time_windowed(serde, self._size_ms)


@dataclass(frozen=True)
class SessionWindowing(Windowing):
    """Sessions. emit: when a session sends its aggregate."""

    windows: SessionWindows
    emit: EmitStrategy = EmitStrategy.ON_WINDOW_UPDATE

    def aggregate(self, store: str, aggregation: Aggregation) -> Aggregate:
        return Aggregate(SessionAggregate(store, aggregation, self.emit, self.windows), self.windows.retention_ms)

    def store(self, name: str, serdes: Serdes, retention_ms: int | None, *, logging: bool) -> StoreBuilder[Any]:
        kept_ms = _retention_ms(name, retention_ms, self.windows.retention_ms)
        closes = self.emit is EmitStrategy.ON_WINDOW_CLOSE
        return SessionStoreBuilder(
            name=name,
            key_serde=serdes[0],
            value_serde=serdes[1],
            retention_ms=kept_ms,
            segment_ms=max(kept_ms // 2, SEGMENT_MS_MIN) if closes else 0,
            logging=logging,
        )

    def keys(self, serde: Serde[Any]) -> Serde[Any]:
        return session_windowed(serde)


def windowing_of(windows: object) -> TimeWindowing | SessionWindowing:
    """Return the kind of windows. Raises TopologyError for anything else."""
    match windows:
        case TimeWindows() | SlidingWindows():
            return TimeWindowing(windows)
        case SessionWindows():
            return SessionWindowing(windows)
    raise TopologyError(f"records are windowed by TimeWindows, SlidingWindows or SessionWindows, not {windows!r}")


def _retention_ms(store: str, given: int | None, needed: int) -> int:
    if given is not None and given < needed:
        raise TopologyError(
            f"the store {store} must keep windows for {needed} ms, their length and grace; retention_ms is {given}"
        )
    return given or needed
