"""The stream reader of a live source: offsets as in the streams of files (kcli.export.stream), asked of the brokers.

    end         the high watermark, or with read_committed the last stable offset
    found       partitions and topics that come later are found at each batch, and are read from offset 0
    data loss   a topic or partition that was deleted, offsets that retention removed, a log that ends below what was
                read: an error; with failOnDataLoss=false a warning, and the stream reads on with what there is
    brokers     after the first answer a broker that does not answer is asked again, for kafka.request.timeout.ms

Source: KafkaMicroBatchStream.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

from pyspark.sql.datasource import InputPartition

from kcli.client.log_reading import LogReader
from kcli.export.options import LATEST, Isolation, SourceOptions
from kcli.export.stream import Offsets, OffsetsReader, from_json
from kcli.pipelines.cluster import Cluster
from kcli.pipelines.fetching import read
from kcli.pipelines.planning import FetchRange, Partitions, bounds, ends, log_starts, named_topics, present, tasks
from kcli.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa


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

    def _log_starts(self, found: Mapping[TopicPartition, UUID]) -> Offsets:
        return log_starts(self._asked(), found)

    def _begins(self, found: Mapping[TopicPartition, UUID], latest: Offsets) -> dict[TopicPartition, tuple[int, bool]]:
        begin = self._options.start
        bounded = bounds(self._asked(), self._options, found)
        return {
            each: (latest.get(each, 0), False)
            if begin.time_of(each) is None and begin.offset_of(each) == LATEST
            else (start, begin.time_of(each) is None)
            for each, (start, _) in bounded.items()
        }

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Return the tasks of the batch from offsets `start` to `end`. Raises UsageError, DataLoss, NobodyAnswers,
        ErrorAnswer."""
        if start == end:
            return []
        begin, until = from_json(start), from_json(end)
        wanted = {key: to for key, to in sorted(until.items()) if begin.get(key, -1) < to}
        found = self._found()
        firsts = log_starts(self._asked(), found.keys() & wanted.keys())
        ranges: list[FetchRange] = []
        for key, to in wanted.items():
            if key not in firsts:
                self._lost(f"{key} is not there any more")
                continue
            at, first = begin.get(key, 0), firsts[key]
            if first > at:
                self._lost(f"{key}: offset {at:,} is gone, the log starts at {first:,}")
            if max(at, first) < to:
                ranges.append(FetchRange(key, found[key], max(at, first), to))
        return [FetchPartition(each) for each in tasks(ranges, self._options)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of one task as Arrow record batches."""
        if isinstance(partition, FetchPartition):
            yield from read(partition.fetch_range, self._columns, self._options, self._cluster)
