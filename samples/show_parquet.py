"""What is in a directory of Parquet files, as DuckDB sees it: columns, types, the first rows."""

import sys

import duckdb

rows = duckdb.read_parquet(f"{sys.argv[1]}/**/*.parquet")
for name, kind in zip(rows.columns, rows.types, strict=True):
    print(f"{name:15}{kind}")
print(rows.project('"partition", "offset", epoch_ms(timestamp) as ms, key, value').order("1, 2").limit(10))
