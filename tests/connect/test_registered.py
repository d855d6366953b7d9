"""Converters with a schema registry: keys and values go there and back, and other writers' schemas are understood."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from kcli.connect.config.config_def import ConfigError
from kcli.connect.converters.avro import AvroConverter
from kcli.connect.converters.json_schema import JsonSchemaConverter
from kcli.connect.converters.protobuf import ProtobufConverter
from kcli.connect.converters.registered import RegisteredConverter
from kcli.connect.data.builder import array_schema, map_schema, struct_schema
from kcli.connect.data.errors import DataError, RetriableError
from kcli.connect.data.logical import DATE
from kcli.connect.data.schema import FLOAT64, INT32, OPTIONAL_STRING, STRING, Schema, Type
from kcli.connect.data.struct import Struct
from kcli.connect.data.texts import java_text
from tests.conftest import is_soak
from tests.connect import random_data as data
from tests.connect.wire import schema_of, schema_to, value_of, value_to
from tests.schema_client.registries import Registry, registry

PROTOBUF_SCHEMAS = 100 if is_soak() else 8
"""protoc runs for each."""
SAFE = {"created.at": "created_at", "Straße": "strasse", "x`y": "x_y"}


@pytest.fixture(name="known")
def known_registry() -> Iterator[Registry]:
    with registry() as made:
        yield made


def converter(kind: type[RegisteredConverter], known: Registry, **more: str) -> RegisteredConverter:
    options = {name.replace("_", "."): value for name, value in more.items()}
    return kind({"converter.type": "value", "schema.registry.url": known.url} | options)


def test_a_registry_s_nodes_take_over_from_each_other(known: Registry) -> None:
    """A node that does not answer is left for the next one, which is then asked first."""
    schema = struct_schema([("name", STRING)], name="a.B")
    value = Struct(schema).put("name", "x")
    made = converter(AvroConverter, known, schema_registry_url=f"http://127.0.0.1:1,{known.url}")
    written = made.from_connect("t", schema, value)
    assert made.to_connect("t", written).value == value
    assert made._client._transport.name == known.url
    lost = converter(AvroConverter, known, schema_registry_url="http://127.0.0.1:1,http://127.0.0.1:2")
    with pytest.raises(RetriableError, match=r"127\.0\.0\.1:2 does not answer"):
        lost.from_connect("t", schema, value)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"basic_auth_user_info": "a:b"}, "basic.auth.credentials.source=URL does not use"),
        ({"basic_auth_credentials_source": "USER_INFO"}, "basic.auth.user.info must be set"),
        ({"basic_auth_credentials_source": "SASL_INHERIT"}, "has URL and USER_INFO"),
        ({"bearer_auth_token": "x"}, "bearer.auth.token: kcli's registry client does not honour it"),
        ({"schema_registry_ssl_truststore_location": "x"}, "does not honour it"),
    ],
)
def test_a_login_that_would_not_be_used_is_refused(known: Registry, options: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        converter(AvroConverter, known, **options)
    converter(AvroConverter, known, basic_auth_credentials_source="USER_INFO", basic_auth_user_info="a:b")


@pytest.mark.parametrize("name", ["x = 1; } message Y {", "1a", "a-b"])
def test_names_that_would_change_a_proto_file_are_refused(known: Registry, name: str) -> None:
    made = converter(ProtobufConverter, known)
    for schema in (
        struct_schema([(name, STRING)], name="a.B"),
        struct_schema([("inner", struct_schema([(name, STRING)], name="C"))], name="a.B"),
        struct_schema([("f", STRING)], name=f"a.{name}"),
    ):
        with pytest.raises(DataError, match="is no name of Protobuf"):
            made.from_connect("t", schema, Struct(schema))


def safe(told: Any) -> Any:
    """Return a schema whose names a schema's format allows, and whose structs have names of their own."""
    text = json.dumps(told)
    for name, other in SAFE.items():
        text = text.replace(json.dumps(name), json.dumps(other))
    return named(json.loads(text), [0])


def named(told: Any, count: list[int]) -> Any:
    if isinstance(told, dict):
        told = {name: named(each, count) for name, each in told.items() if name != "default"}
        if told.get("name") == "com.x.Name":
            count[0] += 1
            told["name"] = f"com.x.Name{count[0]}"
        if told.get("type") == "MAP":  # what is said of keys besides their type has no place in Avro and JSON
            told["key"] = {name: each for name, each in told["key"].items() if name in ("type", "optional")}
        if told.get("parameters") == {"scale": "-1"}:
            told["parameters"] = {"scale": "1"}  # Avro has no negative scale
    return [named(each, count) for each in told] if isinstance(told, list) else told


