"""The source of the query: the topics of all tasks, one Spark partition for each task that has new records.

offset      that of kafka-log, and beside it the ends of the last micro-batches, for topics that are read later
            than others (stages.py): "earlier ends": [{"orders": {"0": 23}}, ...], the latest first
rows        ranges of offsets, one for each partition with new records. The task fetches the records itself: on the way
            through Spark's JVM they would be encoded and decoded three times more
end         the last stable offset; a micro-batch waits until the transactions of the one before are complete
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from uuid import UUID

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadLimit

from kcli.export.live import steady
from kcli.export.options import EARLIEST, Bound, Isolation, SourceOptions
from kcli.export.stream import TOPIC_IDS
from kcli.pipelines.cluster import Cluster
from kcli.pipelines.planning import FetchRange, Offsets, ends
from kcli.pipelines.stream import FetchPartition, LiveStreamReader
from kcli.protocol.topic_partition import TopicPartition
from kcli.streams.spark.stages import Feed

EARLIER_ENDS = "earlier ends"
"""A key beside the topics in the offsets of a micro-batch. No topic has this name, as it has a space."""
ROW_COLUMNS = ("offset", "timestampMs", "key", "value", "headers")
"""What a task reads of its records."""
RANGE_ROW = "topic string, partition int, topicId string, start bigint, end bigint"
"""A range of offsets as a row of Spark."""
RANGE_SCHEMA = pa.schema(
    {
        "topic": pa.string(),
        "partition": pa.int32(),
        "topicId": pa.string(),
        "start": pa.int64(),
        "end": pa.int64(),
    }
)
SETTLE_S = 1.0
"""How long a micro-batch waits for transactions that are open: those of an attempt that was killed may stay so."""
PAUSE_S = 0.01


class TaskPartition(InputPartition):
    """The input of one task: ranges of offsets of the partitions that have its number."""

    def __init__(self, ranges: tuple[FetchRange, ...]) -> None:
        super().__init__(None)
        self.ranges = ranges


def input_options(
    topics: Mapping[str, Feed], start: Mapping[TopicPartition, int], records_max: int | None
) -> SourceOptions:
    """Return the options of a reader. start: where partitions are read first, the others from their beginning."""
    return SourceOptions(
        paths=(),
        subscribe=frozenset(topics),
        start=Bound(EARLIEST, offsets=start),
        columns=ROW_COLUMNS,
        isolation=Isolation.READ_COMMITTED,
        max_offsets_per_trigger=records_max,
    )


class InputsReader(LiveStreamReader):
    """Spark's reader of the topics of all tasks. Where the first micro-batch begins is in the group's offsets."""

    keeps_first = False

    def __init__(self, options: SourceOptions, cluster: Cluster, topics: Mapping[str, Feed]) -> None:
        super().__init__(options, ROW_COLUMNS, cluster)
        self._feeds = topics
        self._late = {topic: feed.delay for topic, feed in topics.items() if feed.delay}
        self._most = max(self._late.values(), default=0)

    @steady
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 (Spark's name)
        """Return where a new query begins."""
        begin = super().initialOffset()
        return self._joined(begin, [self._of_late(begin)] * self._most)

    @steady
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 (Spark's name)
        """Return the ends of the micro-batch that begins at `start`."""
        plain, earlier = self._parted(start)
        self._settle()
        ahead = super().latestOffset(plain | (earlier[0] if earlier else {}), limit)
        end = {
            topic: earlier[self._late[topic] - 1].get(topic, {}) if topic in self._late else each
            for topic, each in ahead.items()
        }
        found = self._joined(end, [self._of_late(ahead), *earlier][: self._most])
        return start if found == start else found

    @steady
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Return the tasks of the micro-batch from `start` to `end`."""
        by_task: dict[tuple[int, int], list[FetchRange]] = {}
        for each in super().partitions(self._parted(start)[0], self._parted(end)[0]):
            assert isinstance(each, FetchPartition), "there is no disk"
            place = each.fetch_range.partition
            by_task.setdefault((self._feeds[place.topic].sub_topology, place.partition), []).append(each.fetch_range)
        return [TaskPartition(tuple(by_task[task])) for task in sorted(by_task)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the ranges of a task."""
        assert isinstance(partition, TaskPartition)
        yield rows_of(partition.ranges)

    def _settle(self) -> None:
        """Wait until the topics have no open transaction."""
        deadline = time.monotonic() + SETTLE_S
        while time.monotonic() < deadline and self._ends(committed=True) != self._ends(committed=False):
            time.sleep(PAUSE_S)

    def _ends(self, *, committed: bool) -> Offsets:
        return ends(self._asked(), self._found(known=None), committed=committed)

    def _of_late(self, offsets: Mapping[str, Any]) -> dict[str, Any]:
        return {topic: offsets[topic] for topic in self._late if topic in offsets}

    def _joined(self, plain: dict[str, Any], earlier: list[dict[str, Any]]) -> dict[str, Any]:
        return {**plain, EARLIER_ENDS: earlier} if earlier else plain

    def _parted(self, offsets: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """Return offsets without the earlier ends, and these. A program that has more stages than before begins with
        the offsets that it has."""
        plain = {topic: each for topic, each in offsets.items() if topic in self._feeds or topic == TOPIC_IDS}
        earlier = offsets.get(EARLIER_ENDS, [])
        return plain, [*earlier, *[self._of_late(plain)] * (self._most - len(earlier))][: self._most]


def rows_of(ranges: Iterable[FetchRange]) -> pa.RecordBatch:
    """Return ranges as rows of RANGE_SCHEMA."""
    rows = [(*each.partition, str(each.topic_id), each.start, each.end) for each in ranges]
    return pa.RecordBatch.from_arrays(
        [pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), RANGE_SCHEMA, strict=True)],
        schema=RANGE_SCHEMA,
    )


def ranges_in(rows: pa.RecordBatch) -> Iterator[FetchRange]:
    """Yield the ranges of such rows."""
    for topic, partition, topic_id, start, end in zip(*(each.to_pylist() for each in rows.columns), strict=True):
        yield FetchRange(TopicPartition(topic, partition), UUID(topic_id), start, end)
