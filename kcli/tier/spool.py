"""A temporary copy of an object as a file on this machine, for code that can only read files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from kcli.log.disk import COPY_BYTES
from kcli.log.source import Source


@contextmanager
def spooled(source: Source, name: str, spool: Path | None) -> Iterator[Path]:
    """Copy a source to a temporary file, and yield the file's path. The source is closed, and the file removed, at the
    end of the context. name: the object's; its last part is the name of the file. spool: the directory of the copy;
    None for the system's."""
    try:
        with TemporaryDirectory(prefix="kcli-tier-", dir=spool) as directory:
            path = Path(directory) / name.rpartition("/")[2]
            _copy(source, path)
            yield path
    finally:
        source.close()


def _copy(source: Source, path: Path) -> None:
    buffer = memoryview(bytearray(min(COPY_BYTES, max(1, source.size()))))
    position = 0
    try:
        with path.open("xb", buffering=0) as file:
            while got := source.read_at(position, buffer):
                position += file.write(buffer[:got])  # after a partial write, the next read begins with the rest
    except OSError as error:
        error.filename = str(path.parent.parent)
        raise
