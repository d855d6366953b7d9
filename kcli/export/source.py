"""The Spark data source `kafka-log`: spark.read.format("kafka-log").load("dir"), and readStream likewise.

Options are those of `kcli.export.options`, columns those of `kcli.export.columns`. Spark calls the planning part in a
Python process of its own beside the driver, and `read` in its workers; nothing is shared but what is pickled.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from kcli.errors import UsageError
from kcli.export.columns import COLUMNS, spark_schema
from kcli.export.options import SourceOptions
from kcli.export.reading import read
from kcli.export.splits import Split, plan
from kcli.export.stream import KafkaLogStreamReader

if TYPE_CHECKING:
    import pyarrow as pa

NAME = "kafka-log"


class KafkaLogDataSource(DataSource):
    """A Kafka log on disk as a table. Raises UsageError, UnreadableInput, CorruptLog."""

    @classmethod
    def name(cls) -> str:
        """What `format` calls it."""
        return NAME

    def schema(self) -> StructType:
        """The columns that the options ask for."""
        return spark_schema(SourceOptions.parse(dict(self.options)).columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        """A batch reader of the columns in `schema`, which the caller may have narrowed."""
        return KafkaLogReader(SourceOptions.parse(dict(self.options)), columns_of(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 (Spark's name)
        """A stream reader of the same."""
        return KafkaLogStreamReader(SourceOptions.parse(dict(self.options), stream=True), columns_of(schema))


class SplitPartition(InputPartition):
    """A split on its way to a task."""

    def __init__(self, split: Split) -> None:
        super().__init__(None)
        self.split = split


class KafkaLogReader(DataSourceReader):
    """Reads what is there when the query is planned."""

    def __init__(self, options: SourceOptions, columns: Sequence[str]) -> None:
        self._options = options
        self._columns = tuple(columns)

    def partitions(self) -> list[InputPartition]:
        """One for each split."""
        return [SplitPartition(split) for split in plan(self._options)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of one split."""
        return read_partition(partition, self._options, self._columns)


def read_partition(partition: InputPartition, options: SourceOptions, columns: Sequence[str]) -> Iterator[Any]:
    """The records of a split; Spark makes up a partition without one where there are none."""
    if isinstance(partition, SplitPartition):
        yield from read(
            partition.split,
            columns,
            on_corruption=options.on_corruption,
            include_control=options.include_control,
        )


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
