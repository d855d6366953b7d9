"""The partitions at the paths of a query: their segments, and their offsets in the log directory's checkpoints.

    path of a segment's file           that segment alone
    directory with segments            one partition, by the directory's name (no number: topic <name>, partition 0)
    directory of such directories      a log directory with its checkpoints, several log directories, or tiered storage
    *, ?, [...] in a path              every match

Left out, unless a path names them: files and directories that Kafka deletes or moves (`-delete`, `-future`, `-stray`,
`.deleted`, `.cleaned`). A `.swap` file counts as a segment if no `.log` of its base offset exists yet.
"""

from __future__ import annotations

import fnmatch
import logging
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from formats.checkpoint import parse_offsets
from formats.errors import FormatError
from formats.file_name import DirectoryName, FileKind, FileName, build, parse, parse_directory
from kcli.errors import UnreadableInput
from kcli.export.files import (
    Entry,
    absolute,
    is_remote,
    join,
    list_directory,
    local,
    name_of,
    parent_of,
    read_file,
    stat,
)
from kcli.protocol.topic_partition import TopicPartition

log = logging.getLogger("kcli.export")
MAGIC_CHARACTERS = re.compile(r"[*?\[]")
DEPTH_MAX = 3


@dataclass(frozen=True, slots=True)
class SegmentFile:
    """One segment. address: path or URL of its `.log` file; size: bytes of that file; indexes: the kinds of index files
    beside it.

    first_offset, next_offset: of a segment in the tier, the offsets [first_offset, next_offset) that are read from it;
    other batches in it, if any, are of leader epochs that are not the log's. latest_ms: the largest timestamp (epoch
    ms) in it. None if it is not known, or for a local segment.
    """

    base_offset: int
    address: str
    size: int
    indexes: frozenset[FileKind]
    first_offset: int | None = None
    next_offset: int | None = None
    latest_ms: int | None = None

    @property
    def name(self) -> str:
        """The name of the `.log` file."""
        return name_of(self.address)

    @property
    def begin(self) -> int:
        """The first offset that is read from the segment."""
        return self.base_offset if self.first_offset is None else self.first_offset

    def has(self, offset: int) -> bool:
        """Whether an offset may be read from it: true for all offsets of a local segment."""
        return self.next_offset is None or self.begin <= offset < self.next_offset

    def index(self, kind: FileKind) -> str | None:
        """Return the address of the index file of a kind, None if the segment has none."""
        if kind not in self.indexes:
            return None
        name = parse(self.name)
        assert name is not None, "segments are found by their names"
        return join(parent_of(self.address), build(name._replace(kind=kind)))


@dataclass(frozen=True, slots=True)
class Remote:
    """Where the segments of a partition are in the tier. store: the path or URL of the tier. topic_id: the topic's id.
    directory: the partition's directory in a broker's log directory, None if it has none. log_directory: the log
    directory with the tier's metadata log, None if only the objects are read. listed_ns: when the tier was read (ns
    since 1970)."""

    store: str
    topic: str
    partition: int
    topic_id: str
    directory: str | None
    log_directory: str | None
    listed_ns: int


@dataclass(frozen=True, slots=True)
class Missing:
    """Offsets first..last (inclusive) that should be in the tier and are not. address: that of the object or directory
    that lacks them. reason: why they are missing, as a text."""

    first: int
    last: int
    address: str
    reason: str


