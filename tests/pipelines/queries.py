"""Batch queries on live brokers and on files, without Spark: the same calls, with readers and tasks pickled as Spark
does it."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from kcli.export.columns import COLUMNS
from kcli.pipelines.source import KafkaDataSource

ONLY_ON_DISK = ("segment", "batchPosition")
LIVE_COLUMNS = ",".join(name for name in COLUMNS if name not in ONLY_ON_DISK)
"""The columns of which a broker tells the values."""


class Planned:
    """A batch query whose tasks are planned, and not yet run."""

    def __init__(self, **options: str) -> None:
        source = KafkaDataSource(options)
        self.schema = source.schema()
        self.reader: DataSourceReader = source.reader(self.schema)
        self.tasks: list[InputPartition] = list(self.reader.partitions())

    def table(self) -> pa.Table:
        """Run the tasks; return their records by topic, partition and offset."""
        batches: list[pa.RecordBatch] = []
        for task in self.tasks:
            reader, copied = pickle.loads(pickle.dumps((self.reader, task)))
            batches += reader.read(copied)
        if not batches:
            return pa.table({name: pa.array([], COLUMNS[name].arrow) for name in self.schema.names})
        return pa.Table.from_batches(batches).sort_by(
            [(name, "ascending") for name in ("topic", "partition", "offset")]
        )


def live(bootstrap: str, **options: str) -> pa.Table:
    """What a query on brokers reads."""
    return Planned(**named(options, "kafka.bootstrap.servers", bootstrap)).table()


def on_disk(path: Path, **options: str) -> pa.Table:
    """What a query on a log directory reads."""
    return Planned(**named(options, "path", str(path))).table()


def offsets_of(table: pa.Table) -> list[int]:
    """The offsets of a table's rows."""
    found: list[int] = table.column("offset").to_pylist()
    return found


def named(options: dict[str, str], name: str, value: Any) -> dict[str, str]:
    """Options with one whose name is no Python name."""
    return {**options, name: str(value)}
