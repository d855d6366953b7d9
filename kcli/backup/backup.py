"""A run of a backup: it finds where each partition ends, then copies the bytes that the store does not have yet.

    1  list the files of all partitions: the bytes in them were appended before the run
    2  read the sizes of the active segments of __transaction_state, all within a fraction of a millisecond, between two
       listings of __consumer_offsets
    3  list the files of all other partitions again, the metadata log last: the sizes now are the partitions' ends, so
       that no partition ends below an offset that a group has committed
    4  copy the whole batches up to these ends: new segments, and what was appended to known ones
    5  write the manifest, which names the objects of the run

Objects of earlier runs are not copied again, unless the store does not list them any more, or lists other sizes. A run
that is killed leaves objects that no manifest names; the next run finds them, as their names have the SHA-256 of their
bytes. The run takes no lock, and writes nothing in the log directory. If the cleaner or retention changes a partition's
files before they are copied, the run lists this partition again, which then ends later; if the partition is a
coordinator's, the whole run begins anew. After such a listing, the metadata log is listed again as the last one, so
that it has the deletion of each topic that the run has not copied: restored, such a topic would exist without records.

The log directories of a node make one run, which does each step for all of them. A replica that a broker is moving to
another log directory is copied from its current log: directories with -future are left out, as are those with -delete
and -stray. If the broker ends the move during the run, the run begins anew.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from formats import producer_snapshot, properties
from formats import txn_index as txn_index_format
from formats.checkpoint import parse_leader_epochs
from formats.errors import FormatError
from formats.file_name import METADATA_TOPIC, FileKind
from formats.kernels.columns import BatchRow
from kcli.backup import runs
from kcli.backup.listing import Files, Found, list_files
from kcli.backup.manifest import BackedDirectory, BackedPartition, BackedSegment, Manifest, Piece, Tail, build
from kcli.backup.uploads import Uploads
from kcli.coordinator.machine import TRANSACTIONS_TOPIC
from kcli.errors import KcliError, StartRefused, UnreadableInput, UsageError
from kcli.log.leader_epochs import FILE_NAME as LEADER_EPOCHS
from kcli.log.log_directory import LogDirectory, PartitionDirectory, is_log_directory
from kcli.log.partition_directory import topic_id_of
from kcli.log.segment_reader import Damage, read_segment
from kcli.log.source import FileSource, Source, read_whole
from kcli.protocol.topic_partition import TopicPartition
from kcli.tier.store import Store

OFFSETS_TOPIC = "__consumer_offsets"
CHECKPOINTS = (FileKind.REPLICATION_OFFSETS, FileKind.LOG_START_OFFSETS, FileKind.CLEANER_OFFSETS)
TRIES = 5
WAIT_S = 0.2
CHUNK_BYTES = 4 << 20
HEADER_BYTES = 61
LENGTH_BYTES = 12
NO_TOPIC_ID = "A" * 22
"""The text that names have in place of the topic id of a partition without partition.metadata."""
FILES_DIRECTORY = "files"
TEXT_BYTES_MAX = 1 << 20

Advance = Callable[[int], None]


class FilesChanged(KcliError):
    """A broker has changed closed segments of a partition while they were read, or has moved the partition."""

    def __init__(self, directory: Path) -> None:
        super().__init__(f"{directory}: a broker changes closed segments faster than they are copied; try again")


class InTwoDirectories(FilesChanged):
    """A partition is in two log directories: for a moment, while a broker ends a move of the partition, or
    permanently."""

    def __init__(self, one: Path, other: Path) -> None:
        KcliError.__init__(self, f"{one} and {other}: one partition, and Kafka does not start with both")


@dataclass(slots=True)
class Result:
    """The result of a run. name: that of the manifest's object. copied, objects: the bytes and the number of new
    objects. troubles: a text for each damage or missing file. left_out: in a backup over the network, the settings that
    brokers do not show to a client, as texts."""

    name: str
    manifest: Manifest
    copied: int
    objects: int
    troubles: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


class _Surveyed(NamedTuple):
    """Bytes of a .log file that the run copies. stop: the byte where they end. sha256: that of the bytes, in hex. last,
    tail: last offset and header of the last batch in them, None without one. damage: the damage, in words; None for
    sound bytes."""

    stop: int
    sha256: str
    last: int | None
    tail: Tail | None
    damage: str | None


def back_up(
    directories: Sequence[Path],
    store: Store,
    now_ms: Callable[[], int],
    advance: Advance = lambda _: None,
    *,
    tries: int = TRIES,
) -> Result:
    """Add a run of the log directories of a node to a store. advance: called with the number of bytes of each new
    object. tries: how often the run is begun at most if a broker changes files meanwhile.

    Runs whose manifests are damaged are passed over, and named in `troubles` of the result: the new run builds on the
    objects of the last sound run. Raises UnreadableInput, also if there are manifests and none is sound; UsageError if
    the store has the backup of a log directory that is not among these, or of a cluster over the network, or if these
    are of several nodes; FilesChanged, OSError.
    """
    for directory in directories:
        if not is_log_directory(directory):
            raise UnreadableInput(str(directory), "no log directory of a broker")
    previous, passed_over = last_sound(store)
    metas = [_text_of(directory / FileKind.META_PROPERTIES) for directory in directories]
    for directory, meta in zip(directories, metas, strict=True):
        if _node(meta) != _node(metas[0]):
            raise UsageError(f"{directories[0]} and {directory} are of different nodes: give each a --to of its own")
    if previous is not None and previous.cluster is not None:
        raise UsageError(f"{store.address} has a backup over the network (--bootstrap-server): give another --to")
    given = {_identity(meta) for meta in metas}
    for each in () if previous is None else previous.directories:
        if _identity(each.meta_properties) not in given:
            whose = " ".join(_identity(each.meta_properties)) or "a directory without meta.properties"
            raise UsageError(f"{store.address} has the backup of another log directory ({whose}): give another --to")
    for left in reversed(range(tries)):
        try:
            result = _Run(directories, store, previous, metas, now_ms, advance).run()
        except FilesChanged:
            if not left:
                raise
            time.sleep(WAIT_S)
        else:
            result.troubles += (f"{each.path}: {each.reason}" for each in passed_over)
            return result
    raise AssertionError("the last try returns or raises")


def last_sound(store: Store) -> tuple[Manifest | None, list[UnreadableInput]]:
    """Return the newest manifest that can be read (None in a store without runs), and the errors of the newer
    manifests. Raises UnreadableInput if there are manifests and none can be read."""
    errors: list[UnreadableInput] = []
    for _, manifest in runs.read_each(store, reversed(runs.runs(store))):
        if not isinstance(manifest, UnreadableInput):
            return manifest, errors
        errors.append(manifest)
    if errors:
        raise errors[0]
    return None, []


class _Run:
    def __init__(
        self,
        directories: Sequence[Path],
        store: Store,
        previous: Manifest | None,
        metas: Sequence[str | None],
        now_ms: Callable[[], int],
        advance: Advance,
    ) -> None:
        self._directories = directories
        self._store = store
        self._metas = metas
        self._now_ms = now_ms
        self._uploads = Uploads(store, previous, advance)
        self._before = {} if previous is None else {_key(each): each for each in previous.partitions}
        self._at_ms = 0
        self._looked_again = False
        self._troubles: list[str] = []

    def run(self) -> Result:
        """Run once, without a second try. Raises what `back_up` raises."""
        started_ms = self._now_ms()
        checkpoints = [self._checkpoints(each) for each in self._directories]
        first = self._list(self._partitions())
        ends = self._ends(first)
        self._at_ms = self._now_ms()
        partitions: list[BackedPartition] = []
        for each in sorted(ends, key=lambda each: (_order(each), each.partition)):
            if each.name.topic == METADATA_TOPIC and self._looked_again:
                ends |= self._list([each])
                self._at_ms = self._now_ms()
            copied = self._partition(each, first.get(each), ends[each])
            if copied is not None:
                partitions.append(copied)
        directories = tuple(
            BackedDirectory(
                str(each.absolute()) if len(self._directories) > 1 else "", meta, offsets, self._files(each)
            )
            for each, meta, offsets in zip(self._directories, self._metas, checkpoints, strict=True)
        )
        manifest = Manifest(started_ms, self._at_ms, directories, tuple(partitions))
        name, data = build(manifest)
        self._store.write(name, [data])
        return Result(name, manifest, self._uploads.copied, self._uploads.objects, self._troubles)

    def _files(self, directory: Path) -> dict[str, Piece]:
        bootstrap = directory / FileKind.BOOTSTRAP
        if not bootstrap.exists():
            return {}
        data = read_whole(bootstrap)
        digest = hashlib.sha256(data).hexdigest()
        return {bootstrap.name: self._put(f"{FILES_DIRECTORY}/{digest[:32]}.checkpoint", data, digest)}

    # ends

    def _partitions(self) -> list[PartitionDirectory]:
        """Return the partitions of all log directories. Raises InTwoDirectories."""
        found: dict[TopicPartition, PartitionDirectory] = {}
        for directory in self._directories:
            for each in LogDirectory(directory).partitions():
                if not each.name.state and found.setdefault(each.partition, each) is not each:
                    raise InTwoDirectories(found[each.partition].path, each.path)
        return list(found.values())

    def _checkpoints(self, directory: Path) -> Mapping[str, Mapping[TopicPartition, int]]:
        found = LogDirectory(directory)
        return {str(kind): found.legible_offsets(kind) for kind in CHECKPOINTS}

    def _list(self, partitions: list[PartitionDirectory]) -> dict[PartitionDirectory, Files]:
        found = ((each, list_files(each.path)) for each in partitions)
        return {each: files for each, files in found if files is not None}

    def _ends(self, first: dict[PartitionDirectory, Files]) -> dict[PartitionDirectory, Files]:
        """Return for each partition the listing of its files that sets its end. The coordinators' partitions are listed
        again, just before the sizes of __transaction_state are read, and replaced in `first`, the first listing. Raises
        FilesChanged."""
        offsets = [each for each in first if each.name.topic == OFFSETS_TOPIC]
        transactions = [each for each in first if each.name.topic == TRANSACTIONS_TOPIC]
        first |= self._list(transactions)
        first |= self._list(offsets)
        moment = {each: first[each].active_size() for each in transactions if each in first}
        ends = self._list(offsets)
        ends |= self._list(transactions)
        for each, files in ends.items():
            if not files.follows(first[each]):
                raise FilesChanged(each.path)
        for each, size in moment.items():
            if each not in ends or ends[each].bases != first[each].bases or size is None:
                raise FilesChanged(each.path)  # the segment was rolled just now, which is rare
            ends[each].end_at(size)
        others = [each for each in self._partitions() if each not in ends and each.name.topic != METADATA_TOPIC]
        ends |= self._list([each for each in others if _order(each)])
        ends |= self._list([each for each in first if each.name.topic == METADATA_TOPIC])
        for each in first:
            if each not in ends:
                self._refuse_moved(each)
        return ends

    def _refuse_moved(self, each: PartitionDirectory) -> None:
        """Raise FilesChanged if a partition whose directory is gone is now in another log directory."""
        if len(self._directories) > 1 and each.partition in {one.partition for one in self._partitions()}:
            raise FilesChanged(each.path)

    # partitions

    def _partition(self, each: PartitionDirectory, first: Files | None, files: Files) -> BackedPartition | None:
        """Copy a partition; None if it was deleted meanwhile. first: an earlier listing of its files, None if it was
        created since. files: the listing that sets its end. Raises FilesChanged."""
        settled = (0, 0) if first is None else first.end
        for left in reversed(range(TRIES)):
            try:
                return self._copy(each, _following(first, files), settled)
            except FilesChanged:
                if not left or _order(each) == 0:
                    raise
                self._looked_again = True
                time.sleep(WAIT_S if left < TRIES - 1 else 0)
                first = list_files(each.path)
                again = list_files(each.path)
                if first is None or again is None:
                    self._refuse_moved(each)
                    return None
                files = again
                self._at_ms = self._now_ms()
        raise AssertionError("the last try returns or raises")

    def _copy(self, each: PartitionDirectory, files: Files, settled: tuple[int, int]) -> BackedPartition | None:
        try:
            topic_id = topic_id_of(each.path)
        except (StartRefused, OSError) as error:
            topic_id = None
            self._troubles.append(f"{each.path}: {error}")
        home = f"{each.name.topic}-{each.name.partition}-{topic_id or NO_TOPIC_ID}"
        before = self._before.get((each.partition, topic_id))
        known = {} if before is None else {one.base: one for one in before.segments}
        segments = tuple(
            self._segment(home, base, files, known.get(base), is_last=base == files.end[0]) for base in files.bases
        )
        is_metadata = each.name.topic == METADATA_TOPIC
        snapshots = {name: self._file(home, f"{name[:-11]}", found) for name, found in files.snapshots.items()}
        return BackedPartition(
            each.partition,
            topic_id,
            self._epochs(each.path),
            settled,
            segments,
            _text_of(each.path / FileKind.QUORUM_STATE) if is_metadata else None,
            snapshots if is_metadata else {},
            self._directories.index(each.path.parent),
        )

    def _epochs(self, directory: Path) -> tuple[tuple[int, int], ...]:
        path = directory / LEADER_EPOCHS
        if not path.exists():
            return ()
        try:
            return tuple((each.epoch, each.start_offset) for each in parse_leader_epochs(read_whole(path)))
        except FormatError as error:
            self._troubles.append(f"{path}: {error}; it is left out, and Kafka makes it of the last segment")
            return ()

    def _segment(
        self, home: str, base: int, files: Files, known: BackedSegment | None, *, is_last: bool
    ) -> BackedSegment:
        found = files.logs[base]
        source = _opened(files.directory, found)
        try:
            is_there = known is not None and self._uploads.are_known(known.parts)
            parts, begin = _kept(source, known, found.size) if known is not None and is_there else ((), 0)
            last, tail = (known.last, known.tail) if known is not None and begin else (None, None)
            if found.size > begin:
                surveyed = _survey(source, begin, found.size, is_whole=not is_last)
                if surveyed.damage is not None and not (is_last and _is_written(source, surveyed.stop, found.path)):
                    self._troubles.append(f"{found.path}: {surveyed.damage}")
                if surveyed.stop > begin:
                    name = f"{home}/{base:020}-{begin:010}-{surveyed.sha256[:32]}{FileKind.LOG}"
                    parts += (self._upload(source, name, begin, surveyed, files.directory),)
                    last = last if surveyed.last is None else surveyed.last
                    tail = surveyed.tail
        finally:
            source.close()
        txn_index, producers = files.txn_indexes.get(base), files.producers.get(base)
        return BackedSegment(
            base,
            last,
            parts,
            tail,
            None if txn_index is None else self._txn_index(home, base, txn_index, is_last=is_last),
            None if producers is None else self._checked(home, base, producers, producer_snapshot.parse),
        )

    def _txn_index(self, home: str, base: int, found: Found, *, is_last: bool) -> Piece | None:
        """Copy the transaction index of a segment; None if it is not readable. Raises FilesChanged if the index of a
        closed segment is gone: Kafka rebuilds only that of the active segment."""
        piece = self._checked(home, base, found, txn_index_format.parse)
        if piece is None and not is_last:
            if not found.path.exists():
                raise FilesChanged(found.path.parent)
            self._troubles.append(f"{found.path}: no index of transactions; kcli recover makes it anew")
        return piece

    def _checked(self, home: str, base: int, found: Found, parse: Callable[[bytes], object]) -> Piece | None:
        """Copy a small file of a segment; None if it is gone, or cannot be parsed, as while a broker writes it."""
        try:
            data = read_whole(found.path)
            parse(data)
        except (UnreadableInput, FormatError):
            return None
        digest = hashlib.sha256(data).hexdigest()
        return self._put(f"{home}/{base:020}-{digest[:32]}{found.path.suffix}", data, digest)

    # writing objects to the store

    def _file(self, home: str, stem: str, found: Found) -> Piece:
        """Copy a file that Kafka never changes after it is written."""
        source = _opened(found.path.parent, found)
        try:
            digest = hashlib.sha256()
            for chunk in _chunks(source, 0, found.size):
                digest.update(chunk)
            sha256 = digest.hexdigest()
            surveyed = _Surveyed(found.size, sha256, None, None, None)
            name = f"{home}/{stem}-{sha256[:32]}{found.path.suffix}"
            return self._upload(source, name, 0, surveyed, found.path.parent)
        finally:
            source.close()

    def _put(self, name: str, data: bytes, sha256: str) -> Piece:
        piece = Piece(name, len(data), sha256)
        self._uploads.put(piece, [data])
        return piece

    def _upload(self, source: Source, name: str, begin: int, surveyed: _Surveyed, directory: Path) -> Piece:
        """Write the bytes [begin, surveyed.stop) of a file to the store, if it lacks them. Raises FilesChanged if their
        SHA-256 is not that of `surveyed`, as after a follower has truncated its log."""

        def checked() -> Iterator[bytes | memoryview]:
            digest = hashlib.sha256()
            for chunk in _chunks(source, begin, surveyed.stop):
                digest.update(chunk)
                yield bytes(chunk)  # a store may keep what it gets, but `_chunks` overwrites the chunk
            if digest.hexdigest() != surveyed.sha256:
                raise FilesChanged(directory)

        piece = Piece(name, surveyed.stop - begin, surveyed.sha256)
        self._uploads.put(piece, checked())
        return piece


def _key(each: BackedPartition) -> tuple[TopicPartition, str | None]:
    return each.partition, each.topic_id


def _order(each: PartitionDirectory) -> int:
    """The rank in the order of copying: coordinators' partitions first, before the cleaner changes them; the metadata
    log last, as it may be listed again."""
    if each.name.topic == METADATA_TOPIC:
        return 2
    return 0 if each.name.topic in (OFFSETS_TOPIC, TRANSACTIONS_TOPIC) else 1


def _following(first: Files | None, files: Files) -> Files:
    """Return `files`, a listing of a partition's files, if it is consistent with an earlier listing of them (`first`).
    Raises FilesChanged if it is not."""
    if first is not None and not files.follows(first):
        raise FilesChanged(files.directory)
    return files


def _opened(directory: Path, found: Found) -> FileSource:
    """Open a file that was listed. Raises FilesChanged if the file at its path is now missing, another one or a shorter
    one."""
    try:
        source = FileSource(found.path)
    except UnreadableInput:
        if not found.path.exists():
            raise FilesChanged(directory) from None
        raise
    if source.inode == found.inode and source.size() >= found.size:
        return source
    source.close()
    raise FilesChanged(directory)


def _kept(source: Source, known: BackedSegment, size: int) -> tuple[tuple[Piece, ...], int]:
    """Return the objects of a segment in the previous run (`known`), and their size in bytes, if the .log file still
    begins with their bytes; () and 0 if it does not, or if that cannot be decided. size: that of the .log file."""
    tail = known.tail
    if tail is None or known.size > size:
        return (), 0
    expected = bytes.fromhex(tail.header)
    buffer = bytearray(len(expected))
    source.read_at(tail.position, memoryview(buffer))
    return (known.parts, known.size) if buffer == expected else ((), 0)


def _survey(source: Source, begin: int, size: int, *, is_whole: bool) -> _Surveyed:
    """Read the batches in bytes [begin, size). is_whole: whether to copy all of them, damage included; if False, the
    result ends with the last sound batch, after which a broker may be writing."""
    digest = hashlib.sha256()
    stop, last, tail, damage = begin, None, None, None
    for part in read_segment(source, start=begin, stop=size, resync=False):
        if isinstance(part, Damage):
            damage = f"byte {part.position:,}: {part.error.reason}"
            break
        table = part.batches
        fault = table.first_fault()
        count = table.count if fault < 0 else fault
        if count:
            row = BatchRow._make(table.row(count - 1))
            behind = row.start + row.size
            data = memoryview(part.data)
            digest.update(data[:behind])
            header = bytes(data[row.start : row.start + min(row.size, HEADER_BYTES)])
            stop, last, tail = part.position + behind, row.last_offset, Tail(row.position, header.hex())
        if fault >= 0:
            damage = f"byte {stop:,}: a damaged batch"
            break
        part.release()
    if damage is None:
        return _Surveyed(stop, digest.hexdigest(), last, tail, None)
    if not is_whole:
        left_out = f"{damage}; {size - stop:,} bytes are left out of the backup, see kcli verify"
        return _Surveyed(stop, digest.hexdigest(), last, tail, left_out)
    for chunk in _chunks(source, stop, size):
        digest.update(chunk)
    return _Surveyed(size, digest.hexdigest(), last, None, f"{damage}; it is copied as it is, see kcli verify")


def _is_written(source: Source, position: int, path: Path) -> bool:
    """Whether the bytes from `position` on are the beginning of a batch that a broker is writing (the file grows while
    this waits), or zeros of a preallocated file."""
    begin = bytearray(LENGTH_BYTES)
    got = source.read_at(position, memoryview(begin))
    if not any(begin[:got]):
        return True
    length = int.from_bytes(begin[8:], signed=True) if got == LENGTH_BYTES else 0
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        try:
            size = path.stat().st_size
        except FileNotFoundError:
            return True
        if size >= position + LENGTH_BYTES + max(0, length) and size > source.size():
            return True
        time.sleep(WAIT_S / 10)
    return False


def _identity(meta: str | None) -> tuple[str, ...]:
    """Return the lines of a meta.properties that identify the log directory. meta: the text of the file, None without
    one."""
    entries = {} if meta is None else properties.parse(meta.encode("latin-1")).entries
    return tuple(f"{name}={entries[name]}" for name in ("cluster.id", "node.id", "directory.id") if name in entries)


def _node(meta: str | None) -> tuple[str, ...]:
    return tuple(each for each in _identity(meta) if not each.startswith("directory.id="))


def _chunks(source: Source, begin: int, stop: int) -> Iterator[memoryview]:
    """Yield the bytes [begin, stop) in one buffer after the other; each is overwritten by the next."""
    buffer = memoryview(bytearray(min(CHUNK_BYTES, max(1, stop - begin))))
    while begin < stop:
        got = source.read_at(begin, buffer[: stop - begin])
        if got == 0:
            return
        yield buffer[:got]
        begin += got


def _text_of(path: Path) -> str | None:
    """Return the text of a small file; None if there is no such file. Raises UnreadableInput."""
    try:
        return read_whole(path, limit_bytes=TEXT_BYTES_MAX).decode("latin-1") if path.exists() else None
    except UnreadableInput:
        if path.exists():
            raise
        return None
