"""Streams the rows of a table to Spark, for a pipe into a topic.

offset   {"version": 7}: the version of the table up to which rows were read (kcli.pipelines.tables.changes)
batch    the files that were added since; each is a task
rows     the columns key, value and headers, as they go into a record
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pt
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import BinaryType, DataType, StringType, StructField, StructType

from kcli.errors import UnreadableInput, UsageError
from kcli.export.columns import COLUMNS, spark_schema
from kcli.pipelines.pipe.ends import TableEnd
from kcli.pipelines.pipe.plan import Part
from kcli.pipelines.tables.changes import NO_VERSION, Changes, changes_of

NAME: Final = "kcli-table"
HEADERS: Final = "headers"
FIELD_ID: Final = b"PARQUET:field_id"
BATCH_ROWS: Final = 1 << 14


@dataclass(frozen=True, slots=True)
class TableOrigin:
    """The origin of a pipe that reads a table. catalog, table_name: those of an Iceberg table in a catalog."""

    end: TableEnd
    catalog: str | None = None
    table_name: str | None = None
    name: str = NAME
    unit: str = "row"

    @property
    def options(self) -> Mapping[str, str]:
        """The options of TableRows."""
        more = {"catalog": self.catalog, "tableName": self.table_name}
        given = {"kind": self.end.kind, "path": str(self.end.directory)}
        return given | {name: value for name, value in more.items() if value is not None}

    def identity(self) -> str:
        """Return a text with the table and its id. Raises as `changes_of`."""
        return f"{self.end}#{self._changes().id}"

    def source(self) -> DataSource:
        """Return the data source."""
        return TableRows({name.lower(): value for name, value in self.options.items()})

    def parts(self, start: dict[str, Any], end: dict[str, Any]) -> tuple[Part, ...]:
        """Return the rows between two offsets as one Part. Raises as `added`; UnreadableInput."""
        since, to = version_of(start), version_of(end)
        rows = sum(_opened(path).metadata.num_rows for path in self._changes().added(since, to))
        return (Part(str(self.end), None if since == NO_VERSION else since, to, rows),)

    def _changes(self) -> Changes:
        return changes_of(self.end.kind, self.end.directory, self.catalog, self.table_name)


class TableRows(DataSource):
    """Spark's data source for the rows of a table. Its options are kind, path, catalog and tableName."""

    @classmethod
    def name(cls) -> str:
        """Return the name for readStream.format."""
        return NAME

    def changes(self) -> Changes:
        """Return the table as it is now. Raises as `changes_of`."""
        given = {name.lower(): value for name, value in self.options.items()}
        return changes_of(given["kind"], Path(given["path"]), given.get("catalog"), given.get("tablename"))

    def schema(self) -> StructType:
        """Return the columns that become parts of records: key, value and headers. Raises UsageError for a table
        without the column value, and for columns of other types than bytes and text."""
        table = self.changes()
        names = table.columns.names
        if "value" not in names:
            raise UsageError(f"{table.name} has no column value; it has {', '.join(names)}")
        found = [StructField(name, _kind(table, name)) for name in ("key", "value") if name in names]
        return StructType([*found, *(spark_schema([HEADERS]).fields if HEADERS in names else ())])

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 (Spark's name)
        """Return the reader of a streaming query."""
        return RowsReader(self, schema)


def _kind(table: Changes, name: str) -> DataType:
    kind = table.columns.field(name).type
    if pt.is_string(kind) or pt.is_large_string(kind):
        return StringType()
    if pt.is_binary(kind) or pt.is_large_binary(kind):
        return BinaryType()
    raise UsageError(f"{table.name}: column {name} is {kind}: only bytes and text go into a topic")


class FilePartition(InputPartition):
    """The input of one Spark task: a file of the table. ids: the field ids of the table's columns, by name; empty if
    they have none."""

    def __init__(self, path: str, ids: Mapping[str, bytes]) -> None:
        super().__init__(None)
        self.path = path
        self.ids = ids


class RowsReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a table for one streaming query."""

    def __init__(self, source: TableRows, schema: StructType) -> None:
        self._source = source
        self._schema = pa.schema([pa.field(each.name, _arrow(each)) for each in schema.fields])
        self._target: int | None = None

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 (Spark's name)
        """Return the offset of a new query: the version before the table's first."""
        return {"version": NO_VERSION}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, int]:  # noqa: ARG002, N802 (Spark's)
        """Return the current version of the table as an offset. Raises as `changes_of`."""
        return {"version": self._source.changes().version if self._target is None else self._target}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 (Spark's name)
        """Return the limit of a micro-batch: none, it takes all new files."""
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 (Spark's name)
        """Make the current version the end of this run. Raises as `changes_of`."""
        self._target = self._source.changes().version

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Return the tasks of a micro-batch. Raises RowsChanged, KcliError, UsageError."""
        if start == end:
            return []
        table = self._source.changes()
        ids = {
            each.name: each.metadata[FIELD_ID]
            for each in table.columns
            if each.metadata is not None and FIELD_ID in each.metadata
        }
        return [FilePartition(path, ids) for path in table.added(version_of(start), version_of(end))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a file. Raises UnreadableInput."""
        if not isinstance(partition, FilePartition):
            return
        with _opened(partition.path) as file:
            names = _names(file.schema_arrow, self._schema.names, partition.ids)
            try:
                for batch in file.iter_batches(BATCH_ROWS, columns=[*names.values()]):
                    columns = [
                        batch.column(names[each.name]).cast(each.type)
                        if each.name in names
                        else pa.nulls(batch.num_rows, each.type)
                        for each in self._schema
                    ]
                    yield pa.RecordBatch.from_arrays(columns, schema=self._schema)
            except pa.ArrowException as error:
                raise UnreadableInput(partition.path, str(error).splitlines()[0]) from None


def _names(file: pa.Schema, wanted: Sequence[str], ids: Mapping[str, bytes]) -> dict[str, str]:
    """Return which of the wanted columns a file has, with their names in the file. Columns are matched by their field
    ids if both sides have ids, else by name."""
    by_id = {each.metadata[FIELD_ID]: each.name for each in file if FIELD_ID in (each.metadata or {})}
    if not by_id or not ids:
        return {name: name for name in wanted if name in file.names}
    return {name: by_id[ids[name]] for name in wanted if ids.get(name) in by_id}


def version_of(offset: dict[str, Any]) -> int:
    """Return the version in an offset. Raises UsageError."""
    version = offset.get("version")
    if type(version) is not int:
        raise UsageError(f"the checkpoint is not of a pipe from a table: {str(offset)[:200]}")
    return version


def _arrow(column: StructField) -> pa.DataType:
    if column.name == HEADERS:
        return COLUMNS[HEADERS].arrow
    return pa.string() if isinstance(column.dataType, StringType) else pa.binary()


def _opened(path: str) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(path)
    except FileNotFoundError:
        raise UnreadableInput(path, "no such file: the table has dropped it since") from None
    except (OSError, pa.ArrowException) as error:
        raise UnreadableInput(path, getattr(error, "strerror", None) or str(error).splitlines()[0]) from None
