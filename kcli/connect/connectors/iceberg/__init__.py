"""The Iceberg sink: records to rows of tables.

    sink     IcebergSinkConnector: records to tables, and when a commit is made. Read first
    options  its options, those of each table among them

What a table is, is kcli.pipelines.tables.appending's.
"""
