"""Exports for tests: read without Spark, and as rows like those of the golden truth files."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa

from kcli.export.columns import arrow_schema
from kcli.export.options import SourceOptions
from kcli.export.reading import read
from kcli.export.splits import plan
from tests.conftest import Json

TYPES = {-1: "NoTimestampType", 0: "CreateTime", 1: "LogAppendTime"}


def load(*paths: Path | str, **options: str) -> pa.Table:
    """Return the table that these options of the data source give."""
    parsed = SourceOptions.parse({"paths": _json(paths), **options})
    batches = [
        batch
        for split in plan(parsed)
        for batch in read(
            split, parsed.columns, on_corruption=parsed.on_corruption, include_control=parsed.include_control
        )
    ]
    table = pa.Table.from_batches(batches, arrow_schema(parsed.columns))
    table.validate(full=True)
    return table


def _json(paths: Iterable[Path | str]) -> str:
    import json

    return json.dumps([str(path) for path in paths])


def as_truth(table: pa.Table) -> list[Json]:
    """Return rows in the form of the truth files, by partition and offset. Needs leaderEpoch and timestampMs."""
    rows = [_truth(row) for row in table.to_pylist()]
    return sorted(rows, key=lambda row: (row["topic"], row["partition"], row["offset"]))


TRUTH_COLUMNS = "key,value,topic,partition,offset,timestampType,headers,timestampMs,leaderEpoch"


def _truth(row: dict[str, Any]) -> Json:
    return {
        "topic": row["topic"],
        "partition": row["partition"],
        "offset": row["offset"],
        "timestamp": row["timestampMs"],
        "timestamp_type": TYPES[row["timestampType"]],
        "key": _base64(row["key"]),
        "value": _base64(row["value"]),
        "headers": [[each["key"], _base64(each["value"])] for each in row["headers"] or ()],
        "leader_epoch": row["leaderEpoch"],
    }


def _base64(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()
