"""The input of a task: its records as bytes, and what happens to one that cannot be read."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from kcli.streams.errors import ProcessingError
from kcli.streams.kernels.tuples import quick
from kcli.streams.records import Headers

if TYPE_CHECKING:
    from kcli.streams.topology.topology import Source

Unreadable = Callable[["Source", "RawRecord", ProcessingError], None]
"""Takes an input record that cannot be deserialized: raises an error, or returns if the record is left out."""


@quick
class RawRecord(NamedTuple):
    """A record of an input topic as bytes. timestamp: milliseconds."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
