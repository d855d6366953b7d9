"""PostgreSQL: the changes of a database as Debezium's connector gives them.

source       PostgresConnector and its task: publication, slot, snapshot, stream
options      its options
position     its offset
snapshot     the rows of tables at a point of the server's log, as records
stream       the changes from a position on, as records
events       a change to records with Debezium's envelope
types        types of columns to schemas; texts of values to values
catalog      tables, keys and types in the database's catalog
replication  the protocol's connection: slots, the stream's messages
pgoutput     the bytes of these messages; no I/O
connecting   connections, and what their errors mean; kcli.connect.connectors.jdbc has them from here
"""
