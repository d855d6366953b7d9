"""The stream reader of a live source. Offsets have the form of those of file streams (kcli.export.stream); the brokers
tell their ends.

    end         the high watermark, or with read_committed the last stable offset
    found       partitions and topics that come later are found at each batch, and are read from offset 0
    data loss   a topic or partition that was deleted, offsets that retention removed, a log that ends below what was
                read: an error; with failOnDataLoss=false a warning, and the stream reads on with what there is
    disk        with bootstrapFrom, the offsets that the disk has when the query begins are read there (disk.py). They
                are in the offsets of each micro-batch until the partition has passed their end, the switch offset:
                {"orders": {"0": 23}, "disk offsets": {"orders": {"0": [0, 1000]}}}; from then on the disk is not
                needed. Partitions that are created later are read only from the brokers
    brokers     after the first answer a broker that does not answer is asked again, for kafka.request.timeout.ms

Source: KafkaMicroBatchStream.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadLimit

from kcli.client.log_reading import LogReader
from kcli.errors import UsageError
from kcli.export.live import steady
from kcli.export.options import LATEST, Isolation, SourceOptions
from kcli.export.stream import KafkaLogStreamReader, Offsets, OffsetsReader, as_json, from_json, ids_in
from kcli.export.topic_ids import made_anew
from kcli.metadata.partition import from_uuid
from kcli.pipelines.cluster import Cluster
from kcli.pipelines.disk import NOTHING, Span, disk_logs, replicas
from kcli.pipelines.fetching import read
from kcli.pipelines.planning import (
    FetchRange,
    Partitions,
    bounds,
    ends,
    log_starts,
    named_topics,
    present,
    shared,
    tasks,
)
from kcli.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

ON_DISK = "disk offsets"
"""A key beside the topics in the offsets of a micro-batch: the offsets that are read from the disk. No topic has this
name, as it has a space."""
Spans = Mapping[TopicPartition, Span]


class FetchPartition(InputPartition):
    """The input of one Spark task: a range of offsets of one partition."""

    def __init__(self, fetch_range: FetchRange) -> None:
        super().__init__(None)
        self.fetch_range = fetch_range


class LiveStreamReader(OffsetsReader[UUID]):
    """Spark's reader of one streaming query on live brokers. Each task has a copy for `read`, without connections.

    Raises UsageError for ending offsets.
    """

    def __init__(self, options: SourceOptions, columns: Sequence[str], cluster: Cluster) -> None:
        super().__init__(options, columns)
        self._cluster = cluster
        self._reader: LogReader | None = None
        self._committed = options.isolation is Isolation.READ_COMMITTED
        self._disk = KafkaLogStreamReader(options, columns) if options.paths else None
        self._is_same = False  # whether the topics on the disk were compared with those of the brokers
        self._on_disk: Spans = {}  # the offsets that a new query reads from the disk

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_reader": None}

    def stop(self) -> None:
        """Close the connections at the end of the query."""
        if self._reader is not None:
            self._reader.__exit__()
            self._reader = None

    def _asked(self) -> LogReader:
        if self._reader is None:
            self._reader = self._cluster.reader(named_topics(self._options))
        return self._reader

    def _found(self, known: Collection[TopicPartition] | None = None) -> Partitions:
        is_patient = self._reader is not None
        return present(self._asked(), self._options, self._cluster, known, is_patient=is_patient)

    def _now(self, found: Mapping[TopicPartition, UUID]) -> Offsets:
        return ends(self._asked(), found, committed=self._committed)

    def _topic_ids(self, found: Mapping[TopicPartition, UUID]) -> dict[str, str]:
        return {each.topic: from_uuid(topic_id) for each, topic_id in found.items()}

    def _log_starts(self, found: Mapping[TopicPartition, UUID]) -> Offsets:
        return log_starts(self._asked(), found)

    def _begins(self, found: Mapping[TopicPartition, UUID], latest: Offsets) -> dict[TopicPartition, tuple[int, bool]]:
        begin, reader = self._options.start, self._asked()
        logs = {} if self._disk is None else disk_logs(self._options, found, reader.described().cluster_id)
        self._is_same = True
        firsts = log_starts(reader, logs)
        begins: dict[TopicPartition, tuple[int, bool]] = {}
        on_disk: dict[TopicPartition, Span] = {}
        for each, (start, _) in bounds(reader, self._options, found, logs).items():
            end = latest.get(each, 0)
            if begin.time_of(each) is None and begin.offset_of(each) == LATEST:
                begins[each] = end, False
                continue
            begins[each] = start, begin.time_of(each) is None
            if each in logs:
                fails = self._options.fail_on_data_loss
                part, _ = shared(each, Span(start, end), logs[each].part, firsts.get(each, start), fails=fails)
                if part.start < part.end:
                    on_disk[each] = part
        self._on_disk = on_disk
        return begins

    # methods that Spark calls for offsets; these include the offsets on the disk

    @steady
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 (Spark's name)
        """Return what OffsetsReader returns. Raises UsageError, DataLoss, NobodyAnswers, ErrorAnswer,
        UnreadableInput."""
        return _joined(super().initialOffset(), self._on_disk)

    @steady
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 (Spark's name)
        """Return what OffsetsReader returns. Raises UsageError, DataLoss, NobodyAnswers, ErrorAnswer."""
        plain, on_disk = parted(start)
        end, begin = super().latestOffset(plain, limit), from_json(plain)
        if end == plain:
            return start
        renewed = made_anew(ids_in(plain), ids_in(end))
        left = (key for key in on_disk if key.topic not in renewed and begin[key] < on_disk[key].end)
        return _joined(end, {key: on_disk[key] for key in left})

    @steady
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Return the tasks of the batch from offsets `start` to `end`. Raises UsageError, DataLoss, NobodyAnswers,
        ErrorAnswer, UnreadableInput.

        A batch that runs again has the same tasks, in the same order, because a sink knows by its number which task has
        written already: a task whose offsets are gone stays, and reads nothing.
        """
        if start == end:
            return []
        plain, on_disk = parted(end)
        found = self._found()
        unread = [*self._unread(parted(start)[0], plain, found)]
        firsts = log_starts(self._asked(), [key for key, _, _ in unread])
        parts: dict[TopicPartition, Span] = {}
        ranges: list[FetchRange] = []
        for key, at, to in unread:
            whole, disk = Span(at, to), on_disk.get(key, NOTHING)
            if key not in firsts:
                self._lost(f"{key} is not there any more")
            else:
                shared(key, whole, disk, firsts[key], fails=self._options.fail_on_data_loss)
            parts[key], spans = shared(key, whole, disk, at, fails=False)
            ranges += (FetchRange(key, found[key], *span) for span in spans)
        of_disk = self._of_disk({key: part for key, part in parts.items() if part.start < part.end}, found)
        there = (each.from_offset(firsts.get(each.partition, each.end)) for each in tasks(ranges, self._options))
        return [*of_disk, *map(FetchPartition, there)]

    def _of_disk(self, parts: Spans, found: Partitions) -> list[InputPartition]:
        if not parts:
            return []
        if self._disk is None:
            raise UsageError(
                f"the checkpoint reads {min(parts)} from a disk up to {parts[min(parts)].end:,}: give bootstrapFrom"
            )
        if not self._is_same:
            replicas(self._options, found, self._asked().described().cluster_id)
            self._is_same = True
        starts, stops = ({key: part[i] for key, part in parts.items()} for i in (0, 1))
        return self._disk.partitions(as_json(starts), as_json(stops))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of one task as Arrow record batches."""
        if isinstance(partition, FetchPartition):
            yield from read(partition.fetch_range, self._columns, self._options, self._cluster)
        elif self._disk is not None:
            yield from self._disk.read(partition)


def _joined(plain: dict[str, dict[str, int]], on_disk: Spans) -> dict[str, Any]:
    """Return the offsets of a micro-batch for the checkpoint: `plain`, and the offsets that are read from the disk, if
    there are any."""
    if not on_disk:
        return plain
    spans: dict[str, dict[str, list[int]]] = {}
    for topic, number in sorted(on_disk):
        spans.setdefault(topic, {})[str(number)] = [*on_disk[TopicPartition(topic, number)]]
    return {**plain, ON_DISK: spans}


def parted(offsets: dict[str, Any]) -> tuple[dict[str, Any], Spans]:
    """Return the offsets in a checkpoint without those that are read from the disk, and the latter. Raises
    UsageError."""
    if ON_DISK not in offsets:
        return offsets, {}
    plain = {name: each for name, each in offsets.items() if name != ON_DISK}
    try:
        spans = {
            TopicPartition(topic, int(number)): Span(int(start), int(end))
            for topic, each in offsets[ON_DISK].items()
            for number, (start, end) in each.items()
        }
    except (AttributeError, ValueError, TypeError):
        raise UsageError(f"the checkpoint is not of a kafka-log stream: {json.dumps(offsets)[:200]}") from None
    return plain, spans
