"""Single values: checksums, Java's text, times."""

import zlib
from random import Random

from hypothesis import example, given
from hypothesis import strategies as st

from formats import crc32c as slow
from formats.java_text import java_utf8
from formats.kernels.crc import crc32, crc32c
from formats.kernels.text.java import java_text
from formats.kernels.text.table_lines import iso_time
from tests.formats.kernels.twins import iso

NEAR_UTF8 = st.lists(
    st.sampled_from(
        [b"a", b"\x7f", b"\x80", b"\xbf", b"\xc0", b"\xc1", b"\xc2", b"\xdf", b"\xe0", b"\x9f", b"\xa0", b"\xed"]
    )
    | st.sampled_from(
        [b"\xef", b"\xf0", b"\x8f", b"\x90", b"\xf4", b"\xf5", b"\xff", "é日🎉".encode(), b"\xed\xa0\x80"]
    ),
    max_size=12,
).map(b"".join)


@given(st.binary(max_size=300), st.integers(0, 300))
def test_checksums(data: bytes, cut: int) -> None:
    assert crc32(data) == zlib.crc32(data) == crc32(data[cut:], crc32(data[:cut]))
    assert crc32c(data) == slow.crc32c(data) == crc32c(data[cut:], crc32c(data[:cut]))


def test_checksums_of_long_data() -> None:
    """The kernel has a separate path for long data: in lanes of 1024 and of 128 bytes."""
    data = Random(1).randbytes(51_200)
    for size in (383, 384, 393, 1024, 3071, 3072, 3081, 3463, 8191, 24_576, 51_200):
        for start in range(9):
            part = data[start:size]
            assert crc32c(part) == slow.crc32c(part)
            assert crc32(part) == zlib.crc32(part)


@given(NEAR_UTF8 | st.binary(max_size=20))
def test_java_text(data: bytes) -> None:
    assert java_text(data).decode() == java_utf8(data)


@given(st.integers(-(2**63), 2**63 - 1) | st.integers(-62_135_596_900_000, 253_402_300_900_000))
@example(-1)
@example(0)
@example(951_782_400_000)
@example(-62_135_596_800_000)
@example(-62_135_596_800_001)
@example(253_402_300_799_999)
@example(253_402_300_800_000)
def test_iso_time(ms: int) -> None:
    assert iso_time(ms) == iso(ms)
