"""A client of any Kafka cluster: topics, groups, records in and out, the state of the cluster. Functions yield values
and print nothing.

connection  bootstrap servers, librdkafka's clients, errors of an unreachable cluster
admin       topics and the cluster
producing   records into a topic            partitioner  the partition of a record            input  records from bytes
consuming   records out of partitions       ranges       first and last offset to read
group_consuming  records, as a member of a group             membership   the member's protocol and assignor
groups      groups and their offsets        resets       new offsets of a group
transactions  transactional ids, producers  transaction_wire  their requests       cluster_status  brokers, quorum
acls        access control lists            users        who logs in by SCRAM            tokens  delegation tokens
leaders     of partitions, connections      log_reading  batches out of them    log_appending  batches into them
processing  a member of a group whose offsets are committed with what it sends
producing_transaction  a transaction of such batches        cluster_settings  features, configurations, quotas, ACLs
formats     a record as text
wire        requests that librdkafka does not send
security    TLS and SASL of wire            command_config  a file of Kafka's client properties
oauth       tokens to log in with, from a file or an endpoint

Only this package imports confluent_kafka (librdkafka), which takes 60 ms, so a command imports this package only when
it runs; acls, users and tokens do not need confluent_kafka."""
