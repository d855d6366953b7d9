"""Tables of all kinds for tests: how each is made, and what other programs read of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import StaticTable
from pyiceberg.table import Table as Iceberg

from kcli.export.decoding import DecoderSpec
from kcli.export.export_options import RAW, ExportOptions
from kcli.export.options import SourceOptions
from kcli.export.outcome import Outcome
from kcli.export.table_writer import TableFormat
from kcli.pipelines.tables.delta import DeltaLakeTable
from kcli.pipelines.tables.iceberg import IcebergTable
from kcli.pipelines.tables.job import TableJob
from kcli.pipelines.tables.table import Table
from tests.export.in_process import InProcess

COLUMNS = "key,value,topic,partition,offset,timestamp,timestampType,headers"
NAME = "shop.orders"


@dataclass(frozen=True)
class Place:
    """Where a table is. kind: delta, directory (Iceberg without a catalog), sql or rest."""

    kind: str
    out: Path
    catalog: str | None = None

    def table(self, layout: Sequence[str] = (), *, by_key: bool = False) -> Table:
        """The table, as an export is given it."""
        if self.kind == "delta":
            return DeltaLakeTable(self.out, layout, by_key=by_key)
        return IcebergTable(self.out, layout, self.catalog, None if self.catalog is None else NAME, by_key=by_key)

    def export(self, source: SourceOptions, layout: Sequence[str] = (), **options: DecoderSpec) -> Outcome:
        """Export to the table, without Spark."""
        form = TableFormat(tuple(layout), is_whole=self.kind != "delta")
        given = ExportOptions(source, self.out, form, options.get("key", RAW), options.get("value", RAW))
        return TableJob(given, self.table(layout), InProcess()).run()  # type: ignore[arg-type]

    def iceberg(self) -> Iceberg:
        """The table, as pyiceberg has it."""
        if self.catalog is None:
            return StaticTable.from_metadata(str(self.out))
        catalog = load_catalog("default", uri=self.catalog, type="sql" if self.kind == "sql" else "rest")
        return catalog.load_table(NAME)

    def read(self) -> pa.Table:
        """All rows, as the format's own library reads them."""
        if self.kind == "delta":
            return pa.table(DeltaTable(str(self.out)).to_pyarrow_table())
        return self.iceberg().scan().to_arrow()

    def files(self) -> list[str]:
        """The files that the table names."""
        if self.kind == "delta":
            return sorted(uri.removeprefix("file://") for uri in DeltaTable(str(self.out)).file_uris())
        tasks = self.iceberg().scan().plan_files()
        return sorted(task.file.file_path.removeprefix("file://") for task in tasks)

    def offsets(self) -> list[tuple[int, int]]:
        """Partition and offset of each row, which DuckDB reads in the table's files as the library does."""
        if not self.exists():
            return []
        table = self.read()
        rows = sorted(zip(table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True))
        query = 'select partition, "offset" from read_parquet(?, hive_partitioning = true) order by all'
        assert duckdb.execute(query, [self.files()]).fetchall() == rows
        return rows

    def exists(self) -> bool:
        """Whether there is a table."""
        if self.kind == "delta":
            return (self.out / "_delta_log").exists()
        if self.catalog is None:
            return (self.out / "metadata" / "version-hint.text").exists()
        try:
            self.iceberg()
        except NoSuchTableError:
            return False
        return True


def source(path: Path, **options: str) -> SourceOptions:
    """What to export: all of a directory."""
    return SourceOptions.parse({"path": str(path), "columns": COLUMNS, **options})


def sorted_rows(table: pa.Table) -> list[dict[str, Any]]:
    """Rows in the order of topic, partition and offset. pyiceberg reads a null list as one without elements: no headers
    are null here."""
    rows: list[dict[str, Any]] = table.sort_by(
        [(name, "ascending") for name in ("topic", "partition", "offset")]
    ).to_pylist()
    return [{**row, "headers": row["headers"] or None} for row in rows]
