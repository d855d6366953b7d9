"""Which batches can be read by consumers and, in a coordinator's topic, by the coordinator. Consumers can read a batch
if it has a magic and codec of Kafka's and a right CRC, and if its payload decompresses to the records that the header
says.

A start checks only framing and CRC, and below the recovery point not even these. A consumer stops for good at a batch
that it cannot read: every Fetch returns the same batch. It skips a batch whose offsets are below those of a batch
before it. A coordinator reads its topic in the same way, and also stops at some records (kcli.log.recovery.load_stops).
Source: Kafka's DefaultRecordBatch, CompletedFetch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from formats.kernels.columns import BatchRow, RecordRow
from formats.kernels.records import RecordTable
from kcli.log.batch_records import decode, is_readable
from kcli.log.partition_view import Content, ContentSource
from kcli.log.recovery.batch_count import recounted
from kcli.log.recovery.batch_last_offset import INT_MAX, Around, with_right_last_offset
from kcli.log.recovery.batch_length import resized
from kcli.log.recovery.batch_magic import RightMagic
from kcli.log.recovery.load_stops import stops
from kcli.log.recovery.misdirected import Home, owners_of
from kcli.log.segment_reader import Damage, read_segment, sound_batches

RECORDS_AT_ONCE = 4096
MAGIC_WITH_HEADER = 2
OFFSET_BITS = 63
OFFSET_MAX = 2**63 - 1
KNOWN_MAX = 1 << 18
SEQUENCES = 2**31
"""The number of sequence numbers: after the largest one, a producer begins again at 0."""


class Judged(NamedTuple):
    """A batch with a whole header. is_readable: whether consumers and, in a coordinator's topic, the coordinator can
    read it."""

    row: BatchRow
    is_readable: bool


def first_offset(row: BatchRow) -> int:
    """Return the offset of a batch's first record. For a message of magic 0 or 1, return the offset in its header,
    which is the offset of its last record."""
    return row.base_offset if row.magic >= MAGIC_WITH_HEADER else row.last_offset


def judged(name: str, content: Content, home: Home) -> Iterator[Judged | Damage]:
    """Yield the batches of a .log file in the order of the file, all decompressed and parsed, and the damage between
    them. home: the partition; batches of another partition (`home.mixed`, `home.copied`) count as unreadable. Raises
    UnreadableInput."""
    source = ContentSource(name, content)
    records = RecordTable(RECORDS_AT_ONCE)
    is_mixed = name in home.mixed
    copied = home.copied.get(name, ())
    try:
        for part in read_segment(source):
            if isinstance(part, Damage):
                yield part
                continue
            not_loaded: set[int] = set()
            last = -1
            for buffer in decode(part, records):
                not_loaded.update(stop.batch for stop in stops(home.topic, part, records, buffer))
                if is_mixed and records.count:
                    found = owners_of(home, part, records, buffer, last)
                    not_loaded.update(batch for batch, owner in found if owner != home.name)
                    last = RecordRow._make(records.row(records.count - 1)).batch
            for i in range(part.batches.count):
                row = BatchRow._make(part.batches.row(i))
                is_own = i not in not_loaded and (row.base_offset, row.crc) not in copied
                yield Judged(row, is_own and is_readable(part, i))
            part.release()
    finally:
        source.close()


@dataclass(frozen=True, slots=True)
class Room:
    """The offsets that the batches of a .log file may have: from `begin` on and below `end`, each None if it is not
    known.

    limit: an offset that no batch of the file may reach. `in_place` fills moved, resized, recounted and last_offsets,
    whose keys are the bytes at which batches begin. moved: the base offset in the file of each batch that is yielded
    with a corrected base offset. resized: the length in the file of each batch that is yielded with a corrected length.
    recounted: the record count in the file of each batch that is yielded with a corrected count, and the batch with
    that. last_offsets: likewise of each batch with a corrected last offset. magics: the batches whose magic is
    corrected in the content, by the bytes at which they begin. is_copy(row): whether the log has the same batch a
    second time, at another byte.
    """

    begin: int | None = None
    end: int | None = None
    limit: int = OFFSET_MAX
    moved: dict[int, int] = field(default_factory=dict)
    resized: dict[int, int] = field(default_factory=dict)
    recounted: dict[int, tuple[int, Content]] = field(default_factory=dict)
    last_offsets: dict[int, tuple[int, Content]] = field(default_factory=dict)
    magics: Mapping[int, RightMagic] = field(default_factory=dict)
    is_copy: Callable[[BatchRow], bool] = lambda _: False


def in_place(
    name: str,
    content: Content,
    home: Home,
    left_out: Callable[[BatchRow], None] = lambda _: None,
    room: Room | None = None,
) -> Iterator[BatchRow]:
    """Yield the batches of a .log file that consumers and, in a coordinator's topic, the coordinator can read, in the
    order of the file. A batch is left out if its neighbours show that its offsets are wrong. But with `room` it is
    yielded with the right base offset, if its neighbours, or the ends of the room, leave only one possible. If another
    batch of the file has the offsets that the neighbours leave, the two have changed places, and the batch is yielded
    as it is. With `room`, a batch with a wrong length (kcli.log.recovery.batch_length), record count
    (kcli.log.recovery.batch_count) or last offset (kcli.log.recovery.batch_last_offset) is yielded, too, with the right
    one.

    home: the partition, as in `judged`. left_out: called with each batch that is not yielded and has a header. Raises
    UnreadableInput.
    """
    before: BatchRow | None = None
    held: BatchRow | None = None
    is_known = _Known(name, content).has
    for part in _with_right_headers(name, content, home, room):
        if not part.is_readable:
            left_out(part.row)
            continue
        if held is not None:
            held = held if room is None else _with_last_offset(name, content, before, held, part.row, room)
            placed = None if room is None else _put_back(before, held, part.row, room, is_known)
            if placed is None and _has_wrong_offsets(before, held, part.row, is_known):
                left_out(held)
            else:
                before = held if placed is None else placed
                yield before
        held = part.row
    if held is not None:
        held = held if room is None else _with_last_offset(name, content, before, held, None, room)
        placed = None if room is None else _put_back(before, held, content.size, room, is_known)
        yield held if placed is None else placed


class _Known:
    """The base offsets of the sound batches of a .log file, which is read when it is first asked for one; none of a
    file of more than KNOWN_MAX batches."""

    def __init__(self, name: str, content: Content) -> None:
        self._name = name
        self._content = content
        self._offsets: set[int] | None = None

    def has(self, offset: int) -> bool:
        """Whether a sound batch of the file has this base offset. Raises UnreadableInput."""
        if self._offsets is None:
            source = ContentSource(self._name, self._content)
            try:
                found = {first_offset(row) for row in islice(sound_batches(source), KNOWN_MAX + 1)}
            finally:
                source.close()
            self._offsets = found if len(found) <= KNOWN_MAX else set()
        return offset in self._offsets


def _with_right_headers(name: str, content: Content, home: Home, room: Room | None) -> Iterator[Judged]:
    """Yield the batches of a .log file, in the order of the file. If `room` is given, batches with a wrong length are
    yielded, too, with the right size, and batches with a wrong record count are readable, with the right count. Raises
    UnreadableInput."""
    for part in judged(name, content, home):
        if isinstance(part, Judged):
            yield part if room is None or part.is_readable else _with_right_count(name, content, home, part, room)
            continue
        found = None if room is None else resized(name, content, part)
        if room is not None and found is not None:
            room.resized[part.position] = found.before
            yield Judged(found.row, _is_readable(name, found.content, home))


def _with_right_count(name: str, content: Content, home: Home, batch: Judged, room: Room) -> Judged:
    """Return a batch that cannot be read; readable with the right record count, if only that is wrong. Raises
    UnreadableInput."""
    found = recounted(name, content, batch.row)
    if found is None or not _is_readable(name, found.content, home):
        return batch
    room.recounted[batch.row.position] = found.before, found.content
    return Judged(found.row, is_readable=True)


def _with_last_offset(
    name: str, content: Content, before: BatchRow | None, row: BatchRow, behind: BatchRow | None, room: Room
) -> BatchRow:
    """Return the header of a batch; with the right last offset, if only that is wrong. behind: the next batch; None for
    the last one. Raises UnreadableInput."""
    if row.position in room.resized or row.position in room.recounted:
        return row
    begin = room.begin if before is None else before.last_offset + 1
    around = Around(begin, None if behind is None else first_offset(behind), room.limit, room.end)
    found = with_right_last_offset(name, content, row, around)
    if found is None:
        return row
    room.last_offsets[row.position] = found.before, found.content
    return found.row


def limit_of(begin: int, following: int | None) -> int:
    """Return the offset that no batch of a .log file may reach. begin: the offset at which the file begins. following:
    the base offset of the next segment; None for the last one."""
    limit = min(begin + INT_MAX + 1, OFFSET_MAX)
    return limit if following is None else min(limit, following)


def _is_readable(name: str, batch: Content, home: Home) -> bool:
    return all(isinstance(each, Judged) and each.is_readable for each in judged(name, batch, home))


def _put_back(
    before: BatchRow | None,
    row: BatchRow,
    behind: BatchRow | int,
    room: Room,
    is_known: Callable[[int], bool] = lambda _: False,
) -> BatchRow | None:
    """Return the batch with the right base offset, if that differs from the present one in one bit and is the only
    possible base offset; else None. behind: the next batch; of the last one the size of the file. is_known: returns
    whether a batch of the file has a base offset, which is then not possible.

    No CRC covers a base offset. A base offset is the only possible one if no other that differs in one bit leaves the
    batch between the batch before (or the beginning of the room) and the one behind it (or the end of the room); the
    present one does not. Where bytes between these batches are damaged, others may have been there, so that it also has
    to be next to one of them, in bytes and in offsets, or in sequence with one. A copy of another batch, written over
    this one, is not changed.
    """
    begin = room.begin if before is None else before.last_offset + 1
    end = room.end if isinstance(behind, int) else first_offset(behind)
    span = row.last_offset - row.base_offset + 1
    if row.magic < MAGIC_WITH_HEADER or begin is None or end is None or begin <= row.base_offset <= end - span:
        return None
    flipped = (row.base_offset ^ (1 << bit) for bit in range(OFFSET_BITS))
    possible = [each for each in flipped if begin <= each <= end - span]
    if len(possible) != 1 or is_known(possible[0]) or room.is_copy(row):
        return None
    found = row._replace(base_offset=possible[0], last_offset=possible[0] + span - 1)
    following = None if isinstance(behind, int) else behind
    is_next = found.base_offset == begin, found.last_offset + 1 == end
    if (is_next[0] and not _follows(before, found)) or (is_next[1] and following and not _follows(found, following)):
        return None
    touches = (
        row.position == (0 if before is None else before.position + before.size),
        row.position + row.size == (behind if isinstance(behind, int) else behind.position),
    )
    is_fixed = all(touches) or any(map(all, zip(touches, is_next, strict=True)))
    if not is_fixed and not any(each is not None and in_sequence(each, found) for each in (before, following)):
        return None
    room.moved[row.position] = row.base_offset
    return found


def _has_wrong_offsets(
    before: BatchRow | None, row: BatchRow, behind: BatchRow, is_known: Callable[[int], bool]
) -> bool:
    """Return whether the header of a batch has wrong offsets, as its two neighbours show. is_known: returns whether a
    batch of the file has a base offset.

    Either the batch's last offset is beyond the offset of its last record, and the next batch begins right after that
    record; or the batch's base offset does not follow the batch before it, though the two neighbours leave exactly as
    many offsets as the batch spans, and no other batch has these. Where bytes beside it are damaged, the lost batch may
    have had these: then the base offset is wrong only if it differs from the expected one in one bit, and the batch is
    not in sequence with the one before it.
    """
    span = row.last_offset - row.base_offset + 1
    if row.magic >= MAGIC_WITH_HEADER and span > row.count and row.base_offset + row.count == first_offset(behind):
        return True
    expected = None if before is None else before.last_offset + 1
    if expected is None or first_offset(row) == expected or expected + span != first_offset(behind):
        return False
    assert before is not None, "an offset is expected behind it"
    is_alone = before.position + before.size < row.position or row.position + row.size < behind.position
    is_one_bit = (first_offset(row) ^ expected).bit_count() == 1
    if is_alone and (not is_one_bit or in_sequence(before, row)):
        return False
    return not is_known(expected)


def in_sequence(one: BatchRow, other: BatchRow) -> bool:
    """Return whether two batches are of the same producer and epoch, and as many sequence numbers apart as offsets."""
    if one.producer_id < 0 or (one.producer_id, one.producer_epoch) != (other.producer_id, other.producer_epoch):
        return False
    if min(one.base_sequence, other.base_sequence) < 0:
        return False
    return (other.base_sequence - one.base_sequence - other.base_offset + one.base_offset) % SEQUENCES == 0


def _follows(before: BatchRow | None, row: BatchRow) -> bool:
    """Return whether `row` may come right after the batch `before`: if both are of the same producer and epoch, the
    sequence of `row` must continue that of `before`. A group coordinator's batches have sequence 0, and no producer."""
    if before is None or row.producer_id < 0 or row.base_sequence < 0 or before.base_sequence < 0:
        return True
    if (before.producer_id, before.producer_epoch) != (row.producer_id, row.producer_epoch):
        return True
    return row.base_sequence == (before.base_sequence + before.count) % SEQUENCES


