"""Implements the protocols of kcli.raft.log with the metadata log and the file quorum-state on disk. An append does
not flush the log: the driver does (driver.py)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from formats.control_record import ControlRecord
from formats.file_name import FileKind
from formats.quorum_state import QuorumState, build
from kcli.broker.metadata.quorum_state import read_quorum_state
from kcli.broker.metadata.snapshots import READ_ONLY, Snapshots
from kcli.broker.network.outgoing import read_region
from kcli.broker.process.clock import Clock
from kcli.log.disk import Disk, DiskFile
from kcli.log.live.partition_log import Isolation, PartitionLog
from kcli.log.live.validator import AppendRefused, Origin
from kcli.metadata_log.snapshot_file import SnapshotId, read_snapshot
from kcli.raft.controls import in_records, of_kinds
from kcli.raft.messages import OffsetAndEpoch, Records

READ_BYTES: Final = 1 << 20
OVERHEAD_BYTES: Final = 12


class RaftMetadataLog:
    """Implements raft's reads, appends and truncations of the metadata log."""

    def __init__(self, log: PartitionLog, snapshots: Snapshots, disk: Disk, clock: Clock) -> None:
        self._log, self._snapshots, self._disk, self._clock = log, snapshots, disk, clock

    @property
    def start_offset(self) -> int:
        return self._log.log_start_offset

    @property
    def end_offset(self) -> int:
        return self._log.log_end_offset

    @property
    def last_epoch(self) -> int:
        latest = self._snapshots.latest
        known = self._log.latest_epoch
        return known if known is not None else 0 if latest is None else latest.epoch

    @property
    def earliest_snapshot(self) -> OffsetAndEpoch | None:
        return OffsetAndEpoch(*self._snapshots.ids[0]) if self._snapshots.ids else None

    @property
    def latest_snapshot(self) -> OffsetAndEpoch | None:
        return OffsetAndEpoch(*self._snapshots.ids[-1]) if self._snapshots.ids else None

    def end_offset_for_epoch(self, epoch: int) -> OffsetAndEpoch:
        found, offset = self._log.offset_for_leader_epoch(epoch)
        if found < 0:
            return OffsetAndEpoch(self.end_offset, self.last_epoch)
        earliest = self.earliest_snapshot
        if earliest is not None and offset == earliest.offset and found == epoch:
            return earliest
        return OffsetAndEpoch(offset, found)

    def read(self, offset: int, max_bytes: int) -> bytes:
        region = self._log.read(offset, max_bytes, Isolation.LOG_END).region
        return b"" if region is None else read_region(region)

    def append_as_leader(self, batch: Records, epoch: int) -> None:
        data = batch if isinstance(batch, bytearray) else bytearray(batch)
        self._log.append_as_leader(data, epoch, self._clock.now_ms(), origin=Origin.COORDINATOR)

    def append_as_follower(self, records: Records, epoch: int) -> None:
        try:
            self._log.append_as_follower(records, epoch, self._clock.now_ms())
        except AppendRefused:
            return  # the batch was damaged on the network, and is fetched again

    def begin_epoch(self, epoch: int) -> None:
        self._log.start_epoch(epoch)

    def truncate(self, offset: int) -> None:
        for removal in self._log.truncate_to(offset, self._clock.now_ms()):
            removal.run()

    def truncate_to_latest_snapshot(self) -> bool:
        latest = self._snapshots.latest
        if latest is None or (latest.epoch, latest.offset) <= (self.last_epoch_of_records, self.end_offset):
            return False
        for removal in self._log.truncate_fully_and_start_at(latest.offset, self._clock.now_ms()):
            removal.run()
        for path in self._snapshots.forget_before(latest):
            self._disk.remove(path)
        return True

    @property
    def last_epoch_of_records(self) -> int:
        """The leader epoch of the log's last record, 0 for an empty log."""
        return self._log.latest_epoch or 0

    def update_high_watermark(self, offset: int) -> None:
        self._log.update_high_watermark(offset)

    def controls(self, from_offset: int) -> Iterator[tuple[int, ControlRecord]]:
        offset = max(from_offset, self.start_offset)
        while offset < self.end_offset:
            data = self.read(offset, READ_BYTES)
            for at, control in in_records(data):
                if at >= from_offset and of_kinds([control]):
                    yield at, control
            offset = end_of(data)

    def snapshot_controls(self, snapshot: OffsetAndEpoch) -> Iterable[ControlRecord]:
        first = next(read_snapshot(self._path(snapshot)))
        return of_kinds(first.controls)

    def snapshot_size(self, snapshot: OffsetAndEpoch) -> int | None:
        if SnapshotId(*snapshot) not in self._snapshots.ids:
            return None
        return self._path(snapshot).stat().st_size

    def read_snapshot(self, snapshot: OffsetAndEpoch, position: int, max_bytes: int) -> bytes:
        with self._path(snapshot).open("rb") as file:
            return os.pread(file.fileno(), max_bytes, position)

    def begin_snapshot(self, snapshot: OffsetAndEpoch) -> FetchedSnapshot | None:
        which = SnapshotId(*snapshot)
        return None if which in self._snapshots.ids else FetchedSnapshot(self._snapshots, self._disk, which)

    def _path(self, snapshot: OffsetAndEpoch) -> Path:
        return self._snapshots.path(SnapshotId(*snapshot))


