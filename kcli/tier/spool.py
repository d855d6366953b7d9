"""An object as a file on this machine, for what reads files alone: a temporary copy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from kcli.log.disk import COPY_BYTES
from kcli.log.source import Source


@contextmanager
def spooled(source: Source, name: str, spool: Path | None) -> Iterator[Path]:
    """Copy a source, which is closed, to a temporary file, and yield its path. The file is removed at the end of the
    context. name: the object's, whose last part the file gets. spool: the directory of the copy, else that of the
    system."""
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
                position += file.write(buffer[:got])  # if fewer bytes are written, the next read has the rest
    except OSError as error:
        error.filename = str(path.parent.parent)
        raise
