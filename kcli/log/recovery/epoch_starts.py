"""Where the leader epochs of a log begin: DeleteRecords and retention move the first one to the new log start offset.
DeleteRecords does so within a segment, too, whose earlier batches stay in the file; whole segments below are deleted,
and may be there again, as from a backup.

Where the first epoch begins with a segment, right behind the last offset of the segment before, retention may have
deleted those before, which are there again; or the file was lost, and a start after a crash made it anew from the
segments that it recovered (`may_be_made_anew`). Then nothing was deleted.

A checkpoint of another partition is no evidence about this log. It contradicts the batches; or it equals the checkpoint
of another partition, while this log still has whole segments below, which a broker deletes soon after DeleteRecords.

Source: LeaderEpochFileCache.truncateFromStart, UnifiedLog.deleteLogStartOffsetBreachedSegments.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from formats.checkpoint import EpochEntry, parse_leader_epochs
from formats.errors import FormatError
from formats.file_name import FileKind
from kcli.errors import KcliError
from kcli.log.index_entries import OFFSET_ENTRY_BYTES, OffsetIndexReader, whole_entries
from kcli.log.leader_epochs import LeaderEpochCache
from kcli.log.partition_directory import files_of_kind
from kcli.log.recovery.exchanged import HEADER, LENGTH_EXTRA_BYTES, MAGIC
from kcli.log.source import read_whole

LONG_MAX = 2**63 - 1
COMPARED_MAX_BYTES = 1 << 20
"""The largest leader-epoch-checkpoint that is compared with those of other partitions."""
OFFSETS_MAX = 1_000
"""The largest number of offsets at which the leader epochs of a log and of its checkpoint are compared."""


class _Batch(NamedTuple):
    """The leader epoch of a batch, and its first and last offset."""

    epoch: int
    start_offset: int
    last_offset: int


def first_epoch_start(directory: Path) -> int | None:
    """Return the offset at which the first leader epoch of the log in a partition's directory begins; None without
    leader epochs, and if they cannot be read."""
    epochs = _epochs(directory)
    return epochs[0].start_offset if epochs else None


def start_by_epochs(directory: Path) -> int:
    """Return the log start offset of a log that has records which DeleteRecords or retention has deleted, as
    leader-epoch-checkpoint shows it: the first leader epoch begins at the log start offset, although the log's last
    batch that begins below it has the same epoch. Returns 0 for any other log, if the checkpoint is another
    partition's, and if the files cannot be read."""
    epochs = _epochs(directory)
    if not epochs:
        return 0
    try:
        logs = files_of_kind(directory, FileKind.LOG)
        if not all(log.is_file() for _, log in logs):  # opening a named pipe would block
            return 0
        logs = [(base, log) for base, log in logs if log.stat().st_size]
        epoch, start = epochs[0]
        before = _last_batch(logs, start - 1)
        if before is None or before.epoch != epoch:
            return 0
        is_others = _contradicts(epochs, logs) or (
            _has_whole_segments_below(logs, start) and any(same_as(directory / FileKind.LEADER_EPOCHS))
        )
    except (KcliError, OSError, ValueError):  # the plan reports such an error
        return 0
    return 0 if is_others else start


def may_be_made_anew(directory: Path, start: int) -> bool:
    """Return whether the leader epochs of the log in a partition's directory may begin at the offset `start` because a
    start of Kafka has made leader-epoch-checkpoint anew. False if the files cannot be read."""
    try:
        logs = files_of_kind(directory, FileKind.LOG)
        if not all(log.is_file() for _, log in logs):
            return False
        before = _last_batch([each for each in logs if each[1].stat().st_size], start - 1)
    except (KcliError, OSError, ValueError):  # the plan reports such an error
        return False
    return before is not None and before.last_offset + 1 == start and any(base == start for base, _ in logs)


def same_as(checkpoint: Path) -> Iterator[Path]:
    """Yield the checkpoints of this name, and of the same bytes, in the other directories beside that of a partition.
    Raises OSError."""
    path = checkpoint.absolute()
    size = path.stat().st_size
    data = path.read_bytes() if size <= COMPARED_MAX_BYTES else b""
    for other in sorted(path.parent.parent.glob(f"*/{path.name}")) if data else ():
        if other != path and other.is_file() and other.stat().st_size == size and other.read_bytes() == data:
            yield other


def _has_whole_segments_below(logs: Sequence[tuple[int, Path]], start: int) -> bool:
    """Whether segments of a log end at or below the offset `start`. logs: base offset and path of each .log file."""
    return sum(base <= start for base, _ in logs) > 1


def _contradicts(epochs: Sequence[EpochEntry], logs: Sequence[tuple[int, Path]]) -> bool:
    """Whether a batch of a log has another leader epoch than the entries of leader-epoch-checkpoint say: compared are
    the batches at the beginning of each epoch and right before it, the first batch of each segment, and the last batch
    of the log; at most the first OFFSETS_MAX of these. Raises KcliError, OSError, ValueError."""
    stated = LeaderEpochCache(epochs)
    offsets = {base for base, _ in logs} | {LONG_MAX}
    offsets |= {each.start_offset - before for each in epochs for before in (0, 1)}
    found = (_last_batch(logs, offset) for offset in islice(sorted(offsets), OFFSETS_MAX))
    return any(
        stated.epoch_for(each.start_offset) not in (None, each.epoch)
        for each in found
        if each is not None and each.epoch >= 0
    )


def _last_batch(logs: Sequence[tuple[int, Path]], until: int) -> _Batch | None:
    """Return a log's last batch that begins at or below the offset `until`; None if there is none, or if the file has
    other bytes there. logs: base offset and path of each .log file that is not empty.
    Raises KcliError, OSError."""
    below = [each for each in logs if each[0] <= until]
    if not below:
        return None
    base, log = max(below)
    index = log.with_suffix(FileKind.OFFSET_INDEX)
    entries = whole_entries(read_whole(index), OFFSET_ENTRY_BYTES) if index.is_file() else b""
    found = None
    for each in _batches(log, OffsetIndexReader(entries, base).position_of(until)):
        if each.start_offset > until:
            break
        found = each
    return found


def _batches(log: Path, position: int) -> Iterator[_Batch]:
    """Yield the batches of a .log file from a byte on, up to bytes that are no batch. Raises OSError."""
    with log.open("rb", buffering=0) as file:
        while len(data := os.pread(file.fileno(), HEADER.size, position)) == HEADER.size:
            offset, length, epoch, magic, _, _, last_delta = HEADER.unpack(data)
            if magic != MAGIC or length < HEADER.size:
                break
            yield _Batch(epoch, offset, offset + last_delta)
            position += length + LENGTH_EXTRA_BYTES


def _epochs(directory: Path) -> Sequence[EpochEntry]:
    """Return the entries of leader-epoch-checkpoint; none if the file cannot be read."""
    checkpoint = directory / FileKind.LEADER_EPOCHS
    try:
        return parse_leader_epochs(read_whole(checkpoint)) if checkpoint.is_file() else ()
    except (FormatError, KcliError, OSError):  # the plan reports such an error
        return ()
