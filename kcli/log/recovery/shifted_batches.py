"""Batches of a .log file that are longer or shorter than their lengths say: bytes were inserted into them, or lost. The
batches behind are whole, but as many bytes from where the lengths lead.

    bytes inserted    a block of zeros or of another file (fallocate -i, a copy that was resumed too early): the CRC
                      tells which bytes they are
    CRs lost          a conversion of line ends (dos2unix, sed) took the CR before an LF, or tr -d took all CRs: the CRC
                      tells where
    text replaced     by a longer or shorter one (sed -i): the length alone tells
    bytes lost        a block that was left out (dd conv=noerror without sync): the length alone tells

A batch ends where the next one begins: at the header with the offset behind its last one. Where the CRC decides, it is
computed from both ends: the register before each byte, as the bytes before leave it, and as those behind need it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from typing import NamedTuple

from formats.kernels.crc import crc32c
from kcli.log.partition_view import Content, ContentSource, Part
from kcli.log.recovery.batch_length import CRC_AT, CRC_FROM, HEADER_BYTES, LENGTH_AT, MAGIC, MAGIC_AT
from kcli.log.segment_reader import LOG_OVERHEAD_BYTES, Damage, read_segment
from kcli.log.source import Source

OFFSET_BYTES = 8
DELTA_AT = 23
LAST = 1 << 60
BATCHES_MAX = 1000
"""The largest number of batches in one range of damage that are looked at."""
SEARCHED_MAX = 1 << 20
"""The size in bytes of the largest batch of which the CRC is computed from both ends."""
DAMAGE_MAX = 16 << 20
LOST_MAX = 1 << 20
"""A batch that lacks more bytes has a wrong length instead."""
STEPS_MAX = 1 << 21
"""The largest number of bytes over which the CRC is computed to find lost CRs of one batch."""
CRS_MAX = 3
CR, LF = 13, 10
POLYNOMIAL = 0x82F63B78
ALL_ONES = 0xFFFFFFFF


class Shift(NamedTuple):
    """A batch that is longer or shorter than its length says.

    position, size: its bytes in the file. by: how many bytes it has more, below 0 how many less. base_offset,
    last_offset: as in its header. inserted: the byte in the file where the `by` inserted bytes begin; None if the CRC
    does not tell. crs: the bytes in the file before which a CR is missing, mostly LFs; empty if that does not make the
    CRC right.
    """

    position: int
    size: int
    by: int
    base_offset: int
    last_offset: int
    inserted: int | None = None
    crs: tuple[int, ...] = ()

    @property
    def is_known(self) -> bool:
        """Whether the CRC tells what the batch was before."""
        return self.inserted is not None or bool(self.crs)


def shifts_in(source: Source, start: int, stop: int) -> list[Shift]:
    """Return the batches in bytes [start, stop) of a .log file that are longer or shorter than their lengths say. A
    batch has to begin at `start`, and a sound one, or the end of the file, has to lie at `stop`. A last batch of the
    file counts only if the CRC tells what it was before. Raises UnreadableInput."""
    if stop - start > DAMAGE_MAX:
        return []
    data = _read(source, start, stop - start + OFFSET_BYTES)
    is_end = len(data) <= stop - start
    found = [_with_crc(data, start, each) for each in _shifts(data, start, stop - start, is_end=is_end)]
    return [each for each in found if each.is_known or not is_end or each.position + each.size < stop]


def _read(source: Source, position: int, size: int) -> bytes:
    buffer = bytearray(size)
    return bytes(buffer[: source.read_at(position, memoryview(buffer))])


def _shifts(data: bytes, start: int, size: int, *, is_end: bool) -> Iterator[Shift]:
    at = 0
    for _ in range(BATCHES_MAX):
        if not _is_header(data, at):
            return
        base = int.from_bytes(data[at : at + OFFSET_BYTES])
        (delta,) = struct.unpack_from(">i", data, at + DELTA_AT)
        following = (base + delta + 1).to_bytes(OFFSET_BYTES)
        end = data.find(following, at + HEADER_BYTES, size + OFFSET_BYTES)
        while end not in (-1, size) and not _is_header(data, end):
            end = data.find(following, end + 1, size + OFFSET_BYTES)
        end = size if end == -1 and is_end else end
        if end == -1:
            return
        by = end - at - stated_size(data[at:])
        if by and by >= -LOST_MAX:
            yield Shift(start + at, end - at, by, base, base + delta)
        if end == size:
            return
        at = end


def stated_size(batch: bytes) -> int:
    """Return the size of a batch by the length in its header."""
    return LOG_OVERHEAD_BYTES + int.from_bytes(batch[LENGTH_AT : LENGTH_AT + 4])


class Torn(NamedTuple):
    """The first and the last batch of those of which a lost block has left only bytes. first_offset: of the first one;
    last_offset: of the last one."""

    first_offset: int
    last_offset: int


def torn_by_loss(source: Source, start: int, stop: int) -> Torn | None:
    """Return the batches of which bytes [start, stop) of a .log file are what a lost block has left: the begin of one,
    and the end of the same or of a later one. None if the bytes may be whole batches, or if no batch begins at `start`
    and a sound one at `stop`. Raises UnreadableInput."""
    size = stop - start
    if size > DAMAGE_MAX or stop >= source.size():
        return None
    data = _read(source, start, size + HEADER_BYTES)
    if not (_is_header(data, 0) and _is_header(data, size)) or stated_size(data) > size + LOST_MAX:
        return None
    first, behind = (int.from_bytes(data[at : at + OFFSET_BYTES]) for at in (0, size))
    (delta,) = struct.unpack_from(">i", data, DELTA_AT)
    has_lost_whole = behind > first + delta + 1 and stated_size(data) != size < 2 * stated_size(data)
    return Torn(first, behind - 1) if size < stated_size(data) or has_lost_whole else None


def _is_header(data: bytes, at: int) -> bool:
    """Whether a batch of magic 2 may begin at byte `at`."""
    if len(data) < at + HEADER_BYTES or data[at + MAGIC_AT] != MAGIC:
        return False
    offset, length = struct.unpack_from(">qi", data, at)
    (delta,) = struct.unpack_from(">i", data, at + DELTA_AT)
    return bool(0 <= offset < LAST and length >= HEADER_BYTES - LOG_OVERHEAD_BYTES and delta >= 0)


def _with_crc(data: bytes, start: int, shift: Shift) -> Shift:
    """Return the shift with what the CRC tells of it. data: bytes of the file from `start` on."""
    begin = shift.position - start
    batch = data[begin : begin + shift.size]
    if len(batch) > SEARCHED_MAX or (shift.by < 0 and -shift.by > CRS_MAX):
        return shift
    registers = _Registers(batch[CRC_FROM:], int.from_bytes(batch[CRC_AT:CRC_FROM]))
    if shift.by > 0:
        found = registers.without(shift.by)
        return shift if found is None else shift._replace(inserted=shift.position + CRC_FROM + found)
    crs = registers.with_crs(-shift.by)
    return shift._replace(crs=tuple(shift.position + CRC_FROM + each for each in crs))


class _Registers:
    """The register of the CRC before each byte of a batch: as the bytes before it leave it, and as the bytes from it on
    need it for the stored CRC."""

    def __init__(self, data: bytes, stored: int) -> None:
        self._data = data
        left = ALL_ONES
        self._left = [left]
        for byte in data:
            left = TABLE[(left ^ byte) & 0xFF] ^ (left >> 8)
            self._left.append(left)
        needed = stored ^ ALL_ONES
        behind = [needed]
        for byte in reversed(data):
            low = BY_HIGH_BYTE[needed >> 24]
            needed = ((needed ^ TABLE[low]) << 8 & ALL_ONES) | (low ^ byte)
            behind.append(needed)
        self._needed = behind[::-1]

    def without(self, count: int) -> int | None:
        """Return the first byte from which on `count` bytes have to be taken out for the CRC to be right; None if there
        is none."""
        pairs = zip(self._left, self._needed[count:], strict=False)
        return next((at for at, (left, needed) in enumerate(pairs) if left == needed), None)

    def with_crs(self, count: int) -> tuple[int, ...]:
        """Return the LFs before which `count` CRs have to be put for the CRC to be right, or of data without any CR the
        byte before which one has to be put; empty if there are none, or too many to try."""
        ends = [at for at, byte in enumerate(self._data) if byte == LF]
        steps = len(ends) ** (count - 1) * len(self._data)
        found = next(self._put(ends, count, ALL_ONES, 0), ()) if steps <= STEPS_MAX else ()
        if found or count > 1 or CR in self._data:
            return found
        return next(self._put(range(len(self._data)), 1, ALL_ONES, 0), ())

    def _put(self, ends: Sequence[int], count: int, register: int, start: int) -> Iterator[tuple[int, ...]]:
        """Yield the LFs from byte `start` on before which `count` CRs have to be put. register: that before this
        byte."""
        is_as_left = start == 0
        for end in (each for each in ends if each >= start):
            if is_as_left:
                register = self._left[end]
            else:
                for byte in self._data[start:end]:
                    register = TABLE[(register ^ byte) & 0xFF] ^ (register >> 8)
            start = end
            with_cr = TABLE[(register ^ CR) & 0xFF] ^ (register >> 8)
            if count == 1:
                if with_cr == self._needed[end]:
                    yield (end,)
                continue
            after = TABLE[(with_cr ^ LF) & 0xFF] ^ (with_cr >> 8)
            yield from ((end, *others) for others in self._put(ends, count - 1, after, end + 1))


def _table() -> list[int]:
    table = []
    for byte in range(256):
        register = byte
        for _ in range(8):
            register = (register >> 1) ^ (POLYNOMIAL if register & 1 else 0)
        table.append(register)
    return table


TABLE = _table()
BY_HIGH_BYTE = {each >> 24: low for low, each in enumerate(TABLE)}


def as_before(content: Content, shifts: Iterable[Shift]) -> Content:
    """Return the content of a .log file without the inserted bytes, and with the lost CRs; other shifts stay."""
    parts: list[Part] = []
    at = 0
    for each in shifts:
        if each.inserted is not None:
            parts += content.between(at, each.inserted).parts
            at = each.inserted + each.by
        for cr in each.crs:
            parts += [*content.between(at, cr).parts, bytes([CR])]
            at = cr
    return Content((*parts, *content.between(at, content.size).parts))


def in_file(position: int, shifts: Iterable[Shift]) -> int:
    """Return the byte of a .log file that is byte `position` of what `as_before` makes of it."""
    for each in shifts:
        if each.position + each.size - each.by > position:
            break
        position += each.by
    return position


def known_shifts(name: str, content: Content) -> list[Shift]:
    """Return the shifts of which the CRC tells what the batch was before. Raises UnreadableInput."""
    found: list[Shift] = []
    with closing(ContentSource(name, content)) as source:
        for part in read_segment(source):
            if isinstance(part, Damage):
                found += shifts_in(source, part.position, part.position + part.length)
    return [each for each in found if each.is_known and _is_sound(content, each)]


def _is_sound(content: Content, shift: Shift) -> bool:
    batch = as_before(content, [shift]).between(shift.position, shift.position + shift.size - shift.by)
    with closing(ContentSource("", batch)) as source:
        data = _read(source, 0, batch.size)
    return crc32c(data[CRC_FROM:]) == int.from_bytes(data[CRC_AT:CRC_FROM])
