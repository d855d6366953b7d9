"""The objects that the tiered-storage plugin of Aiven has put into a directory or a bucket, as a store, for reading.

    in    three objects of each segment (plugin_layout): manifest, chunks, indexes
    out   the segment's files, with the names and the bytes that LocalTieredStorage would have for them

So lineage, checks, fetches and exports read both layouts alike. `place` returns the object in which a file's bytes
really are. A manifest is read for each segment that is listed; chunks and indexes are read, and a key pair is needed,
only when bytes are requested. A damaged manifest, object or data key is a DamagedObject of that segment alone.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Protocol

from formats.errors import FormatError, LimitExceeded, UnknownVersion
from formats.file_name import FileKind
from formats.segment_manifest import MANIFEST_BYTES_MAX, SegmentManifest, parse
from kcli.errors import KcliError, UnreadableInput, UsageError
from kcli.log.source import BytesSource, Source, read_range
from kcli.tier.chunks import CheckedSource, ChunkedSource, read_section
from kcli.tier.key_pairs import OPTION, VARIABLE, KeyPairs, Seal
from kcli.tier.plugin_layout import (
    INDEXES,
    LOG,
    MANIFEST,
    SECTIONS,
    SUFFIXES,
    SegmentName,
    directory_key,
    object_key,
    parse_file,
    parse_key,
    partition_of,
    segment_name,
)
from kcli.tier.segment import RemoteSegment
from kcli.tier.spool import spooled
from kcli.tier.store import (
    DamagedObject,
    KeyMissing,
    NewerObject,
    ObjectMissing,
    ObjectPart,
    StoredObject,
    StoreFailed,
    Told,
)
from kcli.tier.stored_segment import INDEX_BYTES_MAX

MANIFESTS_KEPT = 16
READ_AT_ONCE = 4
LISTED_AT_ONCE = 64
LOOKED_AT = 10_000
"""The greatest number of keys that are examined to find the layout."""
UNFINISHED = "no manifest of these objects: a copy or a deletion has not ended"


class Keys(Protocol):
    """A directory or a bucket, by the keys of its objects: paths with any number of slashes."""

    @property
    def address(self) -> str:
        """The path or URL of the directory or bucket, as in Store."""

    def place(self, name: str) -> str:
        """Return the path or URL of the object with the key `name`, as in Store."""

    @property
    def is_remote(self) -> bool:
        """Whether each read waits for an answer over the network, as in Store."""

    def list_keys(self, prefix: str = "") -> Iterator[StoredObject]:
        """Yield the objects whose keys begin with `prefix`."""

    def open_key(self, key: str) -> Source:
        """Return an object's bytes as a Source. Raises as Store.open does."""


def plugin_prefix(keys: Keys, begin: str = "") -> str | None:
    """Return key.prefix of the objects whose keys begin with `begin`; None if the plugin did not write them.

    The first manifest that names its topic shows how much of its key is the prefix. If no manifest names its topic, the
    prefix is the text up to the last slash before the topic's name, or `begin` if that is longer.
    """
    first: str | None = None
    for each in islice(keys.list_keys(begin), LOOKED_AT):
        key = None if each.odd else parse_key(each.name)
        if key is None:
            if parse_file(each.name) is not None:
                return None
            continue
        if first is None:
            first = key.head
        if key.suffix == MANIFEST:
            with suppress(DamagedObject, ObjectMissing):
                segment = _parsed(keys, each.name).segment
                if segment is not None and segment.topic and key.head.endswith(segment.topic):
                    return key.head[: len(key.head) - len(segment.topic)]
    if first is None:
        return None
    directory = "".join(first.rpartition("/")[:2])
    return max(directory, begin, key=len) if first.startswith(begin) else directory


