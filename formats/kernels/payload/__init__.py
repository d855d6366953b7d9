"""Decode record values (Avro, Protobuf, JSON, JSON as VARIANT) in bulk, into the columns that columns.pyx defines."""
