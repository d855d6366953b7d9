"""The S3 sink: records to objects of a bucket.

sink          S3SinkConnector: when a file is closed, and which offsets are committed then. Read first
options       its options
partitioning  the directories of objects: by partition, by fields, by time
formats       files of records: JSON, Avro, Parquet, bytes
"""
