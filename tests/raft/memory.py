"""Raft's log and quorum-state in memory, as a disk keeps them: a crash loses what was not flushed.

Batches are real ones. A snapshot is the control batch of its header, then one batch with all records before its offset.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from formats.batch_writer import write_batch
from formats.control_record import ControlRecord
from formats.crc32c import crc32c
from formats.quorum_state import QuorumState, build, parse
from kcli.raft import controls
from kcli.raft.log import SnapshotWriter
from kcli.raft.messages import OffsetAndEpoch, Records
from kcli.raft.voters import VoterSet

_HEADER: Final = struct.Struct(">qiibI2si").unpack_from
CRC_FROM: Final = 21
CHAIN_MASK: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch. chain: a hash over it and all before it, equal only for equal histories."""

    base_offset: int
    epoch: int
    data: bytes
    chain: int

    @property
    def end_offset(self) -> int:
        """Behind its last record."""
        return self.base_offset + int.from_bytes(self.data[23:27]) + 1

    @property
    def is_control(self) -> bool:
        """Does raft itself have written it?"""
        return bool(self.data[22] & controls.CONTROL)


@dataclass(slots=True)
class Disk:
    """The disk of a node, of which a crash loses what was not flushed."""

    batches: list[Batch] = field(default_factory=list)
    start_offset: int = 0
    start_chain: int = 0
    snapshots: dict[OffsetAndEpoch, tuple[bytes, int]] = field(default_factory=dict)
    state: bytes | None = None
    flushed_offset: int = 0

    def crash(self) -> None:
        """What was not flushed is gone."""
        self.batches = [each for each in self.batches if each.end_offset <= self.flushed_offset]


@dataclass(slots=True)
class Writer:
    """A snapshot that is being fetched from the leader. chain: the hash of the history before it, which Kafka lacks and
    the checks need."""

    log: MemoryLog
    id: OffsetAndEpoch
    data: bytearray = field(default_factory=bytearray)

    @property
    def size(self) -> int:
        """How much there is."""
        return len(self.data)

    def append(self, data: Records) -> None:
        """More."""
        self.data += data

    def freeze(self) -> None:
        """Finish the snapshot; its last four bytes are the chain."""
        self.log.disk.snapshots[self.id] = bytes(self.data), int.from_bytes(self.data[-8:])

    def close(self) -> None:
        """Nothing to remove."""