class PluginStore:
    """The objects below the key prefix `prefix`. keys: the directory or bucket. address: the path or URL that `--tier`
    gave for them. spool: the directory for copies of files; None for the system's."""

    def __init__(
        self, keys: Keys, prefix: str, address: str, key_pairs: KeyPairs | None = None, spool: Path | None = None
    ) -> None:
        self._keys = keys
        self._prefix = prefix
        self._address = address
        self._key_pairs = KeyPairs() if key_pairs is None else key_pairs
        self._spool = spool
        self._manifests: OrderedDict[SegmentName, tuple[SegmentManifest, Seal | None]] = OrderedDict()
        self._lock = Lock()

    @property
    def address(self) -> str:
        """The path or URL below which the objects are."""
        return self._address

    @property
    def is_remote(self) -> bool:
        """Whether the objects are in a bucket."""
        return self._keys.is_remote

    @property
    def is_plugin(self) -> bool:
        """Return True: the objects have the layout of Aiven's tiered-storage plugin."""
        return True

    @property
    def options(self) -> Sequence[str]:
        """The command-line options that gave the key pairs."""
        return self._key_pairs.options

    def place(self, name: str) -> str:
        """Return the path or URL of the object that has the bytes of a file."""
        return self._keys.place(self._key(name))

    def list_objects(self, prefix: str = "") -> Iterator[StoredObject]:
        """Yield the files whose names begin with `prefix`, by segment. `told` of the first file of a segment has the
        content of the segment's manifest."""
        found: dict[SegmentName, dict[str, StoredObject]] = {}
        for each in self._keys.list_keys(self._listed_prefix(prefix)):
            key = None if each.odd else parse_key(each.name)
            name = None if key is None else segment_name(key, self._prefix)
            if key is None or name is None:
                yield (
                    each if each.odd or key is None else each._replace(odd=f"not below the key prefix {self._prefix!r}")
                )
            elif name.file(FileKind.LOG).startswith(prefix):
                found.setdefault(name, {})[key.suffix] = each
        names = iter(sorted(found, key=lambda each: (each.partition, each.start_offset, each.id)))
        with ThreadPoolExecutor(READ_AT_ONCE, "kcli-manifests") as threads:
            while some := list(islice(names, LISTED_AT_ONCE)):
                manifests = threads.map(lambda name: self._listed_manifest(name, found[name]), some)
                for name, manifest in zip(some, manifests, strict=True):
                    yield from _files(name, found[name], manifest, self._place(name, MANIFEST))

    def size(self, name: str) -> int:
        """Return the size of a file in bytes."""
        segment, kind = self._file(name)
        return self._length(name, kind, self._manifest(segment))

    def open(self, name: str) -> Source:
        """Return a file's bytes as a Source. Raises DamagedObject, KeyMissing; reads of the Source raise DamagedObject,
        too."""
        segment, kind = self._file(name)
        manifest, seal = self._opened(segment)
        size = self._length(name, kind, manifest)
        source = self._keys.open_key(self._key(name))
        if kind is FileKind.LOG:
            return CheckedSource(source, size) if manifest.is_plain else ChunkedSource(source, manifest, seal)
        try:
            if size > INDEX_BYTES_MAX:
                raise DamagedObject(self._place(segment, MANIFEST), f"{kind}: {size:,} bytes are more than it can have")
            data = read_section(source, manifest.sections[SECTIONS[kind]], seal, f"{kind}")
        finally:
            source.close()
        return BytesSource(data, self.place(name))

    def read(self, name: str, start: int, stop: int) -> memoryview:
        """Return the bytes [start, stop) of a file."""
        return read_range(self.open(name), start, stop)

    @contextmanager
    def as_file(self, name: str) -> Iterator[Path]:
        """Copy a file to a temporary file, and yield its path. The copy is removed at the end of the context."""
        with spooled(self.open(name), name, self._spool) as path:
            yield path

    def write(self, name: str, parts: Iterable[ObjectPart]) -> None:
        """Raise UsageError: only the plugin writes its objects."""
        del parts
        raise self._only_read(name)

    def delete(self, name: str) -> None:
        """Raise UsageError: only the plugin removes its objects."""
        raise self._only_read(name)

    def _only_read(self, name: str) -> UsageError:
        return UsageError(f"{self.place(name)}: objects of the tiered-storage plugin are only read")

    def forget(self, directory: str) -> None:
        """Do nothing: this store is only read."""

    # names of files and keys of objects

    def _listed_prefix(self, prefix: str) -> str:
        """Return the beginning of the keys of all files whose names begin with `prefix`. prefix: a topic's name with a
        hyphen, or the directory of a partition."""
        whose, slash, _ = prefix.partition("/")
        partition = partition_of(whose) if slash else None
        return f"{self._prefix}{whose}" if partition is None else directory_key(self._prefix, partition)

    def _file(self, name: str) -> tuple[SegmentName, FileKind]:
        found = parse_file(name)
        if found is None:
            raise UsageError(f"{name!r}: no object can have this name")
        return found

    def _key(self, name: str) -> str:
        """Return the key of the object that has the bytes of a file; for the name of a partition's directory, the
        beginning of its objects' keys; any other name is a key already, and returned as it is."""
        if (found := parse_file(name)) is not None:
            return object_key(self._prefix, found[0], LOG if found[1] is FileKind.LOG else INDEXES)
        partition = partition_of(name)
        return name if partition is None else directory_key(self._prefix, partition).rstrip("/")

    def _place(self, name: SegmentName, suffix: str) -> str:
        return self._keys.place(object_key(self._prefix, name, suffix))

    def _length(self, name: str, kind: FileKind, manifest: SegmentManifest) -> int:
        """Return the size of a file in bytes. Raises ObjectMissing."""
        if kind is FileKind.LOG:
            return manifest.chunks.file_size
        if SECTIONS[kind] not in manifest.sections:
            raise ObjectMissing(f"{self.place(name)}: no {kind} in it")
        return manifest.section_length(SECTIONS[kind])

    # reading manifests

    def _listed_manifest(self, name: SegmentName, there: Mapping[str, StoredObject]) -> SegmentManifest | DamagedObject:
        """Return the manifest of a segment; a DamagedObject if it is missing or cannot be read."""
        if MANIFEST not in there:
            return DamagedObject(self._place(name, MANIFEST), UNFINISHED)
        try:
            return self._read(name)
        except StoreFailed:
            raise
        except DamagedObject as error:
            return error
        except UnreadableInput as error:
            if error.is_denied:
                raise
            return DamagedObject(error.path, error.reason)
        except KcliError:  # the manifest was deleted after it was listed
            return DamagedObject(self._place(name, MANIFEST), UNFINISHED)

    def _read(self, name: SegmentName) -> SegmentManifest:
        """Read the manifest of a segment. Raises DamagedObject, ObjectMissing."""
        manifest = _parsed(self._keys, object_key(self._prefix, name, MANIFEST))
        segment = manifest.segment
        if segment is not None:
            said = (segment.topic, segment.partition, segment.topic_id, segment.start_offset, segment.segment_id)
            if said != (*name.partition, name.start_offset, name.id):
                reason = f"the manifest is that of segment {said[4]} of {said[0][:200]!r}-{said[1]}, offset {said[3]:,}"
                raise DamagedObject(self._place(name, MANIFEST), reason)
        return manifest

    def _manifest(self, name: SegmentName) -> SegmentManifest:
        """Return the manifest of a segment. Raises DamagedObject, ObjectMissing."""
        with self._lock:
            if name in self._manifests:
                return self._manifests[name][0]
        return self._read(name)

    def _opened(self, name: SegmentName) -> tuple[SegmentManifest, Seal | None]:
        """Return the manifest of a segment, and the Seal that decrypts its chunks; None if they are not encrypted.
        Raises DamagedObject, ObjectMissing, KeyMissing."""
        with self._lock:
            if name in self._manifests:
                self._manifests.move_to_end(name)
                return self._manifests[name]
        manifest = self._read(name)
        found = manifest, self._seal(name, manifest)
        with self._lock:
            self._manifests[name] = found
            while len(self._manifests) > MANIFESTS_KEPT:
                self._manifests.popitem(last=False)
        return found

    def _seal(self, name: SegmentName, manifest: SegmentManifest) -> Seal | None:
        encryption = manifest.encryption
        if encryption is None:
            return None
        place = self._place(name, MANIFEST)
        if encryption.key_pair not in self._key_pairs:
            reason = f"encrypted with key pair {encryption.key_pair[:100]!r}"
            raise KeyMissing(place, f"{reason}: give its private key with {OPTION} ID=PRIVATE.pem or in {VARIABLE}")
        try:
            return Seal(self._key_pairs.unwrap(encryption), encryption.aad)
        except FormatError as error:
            raise DamagedObject(
                place, f"encryption.dataKey, of key pair {encryption.key_pair[:100]!r}: {error.reason}"
            ) from None


