"""Exports whose result is an Iceberg or a Delta table.

    TableJob(options, IcebergTable(...) or DeltaLakeTable(...), spark).run()

    table.py       what a table format does for an export (read first), and how a table is partitioned
    job.py         one run: which offsets are new, the steps of kcli.export on Spark, the commit
    live.py        a run whose records come from live brokers
    staging.py     puts files in place and commits; finishes or undoes a commit that was interrupted
    evolution.py   the schema of a table that takes the rows of an export, or why there is none
    iceberg.py     Iceberg: pyiceberg's catalogs, and snapshots that carry the exported offsets
    appending.py   for sinks of Connect: rows with their offsets, to a table of any catalog
    directory.py   Iceberg without a catalog: the versions of the metadata in the table's own directory
    changes.py     for pipes from a table: the files that commits add to it
    delta.py       Delta: commits with a `txn` action for each partition

The workers of an export write the Parquet files, with the ids of the table's columns; a commit adds these files to the
table and copies none. It also carries, for each partition, the first offset that is not in the table, so that rows
and offsets change together: an export that is repeated, or repeated after a kill, begins where the table ends.
pyiceberg and deltalake are imported only by iceberg.py, appending.py, directory.py, delta.py and changes.py.
"""
