"""A place for objects: names and bytes. The tier is kept in one.

    list_objects  the objects whose names begin with a prefix, with their sizes
    place         the path or URL of an object, for messages
    size          the size of one object
    open          an object as a Source, of which any range can be read
    read          one range of an object, in one request
    as_file       an object as a file on this machine, for what reads files alone
    write         a new object, whole or not at all
    delete        removes an object
    forget        removes what is left of a partition without objects: an empty directory

A name is a path of at least two parts between slashes: `orders-0-<topic id>/<offset>-<segment id>.log`. A store follows
no link, and gives nothing that is not in it. `kcli.tier.local` is a directory, `kcli.tier.bucket` a bucket;
`kcli.tier.plugin_store` has the same names for what lies there in other objects, and `place` says in which.
`kcli.tier.opening` tells by the address, and by what is there, which it is.
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
    """What a store with manifests tells of a segment. stored: the objects that are there, by name, with their sizes in
    bytes. segment: as its manifest describes it, None if it does not. damage: why nothing of the segment can be read;
    None if its manifest is sound. surplus: how many bytes the .log object has behind the segment's."""

    stored: Mapping[str, int]
    segment: RemoteSegment | None = None
    damage: DamagedObject | None = None
    surplus: int = 0


class StoredObject(NamedTuple):
    """An object of a store. size: bytes. odd: why this is no object of a store, such as that it is a symbolic
    link; None for an object. told: with the first object of a segment, what the store tells of the segment, if it has
    manifests."""

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
    """An object is there, and its bytes are not those of a segment: cut off, damaged, or of another version. position:
    the first of them; None for the object as a whole. sound: how many bytes of the segment come before them. lost: how
    many bytes of the segment they take; 0 if no byte behind them can be read."""

    def __init__(self, path: str, reason: str, position: int | None = None, sound: int = 0, lost: int = 0) -> None:
        super().__init__(path, reason if position is None else f"byte {position:,}: {reason}")
        self.fault = reason
        self.position = position
        self.sound = sound
        self.lost = lost


class NewerObject(DamagedObject):
    """An object of another version than kcli reads, or larger: its bytes may be sound."""


class StoreFailed(UnreadableInput):
    """The store does not answer, or grants no access: every request to it fails, not only that for one object."""


class StoreAway(StoreFailed):
    """The store does not answer now, and may later: the network is down, or the server is slow or overloaded."""


class KeyMissing(StoreFailed):
    """The store is encrypted with a key pair that was not given."""


def checked_key(key: str) -> str:
    """Return a path with any number of slashes. Raises UsageError if no object can have it, as it could lead out of the
    store."""
    if any(part in ("", ".", "..") or "\0" in part for part in key.split("/")):
        raise UsageError(f"{key!r}: no object can have this name")
    return key


def checked_name(name: str) -> str:
    """Return the name of an object: the directory of a partition, and the name of a file. Raises UsageError for one
    that no object can have."""
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
        """Whether the tiered-storage plugin of Aiven has laid out the objects: those with the names of `list_objects`
        are then sections and chunks of others."""

    @property
    def options(self) -> Sequence[str]:
        """The options of `kcli tier`, beside the address, with which the store was opened: the key pairs."""

    def place(self, name: str) -> str:
        """Return the path or URL of the object that has the bytes of an object, or of a partition's directory, for
        messages."""

    def list_objects(self, prefix: str = "") -> Iterator[StoredObject]:
        """Yield the objects whose names begin with `prefix`, by name."""

    def size(self, name: str) -> int:
        """Return the size of an object in bytes."""

    def open(self, name: str) -> Source:
        """Return an object's bytes as a Source, which the caller closes."""

    def read(self, name: str, start: int, stop: int) -> memoryview:
        """Return the bytes [start, stop) of an object, fewer at its end; start must lie below its size."""

    def as_file(self, name: str) -> AbstractContextManager[Path]:
        """A context with the path of a file that has the object's bytes, to be read. After the context the file may be
        gone."""

    def write(self, name: str, parts: Iterable[ObjectPart]) -> None:
        """Write a new object. Raises OSError; UsageError for a name that no object can have."""

    def delete(self, name: str) -> None:
        """Remove an object that may already be gone. Raises OSError; UsageError for a name that no object can have."""

    def forget(self, directory: str) -> None:
        """Remove the directory of a partition, if the store has directories and nothing is in this one."""
