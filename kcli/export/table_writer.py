"""The Parquet files of a table that one worker writes: one per directory of the layout, rolled at a size, synced, with
row counts and checksums.

    writer.write(batch)      rows with all columns of the table, and topic, partition, offset and timestamp of each
    writer.close()           finishes the files and returns them: for each its name in the staging directory and its
                             directory in the table

pyarrow writes the files, not Spark, so the size, statistics and row count of each file are known here and are part of
the task's report. Offsets and timestamps are stored as differences (DELTA_BINARY_PACKED), topics and other columns of
few values with dictionaries; keys and values without, because trying a dictionary takes as long as writing them.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from formats.kernels.crc import crc32c
from kcli.errors import UsageError
from kcli.export.buckets import buckets
from kcli.export.columns import spans
from kcli.export.decoding.json_text import VARIANT
from kcli.export.decoding.parquet_variant import mark_variants
from kcli.export.manifest import DataFile, OffsetRange
from kcli.protocol.topic_partition import TopicPartition

LAYOUT = ("topic", "partition", "date", "hour")
TRANSFORM = re.compile(r"(day|hour)\(timestamp\)|bucket\(([1-9]\d{0,8}),key\)")
WHOLE_LAYOUT = ("topic", "partition", "day(timestamp)", "hour(timestamp)", "bucket(N,key)")
NULL_LABEL = "__HIVE_DEFAULT_PARTITION__"
CODECS = ("zstd", "snappy", "gzip", "lz4", "brotli", "none")
ROW_GROUP_BYTES = 32 << 20
OPEN_FILES = 32
BUFFERED_BYTES = 96 << 20
HASH_CHUNK_BYTES = 4 << 20
US_PER_HOUR = 3_600_000_000
FEW_VALUES = frozenset(
    {
        *("topic", "partition", "timestampType", "leaderEpoch", "producerId", "producerEpoch", "attributes", "magic"),
        *("codec", "segment", "isControl", "batchPosition", "batchOffset", "batchLastOffset", "batchTimestamp"),
        *("batchMaxTimestamp", "keyReason", "valueReason"),
    }
)
RISING = frozenset({"offset", "timestamp", "timestampMs", "sequence"})


@dataclass(frozen=True, slots=True)
class TableFormat:
    """How a table is stored.

    layout: columns of LAYOUT that become directories, named as Hive does (`topic=orders`). codec, level: compression of
    the Parquet pages; level None: the codec's default. file_bytes: the size at which a file is finished and the next
    one begun. is_whole: whether the files have these columns too; then the layout may have transforms of columns
    (TRANSFORM), which does not include `date` and `hour`.
    """

    layout: tuple[str, ...] = ()
    codec: str = "zstd"
    level: int | None = None
    file_bytes: int = 128 << 20
    is_whole: bool = False

    def check(self) -> None:
        """Raise UsageError for an unknown layout column or codec, and for a level that the codec does not have."""
        known = WHOLE_LAYOUT if self.is_whole else LAYOUT
        for name in self.layout:
            if name not in known and not (self.is_whole and TRANSFORM.fullmatch(name)):
                raise UsageError(f"--partition-by {name!r} is none of {', '.join(known)}")
        if len(set(self.layout)) < len(self.layout):
            raise UsageError("--partition-by names a column twice")
        if self.codec not in CODECS:
            raise UsageError(f"--codec {self.codec!r} is none of {', '.join(CODECS)}")
        if self.level is not None:
            if self.codec not in ("zstd", "gzip", "brotli"):
                raise UsageError(f"--level: {self.codec} has no levels")
            try:
                pa.Codec(self.codec, compression_level=self.level)
            except (ValueError, pa.ArrowException) as error:
                raise UsageError(f"--level {self.level}: {error}") from None
            low, high = pa.Codec.minimum_compression_level(self.codec), pa.Codec.maximum_compression_level(self.codec)
            if not low <= self.level <= high:
                raise UsageError(f"--level {self.level}: {self.codec} has {low} to {high}")


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A finished file. staged: its name in the staging directory. directory: its directory in the table, relative to
    the table's ("": that directory itself). file: its entry for the manifest; the path in the entry is "" until the
    driver sets it."""

    staged: str
    directory: str
    file: DataFile


