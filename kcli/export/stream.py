"""The stream reader of the data source: spark.readStream.format("kafka-log").load("dir") tails a live directory.

    offset      {"topic": {"0": 23, "1": 5}}: the next offset of each partition, as Spark's Kafka source writes it.
                It is the only state of a query, and Spark keeps it in the query's checkpoint. Beside the topics are
                their ids, as far as they are known: "topic ids": {"topic": "D8rbBvmFTlmGBMQUcSoJpA"}
    begin       startingOffsets, startingOffsetsByTimestamp, startingTimestamp, in a new query only; a partition created
                later is read from its log start offset. The offsets at which the first batch ends have also those at
                which it begins, "first offsets": Spark keeps these nowhere, and "earliest" may be another offset when
                the batch runs again
    end         the log end offset, or the last stable offset with read_committed. The high watermark in the checkpoint
                is some seconds old on a running broker; it bounds the stream only with beyondHighWatermark=false
    batch       Spark's micro-batch: all offsets up to the end, or maxOffsetsPerTrigger offsets, shared among partitions
                in proportion to their unread offsets. With minOffsetsPerTrigger a batch waits for that many offsets,
                for at most maxTriggerDelay
    data loss   offsets that cannot be read any more (deleted segments, a truncated log, a removed partition, a topic
                that was made anew) are an error; with failOnDataLoss=false a warning, and the stream reads on at the
                next offset that exists, or at the log start of the topic that was made anew

Source: KafkaMicroBatchStream.
"""

from __future__ import annotations

import json
import math
import time
from abc import abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from formats.file_name import FileKind, parse, parse_directory
from kcli.errors import UsageError
from kcli.export import offsets
from kcli.export.discovery import DEPTH_MAX, PartitionFiles
from kcli.export.files import join, list_directory, name_of, open_source, stat
from kcli.export.live import LiveEnd, LiveRange, read_live, settled, steady, unshared
from kcli.export.names import refuse_unknown
from kcli.export.options import LATEST, Bound, Isolation, SourceOptions
from kcli.export.splits import Range, Split, bounds, chosen, counted, log_start, lost, partitions, splits
from kcli.export.tiered import discover
from kcli.export.topic_ids import made_anew, topic_ids
from kcli.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

TOPIC_IDS = "topic ids"
"""A key beside the topics in the offsets of a micro-batch: the ids of the topics. No topic has this name, as it has a
space."""
FIRST_OFFSETS = "first offsets"
"""A key beside the topics in the offsets of the first micro-batch: the offsets at which it begins. No topic has this
name, as it has a space."""
OFFSETS_A_TASK = 100_000
"""About how many offsets a task has at most in a stream with maxOffsetsPerTrigger."""
Offsets = dict[TopicPartition, int]
Where = TypeVar("Where")


class LivePartition(InputPartition):
    """The input of one Spark task: a range of offsets of one partition."""

    def __init__(self, live_range: LiveRange) -> None:
        super().__init__(None)
        self.live_range = live_range


