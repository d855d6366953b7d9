"""The content of compressed files, by position."""

import bz2
import gzip
import lzma
import random
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import lz4.frame  # type: ignore[import-untyped]
import pytest
import zstandard

from formats.archive import Archive
from kcli.errors import UnreadableInput
from kcli.log import inflated
from kcli.log.inflated import InflatedSource, archive_of, inflated_size
from kcli.log.segment_reader import sound_batches

CONTENT = random.Random(1).randbytes(1 << 16) * 160  # bzip2 takes long for short repeats
ARCHIVES: dict[Archive, Callable[[bytes], bytes]] = {
    Archive.GZIP: gzip.compress,
    Archive.ZSTD: zstandard.compress,
    Archive.XZ: lzma.compress,
    Archive.BZIP2: partial(bz2.compress, compresslevel=1),
    Archive.LZ4: lz4.frame.compress,
}


def packed(directory: Path, archive: Archive, content: bytes = CONTENT) -> Path:
    path = directory / "packed"
    half = len(content) // 2
    path.write_bytes(ARCHIVES[archive](content[:half]) + ARCHIVES[archive](content[half:]))
    return path


@pytest.mark.parametrize("archive", ARCHIVES)
@pytest.mark.parametrize("kept_bytes", [1, 1 << 20, 1 << 30])
def test_reads_by_position(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, archive: Archive, kept_bytes: int) -> None:
    monkeypatch.setattr(inflated, "KEPT_BYTES", kept_bytes)
    path = packed(tmp_path, archive)
    assert archive_of(path) == archive
    assert inflated_size(path, archive) == len(CONTENT)
    source = InflatedSource(path, archive)
    for position in (0, 5_000_000, 4_999_000, 100, len(CONTENT) - 10, len(CONTENT), len(CONTENT) + 5):
        buffer = bytearray(1000)
        size = source.read_at(position, memoryview(buffer))
        assert bytes(buffer[:size]) == CONTENT[position : position + 1000]
    source.close()


@pytest.mark.parametrize("archive", ARCHIVES)
def test_what_is_kept_does_not_grow_with_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, archive: Archive
) -> None:
    monkeypatch.setattr(inflated, "KEPT_BYTES", 1 << 20)
    source = InflatedSource(packed(tmp_path, archive, bytes(100_000_000)), archive)
    buffer = memoryview(bytearray(1 << 20))
    most, position = 0, 0
    while size := source.read_at(position, buffer):
        position += size
        most = max(most, sum(len(part) for _, part in source._kept))
    assert position == 100_000_000
    assert most <= 64 << 20
    source.close()


@pytest.mark.parametrize("archive", ARCHIVES)
@pytest.mark.parametrize("cut", [1, 9])
def test_a_file_that_ends_too_early(tmp_path: Path, archive: Archive, cut: int) -> None:
    path = packed(tmp_path, archive)
    path.write_bytes(path.read_bytes()[:-cut])
    with pytest.raises(UnreadableInput, match="ends inside"):
        inflated_size(path, archive)


def test_more_bytes_than_a_segment_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inflated, "SEGMENT_BYTES_MAX", 1 << 20)
    with pytest.raises(UnreadableInput, match="more than"):
        inflated_size(packed(tmp_path, Archive.GZIP), Archive.GZIP)


@pytest.mark.parametrize("content", [b"", b"\x1f", b"\x1f\x8b", bytes(61)])
def test_other_files_are_not_compressed(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    assert archive_of(path) is None


@pytest.mark.parametrize("content", [b"", bytes(8), bytes(100), b"\1" * 8, b"\1" * 40, bytes(range(200))])
def test_content_without_a_batch_is_read_to_its_end(tmp_path: Path, content: bytes) -> None:
    """Such as that of an index: the search for a batch never ended."""
    with closing(InflatedSource(packed(tmp_path, Archive.GZIP, content), Archive.GZIP)) as source:
        assert list(sound_batches(source)) == []
