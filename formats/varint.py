"""Unsigned varints as they are written: a number in groups of 7 bits, the lowest first, bit 7 set on all but the last.

Records have them in zigzag, which doubles what is not negative. Reading is `formats.message.read_uvarint` and, in
Construct, `formats.primitives`. Source: Kafka's protocol guide (UNSIGNED_VARINT), ByteUtils.writeUnsignedVarint.
"""


def put_uvarint(out: bytearray, value: int) -> None:
    """Append an unsigned varint of 32 bits."""
    value &= 0xFFFFFFFF
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def uvarint(value: int) -> bytes:
    """An unsigned varint of 32 bits by itself."""
    if 0 <= value < 0x80:
        return bytes((value,))
    out = bytearray()
    put_uvarint(out, value)
    return bytes(out)
