"""A pipe into a topic: one streaming query, from a topic, a log directory or a table.

    source   the stream readers of `kafka-log`, or rows.py; offsets are in the query's checkpoint
    sink     that of `kafka-log`: each task of a micro-batch in a transaction, which commits the micro-batch's number

A pipe that was killed repeats the micro-batch in which it was killed; tasks whose rows are in the topic already do not
write them again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from pyspark.sql.datasource import DataSource
from pyspark.sql.streaming.datasource import ReadAllAvailable

from kcli.errors import KcliError, UsageError
from kcli.export.session import QUICK_START, SparkSettings, interruptible, spark_session, stopped_by_interrupt
from kcli.export.stream import from_json
from kcli.pipelines.cluster import Cluster
from kcli.pipelines.pipe.ends import End, LogEnd, TopicEnd
from kcli.pipelines.pipe.plan import Checkpoint, Part, PipeProgress, Plan, identity
from kcli.pipelines.sink import SinkOptions
from kcli.pipelines.source import KafkaDataSource
from kcli.pipelines.stream import parted

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

POLL_S = 1
PROGRESS_KEPT = {"spark.sql.streaming.numRecentProgressUpdates": "1000"}


class Told(NamedTuple):
    """What names a progress report of Spark."""

    batch: int
    time: str


class Origin(Protocol):
    """The source of a pipe's rows. The rows have the column value, and may have key, headers and partition."""

    @property
    def end(self) -> End:
        """The end of the pipe from which rows are read."""
        ...

    @property
    def name(self) -> str:
        """The name of Spark's data source."""
        ...

    @property
    def unit(self) -> str:
        """What the numbers of unread rows or offsets count, for messages."""
        ...

    def identity(self) -> str:
        """Return a text that identifies the end (see kcli.pipelines.pipe.plan.identity)."""
        ...

    def source(self) -> DataSource:
        """Return the data source. Unless Spark knows its name, the caller registers its class with Spark."""
        ...

    @property
    def options(self) -> Mapping[str, str]:
        """The options with which Spark opens the data source."""
        ...

    def parts(self, start: dict[str, Any], end: dict[str, Any]) -> tuple[Part, ...]:
        """Return what there is to read between two offsets of a checkpoint."""
        ...


@dataclass(frozen=True, slots=True)
class LogOrigin:
    """The origin of a pipe that reads a topic, of a cluster or in a log directory. more: further options of
    `kafka-log`."""

    end: TopicEnd | LogEnd
    more: Mapping[str, str]
    name: str = "kafka-log"
    unit: str = "offset"

    @property
    def options(self) -> Mapping[str, str]:
        """The options of `kafka-log`."""
        given = self.end.options if isinstance(self.end, TopicEnd) else {"path": self.end.directory}
        what = {"subscribe": self.end.topic, "startingOffsets": "earliest", "includeHeaders": "true"}
        return {**given, **what, **self.more}

    def identity(self) -> str:
        """Return a text with the topic and its id, or with the path of the log directory. Raises as
        kcli.pipelines.pipe.plan.identity."""
        return identity(self.end)

    def source(self) -> DataSource:
        """Return `kafka-log`."""
        return KafkaDataSource({name.lower(): value for name, value in self.options.items()})

    def parts(self, start: dict[str, Any], end: dict[str, Any]) -> tuple[Part, ...]:
        """Return a part for each partition."""
        begin = from_json(parted(start)[0])
        return tuple(
            Part(str(each), begin.get(each, 0), to, max(0, to - begin.get(each, 0)))
            for each, to in sorted(from_json(parted(end)[0]).items())
        )