def first_unread(
    name: str, content: Content, home: Home, following: int | None, reached: int | None = None
) -> int | None:
    """Return the byte of the first batch of a .log file that its readers (see the module) cannot read, or whose last
    offset is wrong (kcli.log.recovery.batch_last_offset). Else return the byte of the last batch, if a flipped bit in
    its base offset has moved it beyond the next segment's base offset, or beyond the log end offset; else None.

    home: the partition, as in `judged`. following: the base offset of the next segment; None for the last one, whose
    damaged end a start cuts. reached: the log end offset that the checkpoints state; None if they have no entry. Raises
    UnreadableInput.
    """
    end = -1
    before: BatchRow | None = None
    last: BatchRow | None = None
    until = reached if following is None else following
    room = Room(None, until)
    for part in judged(name, content, home):
        if isinstance(part, Damage):
            if part.at_end and following is None:
                continue
            return part.position
        if last is None:
            room = Room(first_offset(part.row), until, limit_of(first_offset(part.row), following))
        elif _with_last_offset(name, content, before, last, part.row, room) is not last:
            return last.position
        if not part.is_readable or first_offset(part.row) <= end:
            return part.row.position
        end = max(end, part.row.last_offset)
        before, last = last, part.row
    if last is not None and _with_last_offset(name, content, before, last, None, room) is not last:
        return last.position
    if last is None or until is None or last.last_offset < until:
        return None
    return None if _put_back(before, last, content.size, Room(end=until)) is None else last.position
