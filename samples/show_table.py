"""What is in an Iceberg table without a catalog: its snapshots, and its rows, read by pyiceberg, counted by DuckDB."""

import sys

import duckdb
from pyiceberg.table import StaticTable

table = StaticTable.from_metadata(sys.argv[1])
for each in table.snapshots():
    summary = each.summary
    if summary is not None:
        print(f"snapshot {each.sequence_number}: {summary['total-records']} rows, offsets {summary['kcli.offsets']}")
rows = duckdb.from_arrow(table.scan().to_arrow())
print(
    rows.aggregate('count(*) as rows, count(distinct ("partition", "offset")) as "offsets", max(value::text) as last')
)
