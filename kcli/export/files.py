"""Files by address: paths of this machine, URLs of object stores (s3://, gs://, hdfs://) through pyarrow.fs, and
objects of a tier in a bucket.

An address is a string, so that it can be sent to Spark's workers. The query of a URL (`?endpoint_override=…`, scheme,
region) stays part of the addresses of all files below it. `tier+s3://bucket/prefix/<partition>/<object>` is an object
that `kcli.tier` reads, in windows, with the credentials that `kcli tier` takes; it is neither listed nor written here.
`tier+file:///directory/<partition>/<object>` is the same for a directory that Aiven's plugin has laid out.
"""

from __future__ import annotations

import logging
import os
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kcli.errors import KcliError, UnreadableInput
from kcli.log.source import SMALL_FILE_BYTES, FileSource, Source, read_whole, whole
from kcli.tier.store import ObjectMissing

if TYPE_CHECKING:
    from pyarrow import fs

    from kcli.tier.store import Store

log = logging.getLogger("kcli.export")
BLOCK_BYTES = 8 << 20
FILE_SCHEME = "file://"
TIER = "tier+"
"""The prefix of the address of a tier's object that is not a file of this machine; the object's URL follows it."""


class Entry(NamedTuple):
    """A file or directory: its name and, for a file, its size in bytes (0 for a directory). error: why the file cannot
    be read; None if it can."""

    name: str
    is_directory: bool
    size: int
    error: str | None = None


def is_remote(address: str) -> bool:
    """Whether an address is a URL of an object store: it has a scheme other than file://."""
    return "://" in address and not address.startswith(FILE_SCHEME)


def shown(address: str) -> str:
    """Return an address as messages show it: for an object of a tier, the URL or path of the object that has its
    bytes."""
    if not address.startswith(TIER):
        return address
    try:
        store, name = _object(address)
    except KcliError:
        return address.removeprefix(TIER)
    return store.place(name)


def local(address: str) -> Path:
    """Return the local path of an address that is not remote."""
    return Path(address.removeprefix(FILE_SCHEME))


def absolute(address: str) -> str:
    """Return the address with an absolute path, so that it is valid in every working directory."""
    return address if is_remote(address) else _parted(address)[0]


def name_of(address: str) -> str:
    """Return the last part of an address."""
    return _parted(address)[0].rstrip("/").rpartition("/")[2]


def parent_of(address: str) -> str:
    """Return the address of the directory that contains the file or directory at `address`."""
    if not is_remote(address):
        return _parted(address)[0].rpartition("/")[0] or "/"
    path, query = _parted(address)
    return path.rstrip("/").rpartition("/")[0] + query


def join(address: str, name: str) -> str:
    """Return the address of the file or directory `name` in the directory at `address`."""
    if not is_remote(address):
        return str(local(address) / name)
    path, query = _parted(address)
    return f"{path.rstrip('/')}/{name}{query}"


def _parted(address: str) -> tuple[str, str]:
    """Return a URL without its query, and the query with its question mark; for a path, the absolute path and ""."""
    if not is_remote(address):
        return os.path.abspath(local(address)), ""  # noqa: PTH100 (`x/..` has a name, too)
    path, mark, query = address.partition("?")
    return path, mark + query


def list_directory(address: str) -> list[Entry]:
    """Return the entries of a directory, sorted by name. Raises UnreadableInput."""
    try:
        if not is_remote(address):
            with os.scandir(local(address)) as entries:
                found = [each for entry in entries if (each := _entry(entry)) is not None]
            return sorted(found, key=lambda each: each.name)
        from pyarrow import fs

        system, path = _system(address)
        infos = system.get_file_info(fs.FileSelector(path))
        return sorted(Entry(info.base_name, info.type == fs.FileType.Directory, info.size or 0) for info in infos)
    except OSError as error:
        raise UnreadableInput(_parted(address)[0], _reason(error)) from error


def _entry(found: os.DirEntry[str]) -> Entry | None:
    """Return the entry of a file in a local directory; None if the file was deleted after the directory was
    listed."""
    try:
        if found.is_dir():
            return Entry(found.name, is_directory=True, size=0)
        size = found.stat().st_size
        error = None if found.is_file() else "not a regular file"
        return Entry(found.name, is_directory=False, size=size, error=error)
    except OSError as failed:  # a symbolic link in a circle of links, or to a missing file
        if isinstance(failed, FileNotFoundError) and not found.is_symlink():
            return None
        return Entry(found.name, is_directory=False, size=0, error=_reason(failed))


def stat(address: str) -> Entry | None:
    """Return the file or directory at an address as an entry, None if nothing exists. Raises UnreadableInput."""
    try:
        if not is_remote(address):
            path = local(address)
            try:
                size = path.stat().st_size
            except FileNotFoundError:
                return None
            return Entry(path.name, path.is_dir(), size)
        if address.startswith(TIER):
            store, name = _object(address)
            try:
                return Entry(name_of(address), is_directory=False, size=store.size(name))
            except ObjectMissing:
                return None
        from pyarrow import fs

        system, path_there = _system(address)
        info = system.get_file_info(path_there.rstrip("/"))
        if info.type == fs.FileType.NotFound:
            return None
        return Entry(info.base_name, info.type == fs.FileType.Directory, info.size or 0)
    except OSError as error:
        raise UnreadableInput(_parted(address)[0], _reason(error)) from error


