"""A segment, read in windows: the bytes of whole batches, with a table of their headers; and the damage in between.

    for part in read_segment(source): a Window (whole batches, in order) or a Damage (bytes that are no batch)

A window begins at a batch. If the last batch does not end in it, the next window begins there; a batch larger than a
window gets one to itself, up to `max_batch_bytes`. Memory is that of one window, whatever the size of the file.

With `resync`, reading continues after damage: at the next byte where a batch with a correct CRC begins. A batch with a
bad CRC whose length still leads on, batch by batch, to that place (or to the end) stays a row of its window; if it
leads elsewhere, the length itself is damaged, and all bytes up to the next sound batch are Damage. Without `resync`,
reading ends at the first byte that is no batch, as in kafka-dump-log. Kafka opens no segment of more than 2^31 - 1
bytes: the bytes after them are Damage (LimitExceeded), and are not read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from formats.errors import BadChecksum, BadLength, FormatError, LimitExceeded, Truncated
from formats.kernels.batches import FAULT_BAD_CRC, FAULT_SHORT_HEADER, BatchTable
from formats.kernels.columns import BatchRow
from formats.kernels.scan import SCAN_BAD_LENGTH, SCAN_END, SCAN_STOPPED, find_batch, scan
from kcli.log.source import SEGMENT_BYTES_MAX, Source

WINDOW_BYTES = 1 << 20
MAX_BATCH_BYTES = 128 << 20
HUNT_BYTES = 4 << 20
FIRST_HUNT_BYTES = 1 << 10  # the first search: the next sound batch is mostly near
AFTER_DAMAGE_BYTES = 1 << 16  # the size of the first window after damage: more damage may follow soon
LOG_OVERHEAD_BYTES = 12
LENGTH_AT = slice(8, 12)
PREFIX_BYTES = 18  # the bytes that distinguish the beginning of a batch from a preallocated end of the file
SMALLEST_LENGTH = 14
ZEROS = bytes(HUNT_BYTES)
UNSOUND = FAULT_BAD_CRC | FAULT_SHORT_HEADER
"""The faults of a batch whose header, or whose records, cannot be trusted."""


@dataclass(slots=True)
class Window:
    """Adjacent whole batches: their bytes in `data`, and a table of their headers, whose rows give `start` as an index
    in `data`.

    `position` is the byte of the file at which `data` begins, `stop` the index in `data` after the last batch.
    """

    data: bytearray
    batches: BatchTable
    position: int
    stop: int
    spare: list[bytearray] = field(default_factory=list)

    def release(self) -> None:
        """Give `data` back, to be the memory of a later window: allocating new memory takes as long as reading. `data`
        must not be used afterwards."""
        self.spare.append(self.data)


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes [position, position + length) of the file, which hold no sound batch. at_end: whether no sound batch
    follows.

    error: what is wrong at `position`: BadLength, Truncated (the file ends inside a batch), BadChecksum (and the
    batch's length leads to no other batch) or LimitExceeded.
    """

    position: int
    length: int
    error: FormatError
    at_end: bool


def read_segment(
    source: Source,
    *,
    start: int = 0,
    stop: int | None = None,
    check_crc: bool = True,
    resync: bool = True,
    window_bytes: int = WINDOW_BYTES,
    max_batch_bytes: int = MAX_BATCH_BYTES,
) -> Iterator[Window | Damage]:
    """Yield the batches in bytes [start, stop) of `source` (stop None: to its end), and the damage in between. A batch
    must begin at `start`.

    check_crc: compute each batch's CRC. resync: go on after damage, see the module. window_bytes: how many bytes to
    read at a time, more if a batch is larger, up to max_batch_bytes. Every Window has a buffer of its own: the
    caller may keep it or hand it to a thread. Raises UnreadableInput.
    """
    return _Reader(source, stop, check_crc, resync, window_bytes, max_batch_bytes).parts(start)


def sound_batches(source: Source) -> Iterator[BatchRow]:
    """Yield the batches of a .log file with a right CRC, in the order of the file. Raises UnreadableInput."""
    for part in read_segment(source):
        if isinstance(part, Damage):
            continue
        rows = (BatchRow._make(part.batches.row(i)) for i in range(part.batches.count))
        yield from (row for row in rows if not row.faults & UNSOUND and row.last_offset >= row.base_offset)
        part.release()


