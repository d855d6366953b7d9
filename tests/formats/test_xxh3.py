"""XXH3 with 64 bits over what hash4j would stream."""

from __future__ import annotations

import pytest

from formats.xxh3 import put_int, put_long, put_string, xxh3_64


@pytest.mark.parametrize(
    ("data", "expected"),
    [(b"", 0x2D06800538D394C2), (b"a", 0xE6C632B61E964E1F), (b"abc", 0x78AF5F94892F3950)],
)
def test_known_hashes(data: bytes, expected: int) -> None:
    """The hashes of xxHash's own documentation and tools; Java's long is signed."""
    assert xxh3_64(data) % (1 << 64) == expected
    assert -(1 << 63) <= xxh3_64(data) < 1 << 63


def test_stream() -> None:
    assert put_int(-2) == b"\xfe\xff\xff\xff"
    assert put_long(1) == b"\1" + bytes(7)
    assert put_string("aä\U0001f600") == b"a\0\xe4\0\x3d\xd8\x00\xde" + put_int(4)
    assert put_string("") == put_int(0)
