"""What a query on live brokers reads: the partitions that exist, the offsets of each, and the tasks that share them.

    end      the high watermark, or with read_committed the last stable offset, at the time when the query is planned
    start    as the options say, but not below the log start offset; ListOffsets finds the offset of a timestamp
    disk     with bootstrapFrom the offsets that a disk has are read there (disk.py), by the tasks of kcli.export, and
             those before and behind them from the leader
    task     the whole range of a partition, as in Spark's Kafka source; with minPartitions or maxRecordsPerPartition a
             part of it. Each task fetches by itself, from the leader

For a partition without a leader the query waits, as long as it would repeat a failed request. Source:
KafkaOffsetReaderAdmin, KafkaOffsetRangeCalculator.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from uuid import UUID

from kcli.client.leaders import Leaderless
from kcli.client.log_reading import EARLIEST, LATEST, LogReader
from kcli.errors import UsageError
from kcli.export.names import refuse_unknown
from kcli.export.options import Isolation, SourceOptions
from kcli.export.splits import Range, Split, chosen, counted, lost, refuse_missing, splits
from kcli.pipelines.cluster import Cluster
from kcli.pipelines.disk import NOTHING, DiskLog, Span, disk_logs
from kcli.protocol.topic_partition import TopicPartition

RETRY_S = 0.1
Offsets = dict[TopicPartition, int]
Partitions = Mapping[TopicPartition, UUID]
"""Partitions by topic and number, each with the id of its topic."""


@dataclass(frozen=True, slots=True)
class FetchRange:
    """The offsets from `start` up to, not including, `end` of a partition. topic_id: the id of the topic when the query
    was planned; a topic of the same name that is created later has another id."""

    partition: TopicPartition
    topic_id: UUID
    start: int
    end: int

    @property
    def size(self) -> int:
        """The number of offsets."""
        return self.end - self.start

    def from_offset(self, first: int) -> FetchRange:
        """Return the range without the offsets below `first`; an empty one at its end if it has no others."""
        return replace(self, start=min(self.end, max(self.start, first)))

    def cut(self, count: int) -> Iterator[FetchRange]:
        """Yield the range in `count` parts of about equal length, or in as many as it has offsets."""
        count = max(1, min(count, self.size))
        for i in range(count):
            begin, end = self.size * i // count, self.size * (i + 1) // count
            yield replace(self, start=self.start + begin, end=self.start + end)


def plan(options: SourceOptions, cluster: Cluster) -> tuple[list[Split], list[FetchRange]]:
    """Return what a batch query reads: the splits on its disk, and the ranges of the brokers, one for each task. Raises
    UsageError (an unknown topic or partition, no record at a starting time), DataLoss, NobodyAnswers, ErrorAnswer,
    KcliError; UnreadableInput for the disk."""
    on_disk: list[Range] = []
    ranges: list[FetchRange] = []
    with cluster.reader(named_topics(options)) as reader:
        found = present(reader, options, cluster)
        logs = disk_logs(options, found, reader.described().cluster_id) if options.paths else {}
        firsts = log_starts(reader, logs)
        for each, (start, end) in bounds(reader, options, found, logs).items():
            log = logs.get(each)
            part, spans = shared(
                each,
                Span(start, end),
                NOTHING if log is None else log.part,
                firsts.get(each, start),
                fails=options.fail_on_data_loss,
            )
            on_disk += () if log is None else chosen(log.copies, *part)
            ranges += (FetchRange(each, found[each], *span) for span in spans)
    for each_range in on_disk:
        refuse_missing(each_range, options.on_corruption)
    return splits(on_disk, options), tasks(ranges, options)


def shared(partition: TopicPartition, wanted: Span, disk: Span, first: int, *, fails: bool) -> tuple[Span, list[Span]]:
    """Return which of the wanted offsets of a partition are read from the disk, and which from the brokers.

    disk: the offsets that the disk has. first: the log start offset of the brokers. If neither has some of the offsets:
    raises DataLoss if `fails`, otherwise logs a warning and leaves them out.
    """
    start, end = wanted
    spans: list[Span] = []
    for begin, stop in ((start, min(end, disk.start)), (max(start, disk.end), end)):
        if begin < min(stop, first):
            lost(f"{partition}: offset {begin:,} is gone, the log starts at {first:,}", fails=fails)
        if max(begin, first) < stop:
            spans.append(Span(max(begin, first), stop))
    return Span(max(start, disk.start), min(end, disk.end)), spans


def named_topics(options: SourceOptions) -> Collection[str] | None:
    """Return the topics that the options name, None if they name none: then all topics of the cluster are described."""
    return options.subscribe if options.subscribe is not None else options.assign


def present(
    reader: LogReader,
    options: SourceOptions,
    cluster: Cluster,
    known: Collection[TopicPartition] | None = (),
    *,
    is_patient: bool = False,
) -> Partitions:
    """Return the partitions that exist and that the options select, sorted. known: partitions that an earlier
    micro-batch has read: they may be missing now; None: any partition may be missing. is_patient: whether to ask again
    while no broker answers. Raises UsageError for another partition that the options name, NobodyAnswers,
    ErrorAnswer."""
    described = reader.describe_patiently() if is_patient else reader.describe()
    if known is not None:
        there = set(described.leaders)
        if not described.topic_ids.keys() >= {*(named_topics(options) or ())}:
            with cluster.reader() as of_all:  # the error lists the topics of the cluster
                there |= of_all.describe().leaders.keys()
        refuse_unknown(options, there, known, cluster.bootstrap)
    return {each: described.topic_ids[each.topic] for each in sorted(described.leaders) if options.wants(*each)}


def bounds(
    reader: LogReader,
    options: SourceOptions,
    partitions: Collection[TopicPartition],
    disk: Mapping[TopicPartition, DiskLog],
) -> dict[TopicPartition, tuple[int, int]]:
    """Return for each partition the start offset and the exclusive end offset that the options and the filters of the
    query select; they select no offset if the start is not below the end. A partition that was deleted meanwhile is
    left out. disk: the partitions that a disk has. Raises as `plan`."""
    committed = options.isolation is Isolation.READ_COMMITTED
    firsts, lasts = log_starts(reader, partitions), ends(reader, partitions, committed=committed)
    for each in firsts.keys() & disk.keys():
        firsts[each] = min(firsts[each], disk[each].part.start)
    starts_at, ends_at = (
        _by_time(reader, partitions, bound.time_of, disk, committed=committed) for bound in (options.start, options.end)
    )
    filters = options.narrowed
    filtered = _by_time(reader, partitions, lambda _: filters.from_time_ms, disk, committed=committed)
    found: dict[TopicPartition, tuple[int, int]] = {}
    for each in sorted(firsts.keys() & lasts.keys()):
        first, last = firsts[each], lasts[each]
        start = starts_at[each] if each in starts_at else options.start.offset_of(each)
        end = ends_at[each] if each in ends_at else options.end.offset_of(each)
        if each in starts_at and start == LATEST and not options.latest_without_time:
            time_ms = options.start.time_of(each)
            raise UsageError(f"{each}: no record at or after the starting time {time_ms}")
        if start == LATEST:
            start = last
        elif start == EARLIEST:
            start = first
        elif start < first:
            lost(f"{each}: offset {start:,} is gone, the log starts at {first:,}", fails=options.fail_on_data_loss)
        elif start > last and start > ends(reader, [each], committed=False).get(each, start):
            lost(f"{each}: the log ends at {last:,}, before {start:,}", fails=options.fail_on_data_loss)
        if each not in ends_at and end > last and end > ends(reader, [each], committed=False).get(each, end):
            lost(f"{each}: the log ends at {last:,}, before endingOffsets {end:,}", fails=options.fail_on_data_loss)
        start, end = max(start, first), last if end == LATEST else min(end, last)
        if each in filtered:
            start = end if filtered[each] == LATEST else max(start, filtered[each])
        found[each] = max(start, filters.from_offset), min(end, filters.to_offset)
    return found


def log_starts(reader: LogReader, partitions: Collection[TopicPartition]) -> Offsets:
    """Return the log start offset of each partition that still exists. Raises as `plan`."""
    return _offsets(reader, dict.fromkeys(partitions, EARLIEST), committed=False)


def ends(reader: LogReader, partitions: Collection[TopicPartition], *, committed: bool) -> Offsets:
    """Return the high watermark, or with `committed` the last stable offset, of each partition that still exists.
    Raises as `plan`."""
    return _offsets(reader, dict.fromkeys(partitions, LATEST), committed=committed)


def _by_time(
    reader: LogReader,
    partitions: Iterable[TopicPartition],
    time_of: Callable[[TopicPartition], int | None],
    disk: Mapping[TopicPartition, DiskLog],
    *,
    committed: bool,
) -> Offsets:
    """Return for each partition the offset of the first record, on the disk or on the brokers, that is not older than
    the time (epoch ms) that `time_of` returns for the partition; LATEST if no record is so late. A partition for which
    it returns None is left out."""
    times = {each: max(0, time_ms) for each in partitions if (time_ms := time_of(each)) is not None}
    found = _offsets(reader, times, committed=committed)
    for each in found.keys() & disk.keys():
        offset = disk[each].offset_for_time(times[each])
        if offset is not None:
            found[each] = offset if found[each] == LATEST else min(offset, found[each])
    return found


def _offsets(reader: LogReader, timestamps: Mapping[TopicPartition, int], *, committed: bool) -> Offsets:
    """Return the result of the reader's `offsets_at` for all partitions that exist. Waits for the leaders of partitions
    without a leader."""
    if not timestamps:
        return {}
    deadline = time.monotonic() + reader.timeout_s
    found = reader.offsets_at(timestamps, committed=committed)
    while left := {each: at for each, at in timestamps.items() if each not in found}:
        leaders = reader.describe_patiently().leaders
        left = {each: at for each, at in left.items() if each in leaders}
        if not left:
            break
        if time.monotonic() > deadline:
            raise Leaderless(min(left))
        time.sleep(RETRY_S)
        found |= reader.offsets_at(left, committed=committed)
    return found


def tasks(ranges: Collection[FetchRange], options: SourceOptions) -> list[FetchRange]:
    """Return the ranges, cut into as many as minPartitions and maxRecordsPerPartition require. Raises UsageError for
    too many."""
    return counted(_cut(ranges, options), options)


def _cut(ranges: Collection[FetchRange], options: SourceOptions) -> Iterator[FetchRange]:
    most, least = options.max_records_per_partition, options.min_partitions or 0
    total = sum(each.size for each in ranges)
    for each in ranges:
        by_records = 1 if most is None else math.ceil(each.size / most)
        by_share = math.ceil(least * each.size / total) if len(ranges) < least else 1
        yield from each.cut(max(by_records, by_share))