def inode_of(address: str) -> int:
    """Return a file's inode, by which a new file under the same name is recognized; 0 for URLs and missing files."""
    try:
        return 0 if is_remote(address) else local(address).stat().st_ino
    except OSError:
        return 0


def open_source(address: str) -> Source:
    """Open a file for reads by position. Raises UnreadableInput."""
    if address.startswith(TIER):
        store, name = _object(address)
        try:
            return store.open(name)
        except ObjectMissing:
            raise UnreadableInput(shown(address), "no such object") from None
    return RemoteSource(address) if is_remote(address) else FileSource(local(address))


def open_damaged(address: str) -> Source:
    """Open a file as `open_source` does; in a tier that Aiven's plugin has laid out, damaged chunks are read as zeros,
    and a warning names them."""
    source = open_source(address)
    if not address.startswith(TIER):
        return source
    from kcli.tier.chunks import Holes  # imported late, as few reads are of a tier

    return Holes(source, lambda damage: log.warning("%s", damage))


def read_file(address: str, *, limit_bytes: int = SMALL_FILE_BYTES) -> bytes:
    """Return the bytes of a small file. Raises UnreadableInput, also for a file above the limit."""
    if not is_remote(address):
        return read_whole(local(address), limit_bytes=limit_bytes)
    return whole(open_source(address), limit_bytes)


def write_file(address: str, data: bytes) -> None:
    """Write a small file so that a reader finds all of it or none, and create the directories above it. Raises
    UnreadableInput."""
    try:
        if is_remote(address):
            system, path = _system(address)
            with system.open_output_stream(path) as stream:
                stream.write(data)
            return
        target = local(address)
        target.parent.mkdir(parents=True, exist_ok=True)
        scratch = target.with_name(f".{target.name}.{os.getpid()}")
        scratch.write_bytes(data)
        scratch.replace(target)
    except OSError as error:
        raise UnreadableInput(_parted(address)[0], _reason(error)) from error


class RemoteSource:
    """An object of an object store, fetched in blocks of 8 MB, because one request takes as long as the transfer of
    megabytes.

    Raises UnreadableInput.
    """

    def __init__(self, address: str) -> None:
        self.name = _parted(address)[0]
        try:
            system, path = _system(address)
            self._file = system.open_input_file(path)
            self._size: int = self._file.size()
        except OSError as error:
            raise UnreadableInput(self.name, _reason(error)) from error
        self._block = memoryview(b"")
        self._block_at = 0

    def size(self) -> int:
        return self._size

    def read_at(self, position: int, buffer: memoryview) -> int:
        buffer = buffer[: max(0, self._size - position)]
        done = 0
        while done < len(buffer):
            at = position + done - self._block_at
            if not 0 <= at < len(self._block):
                self._fetch(position + done, len(buffer) - done)
                at = 0
            part = self._block[at : at + len(buffer) - done]
            if not part:
                break
            buffer[done : done + len(part)] = part
            done += len(part)
        return done

    def _fetch(self, position: int, size: int) -> None:
        try:
            data = self._file.read_at(min(max(size, BLOCK_BYTES), self._size - position), position)
        except OSError as error:
            raise UnreadableInput(self.name, f"byte {position:,}: {_reason(error)}") from error
        self._block, self._block_at = memoryview(data), position

    def close(self) -> None:
        self._file.close()


def _object(address: str) -> tuple[Store, str]:
    """Return the store that has an object of a tier, and the object's name in it."""
    root, directory, last = address.removeprefix(TIER).rsplit("/", 2)
    return tier_store(root), f"{directory}/{last}"


@lru_cache(maxsize=16)
def tier_store(address: str) -> Store:
    """Return the tier's store at a path or a URL. Raises UnreadableInput, NotInstalled."""
    from kcli.tier.opening import open_tier  # imported late, as few reads are of a tier

    return open_tier(address)


@lru_cache(maxsize=16)
def _store(origin: str) -> fs.FileSystem:
    from pyarrow import fs

    return fs.FileSystem.from_uri(origin)[0]


def _system(address: str) -> tuple[fs.FileSystem, str]:
    """Return the pyarrow file system of a URL, and the path in that file system. Raises OSError."""
    url, query = _parted(address)
    scheme, _, rest = url.partition("://")
    host, _, path = rest.partition("/")
    try:
        system = _store(f"{scheme}://{host}/{query}")
    except ValueError as error:
        raise OSError(str(error)) from error
    return system, f"/{path}" if scheme == "hdfs" else f"{host}/{path}"


def _reason(error: OSError) -> str:
    return error.strerror or str(error)
