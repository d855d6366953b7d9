"""Parquet files as an export writes them, without Spark; and logs as JSON lines, to compare them with."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kcli.export.columns import arrow_schema
from kcli.export.options import SourceOptions
from kcli.export.reading import read
from kcli.export.splits import plan
from kcli.inspector.inputs import input_files
from kcli.inspector.log_records import print_jsonl
from kcli.log.source import open_file

BACKUP = {"columns": "*", "includeControl": "true", "includeInternalTopics": "true", "beyondHighWatermark": "true"}
PLAIN = {"includeHeaders": "true"}


def export_table(source: Path, options: Mapping[str, str] = BACKUP) -> pa.Table:
    """The records of logs as the data source gives them."""
    parsed = SourceOptions.parse({"path": str(source), **options})
    batches = [
        batch for split in plan(parsed) for batch in read(split, parsed.columns, include_control=parsed.include_control)
    ]
    return pa.Table.from_batches(batches, arrow_schema(parsed.columns))


def write_parquet(table: pa.Table, directory: Path, *, rows_per_group: int = 1000) -> Path:
    """Write one file for each partition, in directories topic=…; return the directory."""
    keys = table.select(["topic", "partition"]).group_by(["topic", "partition"]).aggregate([]).to_pylist()
    for key in keys:
        mask = pa.compute.and_(
            pa.compute.equal(table["topic"], key["topic"]), pa.compute.equal(table["partition"], key["partition"])
        )
        folder = directory / f"topic={key['topic']}"
        folder.mkdir(parents=True, exist_ok=True)
        part = table.filter(mask).drop_columns(["topic"])
        pq.write_table(part, folder / f"part-{key['partition']}.parquet", row_group_size=rows_per_group)
    return directory


def log_records(partition: Path) -> list[dict[str, Any]]:
    """Return what `kcli dump-segment --format jsonl` prints of a partition, without positions in the file."""
    lines: list[bytes] = []
    for file in input_files(partition, None):
        source = open_file(file.path)
        report = print_jsonl(source, file.topic, file.partition, lambda data: lines.append(bytes(data)))
        source.close()
        assert not report.errors
    records = [json.loads(line) for line in b"".join(lines).splitlines()]
    for record in records:
        del record["position"]
    return records
