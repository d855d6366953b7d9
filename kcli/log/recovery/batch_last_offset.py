"""Finding the right last offset of a batch whose header has a wrong one, by its records and what lies behind it.

The header states the last offset as an int32, the last offset delta, which the CRC covers: where the CRC is right, the
delta was wrong before the CRC was computed, as from bad memory. A leader appends a producer's batch only if it has as
many records as offsets; the cleaner removes records, and leaves the last offset. So a batch has at most as many records
as offsets, its last record is at or below its last offset, and the next batch begins above that.

below  the last offset is below the last record's. The batch has fewer offsets than records, or else the next batch
       begins right behind the last record: a leader does not look at the offsets of uncompressed records, so that the
       records may be what is wrong
above  the next batch begins right behind the last record, though at or below the last offset. At the end of the .log
       file, the next segment begins there, or the log had reached that offset by the checkpoints; or the batch follows
       the one before it, and its last offset is in the next segment, or too far above this one's base offset

Source: LogValidator.validateBatch, MemoryRecords.filterTo.
"""

from __future__ import annotations

from typing import NamedTuple

from formats.kernels.batches import FAULT_OFFSET_OUT_OF_RANGE, FAULT_OFFSETS_NOT_INCREASING
from formats.kernels.columns import BatchRow
from kcli.log.batch_records import ENDS_CONSUMERS
from kcli.log.partition_view import Content
from kcli.log.recovery.batch_count import WRONG_OFFSETS
from kcli.log.recovery.batch_length import MAGIC
from kcli.log.recovery.covered_fields import read_batch, with_int

LAST_OFFSET_DELTA_AT = 23
INT_MAX = 2**31 - 1


class Around(NamedTuple):
    """What lies around a batch: `begin`, the offset behind the batch before it, or that at which the .log file begins;
    `behind`, the first offset of the next batch, None for the last batch of the file; of the last batch `limit`, which
    no offset of the file may reach, and `end`, that at which the next segment begins, or which the log had reached;
    each None if it is not known."""

    begin: int | None
    behind: int | None
    limit: int
    end: int | None


class RightLastOffset(NamedTuple):
    """A batch with its last offset and CRC corrected. before: the last offset in the file. row: its header, with the
    batch's position in the file."""

    content: Content
    before: int
    row: BatchRow


def with_right_last_offset(name: str, content: Content, row: BatchRow, around: Around) -> RightLastOffset | None:
    """Return the batch with the right last offset, if that is all that is wrong with it; else None.

    name, content: the name and content of the .log file. row: the header of the batch, whose records were decoded.
    Raises UnreadableInput.
    """
    if row.magic != MAGIC or row.faults & (ENDS_CONSUMERS | FAULT_OFFSETS_NOT_INCREASING) or not _may_be(row, around):
        return None
    batch = content.between(row.position, row.position + row.size)
    read = read_batch(name, batch)
    if read is None or read.last_offset is None or read.records != row.count:
        return None
    if not _is_wrong(row, read.last_offset, around):
        return None
    delta = read.last_offset - row.base_offset
    if not 0 <= delta <= INT_MAX:
        return None
    found = with_int(name, batch, LAST_OFFSET_DELTA_AT, delta)
    right = read_batch(name, found)
    if right is None or right.row.faults & (ENDS_CONSUMERS | WRONG_OFFSETS):
        return None
    return RightLastOffset(found, row.last_offset, right.row._replace(position=row.position))


def _may_be(row: BatchRow, around: Around) -> bool:
    """Whether the header and what lies around the batch allow that its last offset is wrong; its records need not be
    read then to tell that it is right."""
    if row.faults & FAULT_OFFSET_OUT_OF_RANGE:
        return True
    has_more = row.last_offset - row.base_offset + 1 > row.count
    if around.behind is not None:
        return has_more and row.last_offset >= around.behind
    return has_more and (row.last_offset >= around.limit or (around.end is not None and row.last_offset >= around.end))


def _is_wrong(row: BatchRow, last: int, around: Around) -> bool:
    """Whether the last offset in the header is wrong, and `last`, that of the last record, is right."""
    if last >= (around.limit if around.behind is None else around.behind) or last == row.last_offset:
        return False
    is_next = last + 1 == (around.end if around.behind is None else around.behind)
    if row.last_offset < last:
        return is_next or row.last_offset - row.base_offset + 1 < row.count
    return is_next or (around.behind is None and row.last_offset >= around.limit and row.base_offset == around.begin)
