"""DuckDB finds the rows of a table by itself, with its extensions for Iceberg and Delta, which its wheel lacks."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from tests.export.logs import append
from tests.pipelines.tables.places import Place, source

EXTENSIONS = {"directory": ("avro", "iceberg"), "delta": ("delta",)}
LAYOUTS = {"directory": ("topic", "day(timestamp)", "bucket(4,key)"), "delta": ("topic", "date")}


@pytest.fixture
def database(plain_place: Place) -> duckdb.DuckDBPyConnection:
    """A database with the extension for the table."""
    database = duckdb.connect()
    for name in EXTENSIONS[plain_place.kind]:
        try:
            database.load_extension(name)
        except duckdb.Error:
            pytest.skip(f"the extension {name} is not installed: duckdb.install_extension({name!r})")
    return database


@pytest.mark.parametrize("is_parted", [False, True])
def test_the_rows_of_all_commits(
    is_parted: bool, database: duckdb.DuckDBPyConnection, plain_place: Place, tmp_path: Path
) -> None:
    log = tmp_path / "t-0"
    log.mkdir()
    layout = LAYOUTS[plain_place.kind] if is_parted else ()
    for first in range(0, 30, 10):
        append(log, range(first, first + 10), time_ms=1_700_000_000_000 + first * 10_000_000)
        plain_place.export(source(log), layout)
    scan = "delta_scan" if plain_place.kind == "delta" else "iceberg_scan"
    names = ["partition", "offset", "key", "value"]
    query = f'select partition, "offset", key, value, epoch_ms(timestamp) from {scan}(?) order by "offset"'
    rows = database.execute(query, [str(plain_place.out)]).fetchall()
    ours = plain_place.read().sort_by("offset")
    times_ms = ours["timestamp"].cast(pa.timestamp("ms", "UTC"), safe=False).cast("int64")
    assert rows == [*zip(*(ours[name].to_pylist() for name in names), times_ms.to_pylist(), strict=True)]
    assert [row[1] for row in rows] == [*range(30)]
