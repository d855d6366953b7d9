"""The stream reader of the data source: spark.readStream.format("kafka-log").load("dir") tails a live directory.

    offset      {"topic": {"0": 23, "1": 5}}: the next offset of each partition, as Spark's Kafka source writes it.
                The query's checkpoint has it, and nothing else is kept
    begin       startingOffsets and its like, in a new query only; a partition that comes later from its first offset
    end         the last whole, sound batch, or the last stable offset with read_committed. The checkpointed high
                watermark is some seconds old on a live broker, and of one replica the log's end; it bounds the stream
                with beyondHighWatermark=false only
    a batch     all there is, or maxOffsetsPerTrigger offsets, shared by what each partition has left
    data loss   what was to be read but is gone (deleted segments, a log cut short, a partition removed) is an error,
                with failOnDataLoss=false a warning, and reading goes on with what there is

Source: KafkaMicroBatchStream.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from formats.file_name import FileKind, parse, parse_directory
from kcli.errors import UsageError
from kcli.export import offsets
from kcli.export.discovery import DEPTH_MAX, PartitionFiles, discover
from kcli.export.files import join, list_directory, name_of, open_source, stat
from kcli.export.live import LiveEnd, LiveRange, read_live, settled, steady, unshared
from kcli.export.names import refuse_unknown
from kcli.export.options import LATEST, Bound, Isolation, Partition, SourceOptions
from kcli.export.splits import Range, Split, bounds, chosen, log_start, lost, partitions, splits

if TYPE_CHECKING:
    import pyarrow as pa

Offsets = dict[Partition, int]


class LivePartition(InputPartition):
    """A range of offsets on its way to a task."""

    def __init__(self, wanted: LiveRange) -> None:
        super().__init__(None)
        self.wanted = wanted


class KafkaLogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One for a query; tasks get a copy for `read`, which uses none of its state. Raises UsageError."""

    def __init__(self, options: SourceOptions, columns: Sequence[str]) -> None:
        if options.end != Bound(LATEST):
            raise UsageError("a stream has no end: endingOffsets and its like are for batch queries")
        for path in options.paths:
            if (name := parse(name_of(path))) is not None and name.kind is FileKind.LOG:
                raise UsageError(f"{path}: a stream reads directories, not single segments")
        self._options = options
        self._columns = tuple(columns)
        self._ends: dict[str, LiveEnd] = {}
        self._initial: Offsets | None = None
        self._is_first = False
        self._target: Offsets | None = None
        self._latest: Offsets | None = None

    # where

    @steady
    def initialOffset(self) -> dict[str, dict[str, int]]:  # noqa: N802 (Spark's name)
        """Where a new query begins. Raises UnreadableInput, UsageError, DataLoss.

        Spark asks twice, and keeps the answer only as the end of a batch: where it depends on the log's end, the first
        batch is empty, so that the checkpoint has it before anything is read.
        """
        if self._initial is None:
            found = self._found(known=())
            latest = self._now(found) if self._target is None else self._target
            begin = {key: self._begin(key, copies, latest) for key, copies in found.items()}
            self._initial = {key: start for key, (start, _) in begin.items()}
            self._is_first = not all(is_fixed for _, is_fixed in begin.values())
        return as_json(self._initial)

    def _begin(self, key: Partition, copies: list[PartitionFiles], latest: Offsets) -> tuple[int, bool]:
        """Where a partition begins in a new query; False: it would begin elsewhere, if asked again."""
        begin, best = self._options.start, copies[0]
        if (at := begin.time_of(key)) is not None:
            is_latest = offsets.offset_for_time(best, at) is None
        else:
            is_latest = begin.offset_of(key) == LATEST
        if is_latest and (at is None or self._options.latest_without_time):
            return latest.get(key, 0), False
        return bounds(copies, self._options)[0], True

    @steady
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 (Spark's name)
        """How far the next batch goes. Raises UnreadableInput, UsageError, DataLoss."""
        begin = from_json(start)
        if self._is_first and begin == self._initial:
            self._is_first = False
            return start
        found = self._found(known=begin if self._options.fail_on_data_loss else None)
        self._latest = latest = self._now(found) if self._target is None else self._target
        for key in begin.keys() - found.keys():
            self._lost(f"{_shown(key)} is not there any more")
        ends = {key: latest.get(key, begin.get(key, 0)) for key in found if key in latest or key in begin}
        for key in begin.keys() & ends.keys():
            if ends[key] < begin[key]:
                self._lost(f"{_shown(key)}: the log ends at {ends[key]:,}, before {begin[key]:,}")
        if isinstance(limit, ReadMaxRows):
            starts = {key: begin[key] if key in begin else log_start(found[key]) for key in ends}
            ends = _limited(starts, ends, limit.max_rows)
        return as_json(ends)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 (Spark's name)
        """What maxOffsetsPerTrigger says."""
        limit = self._options.max_offsets_per_trigger
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 (Spark's name)
        """How far the logs went when last looked at, for the query's progress."""
        return None if self._latest is None else as_json(self._latest)

    @steady
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 (Spark's name)
        """What is there now is all that this run reads. Raises UnreadableInput."""
        self._target = self._now(self._found())

    def _found(self, known: Iterable[Partition] | None = None) -> dict[Partition, list[PartitionFiles]]:
        """The partitions there are now, with their copies. A log directory may have none as yet.

        known: partitions that were there before; others that the options name must be there. None: none need be.
        """
        found = discover(filter(_has_logs, self._options.paths))
        if known is not None:
            refuse_unknown(self._options, {(each.topic, each.partition) for each in found}, known)
        return {(copies[0].topic, copies[0].partition): copies for copies in partitions(self._options, found)}

    def _now(self, found: Mapping[Partition, list[PartitionFiles]]) -> Offsets:
        """Where the partitions end now."""
        return {key: self._end(copies) for key, copies in found.items()}

    def _end(self, copies: list[PartitionFiles]) -> int:
        best = copies[0]
        known = self._ends.setdefault(best.directory, LiveEnd())
        end = known.log_end(best)
        marks = [each.high_watermark for each in copies if each.high_watermark is not None]
        if marks and not self._options.beyond_high_watermark:
            end = min(end, max(marks))
        return known.stable(best, end) if self._options.isolation is Isolation.READ_COMMITTED else end

    def _lost(self, what: str) -> None:
        lost(what, fails=self._options.fail_on_data_loss)

    # what

    @steady
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The tasks of a batch. Raises UnreadableInput, UsageError, DataLoss."""
        if start == end:
            return []
        begin, until = from_json(start), from_json(end)
        found = self._found()
        ranges: list[Range] = []
        for key, to in sorted(until.items()):
            if begin.get(key, -1) >= to:
                continue
            if key not in found:
                self._lost(f"{_shown(key)} is not there any more")
                continue
            copies = found[key]
            at = begin.get(key, 0)
            if (first := log_start(copies)) > at:
                copies = [settled(each.directory) for each in copies]
                first = log_start(copies)
            if first > at:
                self._lost(f"{_shown(key)}: offset {at:,} is gone, the log starts at {first:,}")
            ranges += chosen(copies, max(at, first), to)
        return list(map(LivePartition, self._parts(ranges)))

    def _parts(self, wanted: list[Range]) -> list[LiveRange]:
        """The ranges in parts for tasks: some 64 MB each, and as minPartitions and maxRecordsPerPartition say."""
        by_bytes = [part for each in wanted for part in _cut(each, splits([each], unshared(self._options)))]
        most = self._options.max_records_per_partition
        parts = [
            part for each in by_bytes for part in _even(each, 1 if most is None else math.ceil(_size(each) / most))
        ]
        least, total = self._options.min_partitions or 0, sum(map(_size, parts))
        if len(parts) >= least:
            return parts
        return [part for each in parts for part in _even(each, math.ceil(least * _size(each) / total))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of one task."""
        if isinstance(partition, LivePartition):
            yield from read_live(partition.wanted, self._columns, self._options)


def as_json(found: Mapping[Partition, int]) -> dict[str, dict[str, int]]:
    """Offsets as Spark keeps them. Sorted: Spark compares their text."""
    result: dict[str, dict[str, int]] = {}
    for topic, partition in sorted(found):
        result.setdefault(topic, {})[str(partition)] = found[topic, partition]
    return result


def from_json(value: Any) -> Offsets:
    """The same from a checkpoint. Raises UsageError where it is not of this form."""
    try:
        found = {(topic, int(number)): offset for topic, each in value.items() for number, offset in each.items()}
    except (AttributeError, ValueError, TypeError):
        found = {("", 0): -1}
    if not all(type(offset) is int and 0 <= offset < 1 << 63 for offset in found.values()):
        raise UsageError(f"the checkpoint is not of a kafka-log stream: {json.dumps(value)[:200]}")
    return found


def _limited(starts: Offsets, ends: Offsets, limit: int) -> Offsets:
    """At most about `limit` offsets in all, each partition's share as large as its part of what is left."""
    sizes = {key: max(0, end - starts[key]) for key, end in ends.items()}
    total = sum(sizes.values())
    if total <= limit:
        return ends
    result: Offsets = {}
    for key, end in ends.items():
        share = limit * sizes[key] / total
        step = math.ceil(share) if share < 1 else math.floor(share)
        result[key] = min(end, starts[key] + step)
    return result


def _cut(wanted: Range, pieces: list[Split]) -> Iterator[LiveRange]:
    """The range by offsets as the pieces are by bytes. Raises UnreadableInput."""
    at = wanted.start
    for piece in pieces:
        behind = piece.to_offset if piece.stop is None else _base_offset(piece.segment, piece.stop)
        if behind is not None and at < behind < wanted.end:
            yield LiveRange(wanted.files.directory, at, behind, wanted.copies)
            at = behind
    if at < wanted.end:
        yield LiveRange(wanted.files.directory, at, wanted.end, wanted.copies)


def _even(wanted: LiveRange, count: int) -> Iterator[LiveRange]:
    """The range in so many parts, or in as many as it has offsets."""
    size = _size(wanted)
    count = max(1, min(count, size))
    for i in range(count):
        yield replace(wanted, start=wanted.start + size * i // count, end=wanted.start + size * (i + 1) // count)


def _size(wanted: LiveRange) -> int:
    return wanted.end - wanted.start


def _base_offset(segment: str, position: int) -> int | None:
    """The offset of the batch that begins there, None where none does. Raises UnreadableInput."""
    source = open_source(segment)
    try:
        batch = offsets.batch_at(source, position)
    finally:
        source.close()
    return None if batch is None else batch.base_offset


def _has_logs(path: str, depth: int = DEPTH_MAX) -> bool:
    """Is it anything but a directory in which no log is yet? Raises UnreadableInput."""
    entry = stat(path)
    if entry is None or not entry.is_directory or parse_directory(name_of(path)) is not None:
        return True
    for each in list_directory(path):
        if not each.is_directory:
            name = parse(each.name)
            if name is not None and name.kind is FileKind.LOG:
                return True
        elif (whose := parse_directory(each.name)) is not None:
            if whose.state in ("", "remote"):
                return True
        elif depth > 1 and not each.name.startswith(".") and _has_logs(join(path, each.name), depth - 1):
            return True
    return False


def _shown(key: Partition) -> str:
    return f"{key[0]}-{key[1]}"