class MemoryLog:
    """See kcli.raft.log.RaftLog."""

    def __init__(self, disk: Disk) -> None:
        self.disk = disk
        self.high_watermark = 0
        self.truncations = 0
        self.on_append: Callable[[Batch], None] | None = None
        if disk.snapshots:
            self.truncate_to_latest_snapshot()

    @property
    def start_offset(self) -> int:
        return self.disk.start_offset

    @property
    def end_offset(self) -> int:
        return self.disk.batches[-1].end_offset if self.disk.batches else self.disk.start_offset

    @property
    def last_epoch(self) -> int:
        if self.disk.batches:
            return self.disk.batches[-1].epoch
        return 0 if self.latest_snapshot is None else self.latest_snapshot.epoch

    @property
    def earliest_snapshot(self) -> OffsetAndEpoch | None:
        return min(self.disk.snapshots, default=None)

    @property
    def latest_snapshot(self) -> OffsetAndEpoch | None:
        return max(self.disk.snapshots, default=None)

    def chain_at(self, offset: int) -> int | None:
        """Return the chain up to that offset; None where the log does not have it."""
        if offset == self.disk.start_offset:
            return self.disk.start_chain
        for each in reversed(self.disk.batches):
            if each.end_offset == offset:
                return each.chain
        return None

    def end_offset_for_epoch(self, epoch: int) -> OffsetAndEpoch:
        if epoch >= self.last_epoch or not self.disk.batches:
            return OffsetAndEpoch(self.end_offset, self.last_epoch)
        found: OffsetAndEpoch | None = None
        for each in self.disk.batches:
            if each.epoch > epoch:
                break
            found = OffsetAndEpoch(each.end_offset, each.epoch)
        earliest = self.earliest_snapshot
        if found is None and earliest is not None and earliest.epoch == epoch:
            return earliest
        return OffsetAndEpoch(self.disk.batches[0].base_offset, epoch) if found is None else found

    def read(self, offset: int, max_bytes: int) -> bytes:
        out = bytearray()
        for each in self._from(offset):
            if out and len(out) + len(each.data) > max_bytes:
                break
            out += each.data
        return bytes(out)

    def _from(self, offset: int) -> list[Batch]:
        batches = self.disk.batches
        i = len(batches)
        while i and batches[i - 1].end_offset > offset:
            i -= 1
        return batches[i:]

    def _append(self, data: bytes, epoch: int) -> None:
        end_offset = self.end_offset
        chain = self.disk.batches[-1].chain if self.disk.batches else self.disk.start_chain
        self.disk.batches.append(Batch(end_offset, epoch, data, hash((chain, end_offset, epoch, data)) & CHAIN_MASK))
        if self.on_append is not None:
            self.on_append(self.disk.batches[-1])

    def append_as_leader(self, batch: Records, epoch: int) -> None:
        data = bytearray(batch)
        data[:8] = self.end_offset.to_bytes(8)
        data[12:16] = epoch.to_bytes(4)
        self._append(bytes(data), epoch)

    def append_as_follower(self, records: Records, epoch: int) -> None:
        data, position = bytes(records), 0
        while position + controls.HEADER_BYTES <= len(data):
            base_offset, length, batch_epoch, _, crc, _, _ = _HEADER(data, position)
            end = position + controls.LENGTH_FROM + length
            if end > len(data) or batch_epoch > epoch or crc32c(data[position + CRC_FROM : end]) != crc:
                return
            assert base_offset == self.end_offset, "the leader sends what was asked for"
            self._append(data[position:end], batch_epoch)
            position = end

    def begin_epoch(self, epoch: int) -> None:
        assert epoch > self.last_epoch or not self.disk.batches, "epochs grow"

    def truncate(self, offset: int) -> None:
        assert offset >= self.high_watermark, "what is committed stays"
        self.disk.batches = [each for each in self.disk.batches if each.end_offset <= offset]
        self.disk.flushed_offset = min(self.disk.flushed_offset, self.end_offset)
        self.truncations += 1

    def truncate_to_latest_snapshot(self) -> bool:
        latest = self.latest_snapshot
        if latest is None or latest.order <= (self.last_epoch if self.disk.batches else 0, self.end_offset):
            return False
        self.disk.batches.clear()
        self.disk.start_offset, self.disk.start_chain = latest.offset, self.disk.snapshots[latest][1]
        self.disk.snapshots = {latest: self.disk.snapshots[latest]}
        self.disk.flushed_offset = latest.offset
        self.high_watermark = latest.offset
        self.truncations += 1
        return True

    def update_high_watermark(self, offset: int) -> None:
        assert self.high_watermark <= offset <= self.end_offset, "it only moves on"
        self.high_watermark = offset

    def controls(self, from_offset: int) -> Iterator[tuple[int, ControlRecord]]:
        for each in self._from(from_offset):
            if each.is_control:
                yield from controls.in_records(each.data)

    def snapshot_controls(self, snapshot: OffsetAndEpoch) -> Iterable[ControlRecord]:
        return controls.of_kinds(each for _, each in controls.in_records(self.disk.snapshots[snapshot][0][:-8]))

    def snapshot_size(self, snapshot: OffsetAndEpoch) -> int | None:
        found = self.disk.snapshots.get(snapshot)
        return None if found is None else len(found[0])

    def read_snapshot(self, snapshot: OffsetAndEpoch, position: int, max_bytes: int) -> bytes:
        return self.disk.snapshots[snapshot][0][position : position + max_bytes]

    def begin_snapshot(self, snapshot: OffsetAndEpoch) -> SnapshotWriter | None:
        return None if snapshot in self.disk.snapshots else Writer(self, snapshot)

    # what its node does

    def write_snapshot(self, header: list[tuple[bytes | None, bytes | None]], offset: int) -> OffsetAndEpoch | None:
        """Write a snapshot of all records before that offset, which is committed and between batches; None where one
        exists."""
        chain = self.chain_at(offset)
        before = [each for each in self.disk.batches if each.end_offset == offset]
        if not before or chain is None:
            return None
        snapshot = OffsetAndEpoch(offset, before[0].epoch)
        data = bytes(controls.batch(header, 0)) if header else b""
        data += write_batch([(None, b"x" * 100)], 0)
        self.disk.snapshots.setdefault(snapshot, (data + chain.to_bytes(8), chain))
        return snapshot

    def clean(self) -> None:
        """Delete old snapshots, and the log before the latest."""
        latest = self.latest_snapshot
        if latest is not None and latest.offset > self.disk.start_offset:
            chain = self.disk.snapshots[latest][1]
            self.disk.batches = [each for each in self.disk.batches if each.base_offset >= latest.offset]
            self.disk.start_offset, self.disk.start_chain = latest.offset, chain
            self.disk.snapshots = {latest: self.disk.snapshots[latest]}


class MemoryStore:
    """See kcli.raft.log.QuorumStore."""

    def __init__(self, disk: Disk) -> None:
        self.disk = disk
        self.on_save: Callable[[QuorumState], None] | None = None

    def load(self) -> QuorumState | None:
        return None if self.disk.state is None else parse(self.disk.state)

    def save(self, state: QuorumState) -> None:
        self.disk.state = build(state)
        if self.on_save is not None:
            self.on_save(state)


def with_voters(version: int, voters: VoterSet) -> Disk:
    """Return a disk as formatting with kraft.version 1 leaves it."""
    header = [controls.kraft_version(version), controls.kraft_voters(voters)]
    data = bytes(controls.batch(header, 0)) + bytes(8)
    return replace(Disk(), snapshots={OffsetAndEpoch(0, 0): (data, 0)})