@dataclass(frozen=True, slots=True)
class PartitionFiles:
    """One replica of a partition: its segments in the order of base offsets, and its producer snapshots as (offset,
    address).

    log_start_offset, high_watermark: from the log directory's checkpoints, None if the partition has no entry there.
    unreadable: (address, why) of each of the replica's `.log` files, or of the directory, that cannot be read. remote:
    where the tier has the segments before the local ones; None if it has none. missing: what the tier lacks.
    """

    topic: str
    partition: int
    directory: str
    segments: tuple[SegmentFile, ...]
    snapshots: tuple[tuple[int, str], ...] = ()
    log_start_offset: int | None = None
    high_watermark: int | None = None
    unreadable: tuple[tuple[str, str], ...] = ()
    remote: Remote | None = None
    missing: tuple[Missing, ...] = ()

    @property
    def size(self) -> int:
        """The size of all segments in bytes."""
        return sum(segment.size for segment in self.segments)

    def following(self, offset: int) -> Iterator[tuple[SegmentFile, int | None]]:
        """Yield (segment, base offset of the next segment) for the segment that contains `offset` and each one after
        it; None in place of the base offset for the last segment. For a segment in the tier, the second value is the
        offset after the last that is read from it."""
        for segment, following in pairwise([*self.segments, None]):
            assert segment is not None, "only the last one has no follower"
            next_base = None if following is None else following.begin
            next_base = next_base if segment.next_offset is None else segment.next_offset
            if next_base is None or next_base > offset:
                yield segment, next_base


def discover(paths: Iterable[str]) -> list[PartitionFiles]:
    """Return the partitions at these addresses, sorted by topic and partition; one partition can have several replicas.
    Their segments in tiered storage are not included: `kcli.export.tiered` adds them.

    Raises UnreadableInput for an address that does not exist or has no segment or partition directory.
    """
    found: dict[str, PartitionFiles] = {}
    for path in paths:
        _checkpoint.cache_clear()
        for address in _expand(path):
            for partition in _at(absolute(address)):
                key = partition.directory if len(partition.segments) != 1 else partition.segments[0].address
                found.setdefault(key, partition)
    return sorted(found.values(), key=lambda each: (each.topic, each.partition, each.directory))


def refresh(directory: str) -> PartitionFiles:
    """Return the segments, snapshots and checkpointed offsets of a partition's directory now. Raises
    UnreadableInput."""
    _checkpoint.cache_clear()
    return _partition(directory, list_directory(directory))


def _expand(path: str) -> list[str]:
    """Return the addresses that a path matches, sorted; the path itself if it has no wildcard.

    Raises UnreadableInput if the wildcards match nothing.
    """
    if not is_remote(path) and (stat(path) is not None or not MAGIC_CHARACTERS.search(path)):
        return [path]
    head, query = _without_query(path) if is_remote(path) else (path, "")
    if not MAGIC_CHARACTERS.search(head):
        return [path]
    plain, names = _plain_head(head)
    found = [plain + query]
    for name in names:
        found = [each for address in found for each in _matches(address, name)]
    if not found:
        raise UnreadableInput(path, "nothing matches")
    return sorted(found)


def _without_query(url: str) -> tuple[str, str]:
    """Return a URL with wildcards without its query, and the query. A `?` begins the query if the text after the `?`
    contains a `=`; otherwise the `?` is a wildcard."""
    head, mark, query = url.rpartition("?")
    return (head, mark + query) if "=" in query and "/" not in query.partition("=")[0] else (url, "")


def _plain_head(path: str) -> tuple[str, list[str]]:
    parts = path.split("/")
    first = next(i for i, part in enumerate(parts) if MAGIC_CHARACTERS.search(part))
    return "/".join(parts[:first]) or ("/" if path.startswith("/") else "."), [part for part in parts[first:] if part]


def _matches(address: str, name: str) -> Iterator[str]:
    if not MAGIC_CHARACTERS.search(name):
        below = join(address, name)
        if stat(below) is not None:
            yield below
        return
    for entry in list_directory(address):
        if fnmatch.fnmatchcase(entry.name, name) and (not entry.name.startswith(".") or name.startswith(".")):
            yield join(address, entry.name)


def _at(address: str) -> Iterator[PartitionFiles]:
    entry = stat(address)
    shown = address if is_remote(address) else str(local(address))
    if entry is None:
        raise UnreadableInput(shown, "no such file or directory")
    if entry.is_directory:
        found = list(_below(address, DEPTH_MAX))
        if not found:
            raise UnreadableInput(shown, "no partition's directory and no segment in it")
        yield from found
        return
    name = parse(name_of(address))
    if name is None or name.kind is not FileKind.LOG:
        raise UnreadableInput(shown, "not a segment: <offset>.log")
    directory = parent_of(address)
    whole = _partition(directory, list_directory(directory))
    alone = _segment(directory, entry, name, _indexes_of(whole, name_of(address)))
    yield PartitionFiles(whole.topic, whole.partition, directory, (alone,), whole.snapshots)


