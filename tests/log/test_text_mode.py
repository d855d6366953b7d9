"""The bytes of a file before a transfer as text, at any position."""

from random import Random

import pytest

from kcli.log import text_mode
from kcli.log.source import BytesSource
from kcli.log.text_mode import BeforeTextMode, TextMode, size_before


def source(data: bytes) -> BytesSource:
    return BytesSource(data, "sent")


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("block_bytes", [1, 2, 7, 1 << 20])
def test_it_reads_what_was_there(seed: int, block_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_mode, "BLOCK_BYTES", block_bytes)
    random = Random(seed)
    before = bytes(random.choices(b"\r\n\0a", k=200)) + b"\n"
    sent = before.replace(b"\n", b"\r\n")
    assert size_before(source(sent)) == len(before)
    read = BeforeTextMode(source(sent))
    for _ in range(50):
        at, size = random.randrange(220), random.randrange(40)
        buffer = bytearray(size)
        got = read.read_at(at, memoryview(buffer))
        assert bytes(buffer[:got]) == before[at : at + size]
    assert read.size() == len(before)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("block_bytes", [1, 2, 7, 1 << 20])
def test_it_reads_what_was_there_before_a_conversion_to_utf_8(
    seed: int, block_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_mode, "BLOCK_BYTES", block_bytes)
    random = Random(seed)
    before = bytes(random.choices(b"\0a\x7f\x80\xbf\xc2\xc3\xff", k=200)) + b"\xff"
    sent = before.decode("latin-1").encode()
    assert size_before(source(sent), TextMode.UTF_8) == len(before)
    read = BeforeTextMode(source(sent), TextMode.UTF_8)
    for _ in range(50):
        at, size = random.randrange(220), random.randrange(40)
        buffer = bytearray(size)
        got = read.read_at(at, memoryview(buffer))
        assert bytes(buffer[:got]) == before[at : at + size]
    assert read.size() == len(before)


@pytest.mark.parametrize("data", [b"", b"a", b"\x80", b"\xc2", b"\xc3\xa9\xff", "é€".encode(), b"\xc3\xc3\xa9"])
def test_other_files_were_not_converted_to_utf_8(data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    for block_bytes in (1, 2, 3, 1 << 20):
        monkeypatch.setattr(text_mode, "BLOCK_BYTES", block_bytes)
        assert size_before(source(data), TextMode.UTF_8) is None


@pytest.mark.parametrize("data", [b"", b"\r", b"a\n", b"\r\n\n", b"\n\r\n"])
def test_other_files_were_not_sent_as_text(data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    for block_bytes in (1, 2, 3, 1 << 20):
        monkeypatch.setattr(text_mode, "BLOCK_BYTES", block_bytes)
        assert size_before(source(data)) is None
