"""CRC-32C (Castagnoli), the checksum of magic 2 batches and of producer snapshots. RFC 3720, appendix B.4.

This pure Python version serves small inputs and independent checks; formats.kernels.crc is a hundred times as fast.
"""


def _row(byte: int) -> int:
    for _ in range(8):
        byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
    return byte


_TABLE = tuple(map(_row, range(256)))


def crc32c(data: bytes | memoryview, value: int = 0) -> int:
    """Return the CRC-32C of `data` as an unsigned 32-bit int.

    value: the CRC-32C of the bytes before `data`; the result then covers those bytes too.
    """
    crc = value ^ 0xFFFFFFFF
    table = _TABLE
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF
