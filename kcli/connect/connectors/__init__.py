"""The connectors that kcli has. Their class names, those that Connect's users know, are in kcli.connect.builtin.

file        FileStreamSource, FileStreamSink: lines of a file
iceberg     IcebergSink: rows of Iceberg tables
jdbc        JdbcSource, JdbcSink: rows of tables
postgres    PostgresSource: changes of a database, with Debezium's envelope
mirror      MirrorSource, MirrorCheckpoint, MirrorHeartbeat: topics of another cluster, with the offsets of groups
opensearch  OpensearchSink, ElasticsearchSink: documents of indexes
s3          S3Sink: objects of a bucket

sink        what sinks have in common       arrow       structs as rows of Arrow
fields      a value's fields by a path: for sinks
"""