def end_of(data: bytes) -> int:
    """Return the offset after the last whole batch in `data`."""
    position = last = 0
    while position < len(data):
        last = position
        position += OVERHEAD_BYTES + int.from_bytes(data[position + 8 : position + 12])
    return int.from_bytes(data[last : last + 8]) + int.from_bytes(data[last + 23 : last + 27]) + 1


class FetchedSnapshot:
    """A snapshot that is fetched from the leader in pieces. Its file has the suffix `.part` until the snapshot is
    complete."""

    def __init__(self, snapshots: Snapshots, disk: Disk, which: SnapshotId) -> None:
        self.id = OffsetAndEpoch(*which)
        self.size = 0
        self._snapshots, self._disk, self._which = snapshots, disk, which
        path = snapshots.path(which)
        self._part = path.with_name(f"{path.name}.part")
        self._file: DiskFile | None = disk.open(self._part, create=True, truncate=True)

    def append(self, data: Records) -> None:
        assert self._file is not None, "neither frozen nor closed"
        self.size += self._file.write([data], self.size)

    def freeze(self) -> None:
        file = self._file
        assert file is not None, "neither frozen nor closed"
        file.sync()
        os.fchmod(file.fd, READ_ONLY)
        file.close()
        self._file = None
        path = self._snapshots.path(self._which)
        self._disk.rename(self._part, path)
        self._disk.sync_directory(self._snapshots.directory)
        self._snapshots.added(self._which)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
            self._disk.remove(self._part)


class QuorumStateFile:
    """The file quorum-state: a voter's epoch and vote. `save` keeps a state in memory only, as writing it waits for
    the device. The responses and requests that follow from a state must not be sent before `write` has made this state,
    or a later one, durable.

    version: the number of states that raft has saved. durable_version: the value of `version` for the state that is on
    disk.
    """

    def __init__(self, directory: Path, disk: Disk) -> None:
        self._path, self._disk = directory / FileKind.QUORUM_STATE, disk
        self._state: QuorumState | None = None
        self.version = self.durable_version = 0

    def load(self) -> QuorumState | None:
        """Return the contents of the file, None if it does not exist. Raises StartRefused, UnreadableInput."""
        return read_quorum_state(self._path)

    def save(self, state: QuorumState) -> None:
        self._state = state
        self.version += 1

    @property
    def waits(self) -> bool:
        """Whether `write` blocks until the device has the bytes, so that the event loop must call it in a thread. False
        only with a disk made for tests."""
        return self._disk.waits

    def write(self) -> None:
        """Write the state that was saved last. Any thread may call this, one at a time. Raises OSError."""
        version, state = self.version, self._state  # in this order: the state is never older than the version
        assert state is not None, "saved"
        self._disk.write_file(self._path, build(state))
        self.durable_version = version
