"""Decompress a damaged snappy or lz4 block up to its first invalid element.

    snappy block  varint decompressed size, then elements; each begins with a tag, whose low two bits are its type
      0           literal: length - 1 in the other six bits, or, from 60 on, in the next 1 to 4 bytes; then its bytes
      1           copy: length - 4 in bits 2-4, offset in bits 5-7 and one byte more
      2, 3        copy: length - 1 in the other six bits, offset in 2 or 4 bytes, little endian
    lz4 block     sequences: token, literals, int16 offset, little endian; the last one ends with its literals
      token       bits 4-7 number of literals, bits 0-3 length of the copy - 4; to a 15 the bytes that follow are
                  added, up to the first that is not 255
    copy          `length` bytes from `offset` bytes before the end of the output; it may overlap its own output

Source: format_description.txt of snappy, lz4_Block_format.md of lz4.

The codecs' own decompressors return the whole block or an error. These functions, for the analysis of damage, are slow
and never raise.
"""


def snappy_prefix(block: bytes | memoryview, limit: int) -> bytes:
    """Return the decompressed bytes, at most `limit`, before the first snappy element that is damaged or cut."""
    out = bytearray()
    try:
        position = next(at for at, byte in enumerate(block) if byte < 0x80) + 1
        while position < len(block) and len(out) < limit:
            tag, position = block[position], position + 1
            kind, length = tag & 3, (tag >> 2) + 1
            if kind == 0:
                extra = max(0, length - 60)
                if extra:
                    length = int.from_bytes(_take(block, position, extra), "little") + 1
                position += extra
                out += block[position : position + length]
                position += length
                continue
            if kind == 1:
                length = (tag >> 2 & 7) + 4
                offset = tag >> 5 << 8 | block[position]
                position += 1
            else:
                width = 2 * kind - 2
                offset = int.from_bytes(_take(block, position, width), "little")
                position += width
            _copy(out, offset, length)
    except (IndexError, StopIteration):
        pass
    return bytes(out[:limit])


def lz4_prefix(block: bytes | memoryview, limit: int) -> bytes:
    """Return the decompressed bytes, at most `limit`, before the first lz4 sequence that is damaged or cut."""
    out = bytearray()
    position = 0
    try:
        while position < len(block) and len(out) < limit:
            token = block[position]
            length, position = _lz4_length(block, position + 1, token >> 4)
            out += block[position : position + length]
            position += length
            if position == len(block):
                break
            offset = int.from_bytes(_take(block, position, 2), "little")
            length, position = _lz4_length(block, position + 2, token & 0x0F)
            _copy(out, offset, min(length + 4, limit))
    except IndexError:
        pass
    return bytes(out[:limit])


def _take(block: bytes | memoryview, position: int, size: int) -> bytes | memoryview:
    if position + size > len(block):
        raise IndexError
    return block[position : position + size]


def _lz4_length(block: bytes | memoryview, position: int, length: int) -> tuple[int, int]:
    more = length == 15
    while more:
        length += block[position]
        more = block[position] == 255
        position += 1
    return length, position


def _copy(out: bytearray, offset: int, length: int) -> None:
    if not 0 < offset <= len(out):
        raise IndexError
    start = len(out) - offset
    out += (out[start : start + length] * (length // offset + 1))[:length]
