"""Spark and live brokers: the data source `kafka-log` with the option kafka.bootstrap.servers in place of a path.

    what comes in    options as of Spark's Kafka source, and the batches that the leaders of partitions send
    what goes out    Arrow record batches with the columns of kcli.export.columns

source    the data source, and the reader of a batch query        stream    the reader of a streaming query
cluster   options that begin with `kafka.`, and connections       planning  partitions, offsets, tasks
fetching  a task: the records of a range of offsets

Read planning first, then fetching. Options, columns, offsets as JSON, record batches and what is the same in every
stream are those of kcli.export, which reads files; Metadata, ListOffsets and Fetch are sent by kcli.client.log_reading.
"""