@dataclass(slots=True)
class _Open:
    """A file that is being written, and its buffered rows. ranges: (topic, partition) -> number of rows, first offset,
    last offset."""

    staged: str
    directory: str
    path: Path
    sink: Any
    parquet: pq.ParquetWriter
    buffered: list[pa.RecordBatch] = field(default_factory=list)
    buffered_bytes: int = 0
    records: int = 0
    ranges: dict[TopicPartition, list[int]] = field(default_factory=dict)


class TableWriter:
    """Writes one table's files to a staging directory, which must exist. Raises OSError."""

    def __init__(self, staging: Path, schema: pa.Schema, form: TableFormat) -> None:
        self._staging = staging
        dropped = () if form.is_whole else form.layout
        self._schema = pa.schema([each for each in schema if each.name not in dropped])
        self._form = form
        self._open: dict[str, _Open] = {}
        self._buffered = 0
        self._done: list[StagedFile] = []
        self._variants = [each.name for each in self._schema if each.type == VARIANT]
        leaves = list(_leaves(self._schema))
        tops = {leaf: leaf.partition(".")[0] for leaf in leaves}
        rising = [leaf for leaf in leaves if leaf in RISING]
        decoded = [leaf for leaf, top in tops.items() if top in ("key", "value") and leaf != top]
        self._settings: dict[str, Any] = {
            "compression": form.codec,
            "compression_level": form.level,
            "use_dictionary": [leaf for leaf in leaves if leaf in FEW_VALUES] + decoded,
            "column_encoding": dict.fromkeys(rising, "DELTA_BINARY_PACKED"),
            "write_page_index": True,
            "store_schema": True,
        }

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows, whose columns may be in any order."""
        if batch.num_rows == 0:
            return
        for directory, rows in self._parted(batch):
            file = self._file(directory)
            _note(file.ranges, rows)
            part = rows.select(self._schema.names)
            size = part.nbytes
            file.buffered.append(part)
            file.buffered_bytes += size
            file.records += part.num_rows
            self._buffered += size
            if file.buffered_bytes >= ROW_GROUP_BYTES:
                self._flush(file)
        while self._buffered > BUFFERED_BYTES:
            self._flush(max(self._open.values(), key=lambda each: each.buffered_bytes))

    def close(self) -> list[StagedFile]:
        """Finish all files; return every file of the table that this writer wrote."""
        for file in list(self._open.values()):
            self._finish(file)
        return self._done

    def abandon(self) -> None:
        """Close all open files of a failed task, without finishing them."""
        for file in self._open.values():
            file.sink.close()

    def _parted(self, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        if not self._form.layout:
            yield "", batch
            return
        codes = np.zeros(batch.num_rows, np.int64)
        label_lists = []
        for name in self._form.layout:
            labels, part = _labels(name, batch)
            label_lists.append(labels)
            codes = codes * len(labels) + part
        found = np.unique(codes)
        for code in found.tolist():
            rows = batch if len(found) == 1 else batch.filter(pa.array(codes == code))
            words = []
            rest = code
            for name, labels in zip(reversed(self._form.layout), reversed(label_lists), strict=True):
                rest, at = divmod(rest, len(labels))
                words.append(f"{_word(name)}={labels[at]}")
            yield "/".join(reversed(words)), rows

    def _file(self, directory: str) -> _Open:
        file = self._open.get(directory)
        if file is None:
            if len(self._open) >= OPEN_FILES:
                self._finish(next(iter(self._open.values())))
            staged = f"{uuid.uuid4().hex}.parquet"
            path = self._staging / staged
            sink = pa.OSFile(str(path), "wb")
            file = _Open(staged, directory, path, sink, pq.ParquetWriter(sink, self._schema, **self._settings))
        # Move the file to the end of `_open`: if too many files are open, the first, least recently used one is
        # finished.
        self._open.pop(directory, None)
        self._open[directory] = file
        return file

    def _flush(self, file: _Open) -> None:
        self._write_out(file)
        if file.sink.tell() >= self._form.file_bytes:
            self._finish(file)

    def _finish(self, file: _Open) -> None:
        self._open.pop(file.directory, None)
        self._write_out(file)
        file.parquet.close()
        file.sink.close()
        if self._variants:
            mark_variants(file.path, self._variants)
        size, checksum = _sync_and_sum(file.path)
        ranges = tuple(OffsetRange(*key, *value) for key, value in sorted(file.ranges.items()))
        self._done.append(StagedFile(file.staged, file.directory, DataFile("", size, checksum, file.records, ranges)))

    def _write_out(self, file: _Open) -> None:
        """Write the buffered rows of a file as one row group."""
        if not file.buffered:
            return
        table = pa.Table.from_batches(file.buffered, self._schema)
        file.parquet.write_table(table, row_group_size=max(table.num_rows, 1))
        self._buffered -= file.buffered_bytes
        file.buffered, file.buffered_bytes = [], 0


def _leaves(schema: Iterable[pa.Field], above: str = "") -> Iterator[str]:
    """Yield the Parquet paths (`value.items.list.element`) of the primitive columns of a schema."""
    for each in schema:
        path = above + each.name
        kind = each.type
        if pa.types.is_struct(kind):
            yield from _leaves([kind.field(i) for i in range(kind.num_fields)], path + ".")
        elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
            yield from _leaves([kind.value_field.with_name("element")], path + ".list.")
        elif pa.types.is_map(kind):
            yield from _leaves(
                [kind.key_field.with_name("key"), kind.item_field.with_name("value")], path + ".key_value."
            )
        else:
            yield path


def _word(name: str) -> str:
    """Return the name of a layout column or transform in the names of directories: `timestamp_day`."""
    found = TRANSFORM.fullmatch(name)
    if found is None:
        return name
    return "key_bucket" if found[2] else f"timestamp_{found[1]}"


def _labels(name: str, batch: pa.RecordBatch) -> tuple[Sequence[object], Any]:
    """Return the distinct values of a layout column, and for each row the index of its value in them."""
    if name in ("topic", "partition"):
        coded = batch.column(name).dictionary_encode()
        return coded.dictionary.to_pylist(), coded.indices.to_numpy(zero_copy_only=False)
    transform = TRANSFORM.fullmatch(name)
    if transform is not None and transform[2]:
        found, codes = np.unique(buckets(batch.column("key"), int(transform[2])), return_inverse=True)
        return [NULL_LABEL if bucket < 0 else bucket for bucket in found.tolist()], codes
    times = batch.column("timestamp").cast(pa.int64())
    hours = np.floor_divide(times.fill_null(0).to_numpy(zero_copy_only=False), US_PER_HOUR)
    is_day = name in ("date", "day(timestamp)")
    units = np.floor_divide(hours, 24) if is_day else hours if transform else np.mod(hours, 24)
    if times.null_count == 0 and units.min() == units.max():
        found, codes = units[:1], np.zeros(len(units), np.int64)
    else:
        found, codes = np.unique(units, return_inverse=True)
    labels: list[object] = [
        str(np.datetime64(unit, "D" if is_day else "h")) if is_day or transform else f"{unit:02}"
        for unit in found.tolist()
    ]
    if times.null_count:
        labels.append(NULL_LABEL)
        codes = np.where(pc.is_null(times).to_numpy(zero_copy_only=False), len(labels) - 1, codes)
    return labels, codes


def _note(ranges: dict[TopicPartition, list[int]], rows: pa.RecordBatch) -> None:
    """Add rows to the sums in `ranges`: by topic and partition, a list of the number of rows, their lowest offset and
    their highest offset. rows: at least one, with the columns topic, partition and offset."""
    topic, partition, offset = rows.column("topic"), rows.column("partition"), rows.column("offset")
    first, last = topic[0], partition[0]
    if pc.all(pc.equal(partition, last)).as_py() and pc.all(pc.equal(topic, first)).as_py():
        low_high = pc.min_max(offset)
        place = TopicPartition(first.as_py(), last.as_py())
        found = [(place, rows.num_rows, low_high["min"].as_py(), low_high["max"].as_py())]
    else:
        found = list(spans(pa.table({"topic": topic, "partition": partition, "offset": offset})))
    for key, count, low, high in found:
        known = ranges.setdefault(key, [0, low, high])
        known[0] += count
        known[1] = min(known[1], low)
        known[2] = max(known[2], high)


def _sync_and_sum(path: Path) -> tuple[int, int]:
    """Sync a file to disk; return its size in bytes and its CRC-32C."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        return _sum(file)


def file_sum(path: Path) -> tuple[int, int]:
    """Return a file's size in bytes and its CRC-32C. Raises OSError."""
    with path.open("rb") as file:
        return _sum(file)


def _sum(file: Any) -> tuple[int, int]:
    buffer = bytearray(HASH_CHUNK_BYTES)
    view = memoryview(buffer)
    size = checksum = 0
    while got := file.readinto(buffer):
        checksum = crc32c(view[:got], checksum)
        size += got
    return size, checksum
