"""A client of any Kafka, for people: topics, groups, records in and out, what the cluster is. Yields values, prints
nothing.

connection  where the cluster is, and what is said where nobody answers
admin       topics and the cluster
producing   records into a topic            partitioner  which partition a record goes to     input  records from bytes
consuming   records out of partitions       ranges       from where to where
group_consuming  the same as a member of a group             membership   which kind of member
groups      groups and their offsets        resets       where a group shall go on
formats     a record as text
wire        what librdkafka does not ask

The only importer of confluent_kafka (librdkafka), which takes 60 ms: import from here when a command runs, not before.
"""
