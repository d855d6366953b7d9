"""The source of the query: the topics of all tasks, one Spark partition for each task that has new records.

offset      that of kafka-log, and beside it the ends of the last micro-batches, for topics that are read later
            than others (stages.py): "earlier ends": [{"orders": {"0": 23}}, ...], the latest first
rows        those of each topic by offset; before and behind them a row with isControl and only topic, partition
            and offset: where the range begins and ends
end         the last stable offset; a micro-batch waits until the transactions of the one before are complete
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadLimit

from kcli.export.columns import COLUMNS
from kcli.export.live import steady
from kcli.export.options import EARLIEST, Bound, Isolation, SourceOptions
from kcli.export.stream import TOPIC_IDS
from kcli.pipelines.cluster import Cluster
from kcli.pipelines.fetching import read
from kcli.pipelines.planning import FetchRange, Offsets, ends
from kcli.pipelines.stream import FetchPartition, LiveStreamReader
from kcli.protocol.topic_partition import TopicPartition
from kcli.streams.spark.stages import Feed

if TYPE_CHECKING:
    import pyarrow as pa

EARLIER_ENDS = "earlier ends"
"""A key beside the topics in the offsets of a micro-batch. No topic has this name, as it has a space."""
ROW_COLUMNS = ("topic", "partition", "offset", "timestampMs", "key", "value", "headers", "isControl")
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
    """Spark's reader of the topics of all tasks."""

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
        """Yield the rows of a task."""
        assert isinstance(partition, TaskPartition)
        for each in partition.ranges:
            yield mark(each.partition, each.start)
            yield from read(each, self._columns, self._options, self._cluster)
            yield mark(each.partition, each.end)

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


def mark(place: TopicPartition, offset: int) -> pa.RecordBatch:
    """Return the row that says where a range begins or ends."""
    import pyarrow as pa

    schema = pa.schema([(name, COLUMNS[name].arrow) for name in ROW_COLUMNS])
    row = {"topic": place.topic, "partition": place.partition, "offset": offset, "timestampMs": -1, "isControl": True}
    return pa.RecordBatch.from_pylist([row], schema)
