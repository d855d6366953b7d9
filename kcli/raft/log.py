"""The protocols for a node's files: its copy of the log with its snapshots, and quorum-state.

Every call takes effect at once and in order, except that two things may reach the disk later: appended batches (then
the caller of raft calls `Raft.flushed`), and a saved quorum-state (then the caller holds back the Outcome until it is
on disk). Source: RaftLog, RawSnapshotWriter, QuorumStateStore.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, auto
from typing import Protocol

from formats.control_record import ControlRecord
from formats.quorum_state import QuorumState
from kcli.raft.messages import OffsetAndEpoch, Records


class SnapshotWriter(Protocol):
    """A snapshot that is being fetched from the leader."""

    @property
    def id(self) -> OffsetAndEpoch:
        """The snapshot's end offset and epoch."""

    @property
    def size(self) -> int:
        """The bytes written so far."""

    def append(self, data: Records) -> None:
        """Write the next bytes."""

    def freeze(self) -> None:
        """Sync the complete snapshot, and add it to the log's snapshots."""

    def close(self) -> None:
        """Remove the snapshot, unless it was frozen."""


class RaftLog(Protocol):
    """This node's copy of the metadata log, and the snapshots beside it."""

    @property
    def start_offset(self) -> int:
        """The offset of the first record; the log's end if there is none."""

    @property
    def end_offset(self) -> int:
        """The offset that the next record gets."""

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record; if the log has no record, the epoch of the latest snapshot; 0 if there is no
        snapshot."""

    @property
    def earliest_snapshot(self) -> OffsetAndEpoch | None:
        """The snapshot with the lowest offset; None if there is none."""

    @property
    def latest_snapshot(self) -> OffsetAndEpoch | None:
        """The snapshot with the highest offset; None if there is none."""

    def end_offset_for_epoch(self, epoch: int) -> OffsetAndEpoch:
        """Return the largest epoch in the log that is at or below `epoch`, and that epoch's end offset.

        For an epoch below all in the log, return `epoch` itself and the offset where the first epoch of the log begins.
        """

    def read(self, offset: int, max_bytes: int) -> Records:
        """Return whole batches, from the batch that contains `offset` on, of at most max_bytes together; but always at
        least one batch, if there is one."""

    def append_as_leader(self, batch: Records, epoch: int) -> None:
        """Append a batch. The log writes into it `epoch` as its leader epoch, and the offsets of its records, beginning
        at end_offset."""

    def append_as_follower(self, records: Records, epoch: int) -> None:
        """Append batches as they are, up to but not including the first one that is incomplete, damaged or of an epoch
        above `epoch`."""

    def begin_epoch(self, epoch: int) -> None:
        """Add to leader-epoch-checkpoint that `epoch` begins at the end of the log."""

    def truncate(self, offset: int) -> None:
        """Remove the records from `offset` on."""

    def truncate_to_latest_snapshot(self) -> bool:
        """Drop the whole log if the latest snapshot is ahead of the log's end (by epoch, then offset).

        The log then begins at the snapshot's offset, which becomes the high watermark; older snapshots are removed.
        Returns whether the snapshot was ahead.
        """

    def update_high_watermark(self, offset: int) -> None:
        """Set the log's high watermark: the records below `offset` are committed."""

    def controls(self, from_offset: int) -> Iterable[tuple[int, ControlRecord]]:
        """Yield the KRaftVersion and KRaftVoters records from from_offset on, with their offsets (see
        kcli.raft.controls.in_records)."""

    def snapshot_controls(self, snapshot: OffsetAndEpoch) -> Iterable[ControlRecord]:
        """The KRaftVersion and KRaftVoters records of a snapshot."""

    def snapshot_size(self, snapshot: OffsetAndEpoch) -> int | None:
        """Return the size of a snapshot in bytes; None if there is no such snapshot."""

    def read_snapshot(self, snapshot: OffsetAndEpoch, position: int, max_bytes: int) -> Records:
        """Return at most max_bytes of a snapshot, from byte `position` on."""

    def begin_snapshot(self, snapshot: OffsetAndEpoch) -> SnapshotWriter | None:
        """Return a writer of a snapshot that is fetched from the leader; None if the log has that snapshot already."""


class QuorumStore(Protocol):
    """The quorum-state file."""

    def load(self) -> QuorumState | None:
        """The file's content; None if there is no file."""

    def save(self, state: QuorumState) -> None:
        """Save the state. No answer or message that follows from it may be sent before it is durable."""


class Validity(Enum):
    """How a replica's log, given by its end offset and last epoch, relates to this log. VALID: the replica's log is a
    beginning of this log. DIVERGING: its end differs from this log. SNAPSHOT: this log no longer has
    the records at its end, only snapshots."""

    VALID = auto()
    DIVERGING = auto()
    SNAPSHOT = auto()


def validate(log: RaftLog, offset: int, epoch: int) -> tuple[Validity, OffsetAndEpoch]:
    """Compare a replica's log, which ends at `offset` and whose last record has `epoch`, to this log.

    Returns the validity and an offset with its epoch: for VALID, those of the arguments; for DIVERGING, this log's
    largest epoch at or below `epoch` and the end of that epoch; for SNAPSHOT, the snapshot to fetch.
    """
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
    """Return the offset to which to truncate this log, given that epoch `diverging.epoch` ends at `diverging.offset` in
    the leader's log."""
    if diverging.epoch == 0:
        return min(diverging.offset, log.end_offset)
    local = log.end_offset_for_epoch(diverging.epoch)
    return min(local.offset, diverging.offset) if local.epoch == diverging.epoch else local.offset
