"""Whether a checkpoint may be wrong that is the only one with an offset above the end of a log.

The recovery point and the high watermark are written apart: after a power failure one of them may be above the end of
the log, which then has lost its last records. But the offset above the end may also be wrong. It is doubtful if all of
these show that the log hardly reached it:

    the other checkpoint's offset is within the log     the log was flushed or replicated up to there
    the log has a closed segment                        it shows how many offsets a segment of this log has
    the last offset index ends in preallocated zeros    Kafka began no later segment: all missing offsets would have
                                                        been in the last segment
    more than DOUBT_FACTOR times as many offsets are    one segment does not have so many
    missing as the log has

Otherwise, as in a log that has just begun, the offset counts as evidence of a loss.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from formats.file_name import FileKind
from kcli.log.index_entries import OFFSET_ENTRY_BYTES
from kcli.log.partition_directory import files_of_kind

DOUBT_FACTOR = 4


def is_doubtful(stated: Sequence[int], start: int, end: int, directory: Path) -> bool:
    """Return whether the offset of the only checkpoint that has one above a log's end may be wrong.

    stated: the recovery point and the high watermark, as far as they are known. start, end: the first offset of the
    log, and the log end offset. directory: the partition's.
    """
    beyond = [each for each in stated if each > end]
    is_other_within = any(start < each <= end for each in stated)
    if len(beyond) != 1 or not is_other_within or beyond[0] - end <= DOUBT_FACTOR * (end - start):
        return False
    return _has_growing_end(directory)


def _has_growing_end(directory: Path) -> bool:
    """Whether a log has a closed segment, and the offset index of the last segment ends in zeros. False if the file
    cannot be read."""
    logs = sorted(files_of_kind(directory, FileKind.LOG))
    if len(logs) < 2:
        return False
    try:
        fd = os.open(logs[-1][1].with_suffix(FileKind.OFFSET_INDEX), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        size = os.fstat(fd).st_size
        return size > OFFSET_ENTRY_BYTES and not any(os.pread(fd, OFFSET_ENTRY_BYTES, size - OFFSET_ENTRY_BYTES))
    except OSError:
        return False
    finally:
        os.close(fd)
