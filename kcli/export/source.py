"""The Spark data source `kafka-log`: spark.read.format("kafka-log").load("dir"), and readStream likewise.

Options are those of `kcli.export.options`, columns those of `kcli.export.columns`. Spark calls the planning part in a
Python process of its own beside the driver, and `read` in its workers; nothing is shared but what is pickled.
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
"""What opening a segment costs, in bytes that could be read meanwhile."""


class KafkaLogDataSource(DataSource):
    """A Kafka log on disk as a table. Raises UsageError, UnreadableInput, CorruptLog, DataLoss."""

    @classmethod
    def name(cls) -> str:
        """What `format` calls it."""
        return NAME

    def schema(self) -> StructType:
        """The columns that the options ask for."""
        return spark_schema(SourceOptions.parse(dict(self.options)).columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        """A batch reader of the columns in `schema`, which the caller may have narrowed."""
        options = SourceOptions.parse(dict(self.options))
        kind = FilteringReader if options.push_filters else KafkaLogReader
        return kind(options, columns_of(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """A reader of what comes."""
        return KafkaLogStreamReader(SourceOptions.parse(dict(self.options), stream=True), columns_of(schema))


class SplitsPartition(InputPartition):
    """Splits on their way to a task: one large one, or small ones in a row."""

    def __init__(self, splits: list[Split]) -> None:
        super().__init__(None)
        self.splits = splits


def tasks(splits: list[Split], options: SourceOptions) -> list[InputPartition]:
    """The splits as tasks. Small ones share one: it costs more than reading them."""
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
    """Reads what is there when the query is planned."""

    def __init__(self, options: SourceOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns

    def partitions(self) -> list[InputPartition]:
        """The splits, as tasks."""
        return tasks(plan(self._options), self._options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of a task's splits."""
        for split in partition.splits if isinstance(partition, SplitsPartition) else ():  # Spark makes up an empty one
            yield from read(
                split,
                self._columns,
                on_corruption=self._options.on_corruption,
                include_control=self._options.include_control,
            )


class FilteringReader(KafkaLogReader):
    """The same with filters pushed down. Spark refuses a reader that has this method where
    spark.sql.python.filterPushdown.enabled is false, as it is by default: hence option pushFilters."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        """Take what helps to read less; give back what Spark has to apply itself."""
        narrowed, left = narrow(filters, self._options.narrowed)
        self._options = replace(self._options, narrowed=narrowed)
        return left


def columns_of(schema: StructType) -> tuple[str, ...]:
    """The columns of a schema that was given with .schema(...). Raises UsageError where it does not fit."""
    names = tuple(field.name for field in schema.fields)
    for name, given in zip(names, schema.fields, strict=True):
        if name not in COLUMNS:
            raise UsageError(f"there is no column {name!r}; there are {', '.join(COLUMNS)}")
        ours = spark_schema([name]).fields[0].dataType
        if given.dataType != ours:
            raise UsageError(f"column {name} is {ours.simpleString()}, not {given.dataType.simpleString()}")
    return names
