"""`rows` turns records into columns of an Arrow table; `builder` turns such columns into Kafka's record batches;
`key_partitions` chooses the partitions of a column of keys."""
