"""A Runway without a PartitionLog: its log, segment and indexes are bare, and its writes go to a function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from formats.kernels.append import LogState, Runway, SegmentState
from formats.kernels.indexes import AppendIndexer, IndexTail
from formats.kernels.producers import ProducerTable
from kcli.log.producer_state import read_control

INT64_MAX = 2**63 - 1


class Index(IndexTail):
    """An index that drops its entries instead of writing them. slots: the number of entries that it has room for."""

    def __init__(self, entry_bytes: int, slots: int) -> None:
        self.entry_bytes = entry_bytes
        self.slots = slots

    def write_waiting(self) -> None:
        """Drop the entries that wait in memory."""
        self.written()


class File:
    """A .log file whose writes go to a function. fd: a descriptor to write to instead; None for the function."""

    path = "00000000000000000000.log"

    def __init__(self, write: Callable[..., object], fd: int | None = None) -> None:
        self.write = write
        self.writes_directly = fd is not None
        self.fd = -1 if fd is None else fd


def bare_runway(
    log: LogState,
    *,
    write: Callable[..., object] = lambda *_: None,
    failed: Callable[[OSError], object] = lambda _: None,
    fd: int | None = None,
    indexer: AppendIndexer | None = None,
    leader_epoch: int = 0,
    position: int = 0,
    offset_slots: int = 9,
    time_slots: int = 10,
    **limits: Any,
) -> Runway:
    """Return a Runway at the log end offset of `log` and at byte `position` of its segment. limits: what differs from a
    Runway that takes all plain batches."""
    segment = SegmentState()
    segment.size = position
    taken: dict[str, Any] = {
        "size_max": 2**31 - 1,
        "offset_max": INT64_MAX,
        "timestamp_max": INT64_MAX,
        "keyed": False,
        "codec": -1,
        "before_max_ms": INT64_MAX,
        "after_max_ms": INT64_MAX,
        "max_message_bytes": 1 << 20,
        "verifications": {},
    }
    indexes = Index(8, offset_slots), Index(12, time_slots), indexer or AppendIndexer(0, 0, -1, -1, 0)
    producers = ProducerTable(read_control)
    return Runway(log, segment, File(write, fd), indexes, producers, failed, leader_epoch, **(taken | limits))
