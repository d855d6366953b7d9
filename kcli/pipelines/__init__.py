"""Data between Kafka and the lake: Spark and live brokers (below), tables (the package `tables`), and pipes from one
end to another (the package `pipe`).

The data source `kafka-log` has the option kafka.bootstrap.servers in place of a path:

    reading    options as of Spark's Kafka source, and the batches that the leaders of partitions send, to Arrow record
               batches with the columns of kcli.export.columns
    writing    rows of a query, as Arrow record batches, to batches of partitions; a stream's in transactions

source    the data source, and the reader of a batch query        stream    the reader of a streaming query
cluster   options that begin with `kafka.`, and connections       planning  partitions, offsets, tasks
fetching  a task: the records of a range of offsets             disk      what is read from a disk first (bootstrapFrom)
sink      the writers, at least once and exactly once             encoding  rows to batches

Read planning first, then fetching. Options, columns, offsets as JSON, record batches and what is the same in every
stream are those of kcli.export, which reads files; requests are sent by kcli.client: log_reading, log_appending,
producing_transaction.
"""
