"""A client of any Kafka, for people: topics, records in and out, what the cluster is. Yields values, prints nothing.

connection  where the cluster is, and what is said where nobody answers
admin       topics and the cluster
producing   records into a topic            partitioner  which partition a record goes to     input  records from bytes
consuming   records out of partitions       ranges       from where to where
formats     a record as text
wire        two questions that librdkafka does not ask

The only importer of confluent_kafka (librdkafka), which takes 60 ms: import from here when a command runs, not before.
"""
