"""Finding the right record count of a batch whose header has a wrong one, by its records.

The CRC covers the count: where the CRC is right, the count was wrong before the CRC was computed, as from bad memory.
If the payload is whole records up to its last byte, and their offsets rise and lie in the batch, their number is the
right count.
"""

from __future__ import annotations

from typing import NamedTuple

from formats.kernels.batches import (
    FAULT_COUNT_TOO_HIGH,
    FAULT_COUNT_TOO_LOW,
    FAULT_NEGATIVE_COUNT,
    FAULT_OFFSET_OUT_OF_RANGE,
    FAULT_OFFSETS_NOT_INCREASING,
)
from formats.kernels.columns import BatchRow
from kcli.log.batch_records import ENDS_CONSUMERS
from kcli.log.partition_view import Content
from kcli.log.recovery.batch_length import MAGIC
from kcli.log.recovery.covered_fields import read_batch, with_int

WRONG_COUNT = FAULT_COUNT_TOO_HIGH | FAULT_COUNT_TOO_LOW | FAULT_NEGATIVE_COUNT
WRONG_OFFSETS = FAULT_OFFSETS_NOT_INCREASING | FAULT_OFFSET_OUT_OF_RANGE
COUNT_AT = 57
COUNT_MAX = 2**31 - 1


class Recounted(NamedTuple):
    """A batch with its record count and CRC corrected. before: the count in the file. row: its header, with the batch's
    position in the file."""

    content: Content
    before: int
    row: BatchRow


def recounted(name: str, content: Content, row: BatchRow) -> Recounted | None:
    """Return the batch with the right record count, if that is all that is wrong with it; else None.

    name, content: the name and content of the .log file. row: the header of the batch, whose records were decoded.
    Raises UnreadableInput.
    """
    faults = row.faults & ENDS_CONSUMERS
    if row.magic != MAGIC or not faults or faults & ~WRONG_COUNT:
        return None
    batch = content.between(row.position, row.position + row.size)
    most = read_batch(name, with_int(name, batch, COUNT_AT, COUNT_MAX))
    if most is None or not most.records:
        return None
    found = with_int(name, batch, COUNT_AT, most.records)
    right = read_batch(name, found)
    if right is None or right.row.faults & (ENDS_CONSUMERS | WRONG_OFFSETS):
        return None
    return Recounted(found, row.count, right.row._replace(position=row.position))
