"""MurmurHash3: known hashes; the foreign-key joins of tests/streams hold the seed of Kafka Streams against its own."""

import pytest

from kcli.java.murmur3 import murmur3


@pytest.mark.parametrize(
    ("data", "digest"),
    [
        (b"", "00000000000000000000000000000000"),
        (b"hello", "cbd8a7b341bd9b025b1e906a48ae1d19"),
        (b"The quick brown fox jumps over the lazy dog", "e34bbc7bbc071b6c7a433ca9c49a9347"),
    ],
)
def test_known_hashes(data: bytes, digest: str) -> None:
    assert murmur3(data, seed=0).hex() == digest
