"""Pipes: a pipe copies records from one end to another with one Spark job, which continues where the last run ended.

    ends        FROM and TO: a topic, a topic in a log directory, a table          (read first)
    plan        what a pipe would read; the checkpoint, and the ends that it belongs to
    to_topic    into a topic: a streaming query; its checkpoint and the sink's transactions make it exactly once
    to_table    into a table: exports (kcli.pipelines.tables) of what is new; offsets are in the table's own commits
    rows        from a table: the stream source whose micro-batches are the commits of the table

The sources and sinks are those of kcli.export and kcli.pipelines; this package chooses and combines them.
"""
