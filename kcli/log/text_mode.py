"""The bytes of a file before a transfer as text changed them, as FTP does in ASCII mode: each LF has become CR LF.

The change can be undone exactly, as CR LF has become CR CR LF. Files are read in blocks, and a few bytes per block are
kept, so that any position can be found again.
"""

from __future__ import annotations

from bisect import bisect_right

from kcli.log.source import Source

BLOCK_BYTES = 1 << 20
CR, LF, CR_LF = b"\r", b"\n", b"\r\n"


def size_before(source: Source) -> int | None:
    """Return the size in bytes that a file had before a transfer as text; None for a file that was not changed so: it
    has no LF, or one without a CR before it. Raises UnreadableInput."""
    added, before = 0, b""
    for at in range(0, source.size(), BLOCK_BYTES):
        block = before + _read(source, at, BLOCK_BYTES)
        here = block.count(CR_LF)
        if here != block.count(LF) - (before == LF):
            return None
        added += here
        before = block[-1:]
    return source.size() - added if added else None


class BeforeTextMode:
    """A Source of the bytes that a file had before a transfer as text. source: the file as it is now, closed by
    `close`."""

    def __init__(self, source: Source) -> None:
        self.name = source.name
        self._source = source
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
        """Return block `number` of the file (BLOCK_BYTES of it) without the CRs that the transfer added."""
        if self._block[0] != number:
            data = _read(self._source, number * BLOCK_BYTES, BLOCK_BYTES + 1)
            block, behind = data[:BLOCK_BYTES], data[BLOCK_BYTES:]
            left = block.replace(CR_LF, LF)
            if behind == LF and left.endswith(CR):
                left = left[:-1]
            self._block = number, left
            if len(self._begins) == number + 1:
                self._begins.append(self._begins[number] + len(left))
        return self._block[1]


def _read(source: Source, position: int, size: int) -> bytes:
    buffer = bytearray(size)
    return bytes(buffer[: source.read_at(position, memoryview(buffer))])
