"""The client's side of schema registries: schemas of any registry, and keys and values by them.

    URL, directory -> registry -> sources -> payloads: bytes <-> JSON

errors     why no schema can be had
http       one request of Confluent's REST API, to its JSON or a RegistryError
client     the requests that `kcli schemas` makes, as methods; checking, changes: what it compares and what it plans
registry   schemas by id, GUID and reference: from a registry over HTTP, or from a dump in files
sources    a schema with the texts of all that it refers to
avro, protobuf, json_schema   schemas to codecs: one value in the format's encoding to JSON, and back
wire       Confluent's wire format: which schema a key or value was written with
reading    keys and values of records to JSON, each by its own schema; decoded: what is shown of them
writing    JSON to keys and values, by one schema

Nothing here imports pyarrow; what a format needs is imported at its first schema. kcli.export makes columns of the same
sources. The registry itself is kcli.registry, the rules of compatibility are in kcli.schemas.
"""