class _Reader:
    def __init__(
        self, source: Source, stop: int | None, check_crc: bool, resync: bool, window_bytes: int, max_batch_bytes: int
    ) -> None:
        self._source = source
        self._stop = stop
        self._check_crc = check_crc
        self._resync = resync
        self._window_bytes = window_bytes
        self._max_batch_bytes = max_batch_bytes
        self._spare: list[bytearray] = []
        self._sound: tuple[int, int | None] = (0, 0)  # the last call of _hunt: its argument and its result
        self._framed_to = -1  # batch lengths are known to lead, batch by batch, to this byte
        # The work that find_batch limits: bytes read by searches to compute CRCs, less 8 times the bytes searched.
        self._work = 0

    def parts(self, position: int) -> Iterator[Window | Damage]:
        yield from self._parts(position)
        size = self._source.size()
        if min(size, size if self._stop is None else self._stop) > SEGMENT_BYTES_MAX:
            reason = f"{size:,} bytes, and Kafka opens no segment of more than {SEGMENT_BYTES_MAX:,}"
            left = size - SEGMENT_BYTES_MAX
            yield Damage(SEGMENT_BYTES_MAX, left, LimitExceeded(reason, SEGMENT_BYTES_MAX), at_end=True)

    def _parts(self, position: int) -> Iterator[Window | Damage]:
        want = self._window_bytes
        while True:
            data, got = self._load(position, want)
            if got == 0:
                return
            table = BatchTable()
            trusted = position < self._framed_to
            done, how, needed = scan(
                data, 0, got, position, table, check_crc=self._check_crc, stop_at_bad_crc=self._resync and not trusted
            )
            damage = None
            if how == SCAN_STOPPED:
                damage = self._lost_framing(table, position + done)
                if damage is not None:
                    table.drop_last()
                    done = damage.position - position
            elif how == SCAN_BAD_LENGTH:
                damage = self._bad_length(data, done, position + done)
            elif how != SCAN_END:
                damage, grown = self._incomplete(position + done, needed, ended=got < want)
                want = grown if done == 0 else self._window_bytes
            else:
                want = self._window_bytes
            if table.count:
                yield Window(data, table, position, done, self._spare)
            position += done
            if damage is not None:
                yield damage
                if damage.at_end or not self._resync:
                    return
                position += damage.length
                want = min(AFTER_DAMAGE_BYTES, self._window_bytes)

    def _load(self, position: int, want: int) -> tuple[bytearray, int]:
        data = self._buffer(max(0, min(want, self._end() - position)))
        return data, self._source.read_at(position, memoryview(data))

    def _buffer(self, size: int) -> bytearray:
        while self._spare:
            data = self._spare.pop()
            if len(data) == size:
                return data
        return bytearray(size)

    def _end(self) -> int:
        size = min(self._source.size(), SEGMENT_BYTES_MAX)
        return size if self._stop is None else min(size, self._stop)

    def _incomplete(self, position: int, needed: int, *, ended: bool) -> tuple[Damage | None, int]:
        """If the batch at `position` is too large or does not end before the end of the file, return its Damage, and 0.
        Otherwise return None, and how many bytes to read for a window that has all of the batch.

        needed: the bytes of the batch. ended: whether the window's bytes are the last ones of the file.
        """
        if ended or position + needed > self._end():
            left = self._end() - position
            reason = f"the file ends {left:,} bytes into a batch"
            if needed > PREFIX_BYTES:
                reason += f" of {needed:,}"
            return self._damage(position, Truncated(reason, position)), 0
        if needed > self._max_batch_bytes:
            reason = f"a batch of {needed:,} bytes is above the limit of {self._max_batch_bytes:,}"
            return self._damage(position, LimitExceeded(reason, position)), 0
        return None, max(needed, self._window_bytes)

    def _bad_length(self, data: bytearray, at: int, position: int) -> Damage:
        length = int.from_bytes(data[at:][LENGTH_AT], "big", signed=True)
        reason = f"batch length {length:,} is below {SMALLEST_LENGTH}, the smallest there is"
        return self._damage(position, BadLength(reason, position))

    def _lost_framing(self, table: BatchTable, behind: int) -> Damage | None:
        """Return the Damage at the last batch of the table, which is not sound and ends at `behind`; None if the
        batch lengths from there on still lead to the next sound batch, or to the end."""
        batch = BatchRow._make(table.row(table.count - 1))
        sound = self._next_sound(batch.position + 1)
        target = self._end() if sound is None else sound
        if self._leads_to(behind, target):
            self._framed_to = target
            return None
        if batch.faults & FAULT_SHORT_HEADER:
            length = batch.size - LOG_OVERHEAD_BYTES
            reason = f"batch length {length:,} with magic {batch.magic} leaves no room for a header"
            return self._damage(batch.position, BadLength(reason, batch.position))
        goal = "to no batch" if sound is None or behind <= sound else f"past the batch at byte {sound:,}"
        reason = f"CRC is {batch.crc:#010x}, bytes give {batch.crc_computed:#010x}, and the length leads {goal}"
        return self._damage(batch.position, BadChecksum(reason, batch.position))

    def _leads_to(self, position: int, target: int) -> bool:
        """Whether the batch lengths from `position` on lead exactly to byte `target`."""
        prefix = bytearray(LOG_OVERHEAD_BYTES)
        while position < target:
            if self._source.read_at(position, memoryview(prefix)) < LOG_OVERHEAD_BYTES:
                return False
            length = int.from_bytes(prefix[LENGTH_AT], "big", signed=True)
            if length < SMALLEST_LENGTH:
                return False
            position += LOG_OVERHEAD_BYTES + length
        return position == target

    def _damage(self, position: int, error: FormatError) -> Damage:
        sound = self._next_sound(position + 1) if self._resync else None
        behind = self._end() if sound is None else sound
        return Damage(position, behind - position, error, at_end=sound is None)

    def _next_sound(self, position: int) -> int | None:
        """Return the first byte at or after `position` where a batch with a right CRC begins; None if there is
        none."""
        known_from, known_to = self._sound
        if known_from <= position and (known_to is None or position <= known_to):
            return known_to
        found = self._hunt(position)
        self._sound = (position, found)
        return found

    def _hunt(self, position: int) -> int | None:
        end = self._end()
        want = FIRST_HUNT_BYTES
        while end - position >= PREFIX_BYTES:
            data, got = self._load(position, want)
            if got >= PREFIX_BYTES and data.startswith(ZEROS[:got]):  # preallocated zeros: no batch has the length 0
                position += got - LOG_OVERHEAD_BYTES + 1
                want = min(4 * want, HUNT_BYTES)
                continue
            at, whole, self._work = find_batch(data, 0, got, end - position, self._work + got)
            self._work -= 8 * at
            if whole:
                return position + at
            if got == end - position or got < len(data):  # of a compressed file, the end is not known beforehand
                return None
            want = min(4 * want, HUNT_BYTES)
            if at == 0:
                size = LOG_OVERHEAD_BYTES + int.from_bytes(data[LENGTH_AT], "big", signed=True)
                if got < size <= self._max_batch_bytes:
                    want = size
                else:
                    at = 1
            position += at
        return None