class OffsetsReader(DataSourceStreamReader, SupportsTriggerAvailableNow, Generic[Where]):
    """The methods by which Spark asks every streaming query for offsets. A subclass finds the partitions; `Where` is
    its type for an existing partition. keeps_first: whether the offsets of the first micro-batch have those at which it
    begins.

    Raises UsageError for ending offsets.
    """

    keeps_first: ClassVar[bool] = True

    def __init__(self, options: SourceOptions, columns: Sequence[str]) -> None:
        if options.end != Bound(LATEST):
            raise UsageError("a stream has no end: endingOffsets and its like are for batch queries")
        self._options = options
        self._columns = tuple(columns)
        self._initial: Offsets | None = None
        self._initial_ids: dict[str, str] = {}
        self._is_first = False
        self._target: Offsets | None = None
        self._latest: Offsets | None = None
        self._triggered_s = -math.inf  # the monotonic time of the last batch

    # what a subclass implements

    @abstractmethod
    def _found(self, known: Collection[TopicPartition] | None = None) -> Mapping[TopicPartition, Where]:
        """Return each selected partition that exists now.

        known: partitions that may be missing, because an earlier batch has read them; all other partitions that the
        options name must exist. None: no partition need exist. Raises UsageError for a partition that must exist and
        does not.
        """

    @abstractmethod
    def _now(self, found: Mapping[TopicPartition, Where]) -> Offsets:
        """Return the present end offset of each partition."""

    @abstractmethod
    def _topic_ids(self, found: Mapping[TopicPartition, Where]) -> dict[str, str]:
        """Return the ids of the topics of these partitions, by name, as far as they are known."""

    @abstractmethod
    def _log_starts(self, found: Mapping[TopicPartition, Where]) -> Offsets:
        """Return the log start offset of each partition."""

    @abstractmethod
    def _begins(self, found: Mapping[TopicPartition, Where], latest: Offsets) -> dict[TopicPartition, tuple[int, bool]]:
        """Return the start offset of each partition in a new query, and whether it is fixed: false if it is the end
        offset, which grows. latest: the end offsets."""

    # the methods by which Spark asks for offsets

    @steady
    def initialOffset(self) -> dict[str, dict[str, int]]:  # noqa: N802 (Spark's name)
        """Return the offsets at which a new query begins. Raises UnreadableInput, UsageError, DataLoss.

        Spark writes to the checkpoint only the offsets at which a batch ends, and after a restart the log end offset
        may have grown. So if a start offset is the log end offset, the first batch is empty: its end offsets, which are
        the start of the query, are in the checkpoint before a record is read. Spark calls this method twice; both calls
        return the same.
        """
        if self._initial is None:
            found = self._found(known=())
            latest = self._now(found) if self._target is None else self._target
            begin = self._begins(found, latest)
            self._initial = {key: start for key, (start, _) in begin.items()}
            self._initial_ids = self._topic_ids(found)
            self._is_first = not all(is_fixed for _, is_fixed in begin.values())
        return as_json(self._initial, self._initial_ids)

    @steady
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 (Spark's name)
        """Return the end offsets of the batch that begins at `start`. Raises UnreadableInput, UsageError, DataLoss."""
        begin, ids = from_json(start), ids_in(start)
        first = begin if begin == self._initial else None
        if self._is_first and first is not None:
            self._is_first = False
            return start
        found = self._found(known=begin if self._options.fail_on_data_loss else None)
        self._latest = latest = self._now(found) if self._target is None else self._target
        for key in begin.keys() - found.keys():
            self._lost(f"{key} is not there any more")
        now_ids = self._topic_ids(found)
        renewed = self._renewed(ids, now_ids)
        begin = {key: offset for key, offset in begin.items() if key.topic not in renewed}
        ends = {key: latest.get(key, begin.get(key, 0)) for key in found if key in latest or key in begin}
        for key in begin.keys() & ends.keys():
            if ends[key] < begin[key]:
                self._lost(f"{key}: the log ends at {ends[key]:,}, before {begin[key]:,}")
        if isinstance(limit, ReadMaxRows) or self._options.min_offsets_per_trigger is not None:
            starts = begin | self._log_starts({key: found[key] for key in ends if key not in begin})
            if self._waits_for_more(sum(max(0, end - starts[key]) for key, end in ends.items())):
                return start
            if isinstance(limit, ReadMaxRows):
                ends = _limited(starts, ends, limit.max_rows)
        end = as_json(ends, ids | now_ids)
        if end == {name: each for name, each in start.items() if name != FIRST_OFFSETS}:
            return start
        return {**end, FIRST_OFFSETS: as_json(first, ids)} if first is not None and self.keeps_first else end

    def _renewed(self, known: Mapping[str, str], found: Mapping[str, str]) -> Collection[str]:
        """Return the topics whose present id is not the known one. Raises DataLoss for one with failOnDataLoss=true."""
        renewed = made_anew(known, found)
        for text in renewed.values():
            self._lost(text)
        return renewed

    def _unread(
        self, start: dict[str, Any], end: dict[str, Any], found: Mapping[TopicPartition, Where]
    ) -> Iterator[tuple[TopicPartition, int, int]]:
        """Yield each partition with offsets between `start` and `end`, its first offset, and its exclusive end. One
        that does not exist any more is data loss. Raises UsageError, DataLoss."""
        start = end.get(FIRST_OFFSETS, start)
        begin, ids, until, end_ids = from_json(start), ids_in(start), from_json(end), ids_in(end)
        begin = {key: offset for key, offset in begin.items() if key.topic not in made_anew(ids, end_ids)}
        wanted = {key: to for key, to in sorted(until.items()) if begin.get(key, -1) < to}
        there = {key: found[key] for key in wanted if key in found}
        renewed = self._renewed(end_ids, self._topic_ids(there)) if end_ids else ()
        for key, to in wanted.items():
            if key not in found:
                self._lost(f"{key} is not there any more")
            elif key.topic not in renewed:
                yield key, begin.get(key, 0), to

    def _waits_for_more(self, unread: int) -> bool:
        """Whether a batch waits until there are minOffsetsPerTrigger unread offsets, for at most maxTriggerDelay since
        the last batch; the first batch of a run does not wait, nor does one of Trigger.AvailableNow."""
        least, now_s = self._options.min_offsets_per_trigger, time.monotonic()
        has_time = now_s - self._triggered_s < self._options.max_trigger_delay_ms / 1000
        if least is not None and self._target is None and unread < least and has_time:
            return True
        self._triggered_s = now_s
        return False

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 (Spark's name)
        """Return the limit of a batch: maxOffsetsPerTrigger offsets, or no limit without this option."""
        limit = self._options.max_offsets_per_trigger
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 (Spark's name)
        """Return the end offsets that the last call of latestOffset found, before the read limit was applied, for the
        query's progress; None before the first batch."""
        return None if self._latest is None else as_json(self._latest)

    @steady
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 (Spark's name)
        """Make the present end offsets the end of this run (Trigger.AvailableNow). Raises UnreadableInput."""
        self._target = self._now(self._found())

    def _lost(self, what: str) -> None:
        lost(what, fails=self._options.fail_on_data_loss)


class KafkaLogStreamReader(OffsetsReader[list[PartitionFiles]]):
    """Spark's reader of one streaming query. Each task has a copy for `read`, which uses only options and columns.

    Raises UsageError for ending offsets and for paths of single segments.
    """

    def __init__(self, options: SourceOptions, columns: Sequence[str]) -> None:
        super().__init__(options, columns)
        for path in options.paths:
            if (name := parse(name_of(path))) is not None and name.kind is FileKind.LOG:
                raise UsageError(f"{path}: a stream reads directories, not single segments")
        self._ends: dict[str, LiveEnd] = {}

    def _begins(
        self, found: Mapping[TopicPartition, list[PartitionFiles]], latest: Offsets
    ) -> dict[TopicPartition, tuple[int, bool]]:
        return {key: self._begin(key, copies, latest) for key, copies in found.items()}

    def _begin(self, key: TopicPartition, copies: list[PartitionFiles], latest: Offsets) -> tuple[int, bool]:
        begin, best = self._options.start, copies[0]
        if (at := begin.time_of(key)) is not None:
            is_latest = offsets.offset_for_time(best, at) is None
        else:
            is_latest = begin.offset_of(key) == LATEST
        if is_latest and (at is None or self._options.latest_without_time):
            return latest.get(key, 0), False
        return bounds(copies, self._options)[0], True

    def _topic_ids(self, found: Mapping[TopicPartition, list[PartitionFiles]]) -> dict[str, str]:
        return topic_ids(copies[0] for copies in found.values())

    def _log_starts(self, found: Mapping[TopicPartition, list[PartitionFiles]]) -> Offsets:
        return {key: log_start(copies) for key, copies in found.items()}

    def _found(self, known: Collection[TopicPartition] | None = None) -> dict[TopicPartition, list[PartitionFiles]]:
        """Return the replicas of each selected partition that exists now; a log directory may still be empty. Raises
        UsageError, UnreadableInput."""
        found = discover(replace(self._options, paths=tuple(filter(_has_logs, self._options.paths))))
        if known is not None:
            refuse_unknown(self._options, {TopicPartition(each.topic, each.partition) for each in found}, known)
        return {
            TopicPartition(copies[0].topic, copies[0].partition): copies for copies in partitions(self._options, found)
        }

    def _now(self, found: Mapping[TopicPartition, list[PartitionFiles]]) -> Offsets:
        return {key: self._end(copies) for key, copies in found.items()}

    def _end(self, copies: list[PartitionFiles]) -> int:
        best = copies[0]
        known = self._ends.setdefault(best.directory, LiveEnd())
        end = known.log_end(best)
        marks = [each.high_watermark for each in copies if each.high_watermark is not None]
        if marks and not self._options.beyond_high_watermark:
            end = min(end, max(marks))
        return known.stable(best, end) if self._options.isolation is Isolation.READ_COMMITTED else end

    # the methods by which Spark reads records

    @steady
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Return the tasks of the batch from offsets `start` to `end`. Raises UnreadableInput, UsageError, DataLoss."""
        if start == end:
            return []
        found = self._found()
        ranges: list[Range] = []
        firsts: dict[str, int] = {}
        for key, at, to in self._unread(start, end, found):
            copies = found[key]
            if (first := log_start(copies)) > at:
                copies = [settled(each.directory, each.remote) for each in copies]
                first = log_start(copies)
            if first > at:
                self._lost(f"{key}: offset {at:,} is gone, the log starts at {first:,}")
            if self._cuts_by_offset and len(copies) == 1:
                ranges.append(Range(copies[0], at, to))
                firsts[copies[0].directory] = first
            else:
                ranges += chosen(copies, max(at, first), to)
        return [LivePartition(each.from_offset(firsts.get(each.directory, 0))) for each in self._parts(ranges)]

    @property
    def _cuts_by_offset(self) -> bool:
        """Whether tasks are cut at offsets that the batch alone decides. Segments may be deleted or compacted before a
        batch that was interrupted runs again; then it has the same tasks, whose rows a sink may have written already.
        Without a limit of offsets for a batch, such tasks would be too many."""
        return self._options.max_offsets_per_trigger is not None

    def _parts(self, ranges: list[Range]) -> list[LiveRange]:
        """Cut ranges into tasks of about 64 MB, with maxOffsetsPerTrigger of OFFSETS_A_TASK, or smaller ones if
        minPartitions or maxRecordsPerPartition requires them. Raises UsageError for too many."""
        if self._cuts_by_offset:
            pieces = [part for each in map(_whole, ranges) for part in _even(each, -(-_size(each) // OFFSETS_A_TASK))]
        else:
            pieces = [part for each in ranges for part in _cut(each, splits([each], unshared(self._options)))]
        most = self._options.max_records_per_partition
        parts = counted(
            (part for each in pieces for part in _even(each, 1 if most is None else math.ceil(_size(each) / most))),
            self._options,
        )
        least, total = self._options.min_partitions or 0, sum(map(_size, parts))
        if len(parts) >= least:
            return parts
        return [part for each in parts for part in _even(each, math.ceil(least * _size(each) / total))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of one task as Arrow record batches."""
        if isinstance(partition, LivePartition):
            yield from read_live(partition.live_range, self._columns, self._options)


def as_json(found: Mapping[TopicPartition, int], ids: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return offsets in the form of Spark's checkpoint, sorted, because Spark compares their JSON text. ids: ids of
    topics, by name; those of topics without offsets are left out."""
    result: dict[str, Any] = {}
    for topic, partition in sorted(found):
        result.setdefault(topic, {})[str(partition)] = found[TopicPartition(topic, partition)]
    known = {topic: ids[topic] for topic in result if topic in ids} if ids else {}
    return {**result, TOPIC_IDS: known} if known else result


def ids_in(value: dict[str, Any]) -> dict[str, str]:
    """Return the ids of topics from the JSON value of a checkpoint, by name: those that it has. Raises UsageError for a
    value of another form."""
    found = value.get(TOPIC_IDS, {})
    if not isinstance(found, dict) or not all(isinstance(each, str) for each in found.values()):
        raise UsageError(f"the checkpoint is not of a kafka-log stream: {json.dumps(value)[:200]}")
    return found


def from_json(value: Any) -> Offsets:
    """Return the offsets from the JSON value of a checkpoint. Raises UsageError for a value of another form."""
    try:
        found = {
            TopicPartition(topic, int(number)): offset
            for topic, each in value.items()
            if topic not in (TOPIC_IDS, FIRST_OFFSETS)
            for number, offset in each.items()
        }
    except (AttributeError, ValueError, TypeError):
        found = {TopicPartition("", 0): -1}
    if not all(type(offset) is int and 0 <= offset < 1 << 63 for offset in found.values()):
        raise UsageError(f"the checkpoint is not of a kafka-log stream: {json.dumps(value)[:200]}")
    return found


def _limited(starts: Offsets, ends: Offsets, limit: int) -> Offsets:
    """Lower the end offsets to about `limit` offsets in all, shared in proportion to the partitions' unread offsets."""
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


def _cut(whole: Range, pieces: list[Split]) -> Iterator[LiveRange]:
    """Yield the parts of a range between the offsets at which its splits end; a split itself ends at a byte position.
    Raises UnreadableInput."""
    at = whole.start
    for piece in pieces:
        behind = piece.to_offset if piece.stop is None else _base_offset(piece.segment, piece.stop)
        if behind is not None and at < behind < whole.end:
            yield LiveRange(whole.files.directory, at, behind, whole.copies, whole.files.remote)
            at = behind
    if at < whole.end:
        yield LiveRange(whole.files.directory, at, whole.end, whole.copies, whole.files.remote)


def _whole(found: Range) -> LiveRange:
    return LiveRange(found.files.directory, found.start, found.end, found.copies, found.files.remote)


def _even(whole: LiveRange, count: int) -> Iterator[LiveRange]:
    """Yield the range in `count` parts of about equal length, or in as many as it has offsets."""
    size = _size(whole)
    count = max(1, min(count, size))
    for i in range(count):
        yield replace(whole, start=whole.start + size * i // count, end=whole.start + size * (i + 1) // count)


def _size(whole: LiveRange) -> int:
    return whole.end - whole.start


def _base_offset(segment: str, position: int) -> int | None:
    """Return the base offset of the batch that begins at a byte position, None if no batch begins there. Raises
    UnreadableInput."""
    source = open_source(segment)
    try:
        batch = offsets.batch_at(source, position)
    finally:
        source.close()
    return None if batch is None else batch.base_offset


def _has_logs(path: str, depth: int = DEPTH_MAX) -> bool:
    """Whether a path is to be searched for logs: true if it is a directory with a log in it, is a file, or does not
    exist (the search then raises). False for a directory without a log (before the first topic is created).

    depth: levels of directories to search. Raises UnreadableInput.
    """
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
