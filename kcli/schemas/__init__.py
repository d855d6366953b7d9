"""Schemas of Avro, Protobuf and JSON Schema as a registry handles them: the canonical form of a schema's text, and the
data of one schema that a reader with another schema cannot read. No I/O, no clock.

schema         a schema as it is registered: its type, text and references, metadata and rules
parsed         what each format makes of it: the canonical text, the normalized one, incompatibilities
formats        the format of each type, imported at its first schema
compatibility  the levels: which older versions a new schema is compared with, and in which direction
avro, protobuf, json_schema  the formats

The rules are those of the formats' specifications; canonical forms and the names of incompatibilities are those of
Confluent's Schema Registry, which its clients compare and show.
"""
