"""Write unsigned varints: a number in groups of 7 bits, the lowest first, bit 7 set on all but the last.

Varints of records are zigzag-encoded first: n becomes 2n, or -2n - 1 if n is negative. Varints are read by
`formats.message.read_uvarint` and, in Construct, by `formats.primitives`. Source: Kafka's protocol guide
(UNSIGNED_VARINT), ByteUtils.writeUnsignedVarint.
"""


def put_uvarint(out: bytearray, value: int) -> None:
    """Append `value` as an unsigned varint of 32 bits to `out`."""
    value &= 0xFFFFFFFF
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def uvarint(value: int) -> bytes:
    """Return `value` as an unsigned varint of 32 bits."""
    if 0 <= value < 0x80:
        return bytes((value,))
    out = bytearray()
    put_uvarint(out, value)
    return bytes(out)
