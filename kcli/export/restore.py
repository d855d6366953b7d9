"""The restore of a log directory from an export: the records of Parquet files become segments again.

    rows in the order of their offsets  ->  batches  ->  segments  ->  indexes and snapshots (log recovery)

This module writes only the `.log` files. Then each partition is recovered, as a broker does after a crash, by the code
of `kcli recover`: its batches are read back and checked, and its indexes, aborted transactions, producer snapshots and
leader epochs are built from them. The checkpoints put recovery point and high watermark at the log end offset.

An export does not contain, and a restore cannot give back: batches without records, segments without batches, leader
epochs without records, the exact bytes of compressed batches (another compressor gives other bytes), and the producers'
timestamps that LogAppendTime has replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

import pyarrow as pa
import pyarrow.compute as pc

from formats.compression import compress
from formats.file_name import METADATA_TOPIC, DirectoryName, FileKind, FileName, build, build_directory
from formats.kernels.arrow.builder import BUILD_COMPRESS, BUILD_FAULT, BUILD_FAULTS, BUILD_ROWS_DONE, BatchBuilder
from formats.kernels.scan import batches_within
from formats.message_compiler import uuid_text
from formats.properties import PartitionMetadata, build_partition_metadata
from kcli.errors import KcliError, StartRefused, UnreadableInput
from kcli.export.restore_columns import BUILD_SCHEMA, LEFT_OUT, NO_SEGMENT, TRANSACTIONAL
from kcli.export.restore_rows import Export, origins
from kcli.inspector.cluster_metadata import read_image
from kcli.log.disk import Disk, DiskFile
from kcli.log.log_directory import LogDirectory
from kcli.log.new_directory import new_directory
from kcli.log.recovery.apply import start_in_place
from kcli.log.recovery.loader import LoadedOffsets, LoadOptions
from kcli.protocol.topic_partition import TopicPartition

DEFAULT_SEGMENT_BYTES: Final = 1 << 30
LARGEST_SEGMENT_BYTES: Final = (1 << 31) - 1
INT_MAX: Final = (1 << 31) - 1
ORDER_FAULT: Final = 1
LOG_OVERHEAD_BYTES: Final = 12
LAST_OFFSET_DELTA: Final = slice(23, 27)
NEVER_MS: Final = 1 << 62  # the restore removes no expired producers: the broker does
SORTED: Final = ".sorted"


class DoubledOffset(KcliError):
    """The Parquet files have two records with the same offset."""


@dataclass(frozen=True, slots=True)
class RestoreOptions:
    """The options of a restore.

    now_ms: the time (epoch ms). segment_bytes: size of a segment; None: segments begin where column `segment` names
    their base offsets, and without this column have Kafka's default size. codec: the id of the batches' compression
    codec; None: as in the export. topic_ids: topic ids by name, in Kafka's base64; a restored metadata log gives
    further ones.
    """

    now_ms: int
    segment_bytes: int | None = None
    codec: int | None = None
    topic_ids: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Restored:
    """A restored partition. In a dry run only the attributes that the survey of the export gives are set; the others
    are None. topic_id: also None if the topic's id is not known, so that no partition.metadata was written.

    missing: the number of offsets between the first and the last that have no record. left_out: the number of control
    records that were not restored (see restore_columns). has_open_ends: whether the export has transactional records
    but no control record, so that it is unknown whether the transactions were committed; such records are restored
    outside any transaction.
    """

    topic: str
    partition: int
    first_offset: int
    last_offset: int
    records: int
    missing: int
    left_out: int | None = None
    batches: int | None = None
    segments: int | None = None
    bytes: int | None = None
    log_start_offset: int | None = None
    log_end_offset: int | None = None
    topic_id: str | None = None
    has_open_ends: bool = False


def survey(export: Export) -> Iterator[Restored]:
    """Yield each partition of the export as a dry run shows it, in the order of topic and partition."""
    for (topic, partition), found in sorted(export.partitions.items()):
        span = found.last_offset - found.first_offset + 1
        yield Restored(topic, partition, found.first_offset, found.last_offset, found.rows, max(0, span - found.rows))


def restore(
    export: Export,
    target: Path,
    options: RestoreOptions,
    *,
    disk: Disk | None = None,
    finish: Callable[[Path], None] = lambda _: None,
) -> Iterator[Restored]:
    """Write the log directory `target`, which must not exist; yield each partition once it is restored.

    If the restore fails, nothing of the directory remains. disk: None for the real disk. finish: called with the
    complete directory before it is renamed to `target`. Raises TargetExists, UnreadableInput, DoubledOffset, OSError.
    """
    disk = Disk() if disk is None else disk
    with new_directory(disk, target) as partial:
        scratch = partial / SORTED
        disk.make_directory(scratch)
        export.sort(scratch)
        topic_ids = dict(options.topic_ids)
        ends: dict[TopicPartition, int] = {}
        for partition in sorted(export.partitions, key=lambda each: (each[0] != METADATA_TOPIC, each)):
            writer = _PartitionWriter(export, partition, partial, options, disk)
            restored = writer.write(scratch, topic_ids.get(partition.topic))
            if partition.topic == METADATA_TOPIC:
                topic_ids = _known_ids(partial) | topic_ids
            elif restored.log_end_offset is not None:
                ends[partition] = restored.log_end_offset
            yield restored
        disk.remove_tree(scratch)
        holder = LogDirectory(partial)
        for kind in (FileKind.RECOVERY_POINTS, FileKind.REPLICATION_OFFSETS):
            holder.write_offsets(disk, kind, ends)
        holder.write_offsets(disk, FileKind.LOG_START_OFFSETS, {})
        finish(partial)
        disk.sync_directory(partial)


def _known_ids(directory: Path) -> dict[str, str]:
    """Return the topic ids in the metadata log of the restored directory, by topic name; {} if the export has no
    metadata log."""
    image = read_image(directory)
    return {} if image is None else {name: uuid_text(topic.id.bytes) for name, topic in image.topics.items()}


class _PartitionWriter:
    """Restores one partition's directory."""

    def __init__(
        self, export: Export, partition: TopicPartition, directory: Path, options: RestoreOptions, disk: Disk
    ) -> None:
        self._export = export
        self._partition = partition
        self._directory = directory / build_directory(DirectoryName(*partition))
        self._options = options
        self._disk = disk
        self._builder = BatchBuilder(codec=-1 if options.codec is None else options.codec)
        self._by_name = options.segment_bytes is None
        self._segment = NO_SEGMENT
        self._left_out = 0
        found = export.partitions[partition]
        self._ends_are_missing = found.has_transactions and not found.has_control
        self._records = 0

    def write(self, scratch: Path, topic_id: str | None) -> Restored:
        """Write the segments, then recover the log. Raises UnreadableInput, DoubledOffset, OSError.

        scratch: a directory for the temporary files in which rows are sorted by offset. topic_id: the id to write into
        partition.metadata; None to write no such file.
        """
        topic, number = self._partition
        self._disk.make_directory(self._directory)
        if topic_id is not None:
            metadata = build_partition_metadata(PartitionMetadata(0, topic_id))
            self._disk.write_file(self._directory / FileKind.PARTITION_METADATA, metadata)
        found = self._export.partitions[self._partition]
        with _Segments(self._disk, self._directory, self._options.segment_bytes) as segments:
            for rows in self._export.rows(self._partition, scratch):
                for base, part in _by_segment(self._kept(rows)):
                    if self._by_name and base != self._segment:
                        self._end_batch(segments)
                        segments.begin_at(base)
                        self._segment = base
                    self._build(part, segments)
            self._end_batch(segments)
        offsets, count = self._start()
        self._disk.sync_directory(self._directory)
        return Restored(
            topic,
            number,
            found.first_offset,
            found.last_offset,
            self._records,
            found.last_offset - found.first_offset + 1 - self._records,
            self._left_out,
            self._builder.batches,
            count,
            segments.bytes,
            offsets.log_start_offset,
            offsets.log_end_offset,
            topic_id,
            self._ends_are_missing,
        )

    def _start(self) -> tuple[LoadedOffsets, int]:
        """Recover the log as a broker does after a crash, which builds indexes and snapshots; return its offsets and
        the number of its segments.

        Raises UnreadableInput if Kafka would not start with this log, or would truncate it.
        """
        loading = LoadOptions(now_ms=self._options.now_ms, producer_expiration_ms=NEVER_MS)
        try:
            loader, offsets, _ = start_in_place(self._directory, self._disk, loading)
        except StartRefused as refused:
            raise self._unfit(f"Kafka would not start: {refused.reason}") from None
        for event in loader.events:
            if event.content is not None:
                raise self._unfit(f"Kafka would not keep all of it: {event.reason}")
        return offsets, len(loader.segments)

    def _unfit(self, reason: str) -> UnreadableInput:
        topic, number = self._partition
        return UnreadableInput(str(self._export.path), f"{topic}-{number}: {reason}")

    def _kept(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        kept = pc.not_equal(rows.column("attributes"), LEFT_OUT)
        left_out = rows.num_rows - kept.true_count
        if left_out:
            self._left_out += left_out
            rows = rows.filter(kept)
        self._records += rows.num_rows
        if self._ends_are_missing:
            at = rows.schema.get_field_index("attributes")
            plain = pc.bit_wise_and(rows.column("attributes"), ~TRANSACTIONAL)
            rows = rows.set_column(at, rows.schema.field(at), plain)
        return rows

    def _build(self, rows: pa.RecordBatch, segments: _Segments) -> None:
        builder = self._builder
        builder.start(*rows.select(BUILD_SCHEMA.names).__arrow_c_array__())
        while (how := builder.run()) != BUILD_ROWS_DONE:
            if how == BUILD_COMPRESS:
                self._compress()
            elif how == BUILD_FAULT:
                raise self._fault(rows.column("offset")[builder.row].as_py())
            else:
                self._flush(segments)

    def _compress(self) -> None:
        with memoryview(self._builder.records) as records:
            self._builder.compressed(compress(self._builder.codec, records))

    def _end_batch(self, segments: _Segments) -> None:
        if self._builder.end():
            self._compress()
        self._flush(segments)

    def _flush(self, segments: _Segments) -> None:
        with memoryview(self._builder.out) as out:
            segments.append(out)
        self._builder.out.clear()

    def _fault(self, offset: int) -> KcliError:
        topic, number = self._partition
        files = origins(self._export.partitions[self._partition].runs, offset)
        if self._builder.fault == ORDER_FAULT:
            places = files[0] if len(files) == 1 else f"{files[0]} and {files[1]}" if len(files) == 2 else "the files"
            return DoubledOffset(f"{topic}-{number}: offset {offset:,} is there twice, in {places}")
        return UnreadableInput(
            ", ".join(files), f"{topic}-{number} offset {offset:,}: {BUILD_FAULTS[self._builder.fault]}"
        )


class _Segments:
    """Writes a partition's segments one after the other; a context manager that closes the last one.

    bytes: the size of all segments.
    """

    def __init__(self, disk: Disk, directory: Path, segment_bytes: int | None) -> None:
        self.bytes = 0
        self._disk = disk
        self._directory = directory
        self._size_max = DEFAULT_SEGMENT_BYTES if segment_bytes is None else segment_bytes
        self._next_base = NO_SEGMENT
        self._base = -1
        self._size = 0
        self._file: DiskFile | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def begin_at(self, base_offset: int) -> None:
        """Roll a segment with this base offset before the next batch is appended. NO_SEGMENT: roll only full
        segments."""
        self._next_base = base_offset

    def append(self, batches: memoryview) -> None:
        """Append whole batches, rolling segments as needed. Raises OSError."""
        while batches:
            first = int.from_bytes(batches[:8], "big")
            last = first + int.from_bytes(batches[LAST_OFFSET_DELTA], "big")
            has_own = self._base < self._next_base <= first and last - self._next_base <= INT_MAX
            if self._file is None or has_own:
                self._roll(self._next_base if has_own else first)
            limit = self._size_max if self._next_base == NO_SEGMENT else LARGEST_SEGMENT_BYTES
            size = batches_within(batches, limit - self._size, self._base + INT_MAX)
            if not size and self._size:
                self._roll(first)
                continue
            size = size or LOG_OVERHEAD_BYTES + int.from_bytes(batches[8:12], "big")
            assert self._file is not None, "there is a segment"
            self._file.write([batches[:size]], self._size)
            self._size += size
            self.bytes += size
            batches = batches[size:]

    def _roll(self, base_offset: int) -> None:
        self._close()
        self._base, self._size = base_offset, 0
        path = self._directory / build(FileName(FileKind.LOG, base_offset))
        self._file = self._disk.open(path, create=True, truncate=True)

    def _close(self) -> None:
        if self._file is not None:
            self._file.sync()
            self._file.close()
            self._file = None


def _by_segment(rows: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield, for each run of consecutive rows with the same value in column `segment`, this value (the segment's base
    offset, or NO_SEGMENT) and the rows."""
    runs = pc.run_end_encode(rows.column("segment"))
    start = 0
    for base, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
        yield base, rows.slice(start, end - start)
        start = end
