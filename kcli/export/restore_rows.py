"""The rows of an export's Parquet files, partition by partition, in the order of their offsets, in bounded memory.

    find      the files that the export's manifest names; without a manifest *.parquet in the directory and below.
              Directories named topic=…, partition=… are columns (Hive)
    survey    read topic, partition and offset of all rows: the range of offsets of each row group, and whether it is in
              order
    sort      row groups with several partitions, or out of order, are sorted slice by slice into runs on disk
    merge     row groups and runs are read in the order of their first offsets, and merged if their offsets overlap

Files and directories whose names begin with _ or . are no part of a table (Spark, Hive).
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple, Self
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kcli.errors import UnreadableInput
from kcli.export.columns import spans
from kcli.export.manifest import MANIFEST, read_manifest
from kcli.export.restore_columns import CONTROL, KEY_COLUMNS, ROW_SCHEMA, TRANSACTIONAL, Layout, layout
from kcli.metadata.topic_names import fault
from kcli.protocol.topic_partition import TopicPartition

SURVEY_ROWS = 1 << 18
READ_BUFFER_BYTES = 1 << 16
LEAST_ROWS, MOST_ROWS = 64, 1 << 16
ROW_BYTES = 8 * len(ROW_SCHEMA)  # added to the measured size of a row, as rows with ROW_SCHEMA may have more columns
COPIES = 4  # of each row in memory: as read, with ROW_SCHEMA, sorted, concatenated
LARGEST_PARTITION = (1 << 31) - 1
HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"


class RowGroup(NamedTuple):
    """A row group of a Parquet file: its number, the number of its rows, and its share of the file's bytes."""

    layout: Layout
    number: int
    rows: int
    stored_bytes: int


class Run(NamedTuple):
    """Rows of one partition in the order of their offsets: a whole row group (`group`), or the batches with the numbers
    `batches` in the run file `file`.

    path: the Parquet file that the rows are from.
    """

    first_offset: int
    last_offset: int
    path: str
    group: RowGroup | None = None
    file: Path | None = None
    batches: range = range(0)


@dataclass(slots=True)
class Found:
    """The rows of a partition in the Parquet files: lowest and highest offset, number of rows, and after `sort` the
    runs that contain them.

    has_transactions: whether transactional records are among them. has_control: whether control records are.
    """

    first_offset: int
    last_offset: int
    rows: int = 0
    has_transactions: bool = False
    has_control: bool = False
    runs: list[Run] = field(default_factory=list)