class TopicPipe:
    """A pipe into a topic. directory: the checkpoint's. keeps_partitions: whether each record keeps its partition
    number; otherwise the key decides. compression: the codec of the batches. Raises UsageError, UnreadableInput,
    NobodyAnswers, ErrorAnswer.

    A pipe that keeps partitions is refused as long as the target has fewer of them than the source: then no record of
    a micro-batch is written before all of them have a partition. A source that gets more while the pipe runs ends it;
    tasks that have written their part of that micro-batch do not write it again."""

    interval_s = 1.0

    def __init__(
        self,
        origin: Origin,
        target: TopicEnd,
        directory: Path,
        *,
        keeps_partitions: bool = False,
        compression: str = "none",
    ) -> None:
        self._origin = origin
        self._target = target
        self._directory = directory
        self._keeps_partitions = keeps_partitions
        self._written = {**target.options, "topic": target.topic, "kafka.compression.type": compression}
        SinkOptions.parse(self._written, stream=True)  # invalid options are reported before Spark starts
        ends = {"source": origin.identity(), "target": identity(target)}
        if ends["source"] == ends["target"]:
            raise UsageError(f"{origin.end} and {target} are one topic")
        self._checkpoint = Checkpoint(directory, ends)

    def plan(self) -> Plan:
        """Return what the pipe would read. Raises UsageError, DataLoss, UnreadableInput, NobodyAnswers, ErrorAnswer."""
        start, end = self._unread()
        if self._keeps_partitions and (missing := self._missing_partitions(end)) is not None:
            raise UsageError(missing)
        parts = self._origin.parts(start, end)
        return Plan(
            str(self._origin.end), str(self._target), self._directory, self._checkpoint.is_new, parts, self._origin.unit
        )

    def _unread(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the offsets at which the next micro-batch begins, and those of the source's end."""
        source = self._origin.source()
        schema = source.schema()
        assert not isinstance(schema, str), "our sources have schemas of Spark's types"
        reader: Any = source.streamReader(schema)
        try:
            known = self._checkpoint.offsets()
            start = reader.initialOffset() if known is None else known
            end = reader.latestOffset(start, ReadAllAvailable())
            reader.partitions(start, end)  # data loss is told before Spark starts
        finally:
            reader.stop()
        return start, end

    def _missing_partitions(self, end: dict[str, Any]) -> str | None:
        """Return what is wrong if the source, with these end offsets, has partitions whose numbers the target lacks."""
        last = max((each.partition for each in from_json(parted(end)[0])), default=-1)
        target = self._target
        with Cluster.parse(target.options)[0].reader({target.topic}) as reader:
            count = sum(each.topic == target.topic for each in reader.describe().leaders)
        if last < count:
            return None
        return (
            f"--keep-partitions: {self._origin.end} has partitions up to {last}, {target} only up to {count - 1}: "
            f"kcli topics alter {target.topic} --partitions {last + 1} --bootstrap-server {target.bootstrap}, and then "
            "the same command"
        )

    def run(
        self, settings: SparkSettings, watch: Callable[[PipeProgress], None], follow_s: float | None
    ) -> PipeProgress:
        """Copy all rows, and return the progress. follow_s: None to end then; otherwise the interval (s) at which to
        look for new rows, until Ctrl-C. Raises SparkFailed, UsageError, Busy, UnreadableInput,
        KeyboardInterrupt."""
        if self._checkpoint.is_new:
            self._checkpoint.make()
        quick = QUICK_START if settings.is_local else {}
        settings = replace(settings, conf={**PROGRESS_KEPT, **quick, **settings.conf})
        with self._checkpoint.locked(), spark_session(settings) as spark, interruptible(spark.sparkContext):
            source = self._origin.source()
            if not isinstance(source, KafkaDataSource):
                spark.dataSource.register(type(source))
            rows = spark.readStream.format(self._origin.name).options(**self._origin.options).load()
            wanted = ("key", "value", "headers", *(("partition",) if self._keeps_partitions else ()))
            writer = rows.select(*(name for name in wanted if name in rows.columns)).writeStream.format("kafka-log")
            writer = writer.options(**self._written, checkpointLocation=str(self._checkpoint.spark))
            if follow_s is None:
                writer = writer.trigger(availableNow=True)
            else:
                writer = writer.trigger(processingTime=f"{int(follow_s * 1000)} milliseconds")
            query = writer.start()
            with stopped_by_interrupt(query.stop):  # stopping Spark does not end a query that waits
                try:
                    return _watched(query, self._origin, watch)
                except Exception:
                    self._refuse_grown_source()
                    raise

    def _refuse_grown_source(self) -> None:
        """After a failure of the query raise UsageError if the source has partitions by now that the target lacks."""
        if not self._keeps_partitions:
            return
        try:
            missing = self._missing_partitions(self._unread()[1])
        except KcliError:  # the failure of the query is the one to be told
            return
        if missing is not None:
            raise UsageError(missing)


def _watched(query: StreamingQuery, origin: Origin, watch: Callable[[PipeProgress], None]) -> PipeProgress:
    """Wait until a query ends, and return its progress. watch: called with the progress after each micro-batch."""
    done = PipeProgress(0, 0, 0.0, 0)
    read_to: Told | None = None
    is_over = False
    while not is_over:
        is_over = bool(query.awaitTermination(POLL_S))
        new, read_to = _told_after(read_to, query)
        for told in new:
            end, latest = (_offset(told["sources"][0].get(name)) for name in ("endOffset", "latestOffset"))
            lag = None  # of a micro-batch that an earlier run has planned
            if end is not None and latest is not None:
                lag = sum(part.unread for part in origin.parts(end, latest))
            rate = told.get("processedRowsPerSecond") or 0.0
            done = PipeProgress(done.batches + 1, done.records + told["numInputRows"], rate, lag)
            watch(done)
    return done


def _told_after(read_to: Told | None, query: StreamingQuery) -> tuple[list[dict[str, Any]], Told | None]:
    """Return what Spark tells of the micro-batches with rows after `read_to`, the first one first, and to where this
    reads. `query.recentProgress` would make Python objects of all that Spark keeps, each time."""
    kept: Any = query._jsq.recentProgress()  # noqa: SLF001 (there is no other way to what is new)
    newest, new = read_to, []
    for i in range(len(kept) - 1, -1, -1):
        each = Told(kept[i].batchId(), kept[i].timestamp())
        if each == read_to:
            break
        newest = each if newest is read_to else newest
        if kept[i].numInputRows():
            new.append(json.loads(kept[i].json()))
    return new[::-1], newest


def _offset(told: Any) -> dict[str, Any] | None:
    """Return an offset from the JSON of Spark's progress, where it is an object or a text with JSON; None if it is
    missing."""
    found = json.loads(told) if isinstance(told, str) else told
    return found if isinstance(found, dict) else None
