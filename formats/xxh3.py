"""XXH3 of 64 bits over values as hash4j encodes them: Kafka's hash of the topics that a group reads (KIP-848).

    byte     1 byte
    int      4 bytes, little endian
    long     8 bytes, little endian
    string   units of UTF-16, 2 bytes each, little endian; then their number, int

Source: HashStream64 of hash4j.
"""

from __future__ import annotations

SIGN = 1 << 63


def put_int(value: int) -> bytes:
    return value.to_bytes(4, "little", signed=True)


def put_long(value: int) -> bytes:
    return value.to_bytes(8, "little", signed=True)


def put_string(text: str) -> bytes:
    units = text.encode("utf-16-le", "surrogatepass")
    return units + put_int(len(units) // 2)


def xxh3_64(data: bytes) -> int:
    """Return the XXH3 hash of the bytes as a signed 64-bit integer, as Java has it."""
    import xxhash

    return (xxhash.xxh3_64_intdigest(data) ^ SIGN) - SIGN
