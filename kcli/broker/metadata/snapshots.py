"""Snapshots of the metadata log (`<offset>-<epoch>.checkpoint`): the whole image, in place of the log below the offset.

    header   control batch: the time of the last record below the offset; with kraft.version 1 also that and the voters
    records  what makes the image, in batches of at most 8 MiB
    footer   control batch: what lacks it is not whole

Offsets in a snapshot count from 0; the epoch of its batches is that of its name. Written as `.part`, synced, made
read-only, renamed. One that is not needed any more becomes `.deleted` for a while. bootstrap.checkpoint, which
formatting leaves in each log directory, has the same form. Source: RecordsSnapshotWriter, FileRawSnapshotWriter,
KafkaRaftLog, Snapshots; KIP-630.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from formats.batch_writer import Pair, write_batch
from formats.control_record import ControlType
from formats.file_name import FileKind, FileName, build, parse
from kcli.broker.metadata.records import Replayed, control_batch, encode, encode_control, read_batches, split
from kcli.errors import UnreadableInput
from kcli.log.disk import Disk
from kcli.log.recovery_view import StartRefused
from kcli.metadata.image import Record

DELETED = ".deleted"
READ_ONLY = 0o400


class SnapshotId(NamedTuple):
    """Which snapshot: the offset behind its last record, and the epoch of that record."""

    offset: int
    epoch: int

    @property
    def file_name(self) -> str:
        """Its name in the directory of the log."""
        return build(FileName(FileKind.KRAFT_SNAPSHOT, self.offset, self.epoch))


class Retention(NamedTuple):
    """metadata.max.retention.bytes and metadata.max.retention.ms; -1: no limit."""

    bytes_max: int
    ms_max: int


def snapshot_batches(
    records: Sequence[Record], epoch: int, now_ms: int, last_timestamp_ms: int, controls: Sequence[Pair] = ()
) -> Iterator[bytearray]:
    """The bytes of a snapshot, batch by batch. controls: what its header says beside the time of the last record.

    Raises FormatError for a record that its schema does not allow.
    """
    header = encode_control(ControlType.SNAPSHOT_HEADER, {"lastContainedLogTimestamp": last_timestamp_ms})
    yield control_batch([header, *controls], now_ms, base_offset=0, epoch=epoch)
    offset = 1 + len(controls)
    for values in split([encode(record) for record in records]):
        yield write_batch(((None, each) for each in values), now_ms, base_offset=offset, leader_epoch=epoch)
        offset += len(values)
    footer = encode_control(ControlType.SNAPSHOT_FOOTER, {})
    yield control_batch([footer], now_ms, base_offset=offset, epoch=epoch)


def read_snapshot(path: Path) -> Iterator[Replayed]:
    """The batches of a snapshot, which must have its header and its footer. Raises UnreadableInput."""
    kinds: list[ControlType] = []
    is_first, last_is_footer = True, False
    for batch in read_batches(path):
        kinds = [control.type for control in batch.controls]
        if is_first and kinds[:1] != [ControlType.SNAPSHOT_HEADER]:
            raise UnreadableInput(str(path), "does not begin with a snapshot header")
        is_first, last_is_footer = False, kinds[-1:] == [ControlType.SNAPSHOT_FOOTER]
        yield batch
    if not last_is_footer:
        raise UnreadableInput(str(path), "does not end with a snapshot footer")


class Snapshots:
    """The snapshots in the directory of a metadata log, from the oldest to the latest."""

    def __init__(self, disk: Disk, directory: Path) -> None:
        self._disk = disk
        self.directory = directory
        self.ids: list[SnapshotId] = []

    def load(self, log_start_offset: int) -> None:
        """See what is there. What is partial, to be deleted, or below the log's start goes. Raises StartRefused."""
        for path in sorted(self.directory.iterdir()):
            name = parse(path.name)
            if name is None or name.kind is not FileKind.KRAFT_SNAPSHOT:
                continue
            assert name.base_offset is not None, "these names have an offset"
            assert name.epoch is not None, "and an epoch"
            if name.state or name.base_offset < log_start_offset:
                self._disk.remove(path)
            else:
                self.ids.append(SnapshotId(name.base_offset, name.epoch))
        self.ids.sort()
        if log_start_offset and not self.ids:
            reason = f"the log begins at {log_start_offset:,}, and no snapshot has what was before"
            raise StartRefused(self.directory.name, reason)

    @property
    def latest(self) -> SnapshotId | None:
        """The latest snapshot; None where there is none."""
        return self.ids[-1] if self.ids else None

    def path(self, snapshot: SnapshotId) -> Path:
        """Where a snapshot is."""
        return self.directory / snapshot.file_name

    def write(self, snapshot: SnapshotId, batches: Iterator[bytearray]) -> int:
        """Write a snapshot; `added` makes it known. For another thread: takes as long as the disk does.

        Returns its bytes. Raises OSError; then nothing is left of it.
        """
        path = self.path(snapshot)
        part = path.with_name(f"{path.name}.part")
        size = 0
        try:
            with self._disk.open(part, create=True, truncate=True) as file:
                for batch in batches:
                    size += file.write([batch], size)
                file.sync()
                os.fchmod(file.fd, READ_ONLY)
            self._disk.rename(part, path)
            self._disk.sync_directory(self.directory)
        except BaseException:
            self._disk.remove(part)
            raise
        return size

    def added(self, snapshot: SnapshotId) -> None:
        """It has been written."""
        self.ids.append(snapshot)
        self.ids.sort()

    def forget_before(self, snapshot: SnapshotId) -> list[Path]:
        """Give those before it the suffix `.deleted`. Returns the files, to be removed later. Raises OSError."""
        gone = [each for each in self.ids if each < snapshot]
        self.ids = [each for each in self.ids if each >= snapshot]
        renamed = []
        for each in gone:
            path = self.path(each)
            renamed.append(path.with_name(path.name + DELETED))
            self._disk.rename(path, renamed[-1])
        return renamed

    def oldest_is_due(self, limits: Retention, log_bytes: int, now_ms: int) -> bool:
        """May the oldest go, with the log up to the next one: by size of all, or by age? Raises UnreadableInput."""
        if len(self.ids) < 2:
            return False
        total = log_bytes + sum(self.path(each).stat().st_size for each in self.ids)
        if 0 <= limits.bytes_max < total:
            return True
        return 0 <= limits.ms_max < now_ms - last_timestamp_ms(self.path(self.ids[0]))


def last_timestamp_ms(path: Path) -> int:
    """The time of the last record that went into a snapshot, by its header. Raises UnreadableInput."""
    value = next(read_snapshot(path)).controls[0].value
    timestamp: int = value["lastContainedLogTimestamp"]
    return timestamp
