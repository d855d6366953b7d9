"""Decode record values (Avro, Protobuf, JSON, JSON as VARIANT) into the columns of columns.pyx, in bulk."""