def _indexes_of(partition: PartitionFiles, file: str) -> frozenset[FileKind]:
    """Return the kinds of index files beside the partition's segment with this file name."""
    return next((each.indexes for each in partition.segments if each.name == file), frozenset())


def _below(address: str, depth: int) -> Iterator[PartitionFiles]:
    entries = list_directory(address)
    if any(_is_segment(entry) for entry in entries):
        yield _partition(address, entries)
        return
    directories = [entry for entry in entries if entry.is_directory and not entry.name.startswith(".")]
    if not directories and parse_directory(name_of(address)) is not None:
        yield _partition(address, entries)
    for entry in entries:
        name = parse_directory(entry.name)
        if entry.error is not None and name is not None and not name.state:
            here = join(address, entry.name)
            yield PartitionFiles(name.topic, name.partition, here, (), unreadable=((here, entry.error),))
    for entry in directories:
        name = parse_directory(entry.name)
        if name is not None and name.state not in ("", "remote"):
            continue
        below = join(address, entry.name)
        if depth > 1:
            yield from _below(below, depth - 1)


def _is_segment(entry: Entry) -> bool:
    name = parse(entry.name)
    return name is not None and name.kind is FileKind.LOG and not entry.is_directory


def _partition(directory: str, entries: list[Entry]) -> PartitionFiles:
    whose = parse_directory(name_of(directory) or "log") or DirectoryName(name_of(directory) or "log", 0)
    named = [(name, entry) for entry in entries if (name := parse(entry.name)) and not entry.is_directory]
    parsed = [(name, entry) for name, entry in named if entry.error is None]
    unreadable = [
        (join(directory, entry.name), entry.error)
        for name, entry in named
        if entry.error is not None and name.kind is FileKind.LOG and name.state in ("", "swap")
    ]
    indexes: dict[FileName, set[FileKind]] = {}
    for name, _ in parsed:
        indexes.setdefault(name._replace(kind=FileKind.LOG), set()).add(name.kind)
    logs: dict[tuple[int, str | None], tuple[FileName, Entry]] = {}
    for name, entry in parsed:
        if name.kind is FileKind.LOG and name.state in ("", "swap") and name.base_offset is not None:
            key = name.base_offset, name.remote_id
            if not name.state or key not in logs:
                logs[key] = name, entry
    segments = [_segment(directory, entry, name, frozenset(indexes[name])) for name, entry in logs.values()]
    snapshots = [
        (name.base_offset, join(directory, entry.name))
        for name, entry in parsed
        if name.kind is FileKind.PRODUCER_SNAPSHOT and not name.state and name.base_offset is not None
    ]
    above = parent_of(directory)
    whom = TopicPartition(whose.topic, whose.partition)
    return PartitionFiles(
        whose.topic,
        whose.partition,
        directory,
        tuple(sorted(segments, key=lambda each: (each.base_offset, each.name))),
        tuple(sorted(snapshots)),
        _checkpoint(above, FileKind.LOG_START_OFFSETS).get(whom),
        _checkpoint(above, FileKind.REPLICATION_OFFSETS).get(whom),
        tuple(unreadable),
    )


def _segment(directory: str, entry: Entry, name: FileName, indexes: frozenset[FileKind]) -> SegmentFile:
    assert name.base_offset is not None, "a segment's name has its offset"
    return SegmentFile(name.base_offset, join(directory, entry.name), entry.size, indexes - {FileKind.LOG})


@lru_cache(maxsize=64)
def _checkpoint(directory: str, kind: FileKind) -> dict[TopicPartition, int]:
    """Return a checkpoint's offsets by (topic, partition); {} if the file is missing or damaged."""
    address = join(directory, kind)
    try:
        if stat(address) is None:
            return {}
        entries = parse_offsets(read_file(address))
    except (FormatError, UnreadableInput) as error:
        log.warning("%s is of no use: %s", address, error)
        return {}
    return {TopicPartition(entry.topic, entry.partition): entry.offset for entry in entries}