def has_two_maps(told: Any) -> bool:
    return json.dumps(told).count('"MAP"') > 1


@pytest.mark.parametrize("kind", [AvroConverter, JsonSchemaConverter])
def test_values_go_there_and_back(known: Registry, kind: type[RegisteredConverter]) -> None:
    rng = Random(5)
    made = converter(kind, known)
    for number in range(60):
        told = safe(data.schema(rng, 2, "STRUCT"))
        if kind is AvroConverter and has_two_maps(told):
            continue
        schema, value = schema_of(told), value_of(data.value(rng, told, nullable=False))
        if kind is JsonSchemaConverter and (has_optional_keys(told) or not all_finite(value_to(value, schema))):
            continue
        topic = f"t{number}"
        written = made.from_connect(topic, schema, value)
        assert written is not None
        assert written[0] == 0
        found = made.to_connect(topic, written)
        same_schemas = schema_to(found.schema) == schema_to(schema)
        assert same_schemas, told
        same_values = value_to(found.value, found.schema) == value_to(value, schema)
        assert same_values, told


def has_optional_keys(told: Any) -> bool:
    """Return whether there is a map whose keys may be null."""
    if isinstance(told, dict) and told.get("key", {}).get("optional"):
        return True
    parts = told.values() if isinstance(told, dict) else told if isinstance(told, list) else ()
    return any(map(has_optional_keys, parts))


def all_finite(told: Any) -> bool:
    """Return whether JSON has numbers for all floats."""
    text = json.dumps(told)
    return not any(
        bits in text for bits in ("7f8", "ff8", "7fc", "7ff0", "fff0", "7ff8", '"80000000"', '"8000000000000000"')
    )


def bare(told: Any) -> Any:
    """Return a schema with types, optional fields and names of structs alone, which is what Protobuf keeps."""
    if isinstance(told, list):
        return [bare(each) for each in told]
    if not isinstance(told, dict):
        return told
    kept = {name: bare(each) for name, each in told.items() if name in ("type", "optional", "fields", "key", "value")}
    if str(told.get("name")).endswith((".Timestamp", ".Decimal")):
        kept |= {name: told[name] for name in ("name", "version", "parameters") if name in told}
    for name in ("key", "value"):
        if isinstance(kept.get(name), dict):
            kept[name].pop("optional", None)
    return kept


def has_protobuf(told: Any, outer: str = "STRUCT") -> bool:
    """Return whether Protobuf has types for a schema."""
    kind = told["type"]
    if told.get("name", "").endswith((".Date", ".Time")) or (kind in ("ARRAY", "MAP") and outer != "STRUCT"):
        return False
    inner = [told[name] for name in ("key", "value") if name in told] + [each for _, each in told.get("fields", [])]
    return all(has_protobuf(each, kind) for each in inner)


def optional_fields(told: Any) -> Any:
    """Return a schema as Protobuf gives it back: all fields optional but arrays and maps, structs with names."""
    if told["type"] == "STRUCT":
        told["name"] = "?"
        for _, each in told["fields"]:
            optional_fields(each)
            each.pop("optional", None)
            if each["type"] not in ("ARRAY", "MAP"):
                each["optional"] = True
    elif "value" in told:
        optional_fields(told["value"])
    return told


def unnamed(told: Any) -> Any:
    """Return a schema whose structs have no names of their own."""
    if isinstance(told, dict):
        told = {name: unnamed(each) for name, each in told.items()}
        return told | {"name": "?"} if told.get("type") == "STRUCT" else told
    return [unnamed(each) for each in told] if isinstance(told, list) else told


def test_protobuf_goes_there_and_back(known: Registry) -> None:
    rng = Random(7)
    made = converter(ProtobufConverter, known, optional_for_nullables="true")
    count = 0
    while count < PROTOBUF_SCHEMAS:
        told = bare(safe(data.schema(rng, 2, "STRUCT")))
        told.pop("optional", None)
        if not has_protobuf(told):
            continue
        count += 1
        schema, value = schema_of(told), value_of(data.value(rng, told, nullable=False))
        written = made.from_connect(f"t{count}", schema, value)
        assert written is not None
        found = made.to_connect(f"t{count}", written)
        same_schemas = unnamed(schema_to(found.schema)) == optional_fields(json.loads(json.dumps(told)))
        assert same_schemas, told
        same_values = values_of(found.value) == values_of(value)
        assert same_values, told


