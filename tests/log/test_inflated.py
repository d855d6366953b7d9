"""The content of compressed files, by position."""

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from formats.compression import GZIP, ZSTD
from kcli.errors import UnreadableInput
from kcli.log import inflated
from kcli.log.inflated import InflatedSource, codec_of, inflated_size

CONTENT = bytes(range(256)) * 40_000
CODECS: dict[int, Callable[[bytes], bytes]] = {GZIP: gzip.compress, ZSTD: zstandard.compress}


def packed(directory: Path, codec: int, content: bytes = CONTENT) -> Path:
    path = directory / "packed"
    half = len(content) // 2
    path.write_bytes(CODECS[codec](content[:half]) + CODECS[codec](content[half:]))
    return path


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("kept_bytes", [1, 1 << 20, 1 << 30])
def test_reads_by_position(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, codec: int, kept_bytes: int) -> None:
    monkeypatch.setattr(inflated, "KEPT_BYTES", kept_bytes)
    path = packed(tmp_path, codec)
    assert codec_of(path) == codec
    assert inflated_size(path, codec) == len(CONTENT)
    source = InflatedSource(path, codec)
    for position in (0, 5_000_000, 4_999_000, 100, len(CONTENT) - 10, len(CONTENT), len(CONTENT) + 5):
        buffer = bytearray(1000)
        size = source.read_at(position, memoryview(buffer))
        assert bytes(buffer[:size]) == CONTENT[position : position + 1000]
    source.close()


@pytest.mark.parametrize("codec", CODECS)
def test_what_is_kept_does_not_grow_with_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, codec: int) -> None:
    monkeypatch.setattr(inflated, "KEPT_BYTES", 1 << 20)
    source = InflatedSource(packed(tmp_path, codec, bytes(200_000_000)), codec)
    buffer = memoryview(bytearray(1 << 20))
    most, position = 0, 0
    while size := source.read_at(position, buffer):
        position += size
        most = max(most, sum(len(part) for _, part in source._kept))
    assert position == 200_000_000
    assert most <= 64 << 20
    source.close()


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("cut", [1, 9])
def test_a_file_that_ends_too_early(tmp_path: Path, codec: int, cut: int) -> None:
    path = packed(tmp_path, codec)
    path.write_bytes(path.read_bytes()[:-cut])
    with pytest.raises(UnreadableInput, match="ends inside"):
        inflated_size(path, codec)


def test_more_bytes_than_a_segment_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inflated, "SEGMENT_BYTES_MAX", 1 << 20)
    with pytest.raises(UnreadableInput, match="more than"):
        inflated_size(packed(tmp_path, GZIP), GZIP)


@pytest.mark.parametrize("content", [b"", b"\x1f", b"\x1f\x8b", bytes(61)])
def test_other_files_are_not_compressed(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    assert codec_of(path) is None
