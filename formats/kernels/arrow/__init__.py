"""`rows` turns records into columns of an Arrow table; `builder` turns such columns into Kafka's record batches."""
