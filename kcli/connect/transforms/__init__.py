"""Single-message transforms and predicates, by the names of Kafka's classes: a record to a record, or to none.

transform    what a transform and a predicate are, and what their options share. Start here
plugins      the transforms and predicates by the names of Kafka's classes
field_path, requirements   what transforms share
casting, extracting, flattening, hoisting, inserting, masking, replacing, metadata, value_to_key   fields and schemas
timestamps, routing, headers   timestamps, topics and headers
predicates   what a transform can depend on
chain        the transforms of a connector, with their predicates
columns      what a chain does to Arrow's columns, if no schema depends on a record
"""
