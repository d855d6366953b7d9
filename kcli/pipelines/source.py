"""The Spark data source `kafka-log`: files, which kcli.export.source reads, and live brokers.

    .load("dir"), option tier                  kcli.export: a broker's disk, a backup, tiered storage
    option kafka.bootstrap.servers, no path    the brokers themselves, in batch and streaming queries
    the same, and option bootstrapFrom         first a disk, then the brokers

With a path, kafka.bootstrap.servers has no effect: a job that used Spark's Kafka source reads a disk as soon as it has
the option path.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    Filter,
    InputPartition,
)
from pyspark.sql.types import StructType

from kcli.errors import UsageError
from kcli.export.columns import spark_schema
from kcli.export.filters import narrow
from kcli.export.options import OnCorruption, SourceOptions
from kcli.export.source import KafkaLogDataSource, KafkaLogReader, columns_of
from kcli.export.source import tasks as split_tasks
from kcli.pipelines.cluster import BOOTSTRAP, Cluster
from kcli.pipelines.fetching import read
from kcli.pipelines.planning import plan
from kcli.pipelines.sink import BatchSink, SinkOptions, StreamSink
from kcli.pipelines.stream import FetchPartition, LiveStreamReader

if TYPE_CHECKING:
    import pyarrow as pa

OF_FILES = ("path", "paths", "tier")
"""The options with which files are read."""
BOOTSTRAP_FROM = "bootstrapfrom"
RETRIES = ("fetchOffset.numRetries", "fetchOffset.retryIntervalMs")
"""The options of Spark's Kafka source for failed requests."""


class KafkaDataSource(KafkaLogDataSource):
    """The records of Kafka logs, on disk or of live brokers, as a Spark table, for batch and streaming queries.

    Queries raise what those of KafkaLogDataSource raise; on live brokers NobodyAnswers if no broker answers,
    ErrorAnswer if one answers with an error, CorruptBatch for a damaged batch with onCorruption=fail, and DataLoss with
    failOnDataLoss=true for offsets and partitions that were deleted before they were read.
    """

    def schema(self) -> StructType:
        """Return the Spark schema of the columns that the options select. Raises UsageError."""
        live = live_options(dict(self.options))
        return super().schema() if live is None else spark_schema(live[0].columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader for a batch query of the columns in `schema`, which can be fewer than those of `schema()`.

        Raises UsageError.
        """
        live = live_options(dict(self.options))
        if live is None:
            return super().reader(schema)
        kind = FilteringLiveReader if live[0].push_filters else LiveReader
        return kind(live[0], columns_of(schema), live[1])

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 (Spark's name)
        """Return a reader for a streaming query, which also reads records that are appended while it runs.

        Raises UsageError.
        """
        live = live_options(dict(self.options), stream=True)
        if live is None:
            return super().streamReader(schema)
        return LiveStreamReader(live[0], columns_of(schema), live[1])

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return a writer of the rows of a batch query into topics. Raises UsageError."""
        if overwrite:
            raise UsageError("a topic cannot be overwritten: use mode append")
        return BatchSink(SinkOptions.parse(dict(self.options), stream=False), schema)

    def streamWriter(  # noqa: N802 (Spark's name)
        self,
        schema: StructType,
        overwrite: bool,  # noqa: ARG002 (a topic only grows)
    ) -> DataSourceStreamWriter:
        """Return a writer of the rows of a streaming query into topics. overwrite: whether the output mode is complete,
        in which each micro-batch writes all rows. Raises UsageError."""
        return StreamSink(SinkOptions.parse(dict(self.options), stream=True), schema)


class LiveReader(DataSourceReader):
    """Reads the records that the brokers have when a batch query is planned."""

    def __init__(self, options: SourceOptions, columns: tuple[str, ...], cluster: Cluster) -> None:
        self._options = options
        self._columns = columns
        self._cluster = cluster

    def partitions(self) -> list[InputPartition]:
        """Return the tasks of the query. Raises UsageError, DataLoss, NobodyAnswers, ErrorAnswer, UnreadableInput."""
        on_disk, ranges = plan(self._options, self._cluster)
        return [*split_tasks(on_disk, self._options), *map(FetchPartition, ranges)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of a task. Raises CorruptBatch, DataLoss, NobodyAnswers, ErrorAnswer, UnreadableInput,
        CorruptLog."""
        if isinstance(partition, FetchPartition):
            yield from read(partition.fetch_range, self._columns, self._options, self._cluster)
        else:
            yield from KafkaLogReader(self._options, self._columns).read(partition)


class FilteringLiveReader(LiveReader):
    """A LiveReader to which Spark passes the filters of a query, with the option pushFilters. It is a separate class
    for the reason that kcli.export.source.FilteringReader has."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 (Spark's name)
        """Narrow the topics, partitions, offsets and timestamps to read to those that the filters select. Return the
        filters that Spark still has to apply to the records read."""
        narrowed, left = narrow(filters, self._options.narrowed)
        self._options = replace(self._options, narrowed=narrowed)
        return left


def live_options(options: dict[str, str], *, stream: bool = False) -> tuple[SourceOptions, Cluster] | None:
    """Return the options of a query on live brokers, None for a query on files. options: Spark's strings by name.
    Raises UsageError."""
    given = {name.lower(): text for name, text in options.items()}
    disk = given.pop(BOOTSTRAP_FROM, None)
    if disk is not None and (BOOTSTRAP not in given or not disk or given.get("path") or given.get("paths")):
        raise UsageError(
            "bootstrapFrom, the path of a log directory, goes with kafka.bootstrap.servers, and no other path"
        )
    if BOOTSTRAP not in given or (disk is None and any(given.get(name) for name in OF_FILES)):
        return None
    cluster, others = Cluster.parse(given)
    for name in RETRIES:
        if name.lower() in others:
            raise UsageError(f"{name}: kafka.request.timeout.ms says how long a failed request is repeated")
    if "beyondhighwatermark" in others:
        raise UsageError("beyondHighWatermark: brokers show no consumer what is beyond")
    parsed = SourceOptions.parse(others | ({} if disk is None else {"path": disk}), stream=stream, live=True)
    if parsed.on_corruption is OnCorruption.REPORT and disk is None:
        raise UsageError("onCorruption=report: a damage table has places in files: give fail or skip")
    return parsed, cluster
