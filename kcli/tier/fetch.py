"""Partitions of a topic, fetched from the tier and joined with their local logs, in a new log directory.

    NEW/<topic>-<partition>/   <offset>.log .index .timeindex .txnindex of each segment, first those of the tier
                               <offset>.snapshot    the object of the segment that ends at this offset
                               leader-epoch-checkpoint, partition.metadata
    NEW/log-start-offset-checkpoint   of a log that starts above the base offset of its first segment
    NEW/meta.properties               of the node whose log directory was given, without a directory.id

A segment that is needed as a whole is copied byte for byte. Of a segment of which only some offsets are needed, the
batches with these offsets are copied, and indexes are made for them. Indexes that the tier lacks are made, too. NEW is
complete or does not exist: everything is written to NEW.part, which is renamed to NEW when all bytes are durable.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from formats import txn_index
from formats.errors import FormatError
from formats.file_name import FileKind, FileName, build, parse
from formats.kernels.columns import BASE_OFFSET, LAST_OFFSET, START
from formats.kernels.indexes import SegmentIndexes
from formats.properties import PartitionMetadata, Properties, build_partition_metadata
from formats.properties import build as build_properties
from kcli.errors import KcliError, UnreadableInput, UsageError
from kcli.log.disk import COPY_BYTES, Disk
from kcli.log.index_entries import DEFAULT_INTERVAL_BYTES, OFFSET_ENTRY_BYTES
from kcli.log.leader_epochs import FILE_NAME as LEADER_EPOCHS
from kcli.log.leader_epochs import LeaderEpochCache
from kcli.log.log_directory import LogDirectory, read_meta_properties
from kcli.log.new_directory import new_directory
from kcli.log.segment_reader import Damage, Window, read_segment
from kcli.log.source import SEGMENT_BYTES_MAX, FileSource, Source
from kcli.log.synced_together import SyncedTogether
from kcli.metadata.topic_names import fault
from kcli.protocol.topic_partition import TopicPartition
from kcli.tier.chunks import Beginning
from kcli.tier.layout import SegmentObjects
from kcli.tier.lineage import Part, Plan
from kcli.tier.store import DamagedObject
from kcli.tier.stored_segment import INDEX_BYTES_MAX, read_object, survey, too_large
from kcli.tier.tier import PartitionTier, Tier
from kcli.tier.unread import gap_reason, no_object, unread

LOCAL_KINDS = (
    FileKind.LOG,
    FileKind.OFFSET_INDEX,
    FileKind.TIME_INDEX,
    FileKind.TXN_INDEX,
    FileKind.PRODUCER_SNAPSHOT,
)
INDEXES = (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX)
Advance = Callable[[int], None]


class LocalLogChanged(KcliError):
    """A running broker has deleted or renamed files of the local log since the tier was read."""

    def __init__(self, directory: Path) -> None:
        super().__init__(f"{directory}: a broker has deleted segments meanwhile: read the tier again")


class Range(NamedTuple):
    """Offsets, both inclusive, and why they are not in the new directory. last: None if it is not known."""

    first: int
    last: int | None
    reason: str


@dataclass(slots=True)
class Fetched:
    """What was written of one partition. tiered, local: the number of segments from the tier and of the local log. cut:
    the number of segments from the tier of which only a part was needed. size: bytes of all .log files. first_offset:
    the log start offset; None if there is no segment. missing: the offsets that could not be written. troubles: lines
    of text about objects that are damaged, missing or not as the metadata says."""

    partition: TopicPartition
    tiered: int = 0
    local: int = 0
    cut: int = 0
    size: int = 0
    first_offset: int | None = None
    missing: list[Range] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)


def fetch(
    tier: Tier, partitions: Sequence[PartitionTier], target: Path, *, disk: Disk, advance: Advance = lambda _: None
) -> list[Fetched]:
    """Write the new log directory `target` with these partitions. advance: called with the number of bytes just copied.

    Raises TargetExists, UsageError for an invalid topic name, UnreadableInput, OSError; LocalLogChanged or
    ObjectMissing if a broker has deleted files or objects since the tier was read. After an error there is no `target`.
    """
    for each in partitions:  # a topic's name becomes a directory's name
        if (reason := fault(each.partition.topic)) is not None:
            raise UsageError(reason)
    tier.check_read(partitions)
    starts: dict[TopicPartition, int] = {}
    results = []
    with new_directory(disk, target) as partial, SyncedTogether(disk) as files:
        for each in partitions:
            writer = _Writer(tier, each, disk, files, partial, advance)
            results.append(writer.write())
            if writer.log_start is not None:
                starts[writer.fetched.partition] = writer.log_start
        if starts:
            LogDirectory(partial).write_offsets(disk, FileKind.LOG_START_OFFSETS, starts)
        if tier.log_directory is not None:
            _write_meta(disk, tier.log_directory, partial)
        disk.sync_directory(partial)
    return results


def _write_meta(disk: Disk, log_directory: Path, target: Path) -> None:
    """Write meta.properties for another log directory of the same node: Kafka gives it a directory.id of its own."""
    try:
        meta = read_meta_properties(log_directory)
    except (FormatError, UnreadableInput):  # `kcli verify` reports this error
        return
    if meta is not None and meta.cluster_id is not None and meta.node_id is not None:
        entries = {"version": "1", "cluster.id": meta.cluster_id, "node.id": str(meta.node_id)}
        disk.write_file(target / FileKind.META_PROPERTIES, build_properties(Properties(entries)))


def part_windows(source: Source, part: Part, *, to_damage: bool = False) -> Iterator[tuple[Window, int, int]]:
    """Yield the batches of a part of a segment: windows, each with the range [start, stop) of its `data` that the
    part's batches fill. to_damage: whether the batches end at damage, without an error.

    Raises UnreadableInput for damage, and for a batch with offsets both inside and outside the part.
    """
    for window in read_segment(source, resync=False):
        if isinstance(window, Damage):
            if to_damage:
                return
            raise UnreadableInput(source.name, f"byte {window.position:,}: {window.error.reason}")
        table = window.batches
        if (fault := table.first_fault()) >= 0:
            if to_damage:
                return
            raise UnreadableInput(source.name, f"byte {window.position + table.field(fault, START):,}: a damaged batch")
        offsets = ((table.field(i, BASE_OFFSET), table.field(i, LAST_OFFSET)) for i in range(table.count))
        inside = [i for i, (first, last) in enumerate(offsets) if _is_inside(first, last, part, source)]
        if inside:
            start = table.field(inside[0], START)
            behind = inside[-1] + 1
            yield window, start, table.field(behind, START) if behind < table.count else window.stop
        window.release()


def _is_inside(first: int, last: int, part: Part, source: Source) -> bool:
    if last < part.first or first > part.last:
        return False
    if first < part.first or last > part.last:
        reason = f"the batch of offsets {first:,}..{last:,} is not all in offsets {part.first:,}..{part.last:,}"
        raise UnreadableInput(source.name, f"{reason}, which the leader epochs leave of it")
    return True


class _Writer:
    """Writes the directory of one partition. log_start: the partition's entry in log-start-offset-checkpoint; None if
    the partition needs no entry."""

    def __init__(
        self, tier: Tier, each: PartitionTier, disk: Disk, files: SyncedTogether, home: Path, advance: Advance
    ) -> None:
        self._tier = tier
        self._each = each
        self._disk = disk
        self._files = files
        self._directory = home / str(each.partition)
        self._advance = advance
        self.log_start: int | None = None
        self.fetched = Fetched(TopicPartition(each.partition.topic, each.partition.partition))

    def write(self) -> Fetched:
        self._disk.make_directory(self._directory)
        metadata = PartitionMetadata(0, self._each.partition.topic_id)
        self._put(FileKind.PARTITION_METADATA, build_partition_metadata(metadata))
        plan = self._each.plan()
        for first, last in plan.gaps:
            self.fetched.missing.append(Range(first, last, gap_reason(self._tier, self._each, first, last)))
        self.fetched.missing += (Range(*each) for each in unread(self._tier, self._each, plan))
        bases = [base for part in plan.parts if (base := self._part(part)) is not None]
        bases += self._local()
        self._finish(plan, bases)
        self._disk.sync_directory(self._directory)
        return self.fetched

    def _finish(self, plan: Plan, bases: Sequence[int]) -> None:
        """Write the leader epochs, and note the log start offset. bases: the base offsets of the segments, in order."""
        epochs = LeaderEpochCache(self._each.lineage)
        if self._each.local is None and plan.parts:
            epochs.truncate_from_end(plan.parts[-1].last + 1)
        start = self._each.first_offset
        if not bases:
            epochs.clear()
        else:
            self.fetched.first_offset = bases[0] if start is None else max(start, bases[0])
            epochs.truncate_from_start(self.fetched.first_offset)
            if self.fetched.first_offset > bases[0]:
                self.log_start = self.fetched.first_offset
        self._put(LEADER_EPOCHS, epochs.to_bytes())

    # segments of the tier

    def _part(self, part: Part) -> int | None:
        """Write a part of a segment. Returns its base offset; None if no batch of the part could be read."""
        objects = self._tier.objects(part.segment)
        if objects.told is not None and objects.told.damage is not None:
            self.fetched.missing.append(Range(part.first, part.last, str(objects.told.damage)))
            return None
        if FileKind.LOG not in objects.sizes:
            place = self._tier.store.place(objects.name(FileKind.LOG))
            reason = f"{place}: {no_object(self._tier, objects)}"
            self.fetched.missing.append(Range(part.first, part.last, reason))
            return None
        if not part.is_whole:
            if not self._cut(part, objects):
                return None
            self.fetched.cut += 1
        elif not self._whole(part, objects):
            return None
        self.fetched.tiered += 1
        return part.first

    def _whole(self, part: Part, objects: SegmentObjects) -> bool:
        """Write a whole segment byte for byte; if the bytes of its .log object cannot be read to the end, write the
        batches before the damage. Returns False, and writes nothing, if the .log object has the offsets of another
        segment, or no batch."""
        store, base = self._tier.store, part.first
        size, copied = part.segment.size, objects.sizes[FileKind.LOG]
        if too_large(size):
            return self._cut(part, objects)
        if copied > size:
            self._tell(
                objects.name(FileKind.LOG), f"{copied:,} bytes; those behind {size:,}, the segment's, are left out"
            )
        try:
            log = self._copy(store.open(objects.name(FileKind.LOG)), FileKind.LOG, base, size)
        except DamagedObject:
            self._disk.remove(self._directory / build(FileName(FileKind.LOG, base)))
            return self._cut(part, objects)
        first, last, damage = survey(FileSource(log))
        if first is not None and not part.first <= first <= part.last:
            self._disk.remove(log)
            reason = f"{store.place(objects.name(FileKind.LOG))} has offsets from {first:,} on"
            self.fetched.missing.append(Range(part.first, part.last, reason))
            return False
        self.fetched.size += min(copied, size)
        if damage is not None:
            self._tell(objects.name(FileKind.LOG), damage)
        elif last != part.last:
            self._tell(objects.name(FileKind.LOG), f"ends with offset {last:,}, not {part.last:,}")
        there = [kind for kind in (*INDEXES, FileKind.TXN_INDEX) if self._copied(objects, kind, base)]
        missing = [kind for kind in INDEXES if kind not in there]
        if missing:
            self._make_indexes(log, base, missing)
        if part.segment.has_txn_index and FileKind.TXN_INDEX not in objects.sizes:
            self._tell(objects.name(FileKind.TXN_INDEX), "no such object; kcli recover makes the file anew")
        self._copied(objects, FileKind.PRODUCER_SNAPSHOT, part.last + 1)
        return True

    def _copied(self, objects: SegmentObjects, kind: FileKind, base: int) -> bool:
        """Copy an index or a snapshot of a segment. Returns False if the tier does not have it, or if its object is
        damaged."""
        if kind not in objects.sizes:
            return False
        try:
            self._copy(self._tier.store.open(objects.name(kind)), kind, base)
        except DamagedObject as error:
            self.fetched.troubles.append(str(error))
            return False
        return True

    def _tell(self, name: str, text: str) -> None:
        self.fetched.troubles.append(f"{self._tier.store.place(name)}: {text}")

    def _make_indexes(self, log: Path, base: int, kinds: Sequence[FileKind]) -> None:
        """Write indexes of a segment that is written already. Batches behind damage have no entries."""
        indexes = SegmentIndexes(base, DEFAULT_INTERVAL_BYTES)
        source = FileSource(log)
        try:
            for window in read_segment(source, resync=False):
                if isinstance(window, Window):
                    indexes.add(memoryview(window.data)[: window.stop])
        finally:
            source.close()
        self._put_indexes(indexes, base, kinds)

    def _put_indexes(self, indexes: SegmentIndexes, base: int, kinds: Sequence[FileKind]) -> None:
        indexes.finish()
        for kind, data in zip(INDEXES, (indexes.offsets, indexes.times), strict=True):
            if kind in kinds:
                self._put(build(FileName(kind, base)), bytes(data))

    def _cut(self, part: Part, objects: SegmentObjects) -> bool:
        """Write the batches of a part of a segment, and make indexes of them. Returns False, and writes nothing, if the
        .log object is damaged before the first batch of the part ends."""
        base = part.first
        indexes = SegmentIndexes(base, DEFAULT_INTERVAL_BYTES)
        path = self._directory / build(FileName(FileKind.LOG, base))
        try:
            self._write_part(part, objects, path, indexes)
        except DamagedObject as error:
            indexes = SegmentIndexes(base, DEFAULT_INTERVAL_BYTES)
            last = self._write_beginning(part, objects, path, indexes, error)
            if last == part.last:
                self.fetched.troubles.append(str(error))
            else:
                self.fetched.missing.append(Range(part.first if last is None else last + 1, part.last, str(error)))
            if last is None:
                return False
            part = part._replace(last=last)
        self.fetched.size += indexes.position
        self._put_indexes(indexes, base, INDEXES)
        if FileKind.TXN_INDEX in objects.sizes:
            self._cut_txn_index(part, objects)
        return True

    def _write_beginning(
        self, part: Part, objects: SegmentObjects, path: Path, indexes: SegmentIndexes, damage: DamagedObject
    ) -> int | None:
        """Write the batches of a part of a segment that come before the damage of its .log object. Returns the last
        offset written; None if there is no such batch, and then no file is left."""
        if damage.sound:
            self._write_part(part, objects, path, indexes, damage.sound)
        last = survey(FileSource(path))[1] if indexes.position else None
        if last is None:
            self._disk.remove(path)
        return last

    def _write_part(
        self, part: Part, objects: SegmentObjects, path: Path, indexes: SegmentIndexes, sound: int | None = None
    ) -> None:
        """Write the batches of a part of a segment to `path`, and add them to `indexes`. sound: the number of bytes
        before the damage of the .log object; None to read all of it."""
        name = objects.name(FileKind.LOG)
        if sound is None and (reason := too_large(part.segment.size)) is not None:
            place = self._tier.store.place(name)
            raise DamagedObject(place, f"{reason}: its batches are copied", sound=SEGMENT_BYTES_MAX)
        source = self._tier.store.open(name)
        if sound is not None:
            source = Beginning(source, sound)
        try:
            with self._files.new_file(path) as log:
                for window, start, stop in part_windows(source, part, to_damage=sound is not None):
                    batches = memoryview(window.data)[start:stop]
                    log.write([batches], indexes.position)
                    indexes.add(batches)
                    self._advance(stop - start)
        finally:
            source.close()

    def _cut_txn_index(self, part: Part, objects: SegmentObjects) -> None:
        """Write the entries of a segment's transaction index whose transactions end in a part of the segment."""
        name = objects.name(FileKind.TXN_INDEX)
        try:
            entries = txn_index.parse(read_object(self._tier.store, name, INDEX_BYTES_MAX))
        except FormatError as error:
            raise UnreadableInput(self._tier.store.place(name), error.reason) from None
        except DamagedObject as error:
            self.fetched.troubles.append(str(error))
            return
        kept = tuple(each for each in entries if part.first <= each.last_offset <= part.last)
        if kept:
            self._put(build(FileName(FileKind.TXN_INDEX, part.first)), txn_index.build(kept))

    # files of the local log

    def _local(self) -> list[int]:
        """Copy the local log, without segments wholly below the log start offset. Returns the base offsets of the
        copied segments."""
        local = self._each.local
        if local is None:
            return []
        if local.epochs is None:
            text = f"{local.directory / LEADER_EPOCHS}: cannot be read; the leader epochs are those of the tier"
            self.fetched.troubles.append(text)
        start = self._each.first_offset
        bases = [base for base, _ in local.logs]
        if start is not None:  # leave out segments wholly below the log start offset: the broker is to delete them
            bases = [base for i, base in enumerate(bases) if i + 1 == len(bases) or bases[i + 1] > start]
        copied = dict(self._copied_logs(local.directory, bases[0])) if bases else {}
        if not copied.keys() >= set(bases):
            raise LocalLogChanged(local.directory)
        self.fetched.local = len(copied)
        for base, log in copied.items():
            self.fetched.size += log.stat().st_size
            unfinished = [kind for kind in INDEXES if not _is_trimmed(log.with_suffix(kind))]
            if unfinished:
                self._make_indexes(log, base, unfinished)
        return sorted(copied)

    def _copied_logs(self, directory: Path, first: int) -> Iterator[tuple[int, Path]]:
        """Copy the files of a local log from the segment `first` on. Yields base offset and copy of each .log file.

        A .log file is copied after its indexes: if a broker appends meanwhile, no index has entries beyond the copy.
        Raises LocalLogChanged if a file has been deleted meanwhile.
        """
        named = [(parse(path.name), path) for path in directory.iterdir()]
        found = [
            (name.base_offset or 0, name.kind is FileKind.LOG, name.kind, path)
            for name, path in named
            if name is not None and name.kind in LOCAL_KINDS and not name.state and name.remote_id is None
        ]
        for base, is_log, kind, path in sorted(each for each in found if each[0] >= first):
            try:
                source = FileSource(path)
            except UnreadableInput as error:
                if error.errno == errno.ENOENT:
                    raise LocalLogChanged(directory) from None
                raise
            copied = self._copy(source, kind, base)
            if is_log:
                yield base, copied

    def _copy(self, source: Source, kind: FileKind, base: int, size_max: int = 2**63) -> Path:
        """Copy a file or an object, but not more than its first `size_max` bytes, and close it. Returns the path of the
        copy."""
        path = self._directory / build(FileName(kind, base))
        try:
            with self._files.new_file(path) as file:
                buffer = memoryview(bytearray(min(COPY_BYTES, max(1, source.size()))))
                done = 0
                while done < size_max and (got := source.read_at(done, buffer[: size_max - done])) > 0:
                    done += file.write([buffer[:got]], done)
                    self._advance(got)
        finally:
            source.close()
        return path

    def _put(self, name: str, data: bytes) -> None:
        with self._files.new_file(self._directory / name) as file:
            file.write([data], 0)


def _is_trimmed(index: Path) -> bool:
    """Whether an index exists and does not end in zeros. The index of a running broker's active segment has zeros after
    its entries, or does not exist yet."""
    if not index.exists():
        return False
    with index.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - OFFSET_ENTRY_BYTES))
        return not size or any(file.read())


def whole_bytes(tier: Tier, partitions: Sequence[PartitionTier]) -> int:
    """Return about how many bytes `fetch` copies: the size of all objects and local .log files."""
    total = 0
    for each in partitions:
        total += sum(sum(tier.objects(part.segment).sizes.values()) for part in each.plan().parts)
        for _, path in () if each.local is None else each.local.logs:
            try:
                total += path.stat().st_size
            except OSError:
                continue
    return total
