"""The bytes of a file before a transfer as text changed them.

    line ends  FTP in ASCII mode: each LF has become CR LF
    UTF-8      a conversion of the character set, as of ISO-8859-1 to UTF-8: each byte from 0x80 on has become two

The change can be undone exactly: CR LF has become CR CR LF, and the two bytes are 0xC2 or 0xC3 and one from 0x80 to
0xBF. Files are read in blocks, and a few bytes per block are kept, so that any position can be found again.
"""

from __future__ import annotations

from bisect import bisect_right
from enum import Enum

from kcli.log.source import Source

BLOCK_BYTES = 1 << 20
CR, LF, CR_LF = b"\r", b"\n", b"\r\n"
CONTINUATION = range(0x80, 0xC0)


class TextMode(Enum):
    """What a transfer as text has done to a file, in words."""

    LINE_ENDS = "each LF has a CR before it, as after a transfer as text (FTP in ASCII mode)"
    UTF_8 = "each byte from 0x80 on has become two, as after a conversion of ISO-8859-1 to UTF-8"

    @property
    def undone(self) -> str:
        """The words for the file as it was before."""
        return "without these CRs" if self is TextMode.LINE_ENDS else "with one byte for each two"


def size_before(source: Source, mode: TextMode = TextMode.LINE_ENDS) -> int | None:
    """Return the size in bytes that a file had before a transfer as text; None for a file that was not changed so.
    Raises UnreadableInput."""
    return _size_before_line_ends(source) if mode is TextMode.LINE_ENDS else _size_before_utf_8(source)


def _size_before_line_ends(source: Source) -> int | None:
    """Return the size; None for a file that has no LF, or one without a CR before it."""
    added, before = 0, b""
    for at in range(0, source.size(), BLOCK_BYTES):
        block = before + _read(source, at, BLOCK_BYTES)
        here = block.count(CR_LF)
        if here != block.count(LF) - (before == LF):
            return None
        added += here
        before = block[-1:]
    return source.size() - added if added else None


def _size_before_utf_8(source: Source) -> int | None:
    """Return the size; None for a file that has no byte from 0x80 on, or is not UTF-8 of characters below 0x100."""
    size = 0
    for at in range(0, source.size(), BLOCK_BYTES):
        try:
            size += len(_characters(_read(source, at, BLOCK_BYTES + 1), at).decode().encode("latin-1"))
        except UnicodeError:
            return None
    return size if size < source.size() else None


def _characters(data: bytes, position: int) -> bytes:
    """Return the bytes of the characters that begin in a block of a file. data: the block (BLOCK_BYTES), and the byte
    behind it. position: where it begins in the file."""
    begin = int(position > 0 and data[0] in CONTINUATION)
    end = len(data) if data[BLOCK_BYTES:] and data[BLOCK_BYTES] in CONTINUATION else BLOCK_BYTES
    return data[begin:end]


class BeforeTextMode:
    """A Source of the bytes that a file had before a transfer as text. source: the file as it is now, closed by
    `close`. mode: what the transfer has done."""

    def __init__(self, source: Source, mode: TextMode = TextMode.LINE_ENDS) -> None:
        self.name = source.name
        self._source, self._mode = source, mode
        # For each block read so far, where it began before the transfer; last, where the next block began.
        self._begins = [0]
        self._block = -1, b""

    def size(self) -> int:
        """The number of bytes; to count them, the file is read to its end."""
        while len(self._begins) <= -(-self._source.size() // BLOCK_BYTES):
            self._left_of(len(self._begins) - 1)
        return self._begins[-1]

    def read_at(self, position: int, buffer: memoryview) -> int:
        """Fill `buffer` from `position` on. Returns the bytes read: fewer than its length only at the end."""
        done = 0
        number = max(0, bisect_right(self._begins, position) - 1)
        while done < len(buffer) and number * BLOCK_BYTES < self._source.size():
            left = self._left_of(number)
            at = position + done - self._begins[number]
            part = left[at : at + len(buffer) - done]
            buffer[done : done + len(part)] = part
            done += len(part)
            number += 1
        return done

    def close(self) -> None:
        """Close the file."""
        self._source.close()

    def _left_of(self, number: int) -> bytes:
        """Return block `number` of the file (BLOCK_BYTES of it) as it was before the transfer."""
        if self._block[0] != number:
            at = number * BLOCK_BYTES
            data = _read(self._source, at, BLOCK_BYTES + 1)
            if self._mode is TextMode.UTF_8:
                left = _characters(data, at).decode(errors="replace").encode("latin-1", errors="replace")
            else:
                left = data[:BLOCK_BYTES].replace(CR_LF, LF)
                if data[BLOCK_BYTES:] == LF and left.endswith(CR):
                    left = left[:-1]
            self._block = number, left
            if len(self._begins) == number + 1:
                self._begins.append(self._begins[number] + len(left))
        return self._block[1]


def _read(source: Source, position: int, size: int) -> bytes:
    buffer = bytearray(size)
    return bytes(buffer[: source.read_at(position, memoryview(buffer))])
