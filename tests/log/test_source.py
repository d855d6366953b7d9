"""Sources of bytes: files and what cannot be read."""

import os
from contextlib import closing
from pathlib import Path

import pytest

from kcli.errors import UnreadableInput
from kcli.log.source import FileSource, read_whole


def test_reads_stop_at_the_size_at_opening(tmp_path: Path) -> None:
    path = tmp_path / "growing.log"
    path.write_bytes(b"0123456789")
    source = FileSource(path)
    with path.open("ab") as file:
        file.write(b"later")
    buffer = bytearray(20)
    assert source.size() == 10
    assert source.read_at(4, memoryview(buffer)) == 6
    assert buffer[:6] == b"456789"
    assert source.read_at(10, memoryview(buffer)) == 0
    assert source.read_at(99, memoryview(buffer)) == 0
    source.close()


def test_a_file_that_shrinks_ends_early(tmp_path: Path) -> None:
    path = tmp_path / "shrinking.log"
    path.write_bytes(bytes(1000))
    source = FileSource(path)
    with path.open("r+b") as file:
        file.truncate(10)
    assert source.read_at(0, memoryview(bytearray(1000))) == 10
    source.close()


@pytest.mark.parametrize(("name", "reason"), [("missing", "No such file"), ("file/below", "Not a directory")])
def test_what_cannot_be_opened_is_named(tmp_path: Path, name: str, reason: str) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(UnreadableInput, match=reason) as raised:
        FileSource(tmp_path / name)
    assert raised.value.path == str(tmp_path / name)


def test_a_directory_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UnreadableInput, match="directory"):
        read_whole(tmp_path)


def test_a_small_file_is_read_whole_up_to_its_limit(tmp_path: Path) -> None:
    path = tmp_path / "x.index"
    path.write_bytes(b"12345678")
    assert read_whole(path) == b"12345678"
    with pytest.raises(UnreadableInput, match="8 bytes"):
        read_whole(path, limit_bytes=7)


def test_a_pipe_that_nobody_writes_to_does_not_hold_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UnreadableInput, match="not a regular file"):
        FileSource(tmp_path / "pipe")
    with pytest.raises(UnreadableInput, match="Is a directory"):
        FileSource(tmp_path)
    with closing(FileSource(Path("/dev/null"))) as nothing:
        assert nothing.size() == 0