def values_of(value: Any) -> Any:
    """Return a value without schemas. A missing array or map is an empty one."""
    if isinstance(value, Struct):
        empty: dict[Type, Any] = {Type.ARRAY: [], Type.MAP: {}}
        pairs = zip(value.schema.fields, value.values, strict=True)
        return [values_of(empty.get(field.schema.type) if each is None else each) for field, each in pairs]
    if isinstance(value, dict):
        return {key: values_of(each) for key, each in value.items()}
    return [values_of(each) for each in value] if isinstance(value, list) else repr(value)


def test_protobuf_of_other_writers(known: Registry) -> None:
    text = """
        syntax = "proto3";
        import "google/protobuf/wrappers.proto";
        message M {
          uint64 big = 1;
          E e = 2;
          google.protobuf.StringValue name = 3;
          oneof choice { int32 number = 4; string word = 5; }
          enum E { ZERO = 0; ONE = 1; }
        }"""
    made = known.post("/subjects/s/versions", schema=text, schemaType="PROTOBUF")
    head = b"\0" + struct.pack(">i", made["id"]) + b"\0"
    payload = b"\x08" + b"\xff" * 9 + b"\x01" + b"\x10\x01" + b"\x2a\x01w"
    schema, value = converter(ProtobufConverter, known).to_connect("t", head + payload)
    assert java_text(value, schema) == "Struct{big=-1,e=ONE,choice_0=Struct{word=w}}"


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (STRING, "writes structs only, not STRING"),
        (struct_schema([("d", DATE)]), "org.apache.kafka.connect.data.Date has no Protobuf"),
        (struct_schema([("a", array_schema(array_schema(STRING)))]), "within each other"),
        (struct_schema([("m", map_schema(FLOAT64, STRING))]), "keys of type FLOAT64"),
        (struct_schema([("no name", STRING)]), "is no name of Protobuf"),
    ],
)
def test_what_has_no_protobuf(known: Registry, schema: Schema, reason: str) -> None:
    value = Struct(schema) if schema.type is Type.STRUCT else "x"
    with pytest.raises(DataError, match=reason):
        converter(ProtobufConverter, known).from_connect("t", schema, value)


def test_json_schemas_of_other_writers(known: Registry) -> None:
    told = {
        "type": "object",
        "title": "User",
        "properties": {
            "id": {"type": "integer"},
            "tags": {"type": "array", "items": {"$ref": "#/definitions/tag"}},
            "score": {"type": ["number", "null"], "default": 1.5},
        },
        "required": ["id"],
        "definitions": {"tag": {"type": "string"}},
    }
    made = known.post("/subjects/s/versions", schema=json.dumps(told), schemaType="JSON")
    head = b"\0" + struct.pack(">i", made["id"])
    schema, value = converter(JsonSchemaConverter, known).to_connect("t", head + b'{"id":5,"tags":["a"],"score":2.5}')
    assert java_text(value, schema) == "Struct{id=5,tags=[a],score=2.5}"
    assert schema is not None
    assert schema.name == "User"
    assert [field.schema.optional for field in schema.fields] == [False, True, True]
    assert schema.fields[2].schema.default == 1.5


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        ({"oneOf": [{"type": "string"}, {"type": "integer"}]}, "several alternatives"),
        ({"$ref": "#"}, "leads out of"),
        ({"type": "object", "properties": {"a": {"$ref": "#/properties/a"}}}, "has a type for"),
        ({"type": "object", "properties": {"next": {"type": "array", "items": {"$ref": "#/$defs/n"}}}}
         | {"$defs": {"n": {"type": "array", "items": {"$ref": "#/$defs/n"}}}}, "contains itself"),
        ({"type": "null"}, "is no type"),
    ],
)  # fmt: skip
def test_json_schemas_without_a_type_in_connect(known: Registry, told: Any, reason: str) -> None:
    made = known.post("/subjects/s/versions", schema=json.dumps(told), schemaType="JSON")
    with pytest.raises(DataError, match=reason):
        converter(JsonSchemaConverter, known).to_connect("t", b"\0" + struct.pack(">i", made["id"]) + b"{}")


