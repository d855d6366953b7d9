"""The client's side of schema registries: reads schemas from any registry, and decodes and encodes keys and values by
them.

    URL, directory -> registry -> sources -> payloads: bytes <-> JSON

errors     raised if a registry or a schema cannot be used
http       one request of Confluent's REST API, to its JSON or a RegistryError
client     the requests of `kcli schemas`, as methods; checking: compares schemas; changes: plans deletions and imports
registry   schemas by id, GUID and reference: from a registry over HTTP, or from a dump in files
sources    a schema with the texts of all schemas that it refers to
avro, protobuf, json_schema   schemas to codecs: one value in the format's encoding to JSON, and back
wire       Confluent's wire format: which schema a key or value was written with
reading    keys and values of records to JSON, each by its own schema; decoded: the result, as text
writing    JSON to keys and values, by one schema

Nothing here imports pyarrow. The libraries of a format are imported when its first schema is used. kcli.export uses the
same sources to make columns. The registry itself is kcli.registry, the rules of compatibility are in kcli.schemas.
"""
