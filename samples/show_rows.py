"""Waits until a table of SQLite has some rows, and shows its first ones: show_rows.py DATABASE TABLE COUNT."""

import sqlite3
import sys
import time
from contextlib import closing, suppress

database, table, wanted = sys.argv[1], sys.argv[2], int(sys.argv[3])
deadline = time.monotonic() + 90
count = 0
while count < wanted:
    if time.monotonic() > deadline:
        sys.exit(f"show_rows: {table} has {count} rows")
    time.sleep(0.05)
    with suppress(sqlite3.OperationalError), closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as rows:
        (count,) = rows.execute(f"SELECT COUNT(*) FROM {table}").fetchone()  # noqa: S608 (the demo's own table)
        first = rows.execute(f"SELECT * FROM {table} ORDER BY 1 LIMIT 2").fetchall()  # noqa: S608
if wanted > 1:
    print(f"{count} rows, of which the first are {first}")
