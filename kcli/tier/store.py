"""The interface of a store, which keeps the objects of a tier or of a backup: names and bytes.

    list_objects  the objects whose names begin with a prefix, with their sizes
    place         the path or URL of an object, for messages
    size          the size of one object
    open          an object as a Source, of which any range can be read
    read          one range of an object, in one request
    as_file       an object as a file on this machine, for code that can only read files
    write         a new object, whole or not at all
    delete        removes an object
    forget        removes what is left of a partition without objects: an empty directory

A name has two parts with a slash between: `orders-0-<topic id>/<offset>-<segment id>.log`. A store follows no link, and
returns nothing from outside of the store. `kcli.tier.local` is a directory, `kcli.tier.bucket` a bucket;
`kcli.tier.plugin_store` gives the same names to bytes that are in other objects; `place` returns such an object.
`kcli.tier.opening` chooses the class of store by the address, and by the names of the objects.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple, Protocol

from kcli.errors import KcliError, UnreadableInput, UsageError
from kcli.log.source import Source
from kcli.tier.segment import RemoteSegment


class Told(NamedTuple):
    """The description of a segment in a store with manifests. stored: the existing objects, by name, with their sizes
    in bytes. segment: as its manifest describes it; None if it does not. damage: why nothing of the segment can be
    read; None if its manifest is sound. surplus: the number of bytes in the .log object behind the segment's."""

    stored: Mapping[str, int]
    segment: RemoteSegment | None = None
    damage: DamagedObject | None = None
    surplus: int = 0


class StoredObject(NamedTuple):
    """An entry in the list of a store. size: bytes. odd: the reason why the entry is no object, such as that it is a
    symbolic link; None for an object. told: for the first object of a segment in a store with manifests, the
    description of the segment; else None."""

    name: str
    size: int
    odd: str | None = None
    told: Told | None = None


class FilePart(NamedTuple):
    """Bytes [start, start + length) of an open file: a store may copy them without bringing them into the process."""

    fd: int
    start: int
    length: int

    def read(self) -> bytes:
        """Return the bytes, fewer if the file ends before."""
        return os.pread(self.fd, self.length, self.start)


ObjectPart = bytes | memoryview | FilePart
"""Some bytes of an object that is written."""


class ObjectMissing(KcliError):
    """The store has no object of this name."""


class DamagedObject(UnreadableInput):
    """An object exists, but bytes of it are missing, damaged, or of another version. position: the byte of the object
    at which the damage begins; None if the whole object is damaged. sound: the number of the segment's bytes before the
    damage. lost: the number of the segment's bytes that the damage takes; 0 if no byte behind it can be read."""

    def __init__(self, path: str, reason: str, position: int | None = None, sound: int = 0, lost: int = 0) -> None:
        super().__init__(path, reason if position is None else f"byte {position:,}: {reason}")
        self.fault = reason
        self.position = position
        self.sound = sound
        self.lost = lost


class NewerObject(DamagedObject):
    """An object of a version that kcli does not read, or larger than it reads: the bytes may be sound."""


class StoreFailed(UnreadableInput):
    """The store does not answer, or grants no access: requests for all objects fail, not only for this one."""


class StoreAway(StoreFailed):
    """The store does not answer now, but may answer later: the network is down, or the server is slow or overloaded."""


class KeyMissing(StoreFailed):
    """The store is encrypted with a key pair that was not given."""


def checked_key(key: str) -> str:
    """Return `key`, a path with any number of slashes, unchanged. Raises UsageError if no object can have this key,
    such as one that leads out of the store."""
    if any(part in ("", ".", "..") or "\0" in part for part in key.split("/")):
        raise UsageError(f"{key!r}: no object can have this name")
    return key


def checked_name(name: str) -> str:
    """Return `name` unchanged: a partition's directory, a slash and a file's name. Raises UsageError for a name that no
    object can have."""
    if name.count("/") != 1:
        raise UsageError(f"{name!r}: no object can have this name")
    return checked_key(name)


class Store(Protocol):
    """A directory or bucket that holds objects (of tiered storage or of a backup), each under a name. All methods raise
    UnreadableInput if an object cannot be read, and StoreFailed if the whole store cannot be read; `size`, `open`,
    `read` and `as_file` raise ObjectMissing."""

    @property
    def address(self) -> str:
        """The path or URL of the store, for messages and commands."""

    @property
    def is_remote(self) -> bool:
        """Whether each read waits for an answer over the network."""

    @property
    def is_plugin(self) -> bool:
        """Whether Aiven's tiered-storage plugin has written the objects: the entries of `list_objects` are then
        sections or chunks of the plugin's objects."""

    @property
    def options(self) -> Sequence[str]:
        """The options of `kcli tier` besides the address with which the store was opened: those that give key pairs."""

    def place(self, name: str) -> str:
        """Return, for messages, the path or URL of an object (in the plugin's layout, of the object that has its
        bytes), or of a partition's directory."""

    def list_objects(self, prefix: str = "") -> Iterator[StoredObject]:
        """Yield the objects whose names begin with `prefix`, by name."""

    def size(self, name: str) -> int:
        """Return the size of an object in bytes."""

    def open(self, name: str) -> Source:
        """Return an object's bytes as a Source, which the caller closes."""

    def read(self, name: str, start: int, stop: int) -> memoryview:
        """Return the bytes [start, stop) of an object, fewer at its end; start must lie below its size."""

    def as_file(self, name: str) -> AbstractContextManager[Path]:
        """Return a context manager that yields the path of a file with the object's bytes, which is only to be read.
        After the context the file may no longer exist."""

    def write(self, name: str, parts: Iterable[ObjectPart]) -> None:
        """Write a new object. Raises OSError; UsageError for a name that no object can have."""

    def delete(self, name: str) -> None:
        """Remove an object that may already be gone. Raises OSError; UsageError for a name that no object can have."""

    def forget(self, directory: str) -> None:
        """Remove the directory of a partition, if the store has directories and nothing is in this one."""
