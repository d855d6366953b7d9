"""The content of a view's file consists of ranges of files and of bytes."""

from contextlib import closing
from pathlib import Path

from kcli.log.partition_view import Content, ContentSource, FileRange


def descriptors() -> int:
    """How many files this process has open."""
    return len(list(Path("/proc/self/fd").iterdir()))


def test_ranges_of_a_file_share_one_descriptor(tmp_path: Path) -> None:
    """A log with damage in a thousand places has a thousand ranges."""
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(bytes(range(256)) * 16)
    parts = tuple(FileRange(path, start, 2) for start in range(0, 4096, 4))
    before = descriptors()
    with closing(ContentSource(path.name, Content(parts))) as source:
        assert descriptors() == before + 1
        buffer = bytearray(source.size())
        assert source.read_at(0, memoryview(buffer)) == 2048
    assert bytes(buffer[:6]) == bytes([0, 1, 4, 5, 8, 9])
    assert descriptors() == before
