"""Connect's data as JSON, in which tests/connect/ConnectOracle.java reads it and answers.

schema   null, or {"type", "key", "value", "fields": [[name, schema]], "optional": true, "name", "version", "doc",
         "parameters", "default"}, without what it does not have
value    null, or [kind, ...]:
         ["bool", true] ["i8", 1] ["i16", 1] ["i32", 1] ["i64", 1] ["f32", bits] ["f64", bits] ["str", text]
         ["bytes", hex] ["date", milliseconds] ["dec", unscaled, scale] ["list", [value]] ["map", [[key, value]]]
         ["struct", schema, [value]]; null for the schema of a struct that is the default of its own schema
record   {"topic", "partition", "key": [schema, value], "value": ..., "timestamp", "headers": [[key, schema, value]]}
         and "offset" of a sink's record
question {"ask", "class", "config", "cases"}; the answer is a list of answers, or for each of them, or for all if the
         configuration is wrong, {"error": [class, message]}
"""

from __future__ import annotations

import struct
from decimal import Decimal
from typing import Any

from kcli.connect.data.builder import array_schema, map_schema, struct_schema, with_default
from kcli.connect.data.logical import scale_of, scaled, unscaled_of
from kcli.connect.data.maps import hash_map
from kcli.connect.data.records import ConnectRecord, Header, SinkRecord, SourceRecord
from kcli.connect.data.schema import Schema, Type
from kcli.connect.data.struct import Struct
from kcli.connect.data.values import Date, Float32, Int8, Int16, Int32, typed

Json = Any
_INTEGERS: dict[type, str] = {Int8: "i8", Int16: "i16", Int32: "i32", int: "i64"}
_MADE: dict[str, type] = {tag: kind for kind, tag in _INTEGERS.items()}


def schema_to(schema: Schema | None) -> Json:
    if schema is None:
        return None
    made: dict[str, Json] = {"type": schema.type.name}
    if schema.type is Type.MAP:
        made["key"] = schema_to(schema.key_schema)
    if schema.type in (Type.MAP, Type.ARRAY):
        made["value"] = schema_to(schema.value_schema)
    if schema.type is Type.STRUCT:
        made["fields"] = [[field.name, schema_to(field.schema)] for field in schema.fields]
    if schema.optional:
        made["optional"] = True
    for name in ("name", "version", "doc"):
        if getattr(schema, name) is not None:
            made[name] = getattr(schema, name)
    if schema.parameters is not None:
        made["parameters"] = dict(schema.parameters)
    if schema.default is not None:
        made["default"] = value_to(schema.default, schema)
        if schema.type is Type.STRUCT and schema.default.schema == schema.changed(default=None):
            made["default"][1] = None
    return made


def schema_of(told: Json) -> Schema | None:
    if told is None:
        return None
    about = {name: told.get(name) for name in ("optional", "name", "version", "doc", "parameters")}
    about["optional"] = bool(about["optional"])
    kind = Type[told["type"]]
    key, value = schema_of(told.get("key")), schema_of(told.get("value"))
    if kind is Type.STRUCT:
        made = struct_schema([(name, _known(schema_of(field))) for name, field in told["fields"]], **about)
    elif kind is Type.ARRAY:
        made = array_schema(_known(value), **about)
    elif kind is Type.MAP:
        made = map_schema(_known(key), _known(value), **about)
    else:
        made = Schema(kind, **about)
    if "default" not in told:
        return made
    default = told["default"]
    if default[0] == "struct" and default[1] is None:
        return with_default(made, _struct(made, default[2]))
    return with_default(made, value_of(default))


def _known(schema: Schema | None) -> Schema:
    assert schema is not None
    return schema


def value_to(value: Any, schema: Schema | None = None) -> Json:
    """Return a value as JSON. schema: the value's."""
    if schema is not None:
        value = typed(value, schema)
    of_keys, of_values = (None, None) if schema is None else (schema.key_schema, schema.value_schema)
    match value:
        case None:
            return None
        case bool():
            return ["bool", value]
        case int():
            return [_INTEGERS[type(value)], int(value)]
        case Float32():
            return ["f32", struct.pack(">f", value).hex()]
        case float():
            return ["f64", struct.pack(">d", value).hex()]
        case str():
            return ["str", value]
        case bytes():
            return ["bytes", value.hex()]
        case Date():
            return ["date", value.millis]
        case Decimal():
            return ["dec", str(unscaled_of(value)), scale_of(value)]
        case list():
            return ["list", [value_to(each, of_values) for each in value]]
        case dict():
            return ["map", [[value_to(key, of_keys), value_to(each, of_values)] for key, each in value.items()]]
        case Struct():
            pairs = zip(value.schema.fields, value.values, strict=True)
            return ["struct", schema_to(value.schema), [value_to(each, field.schema) for field, each in pairs]]
    raise AssertionError(value)


def value_of(told: Json) -> Any:
    if told is None:
        return None
    tag, told, *rest = told
    match tag:
        case "bool" | "str":
            return told
        case "f32":
            return Float32(struct.unpack(">f", bytes.fromhex(told))[0])
        case "f64":
            return struct.unpack(">d", bytes.fromhex(told))[0]
        case "bytes":
            return bytes.fromhex(told)
        case "date":
            return Date(told)
        case "dec":
            return scaled(int(told), rest[0])
        case "list":
            return [value_of(each) for each in told]
        case "map":
            return hash_map({value_of(key): value_of(each) for key, each in told})
        case "struct":
            return _struct(_known(schema_of(told)), rest[0])
    return _MADE[tag](told)


def _struct(schema: Schema, values: list[Json]) -> Struct:
    made = Struct(schema)
    for field, told in zip(schema.fields, values, strict=True):
        if told is not None:
            made.put(field.name, value_of(told))
    return made


def record_of(told: Json) -> ConnectRecord:
    headers = tuple(Header(key, value_of(value), schema_of(schema)) for key, schema, value in told["headers"])
    about: dict[str, Any] = {
        "topic": told["topic"],
        "partition": told["partition"],
        "key_schema": schema_of(told["key"][0]),
        "key": value_of(told["key"][1]),
        "value_schema": schema_of(told["value"][0]),
        "value": value_of(told["value"][1]),
        "timestamp": told["timestamp"],
        "headers": headers,
    }
    if "offset" in told:
        about["partition"] = about["partition"] or 0
        return SinkRecord(offset=told["offset"], timestamp_type="CreateTime", **about)
    return SourceRecord(source_partition={"file": "a"}, source_offset={"position": 7}, **about)


def record_to(record: ConnectRecord | None) -> Json:
    if record is None:
        return None
    made: dict[str, Json] = {
        "topic": record.topic,
        "partition": record.partition,
        "key": [schema_to(record.key_schema), value_to(record.key, record.key_schema)],
        "value": [schema_to(record.value_schema), value_to(record.value, record.value_schema)],
        "timestamp": record.timestamp,
        "headers": [[each.key, schema_to(each.schema), value_to(each.value, each.schema)] for each in record.headers],
    }
    if isinstance(record, SinkRecord):
        made["offset"] = record.offset
    return made
