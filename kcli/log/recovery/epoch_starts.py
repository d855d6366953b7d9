"""Where the leader epochs of a log begin: DeleteRecords moves the first one to the new log start offset, also within a
segment, whose earlier batches stay in the file. Source: LeaderEpochFileCache.truncateFromStart."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

from formats.checkpoint import EpochEntry, parse_leader_epochs
from formats.errors import FormatError
from formats.file_name import FileKind
from kcli.errors import KcliError
from kcli.log.partition_directory import files_of_kind
from kcli.log.source import read_whole

HEAD = struct.Struct(">qiib")
"""The begin of a batch: base offset, length, partition leader epoch, magic."""
MAGIC = 2


def first_epoch_start(directory: Path) -> int | None:
    """Return the offset at which the first leader epoch of the log in a partition's directory begins; None without
    leader epochs, and if they cannot be read."""
    epochs = _epochs(directory)
    return epochs[0].start_offset if epochs else None


def start_by_epochs(directory: Path) -> int:
    """Return the log start offset of a log whose first records DeleteRecords has deleted, as leader-epoch-checkpoint
    shows it: the first leader epoch begins at the log start offset, although the log's first batch, which begins below
    it, has the same epoch. Returns 0 for any other log, and if the files cannot be read."""
    epochs = _epochs(directory)
    if not epochs:
        return 0
    try:
        _, first = min(files_of_kind(directory, FileKind.LOG))
        if not first.is_file():  # opening a named pipe would block
            return 0
        with first.open("rb") as log:
            offset, _, leader_epoch, magic = HEAD.unpack(log.read(HEAD.size))
    except (OSError, ValueError, struct.error):  # the plan reports such an error
        return 0
    if magic != MAGIC or epochs[0].epoch != leader_epoch or epochs[0].start_offset <= offset:
        return 0
    return epochs[0].start_offset


def _epochs(directory: Path) -> Sequence[EpochEntry]:
    """Return the entries of leader-epoch-checkpoint; none if the file cannot be read."""
    checkpoint = directory / FileKind.LEADER_EPOCHS
    try:
        return parse_leader_epochs(read_whole(checkpoint)) if checkpoint.is_file() else ()
    except (FormatError, KcliError, OSError):  # the plan reports such an error
        return ()
