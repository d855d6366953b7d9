"""Files of the right length that contain only zeros: their content never reached the disk.

A file system that crashes between writing the length and the content leaves such a file; so does a copy that makes a
hole of what it cannot read, or a disk that was thinly provisioned and is full.
"""

from __future__ import annotations

from pathlib import Path

from kcli.log.source import FileSource, Source, ends_in_zeros


def of_zeros(size: int) -> str:
    """Return the words which say that the `size` bytes of a file are all zeros, and what leaves such a file."""
    return f"{size:,} bytes, all zeros, as a crash of the file system or a copy with holes leaves them"


def zeros_text(data: bytes | bytearray) -> str | None:
    """Return the words which say that a file with the content `data` is all zeros (see `of_zeros`); None if `data` is
    empty, or has a byte that is not zero."""
    return of_zeros(len(data)) if data and data.count(0) == len(data) else None


def zeros_in(path: Path) -> str | None:
    """Return the words which say that the file at `path` is all zeros (see `of_zeros`); None if the file is empty, or
    has a byte that is not zero. The file is read in pieces of 1 MiB. Raises UnreadableInput."""
    source = FileSource(path)
    try:
        return zeros_of(source)
    finally:
        source.close()


def zeros_of(source: Source) -> str | None:
    """Return the words which say that the content of `source` is all zeros (see `of_zeros`); None if it is empty, or
    has a byte that is not zero. The content is read in pieces of 1 MiB. Raises UnreadableInput."""
    size = source.size()
    return of_zeros(size) if size and ends_in_zeros(source, 0) else None