def _parsed(keys: Keys, key: str) -> SegmentManifest:
    """Read the manifest at a key. Raises DamagedObject, ObjectMissing, UnreadableInput."""
    source = keys.open_key(key)
    try:
        if source.size() > MANIFEST_BYTES_MAX:
            raise DamagedObject(keys.place(key), f"{source.size():,} bytes are more than a manifest can have")
        data = bytearray(source.size())
        return parse(bytes(data[: source.read_at(0, memoryview(data))]))
    except (UnknownVersion, LimitExceeded) as error:
        raise NewerObject(keys.place(key), error.reason, error.position) from None
    except FormatError as error:
        raise DamagedObject(keys.place(key), error.reason, error.position) from None
    finally:
        source.close()


def _files(
    name: SegmentName, there: Mapping[str, StoredObject], manifest: SegmentManifest | DamagedObject, place: str
) -> Iterator[StoredObject]:
    """Yield the files of a segment. there: its existing objects by suffix. place: the path or URL of the manifest."""
    stored = {there[suffix].name: there[suffix].size for suffix in SUFFIXES if suffix in there}
    if isinstance(manifest, DamagedObject):
        yield StoredObject(name.file(FileKind.LOG), 0, told=Told(stored, damage=manifest))
        return
    sizes = {FileKind.LOG: manifest.chunks.file_size} if LOG in there else {}
    if INDEXES in there:
        found = ((kind, section) for kind, section in SECTIONS.items() if section in manifest.sections)
        sizes |= {kind: manifest.section_length(section) for kind, section in found}
    surplus = max(0, there[LOG].size - manifest.chunks.object_size) if LOG in there else 0
    told: Told | None = Told(stored, _described(name, manifest), surplus=surplus)
    for kind, size in sizes.items():
        yield StoredObject(name.file(kind), size, told=told)
        told = None
    if told is not None:
        damage = DamagedObject(place, "the segment has no other object than its manifest")
        yield StoredObject(name.file(FileKind.LOG), 0, told=told._replace(damage=damage))


def _described(name: SegmentName, manifest: SegmentManifest) -> RemoteSegment | None:
    """Return the segment as its manifest describes it; None if the manifest has no remoteLogSegmentMetadata."""
    segment = manifest.segment
    if segment is None:
        return None
    return RemoteSegment(
        partition=name.partition,
        id=name.id,
        start_offset=segment.start_offset,
        end_offset=segment.end_offset,
        size=manifest.chunks.file_size,
        leader_epochs=segment.leader_epochs,
        has_txn_index="transaction" in manifest.sections,
        max_timestamp_ms=segment.max_timestamp_ms,
        broker_id=segment.broker_id,
    )
