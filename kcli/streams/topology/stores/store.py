"""The base of all state stores, of their builders, and of the changelog to which a store writes.

A builder without a serde gets the topology's default one. `logging` says whether the store has a changelog topic.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from kcli.streams.errors import TopologyError
from kcli.streams.records import Headers
from kcli.streams.serdes import Serde

S = TypeVar("S", bound="StateStore")


class Log(Protocol):
    """Adds a record to a store's changelog."""

    def __call__(self, key: bytes, value: bytes | None, timestamp: int | None, headers: Headers = (), /) -> None:
        """Add a record. If timestamp is None, the record gets the timestamp of the record in process, or the time of
        the clock if no record is in process."""


class StateStore(ABC):
    """A store of a task, in which processors keep data between records. name: unique in the topology. is_versioned:
    whether it keeps the values that a key had before."""

    name: str
    is_versioned: ClassVar[bool] = False

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

    @property
    def compaction_lag_ms(self) -> int | None:
        """How long the changelog must keep records that later ones replace; None: not at all."""
        return None

    @abstractmethod
    def build(self, log: Log) -> S:
        """Return an empty store. log: adds a record to the store's changelog."""
