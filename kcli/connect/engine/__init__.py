"""The engine: tasks of connectors in Python workers of Spark, as queries of Structured Streaming.

    tasks        SourceTask, SinkTask: what a connector's author writes. Begin here
    spark_engine SparkEngine: starts, pauses and stops tasks; a thread for each connector
    query        one run of a connector's query: one Spark task for each task of the connector that has work
    watching     what a task waits for between its turns: a time, a file, the end of a partition
    passing      which errors end a turn, and not its task
    turn         a turn of a task in its Python worker, and what comes of it
    source_turn  poll -> transform, convert -> a transaction with the offsets
    sink_turn    fetch -> convert, transform -> put, flush; the engine commits the group's offsets
    sending      the transactions of a source task
    records      converters, transforms and their errors, on batches; dead_letters: a sink's failures to a topic
    offsets      the offsets of sources in their topic

A connector that has nothing to do costs nothing but a look from the worker's process: its query runs only while one of
its tasks has work (a turn), with trigger availableNow. Where a task goes on is decided by Connect's offsets alone: the
query has no checkpoint that outlives it, so that a worker of Kafka's can take over at any time, and the reverse.

Why a turn and not a query for ever: each streaming query with a Python source keeps a Python process of 60 MB, and one
query for all connectors would have each wait for the slowest. Source: KIP-618; WorkerSourceTask, WorkerSinkTask.
"""