def test_avro_is_registered_once_under_the_topic(known: Registry) -> None:
    schema = struct_schema([("id", INT32), ("name", OPTIONAL_STRING)], name="com.x.User", version=3)
    avro = converter(AvroConverter, known)
    for number in range(3):
        avro.from_connect("users", schema, Struct(schema).put("id", number))
    assert [path for method, path in known.asked if method == "POST"] == ["/subjects/users-value/versions"]
    text = json.loads(known.answer("GET", "/subjects/users-value/versions/1")[1])["schema"]
    assert json.loads(text) == {
        "type": "record",
        "name": "User",
        "namespace": "com.x",
        "fields": [
            {"name": "id", "type": "int"},
            {"name": "name", "type": ["null", "string"], "default": None},
        ],
        "connect.version": 3,
        "connect.name": "com.x.User",
    }


def test_subjects_are_named_by_the_strategy(known: Registry) -> None:
    schema = struct_schema([("id", INT32)], name="com.x.User")
    package = "io.confluent.kafka.serializers.subject."
    for strategy, subject in [("Record", "com.x.User"), ("TopicRecord", "t-com.x.User")]:
        options = {"value.subject.name.strategy": f"{package}{strategy}NameStrategy"}
        made = AvroConverter({"converter.type": "value", "schema.registry.url": known.url} | options)
        made.from_connect("t", schema, Struct(schema).put("id", 1))
        assert known.asked[-1] == ("POST", f"/subjects/{subject}/versions")


def avro_of(known: Registry, schema: Any, payload: bytes) -> Any:
    made = known.post("/subjects/s/versions", schema=json.dumps(schema))
    return converter(AvroConverter, known).to_connect("t", b"\0" + struct.pack(">i", made["id"]) + payload)


def test_unions_enums_and_fixed_of_other_writers(known: Registry) -> None:
    record = {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "u", "type": ["null", "int", "string"]},
            {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}},
            {"name": "f", "type": {"type": "fixed", "name": "F", "size": 2}},
            {"name": "d", "type": "double", "default": 1.5},
        ],
    }
    schema, value = avro_of(known, record, b"\4\2x" + b"\2" + b"\1\2" + struct.pack("<d", 2.5))
    assert java_text(value, schema) == "Struct{u=Struct{string=x},e=B,f=[B@0,d=2.5}"
    assert schema.field("e").schema.parameters["io.confluent.connect.avro.Enum"] == "E"
    assert schema.field("f").schema.parameters == {"connect.fixed.size": "2"}
    assert schema.field("d").schema.default == 1.5
    assert schema.field("u").schema.optional


def test_a_record_within_itself_is_no_schema_of_connect(known: Registry) -> None:
    record = {"type": "record", "name": "R", "fields": [{"name": "next", "type": ["null", "R"]}]}
    with pytest.raises(DataError, match="the Avro record R contains itself"):
        avro_of(known, record, b"\0")


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"", "no schema's id: it is empty"),
        (b"\0\0\0", "the schema's id is cut off"),
        (b"\1", "the schema's GUID is cut off"),
        (b"\0\0\0\0\x63", "99"),
        (b"x", "it does not begin with a byte 0"),
    ],
)
def test_bad_bytes_are_a_data_error(known: Registry, payload: bytes, reason: str) -> None:
    with pytest.raises(DataError, match=reason):
        converter(AvroConverter, known).to_connect("t", payload)


def test_tombstones_need_no_registry(known: Registry) -> None:
    avro = converter(AvroConverter, known)
    assert avro.from_connect("t", STRING, None) is None
    assert avro.to_connect("t", None) == (None, None)
    assert not known.asked


def test_a_value_without_a_schema_is_refused(known: Registry) -> None:
    with pytest.raises(DataError, match="writes no value without a schema: 5"):
        converter(AvroConverter, known).from_connect("t", None, 5)


def test_a_registry_that_is_away_is_tried_again_by_the_task(known: Registry) -> None:
    known.failures += [(503, b"{}", {})] * 3
    with pytest.raises(RetriableError, match="Failed to access AVRO data of topic t"):
        converter(AvroConverter, known).from_connect("t", STRING, "x")


def test_an_incompatible_schema_is_a_data_error(known: Registry) -> None:
    avro = converter(AvroConverter, known)
    avro.from_connect("t", STRING, "x")
    with pytest.raises(DataError, match="Failed to access AVRO data of topic t"):
        avro.from_connect("t", INT32, 1)


def test_a_url_is_required() -> None:
    with pytest.raises(ConfigError, match=r'Missing required configuration "schema\.registry\.url"'):
        AvroConverter({"converter.type": "value"})
