"""The Spark data source `kafka-log`: spark.read.format("kafka-log").load("dir"), and the same with readStream.

Options are those of `kcli.export.options`, columns those of `kcli.export.columns`. Spark plans a query in a Python
process beside the driver and calls `read` in its workers; readers and partitions are pickled from one to the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, Filter, InputPartition
from pyspark.sql.types import StructType

from kcli.errors import UsageError
from kcli.export.columns import COLUMNS, spark_schema
from kcli.export.filters import narrow
from kcli.export.options import SourceOptions
from kcli.export.reading import read
from kcli.export.splits import SPLIT_BYTES, Split, plan
from kcli.export.stream import KafkaLogStreamReader

if TYPE_CHECKING:
    import pyarrow as pa

NAME = "kafka-log"
OPEN_BYTES = 1 << 20
"""The cost of opening a segment, as the number of bytes that are read in the same time."""


class KafkaLogDataSource(DataSource):
    """The records of Kafka logs on disk as a Spark table, for batch and streaming queries.

    Queries raise UsageError for an unknown option or column and for an invalid value, UnreadableInput for a path that
    cannot be read, CorruptLog for a damaged segment with onCorruption=fail, and DataLoss with failOnDataLoss=true for
    offsets that were deleted or truncated before they were read.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name for spark.read.format: "kafka-log"."""
        return NAME

    def schema(self) -> StructType:
        """Return the Spark schema of the columns that the options select. Raises UsageError."""
        return spark_schema(SourceOptions.parse(dict(self.options)).columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader for a batch query of the columns in `schema`, which can be fewer than those of `schema()`.

        Raises UsageError.
        """
        options = SourceOptions.parse(dict(self.options))
        kind = FilteringReader if options.push_filters else KafkaLogReader
        return kind(options, columns_of(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 (Spark's name)
        """Return a reader for a streaming query, which also reads records that are appended while it runs.

        Raises UsageError.
        """
        return KafkaLogStreamReader(SourceOptions.parse(dict(self.options), stream=True), columns_of(schema))


class SplitsPartition(InputPartition):
    """The input of one Spark task: one large split, or several consecutive small ones."""

    def __init__(self, splits: list[Split]) -> None:
        super().__init__(None)
        self.splits = splits


def tasks(splits: list[Split], options: SourceOptions) -> list[InputPartition]:
    """Return the splits grouped into tasks of about 64 MB, because a task costs more than reading a small split.

    With minPartitions or maxRecordsPerPartition each split is a task.
    """
    if options.min_partitions is not None or options.max_records_per_partition is not None:
        return [SplitsPartition([split]) for split in splits]
    found: list[list[Split]] = []
    room = 0
    for split in splits:
        if room < split.size + OPEN_BYTES:
            found.append([])
            room = SPLIT_BYTES
        found[-1].append(split)
        room -= split.size + OPEN_BYTES
    return [SplitsPartition(each) for each in found]


class KafkaLogReader(DataSourceReader):
    """Reads the records that exist when a batch query is planned."""

    def __init__(self, options: SourceOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns

    def partitions(self) -> list[InputPartition]:
        """Return the tasks of the query. Raises UnreadableInput, UsageError, DataLoss."""
        return tasks(plan(self._options), self._options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of a task's splits. Raises UnreadableInput, CorruptLog, DataLoss."""
        # Spark may pass an InputPartition of its own, which has no splits.
        for split in partition.splits if isinstance(partition, SplitsPartition) else ():
            yield from read(
                split,
                self._columns,
                on_corruption=self._options.on_corruption,
                include_control=self._options.include_control,
            )


class FilteringReader(KafkaLogReader):
    """A KafkaLogReader to which Spark passes the filters of a query, with the option pushFilters.

    It is a class of its own because Spark refuses a reader with the method pushFilters if
    spark.sql.python.filterPushdown.enabled is false, which is the default.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 (Spark's name)
        """Narrow the topics, partitions, offsets and timestamps to read to those that the filters select. Return the
        filters that Spark still has to apply to the records read."""
        narrowed, left = narrow(filters, self._options.narrowed)
        self._options = replace(self._options, narrowed=narrowed)
        return left


def columns_of(schema: StructType) -> tuple[str, ...]:
    """Return the column names of a Spark schema. Raises UsageError for an unknown column, or one of another type."""
    names = tuple(field.name for field in schema.fields)
    for name, given in zip(names, schema.fields, strict=True):
        if name not in COLUMNS:
            raise UsageError(f"there is no column {name!r}; there are {', '.join(COLUMNS)}")
        ours = spark_schema([name]).fields[0].dataType
        if given.dataType != ours:
            raise UsageError(f"column {name} is {ours.simpleString()}, not {given.dataType.simpleString()}")
    return names
