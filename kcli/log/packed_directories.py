"""Partitions' directories that lie in an archive in the log directory, a tar (also compressed) or a zip, as where
somebody packed the directory and removed it. Kafka reads no archive.

The names in the archive tell: <topic>-<partition>/<segment>.log, also below other directories; or segments without a
directory, in an archive whose name begins with that of the partition's directory. Of each tar at most READ_BYTES are
looked through.
"""

from __future__ import annotations

import struct
import tarfile
import zipfile
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from io import BufferedReader, RawIOBase
from pathlib import Path
from typing import Any

from formats.archive import Archive
from formats.file_name import FileKind, parse
from kcli.errors import UnreadableInput
from kcli.log.inflated import InflatedSource, archive_of
from kcli.log.source import FileSource, Source

READ_BYTES = 256 << 20
TAR_MAGIC_AT, TAR_MAGIC = 257, b"ustar"
ZIP_MAGIC = b"PK\x03\x04"
DAMAGE = (
    tarfile.TarError,
    zipfile.BadZipFile,
    UnreadableInput,
    OSError,
    ValueError,
    struct.error,
    EOFError,
)
"""The errors with which an archive ends, or cannot be read."""


@dataclass(frozen=True, slots=True)
class PackedDirectory:
    """A partition's directory in an archive. path: that of the archive. member: the name of the directory in it; "" if
    the archive has the files without a directory. is_zip: whether it is a zip rather than a tar. compression: how a tar
    is compressed; None if it is not."""

    path: Path
    member: str
    is_zip: bool
    compression: Archive | None = None


def packed_directories(home: Path, names: Collection[str]) -> dict[str, PackedDirectory]:
    """Return the archives in a log directory that have directories of these names, by name; of several the first one.
    An archive that cannot be read is passed over."""
    found: dict[str, PackedDirectory] = {}
    if not names:
        return found
    try:
        paths = sorted(each for each in home.iterdir() if parse(each.name) is None and each.is_file())
    except OSError:  # another check reports this error
        return found
    for path in paths:
        with suppress(*DAMAGE):
            for name, packed in _directories(path, names):
                found.setdefault(name, packed)
                if len(found) == len(names):
                    return found
    return found


def _directories(path: Path, names: Collection[str]) -> Iterator[tuple[str, PackedDirectory]]:
    compression = archive_of(path)
    source = FileSource(path) if compression is None else InflatedSource(path, compression)
    try:
        head = bytearray(TAR_MAGIC_AT + len(TAR_MAGIC))
        head = head[: source.read_at(0, memoryview(head))]
        if head.startswith(ZIP_MAGIC):
            with zipfile.ZipFile(path) as archive:
                yield from _with_logs(path, archive.namelist(), names, is_zip=True)
        elif head[TAR_MAGIC_AT:] == TAR_MAGIC:
            with tarfile.open(fileobj=BufferedReader(_Begin(source)), mode="r|") as tar:
                yield from _with_logs(path, (each.name for each in tar), names, is_zip=False, compression=compression)
    finally:
        source.close()


def _with_logs(
    path: Path, members: Iterable[str], names: Collection[str], *, is_zip: bool, compression: Archive | None = None
) -> Iterator[tuple[str, PackedDirectory]]:
    """Yield the directories of `names` that have a .log file among the members of an archive, each with its name."""
    for each in members:
        member, _, file = each.rpartition("/")
        name = parse(file)
        if name is None or name.kind is not FileKind.LOG or name.state:
            continue
        directory = member.rpartition("/")[2]
        whole = next((known for known in names if path.name.startswith(f"{known}.")), "")
        if directory in names:
            yield directory, PackedDirectory(path, member, is_zip, compression)
        elif member in ("", ".") and whole:
            yield whole, PackedDirectory(path, "", is_zip, compression)


class _Begin(RawIOBase):
    """The first READ_BYTES of a source, as a file that is read from its begin on. Reads raise UnreadableInput."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._at = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer with the next bytes, and return their number; 0 at the end."""
        got = self._source.read_at(self._at, memoryview(buffer)[: READ_BYTES - self._at])
        self._at += got
        return got
