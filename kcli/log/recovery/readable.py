"""Batches that their readers read. Consumers read one of a magic and codec that Kafka has, with a right CRC, and whose
payload decompresses to the records that the header says.

A start looks at framing and CRC only, and below the recovery point not even at these. A consumer stops for good at a
batch that it cannot read: every Fetch brings the same batch. It skips a batch whose offsets are below those of a batch
before it. A coordinator reads its topic in the same way, and also stops at some records
(kcli.log.recovery.load_stops). Source: Kafka's DefaultRecordBatch, CompletedFetch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from formats.kernels.columns import BatchRow
from formats.kernels.records import RecordTable
from kcli.log.batch_records import decode, is_readable
from kcli.log.partition_view import Content, ContentSource
from kcli.log.recovery.load_stops import stops
from kcli.log.segment_reader import Damage, read_segment

RECORDS_AT_ONCE = 4096
MAGIC_WITH_HEADER = 2


class Judged(NamedTuple):
    """A batch with a whole header, and whether its readers read it."""

    row: BatchRow
    is_readable: bool


def first_offset(row: BatchRow) -> int:
    """The offset of the first record of a batch; for a message of magic 0 or 1 the one that it has."""
    return row.base_offset if row.magic >= MAGIC_WITH_HEADER else row.last_offset


def judged(name: str, content: Content, topic: str) -> Iterator[Judged | Damage]:
    """Yield the batches of a topic's log in the order of the file, all decompressed and parsed. Raises
    UnreadableInput."""
    source = ContentSource(name, content)
    records = RecordTable(RECORDS_AT_ONCE)
    try:
        for part in read_segment(source):
            if isinstance(part, Damage):
                yield part
                continue
            not_loaded: set[int] = set()
            for buffer in decode(part, records):
                not_loaded.update(stop.batch for stop in stops(topic, part, records, buffer))
            for i in range(part.batches.count):
                yield Judged(BatchRow._make(part.batches.row(i)), i not in not_loaded and is_readable(part, i))
            part.release()
    finally:
        source.close()


def in_place(
    name: str, content: Content, topic: str, left_out: Callable[[BatchRow], None] = lambda _: None
) -> Iterator[BatchRow]:
    """Yield the batches of a topic's log that their readers read, in the order of the file, without those that have
    wrong offsets between neighbours which tell the right ones. left_out: is called with each of the others that has a
    header.

    Raises UnreadableInput.
    """
    before: BatchRow | None = None
    held: BatchRow | None = None
    for part in judged(name, content, topic):
        if isinstance(part, Damage):
            continue
        if not part.is_readable:
            left_out(part.row)
            continue
        if held is not None:
            if _has_wrong_offsets(before, held, part.row):
                left_out(held)
            else:
                yield held
                before = held
        held = part.row
    if held is not None:
        yield held


def _has_wrong_offsets(before: BatchRow | None, row: BatchRow, behind: BatchRow) -> bool:
    """Whether a batch lies with other offsets between two neighbours that leave room for just its records.

    Its last offset is beyond its records, and the batch behind begins right after these; or its base offset is not the
    one behind the batch before it, where this and the batch behind leave as many offsets as it spans.
    """
    span = row.last_offset - row.base_offset + 1
    if row.magic >= MAGIC_WITH_HEADER and span > row.count and row.base_offset + row.count == first_offset(behind):
        return True
    expected = None if before is None else before.last_offset + 1
    return expected is not None and first_offset(row) != expected and expected + span == first_offset(behind)


def first_unread(name: str, content: Content, topic: str, *, is_last: bool) -> int | None:
    """The byte of the first batch of a topic's log that its readers do not read, None where they read all. is_last: no
    log follows, and a start cuts the end.

    Raises UnreadableInput.
    """
    end = -1
    for part in judged(name, content, topic):
        if isinstance(part, Damage):
            if part.at_end and is_last:
                continue
            return part.position
        if not part.is_readable or first_offset(part.row) <= end:
            return part.row.position
        end = max(end, part.row.last_offset)
    return None
