"""The base of all state stores, of their builders, and of the changelog to which a store writes.

A builder without a serde gets the topology's default one. `logging` says whether the store has a changelog topic.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar

from kcli.streams.errors import TopologyError
from kcli.streams.records import Headers, ValueAndTimestamp
from kcli.streams.serdes import Serde

S = TypeVar("S", bound="StateStore")

TIMESTAMP = struct.Struct(">q")


class Log(Protocol):
    """Adds a record to a store's changelog."""

    def __call__(self, key: bytes, value: bytes | None, timestamp: int | None, headers: Headers = (), /) -> None:
        """Add a record. If timestamp is None, the record gets the timestamp of the record in process, or the time of
        the clock if no record is in process."""


class StateStore(ABC):
    """A store of a task, in which processors keep data between records. name: unique in the topology."""

    name: str

    @abstractmethod
    def restore(self, key: bytes, value: bytes | None, timestamp: int) -> None:
        """Take the next record of the store's changelog. timestamp: the record's, in milliseconds. Raises ValueError
        or struct.error for bytes that no such store has written."""

    def flush(self) -> None:  # noqa: B027 - most stores log each change at once
        """Write to the changelog the changes that were not written yet. Called when the task commits."""


@dataclass(frozen=True, kw_only=True)
class StoreBuilder(ABC, Generic[S]):
    """The definition of a store. key_serde, value_serde: None stands for the topology's default. logs_headers: a record
    in the changelog has the headers of the one in process."""

    name: str
    key_serde: Serde[Any] | None = None
    value_serde: Serde[Any] | None = None
    logging: bool = True
    logs_headers: bool = False

    def with_defaults(self, key_serde: Serde[Any] | None, value_serde: Serde[Any] | None) -> StoreBuilder[S]:
        """Return the builder, with these default serdes for those that it lacks. Raises TopologyError if one is
        missing."""
        found = replace(self, key_serde=self.key_serde or key_serde, value_serde=self.value_serde or value_serde)
        for side, serde in (("key", found.key_serde), ("value", found.value_serde)):
            if serde is None:
                raise TopologyError(f"the store {self.name} has no {side}_serde, and the StreamsBuilder no default")
        return found

    @property
    def changelog_retention_ms(self) -> int | None:
        """How long the store keeps an entry; None: as long as it is not deleted."""
        return None

    @abstractmethod
    def build(self, log: Log) -> S:
        """Return an empty store. log: adds a record to the store's changelog."""


def raw(value: Any, serde: Serde[Any], *, timestamped: bool) -> bytes | None:
    """Return the bytes that a store keeps for a value: those of the serde, in a timestamped store behind the timestamp
    of the ValueAndTimestamp in 8 bytes. None for no value."""
    if not timestamped or value is None:
        return serde.to_bytes(value)
    data = serde.to_bytes(value.value)
    return None if data is None else TIMESTAMP.pack(value.timestamp) + data


def value_of(data: bytes | None, serde: Serde[Any], *, timestamped: bool) -> Any:
    """Return the value of these bytes, which `raw` has made."""
    if not timestamped or data is None:
        return serde.from_bytes(data)
    return ValueAndTimestamp(serde.from_bytes(data[TIMESTAMP.size :]), TIMESTAMP.unpack_from(data)[0])


def log_raw(log: Log, key: bytes, data: bytes | None, *, timestamped: bool) -> None:
    """Add a key's bytes, as the store keeps them, to the changelog. A timestamped value loses its timestamp, which
    becomes that of the changelog's record."""
    if timestamped and data is not None:
        log(key, data[TIMESTAMP.size :], TIMESTAMP.unpack_from(data)[0])
    else:
        log(key, data, None)


def logged(value: bytes | None, timestamp: int, *, timestamped: bool) -> bytes | None:
    """Return the bytes that a store keeps for a record of its changelog, which `log_raw` has made."""
    return TIMESTAMP.pack(timestamp) + value if timestamped and value is not None else value