class Export:
    """The Parquet files of an export: those in a directory, or a single file. The constructor and all methods raise
    UnreadableInput.

    topics: the parameter names the topics to restore, () for all; the attribute has the names of all topics in the
    files. memory_bytes: about the maximum size of all rows in memory. fan_in: the maximum number of runs that are
    merged at a time. bytes: the size of all files. partitions: the rows of each partition to restore. advance: called
    with the number of bytes of the files that were read since the last call.
    """

    def __init__(
        self,
        path: Path,
        *,
        topics: Sequence[str] = (),
        memory_bytes: int = 256 << 20,
        fan_in: int = 128,
    ) -> None:
        self.path = path
        self.advance: Callable[[int], None] = lambda _: None
        self.bytes = 0
        self.partitions: dict[TopicPartition, Found] = {}
        self.layouts: list[Layout] = []
        self.topics: set[str] = set()
        self._topics = frozenset(topics)
        self._memory_bytes = memory_bytes
        self._fan_in = fan_in
        self._unsorted: list[RowGroup] = []
        self._numbers = count()
        for each in parquet_files(path):
            self._survey(each)

    # the step `survey` of the module docstring

    def _survey(self, path: Path) -> None:
        with _reading(str(path)), pq.ParquetFile(path) as file:
            known = layout(str(path), file.schema_arrow, hive_columns(self.path, path))
            self.layouts.append(known)
            size = path.stat().st_size
            self.bytes += size
            per_row = size / max(1, file.metadata.num_rows)
            for number in range(file.num_row_groups):
                if rows := file.metadata.row_group(number).num_rows:
                    group = RowGroup(known, number, rows, int(per_row * rows))
                    self._survey_group(file, group)

    def _survey_group(self, file: pq.ParquetFile, group: RowGroup) -> None:
        columns = [name for name in (*KEY_COLUMNS, "attributes") if group.layout.has(name)]
        ranges: dict[TopicPartition, Found] = {}
        in_order, before = True, -1
        for batch in file.iter_batches(SURVEY_ROWS, row_groups=[group.number], columns=columns):
            keys = group.layout.keys(batch)
            offsets = keys.column("offset").combine_chunks()
            in_order = in_order and offsets[0].as_py() > before and _increases(offsets)
            before = offsets[-1].as_py()
            for partition, rows, first, last in spans(keys):
                known = ranges.setdefault(partition, Found(first, last))
                known.first_offset, known.last_offset = min(known.first_offset, first), max(known.last_offset, last)
                known.rows += rows
            if group.layout.has_producers:
                for partition in group.layout.having(batch, TRANSACTIONAL, keys):
                    ranges[partition].has_transactions = True
                for partition in group.layout.having(batch, CONTROL, keys):
                    ranges[partition].has_control = True
        for topic, number in ranges:
            self.topics.add(topic)
            if (wrong := fault(topic)) is not None:
                raise UnreadableInput(group.layout.path, wrong)
            if not 0 <= number <= LARGEST_PARTITION:
                raise UnreadableInput(group.layout.path, f"there is no partition {number:,}")
        is_run = in_order and len(ranges) == 1
        selected = {partition: known for partition, known in ranges.items() if self._wants(partition)}
        for partition, known in selected.items():
            found = self.partitions.setdefault(partition, Found(known.first_offset, known.last_offset))
            found.first_offset = min(found.first_offset, known.first_offset)
            found.last_offset = max(found.last_offset, known.last_offset)
            found.rows += known.rows
            found.has_transactions |= known.has_transactions
            found.has_control |= known.has_control
            if is_run:
                found.runs.append(Run(known.first_offset, known.last_offset, group.layout.path, group))
        if selected and not is_run:
            self._unsorted.append(group)

    def _wants(self, partition: TopicPartition) -> bool:
        return not self._topics or partition.topic in self._topics

    # the step `sort` of the module docstring

    def sort(self, directory: Path) -> None:
        """Sort the row groups that are not in order into runs, in files in `directory`. Raises OSError."""
        for group in self._unsorted:
            for batch in self._read(group, self._memory_bytes):
                self._sort_slice(group.layout, batch, directory)
        self._unsorted.clear()

    def _sort_slice(self, known: Layout, batch: pa.RecordBatch, directory: Path) -> None:
        keys = known.keys(batch)
        order = pc.sort_indices(keys, sort_keys=[(name, "ascending") for name in KEY_COLUMNS])
        keys, rows = keys.take(order), known.rows(batch).take(order)
        start = 0
        with self._run_file(directory) as runs:
            for partition, length, first, last in sorted(spans(keys)):  # `rows` is sorted by partition, too
                if self._wants(partition):
                    part = rows.slice(start, length)
                    run = Run(first, last, known.path, None, runs.path, runs.write(part))
                    self.partitions[partition].runs.append(run)
                start += length

    def _run_file(self, directory: Path) -> _RunFile:
        return _RunFile(directory / f"{next(self._numbers)}.arrow", self._memory_bytes // self._fan_in)

    # the step `merge` of the module docstring

    def rows(self, partition: TopicPartition, directory: Path) -> Iterator[pa.RecordBatch]:
        """Yield the partition's rows with restore_columns.ROW_SCHEMA, in the order of their offsets; call `sort`
        before.

        An offset that two rows have is yielded twice. directory: for the files of merged runs, if more than `fan_in`
        runs overlap. Raises OSError.
        """
        runs = sorted(self.partitions[partition].runs, key=_offsets)
        while _depth(runs) > self._fan_in:
            groups = [runs[at : at + self._fan_in] for at in range(0, len(runs), self._fan_in)]
            runs = sorted((self._merged(group, directory) for group in groups), key=_offsets)
        yield from self._merge(runs)

    def _merged(self, runs: Sequence[Run], directory: Path) -> Run:
        with self._run_file(directory) as file:
            for batch in self._merge(runs):
                file.write(batch)
        last = max(run.last_offset for run in runs)
        return Run(runs[0].first_offset, last, runs[0].path, None, file.path, range(file.batches))

    def _merge(self, runs: Sequence[Run]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of runs in the order of their offsets, block by block. A block ends at the lowest of the last
        offsets of the batches in memory, as later batches cannot have smaller offsets."""
        pending = list(reversed(runs))
        memory_bytes = self._memory_bytes // max(1, _depth(runs))
        heads: list[_Head] = []
        while pending or heads:
            if not heads:
                heads.append(_Head(self._run(pending.pop(), memory_bytes)))
            until = min(head.last_offset for head in heads)
            while pending and pending[-1].first_offset <= until:
                heads.append(_Head(self._run(pending.pop(), memory_bytes)))
                until = min(until, heads[-1].last_offset)
            parts = [part for head in heads if (part := head.take(until)).num_rows]
            heads = [head for head in heads if head.is_left]
            yield parts[0] if len(parts) == 1 else _in_order(parts)

    def _run(self, run: Run, memory_bytes: int) -> Iterator[pa.RecordBatch]:
        if run.group is not None:
            for batch in self._read(run.group, memory_bytes):
                yield run.group.layout.rows(batch)
        else:
            with pa.OSFile(str(run.file), "rb") as source, pa.ipc.open_file(source) as file:
                for number in run.batches:
                    yield file.get_batch(number)

    def _read(self, group: RowGroup, memory_bytes: int) -> Iterator[pa.RecordBatch]:
        """Yield a row group in batches that fit into memory_bytes.

        A first batch of 64 rows is read to measure the size of a row: the sizes in the file's metadata are those of
        encoded columns, and much too small for columns with few values.
        """
        known = group.layout
        reading: dict[str, Any] = {"row_groups": [group.number], "columns": list(known.names)}
        with _reading(known.path), pq.ParquetFile(known.path, buffer_size=READ_BUFFER_BYTES, pre_buffer=False) as file:
            some = next(file.iter_batches(min(group.rows, LEAST_ROWS), **reading))
            rows = _rows_within(some.nbytes + ROW_BYTES * some.num_rows, some.num_rows, memory_bytes)
            for batch in file.iter_batches(rows, **reading):
                self.advance(group.stored_bytes * batch.num_rows // group.rows)
                yield batch


class _RunFile:
    """Writes a run file (Arrow IPC); a context manager that closes it. batches: the number of batches written."""

    def __init__(self, path: Path, batch_bytes: int) -> None:
        self.path = path
        self.batches = 0
        self._batch_bytes = batch_bytes
        self._sink = pa.OSFile(str(path), "wb")
        self._writer = pa.ipc.new_file(self._sink, ROW_SCHEMA)

    def write(self, rows: pa.RecordBatch) -> range:
        """Append rows; return the numbers of the batches that contain them."""
        first = self.batches
        step = _rows_within(rows.nbytes, rows.num_rows, self._batch_bytes)
        for at in range(0, rows.num_rows, step):
            self._writer.write_batch(rows.slice(at, step))
            self.batches += 1
        return range(first, self.batches)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.close()
        self._sink.close()


class _Head:
    """The head of a run that is being read: the run's current batch. is_left: whether rows are left in the run."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self._batch = next(batches)
        self.is_left = True

    @property
    def last_offset(self) -> int:
        """The last offset of the current batch."""
        return int(self._batch.column("offset")[-1].as_py())

    def take(self, until: int) -> pa.RecordBatch:
        """Remove and return the rows of the current batch with offsets at or below `until`. If no row is left, the
        run's next batch becomes the current one; if the run has no next batch, `is_left` becomes false."""
        taken = self._batch
        cut = bisect_right(_numbers(taken.column("offset")), until)
        if cut < taken.num_rows:
            self._batch = taken.slice(cut)
            return taken.slice(0, cut)
        following = next(self._batches, None)
        if following is None:
            self.is_left = False
        else:
            self._batch = following
        return taken


def parquet_files(path: Path) -> list[Path]:
    """Return the Parquet files of an export, or the file at `path` itself. Raises UnreadableInput if there is
    none."""
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise UnreadableInput(str(path), "no such file or directory")
    if (path / MANIFEST).exists():
        return [path / file.path for file in read_manifest(path).files]

    def failed(error: OSError) -> None:
        raise UnreadableInput.of(error.filename, error) from error

    found = []
    for folder, names, files in os.walk(path, onerror=failed):
        names[:] = [name for name in names if not name.startswith(("_", "."))]
        found += [Path(folder, name) for name in files if name.endswith(".parquet") and not name.startswith(("_", "."))]
    if not found:
        raise UnreadableInput(str(path), "no Parquet file (*.parquet) in this directory")
    return sorted(found)


def dead_letters(path: Path) -> int:
    """Return the number of dead letters of an export, the records that did not decode; 0 if the export has no manifest.
    Raises UnreadableInput."""
    if not (path / MANIFEST).exists():
        return 0
    return sum(file.records for file in read_manifest(path).dead_letters)


def hive_columns(root: Path, path: Path) -> dict[str, str]:
    """Return the columns in the names of the directories between root and file, as values by name: `date=2026-11-20`
    gives {"date": "2026-11-20"}. A column whose value is Hive's name for null is left out."""
    pairs = [part.partition("=") for part in path.relative_to(root).parts[:-1]]
    return {name: unquote(value) for name, equals, value in pairs if equals and value != HIVE_NULL}


def origins(runs: Iterable[Run], offset: int) -> list[str]:
    """Return the paths of the Parquet files whose range of offsets includes `offset`."""
    return sorted({run.path for run in runs if run.first_offset <= offset <= run.last_offset})


@contextmanager
def _reading(path: str) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise UnreadableInput(path, reason or type(error).__name__) from None


def _numbers(column: pa.Array) -> memoryview:
    """Return the values of an int64 column without nulls, without a copy."""
    values = memoryview(column.buffers()[1]).cast("q")
    return values[column.offset : column.offset + len(column)]


def _increases(offsets: pa.Array) -> bool:
    return len(offsets) < 2 or bool(pc.all(pc.greater(offsets[1:], offsets[:-1])).as_py())


def _rows_within(size: int, rows: int, memory_bytes: int) -> int:
    """Return how many rows may be read at a time, so that all copies of them fit into memory_bytes. size: the bytes in
    memory of one copy of `rows` rows."""
    return max(LEAST_ROWS, min(MOST_ROWS, memory_bytes * rows // (COPIES * max(1, size))))


def _in_order(parts: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    together = pa.concat_batches(parts)
    return together.take(pc.sort_indices(together.column("offset")))


def _offsets(run: Run) -> tuple[int, int]:
    return run.first_offset, run.last_offset


def _depth(runs: Sequence[Run]) -> int:
    """Return the largest number of runs that overlap at one offset. runs: sorted by their first offsets."""
    ends: list[int] = []
    deepest = 0
    for run in runs:
        while ends and ends[0] < run.first_offset:
            heappop(ends)
        heappush(ends, run.last_offset)
        deepest = max(deepest, len(ends))
    return deepest
