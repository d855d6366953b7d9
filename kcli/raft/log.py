"""What raft needs of a node's disk: its copy of the log with its snapshots, and quorum-state.

Everything takes place at once, in the order of the calls, except that what was appended may be flushed later: then
`Raft.flushed` is told. Source: RaftLog, RawSnapshotWriter, QuorumStateStore.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, auto
from typing import Protocol

from formats.control_record import ControlRecord
from formats.quorum_state import QuorumState
from kcli.raft.messages import OffsetAndEpoch, Records


class SnapshotWriter(Protocol):
    """A snapshot that is fetched, not yet one of the log's."""

    @property
    def id(self) -> OffsetAndEpoch:
        """Which snapshot it becomes."""

    @property
    def size(self) -> int:
        """Bytes of it so far."""

    def append(self, data: Records) -> None:
        """More of it."""

    def freeze(self) -> None:
        """It is whole: sync it and make it one of the log's snapshots."""

    def close(self) -> None:
        """Remove it, unless it was frozen."""


class RaftLog(Protocol):
    """The copy of the log. last_epoch: of its last record; of the latest snapshot where it has no record; else 0.

    Snapshots: those of the directory; None where there are none.
    """

    @property
    def start_offset(self) -> int:
        """Where it begins."""

    @property
    def end_offset(self) -> int:
        """Behind its last record."""

    @property
    def last_epoch(self) -> int:
        """See above."""

    @property
    def earliest_snapshot(self) -> OffsetAndEpoch | None:
        """See above."""

    @property
    def latest_snapshot(self) -> OffsetAndEpoch | None:
        """See above."""

    def end_offset_for_epoch(self, epoch: int) -> OffsetAndEpoch:
        """The largest epoch at or below `epoch`, and where it ends; the end and last_epoch for an epoch above that.

        Before the first epoch known: `epoch` itself and where the first one begins.
        """

    def read(self, offset: int, max_bytes: int) -> Records:
        """Whole batches from that which has `offset` on, at least one if there is any."""

    def append_as_leader(self, batch: Records, epoch: int) -> None:
        """Append a batch, with offsets from the end on and `epoch` put into it."""

    def append_as_follower(self, records: Records, epoch: int) -> None:
        """Append batches as they are; up to one that is cut off, damaged, or of an epoch above `epoch`: it and what
        follows it are left out."""

    def begin_epoch(self, epoch: int) -> None:
        """The epoch begins at the end: remembered in leader-epoch-checkpoint."""

    def truncate(self, offset: int) -> None:
        """Remove what is at `offset` and behind it."""

    def truncate_to_latest_snapshot(self) -> bool:
        """Where the latest snapshot is ahead of the log's end (epoch, then offset): drop all of the log, go on there,
        forget older snapshots, set the high watermark there. Was it so?"""

    def update_high_watermark(self, offset: int) -> None:
        """All before it is committed."""

    def controls(self, from_offset: int) -> Iterable[tuple[int, ControlRecord]]:
        """The KRaftVersion and KRaftVoters records at from_offset and behind it, with their offsets (see
        kcli.raft.controls.in_records)."""

    def snapshot_controls(self, snapshot: OffsetAndEpoch) -> Iterable[ControlRecord]:
        """Those of a snapshot."""

    def snapshot_size(self, snapshot: OffsetAndEpoch) -> int | None:
        """The bytes of a snapshot; None where there is no such snapshot."""

    def read_snapshot(self, snapshot: OffsetAndEpoch, position: int, max_bytes: int) -> Records:
        """Some bytes of a snapshot that is there."""

    def begin_snapshot(self, snapshot: OffsetAndEpoch) -> SnapshotWriter | None:
        """Begin to write a snapshot; None where it is there already."""


class QuorumStore(Protocol):
    """quorum-state."""

    def load(self) -> QuorumState | None:
        """What it says; None where there is none."""

    def save(self, state: QuorumState) -> None:
        """Durable when this returns."""


class Validity(Enum):
    """What is to be said to one whose log ends at an offset with an epoch."""

    VALID = auto()
    DIVERGING = auto()
    SNAPSHOT = auto()


def validate(log: RaftLog, offset: int, epoch: int) -> tuple[Validity, OffsetAndEpoch]:
    """Is a log that ends so a beginning of this one? Else where they part, or which snapshot it needs."""
    if log.start_offset == 0 and offset == 0:
        return Validity.VALID, OffsetAndEpoch(0, 0)
    earliest, latest = log.earliest_snapshot, log.latest_snapshot
    if earliest is not None and (
        offset < log.start_offset or (offset == log.start_offset and epoch != earliest.epoch) or epoch < earliest.epoch
    ):
        assert latest is not None, "there is an earliest one"
        return Validity.SNAPSHOT, latest
    end = log.end_offset_for_epoch(epoch)
    if end.epoch == epoch and end.offset >= offset:
        return Validity.VALID, OffsetAndEpoch(offset, epoch)
    return Validity.DIVERGING, end


def truncation_offset(log: RaftLog, diverging: OffsetAndEpoch) -> int:
    """Where to cut, when the leader's log ends `diverging.epoch` at `diverging.offset`."""
    if diverging.epoch == 0:
        return min(diverging.offset, log.end_offset)
    local = log.end_offset_for_epoch(diverging.epoch)
    return min(local.offset, diverging.offset) if local.epoch == diverging.epoch else local.offset
