"""The Spark runner: a program as one query of Spark Structured Streaming.

    spark_streams  SparkStreams: what is refused, the query, its end; begin here
    stages         which topics a micro-batch reads up to where, so that both sides of a join are of one time
    data_source    the query's source and sink, as Spark calls them
    inputs         the source: the new records of each task in one Spark partition
    worker         the sink: a task in a Python worker, which restores, processes and commits
    output         the records that a task sends, as batches of a transaction

A micro-batch runs the tasks that have new records, each in one Spark task. Repartition topics are topics of Kafka,
which a later micro-batch reads. Stores are those of the local runner: in memory, with a changelog. A task commits
outputs, changelogs and offsets in one transaction, and begins where the application's group has committed, whatever
Spark's checkpoint says. So a micro-batch that runs again takes effect once, and the local runner and Kafka Streams can
go on where Spark has stopped.

Why not transformWithState: it needs pandas; each access to a state crosses from Python to the JVM; and no other runner
could restore its RocksDB. Source: InternalTopologyBuilder, StreamTask of Kafka Streams; MicroBatchExecution of Spark.
"""

from kcli.streams.spark.spark_streams import SparkStreams

__all__ = ["SparkStreams"]
