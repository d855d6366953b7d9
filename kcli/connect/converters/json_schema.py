"""JsonSchemaConverter: JSON with a JSON Schema in a registry, under the name of Confluent's class.

    INT8 to INT64      integer, with connect.type             ARRAY    array
    FLOAT32, FLOAT64   number, with connect.type              MAP      object, connect.type=map; with keys that are no
    BOOLEAN, STRING    boolean, string                                 strings an array of {"key", "value"}
    BYTES              string (Base64), connect.type=bytes    STRUCT   object, its fields in the order of connect.index
    optional           oneOf null and the type

Names are titles; versions, parameters and defaults are connect.version, connect.parameters and default. Values are JSON
as JsonConverter writes it. Schemas of other writers are read by their types; a property that is not required is
optional.

Source: the documentation of Confluent's JsonSchemaConverter, and the schemas that it registers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Any, Final

from kcli.connect.config.config_def import ConfigDef, ConfigKey, Importance
from kcli.connect.config.config_def import Type as OptionType
from kcli.connect.config.validators import one_of_ignoring_case
from kcli.connect.converters.json import JsonConverter
from kcli.connect.converters.registered import RegisteredConverter, registered_config
from kcli.connect.data.builder import array_schema, map_schema, struct_schema
from kcli.connect.data.errors import DataError
from kcli.connect.data.schema import STRING, Schema, Type
from kcli.connect.data.struct import validate
from kcli.schema_client.sources import SchemaSource

_INTEGERS: Final = (Type.INT8, Type.INT16, Type.INT32, Type.INT64)
_FLOATS: Final = (Type.FLOAT32, Type.FLOAT64)
_TYPES: Final = {
    "integer": Type.INT64, "number": Type.FLOAT64, "boolean": Type.BOOLEAN, "string": Type.STRING,
}  # fmt: skip
_FORMAT: Final = "json.decimal.format"
_DEFINITIONS: Final = ("definitions", "$defs")
_DEPTH_MAX: Final = 100
Tree = Any


class JsonSchemaConverter(RegisteredConverter):
    """The converter. See the module."""

    CLASS = "io.confluent.connect.json.JsonSchemaConverter"
    LANGUAGE = "JSON"

    def __init__(self, properties: Mapping[str, str | None]) -> None:
        super().__init__(properties)
        self._values = JsonConverter(
            {
                "converter.type": str(self.options["converter.type"]),
                "schemas.enable": "false",
                "decimal.format": str(self.options[_FORMAT]),
            }
        )

    @classmethod
    def config(cls) -> ConfigDef:
        """Return the options."""
        return _CONFIG

    def text_of(self, schema: Schema) -> str:
        """Return the JSON Schema of a schema."""
        return json.dumps(_written(schema), separators=(",", ":"), ensure_ascii=False)

    def schema_of(self, source: SchemaSource, indexes: tuple[int, ...]) -> Schema:
        """Return the schema of a JSON Schema."""
        del indexes
        try:
            return _Read(json.loads(source.text)).of()
        except (ValueError, RecursionError) as error:
            raise DataError(f"not a JSON schema: {error}") from None

    def tree_of(self, schema: Schema, value: Any) -> Tree:
        """Return the JSON of a value."""
        validate(schema, value)
        data = self._values.from_connect("", schema, value)
        assert data is not None
        return _with_maps(schema, json.loads(data), _object)

    def value_of(self, schema: Schema, tree: Tree) -> Any:
        """Return the value of JSON."""
        return self._values.value_of(schema, _exact(_with_maps(schema, tree, _pair)))


def _written(schema: Schema) -> dict[str, Tree]:
    """Return the JSON Schema of a schema, as JSON."""
    made = _base(schema)
    if schema.name is not None:
        made["title"] = schema.name
    if schema.doc is not None:
        made["description"] = schema.doc
    if schema.version is not None:
        made["connect.version"] = schema.version
    if schema.parameters:
        made["connect.parameters"] = dict(schema.parameters)
    return {"oneOf": [{"type": "null"}, made]} if schema.optional else made


def _base(schema: Schema) -> dict[str, Tree]:
    if schema.type in _INTEGERS:
        return {"type": "integer", "connect.type": schema.type.value}
    if schema.type in _FLOATS:
        return {"type": "number", "connect.type": schema.type.value}
    match schema.type:
        case Type.BOOLEAN | Type.STRING:
            return {"type": schema.type.value}
        case Type.BYTES:
            return {"type": ["string", "number"], "connect.type": "bytes"}
        case Type.ARRAY:
            return {"type": "array", "items": _written(_known(schema.value_schema))}
        case Type.MAP:
            key, value = _known(schema.key_schema), _known(schema.value_schema)
            if _is_object(schema):
                return {"type": "object", "connect.type": "map", "additionalProperties": _written(value)}
            entry = struct_schema([("key", key), ("value", value)])
            return {"type": "array", "connect.type": "map", "items": _written(entry)}
    properties = {field.name: _written(field.schema) for field in schema.fields}
    for index, (field, told) in enumerate(zip(schema.fields, properties.values(), strict=True)):
        told["connect.index"] = index
        if field.schema.default is not None:
            told["default"] = _default(field.schema)
    return {"type": "object", "properties": properties}


def _default(schema: Schema) -> Tree:
    plain = schema.changed(optional=False, default=None)
    data = _PLAIN.from_connect("", plain, schema.default)
    assert data is not None
    return _with_maps(plain, json.loads(data), _object)


def _is_object(schema: Schema) -> bool:
    keys = _known(schema.key_schema)
    if keys.type is Type.STRING and keys.optional:
        raise DataError("a map whose keys are strings or null has no JSON")
    return keys.type is Type.STRING


def _known(schema: Schema | None) -> Schema:
    if schema is None:
        raise DataError("an array or a map without a schema for its elements")
    return schema


class _Read:
    """A JSON Schema on its way to Connect. whole: the document, in which a $ref is looked up."""

    def __init__(self, whole: Tree) -> None:
        self._whole = whole
        self._depth = 0

    def of(self) -> Schema:
        """Return the schema of the document."""
        return self._of(self._whole)

    def _of(self, told: Tree) -> Schema:
        self._depth += 1
        if self._depth > _DEPTH_MAX:
            raise DataError("a JSON schema that contains itself, or is nested too deep")
        try:
            return self._made(self._referred(told))
        finally:
            self._depth -= 1

    def _referred(self, told: Tree) -> dict[str, Tree]:
        for _ in range(_DEPTH_MAX):
            if not isinstance(told, dict) or "$ref" not in told:
                break
            told = self._at(str(told["$ref"]))
        if not isinstance(told, dict):
            raise DataError(f"{json.dumps(told)[:100]} is no JSON schema that Connect has a type for")
        return told

    def _at(self, reference: str) -> Tree:
        if not reference.startswith("#/"):
            raise DataError(f"$ref {reference} leads out of the JSON schema")
        found = self._whole
        for part in reference[2:].split("/"):
            name = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, dict) or name not in found:
                raise DataError(f"$ref {reference} leads nowhere")
            found = found[name]
        return found

    def _made(self, told: dict[str, Tree]) -> Schema:
        alternatives = told.get("oneOf") or told.get("anyOf")
        if isinstance(alternatives, list):
            return self._alternative(told, alternatives)
        kinds = told.get("type")
        if isinstance(kinds, list) and "null" in kinds:
            rest = [each for each in kinds if each != "null"]
            return self._of(told | {"type": rest[0] if len(rest) == 1 else rest}).changed(optional=True)
        made = self._of_type(told, kinds).changed(**dict(_about(told)))
        return made if "default" not in told else _with_default(made, told["default"])

    def _alternative(self, told: dict[str, Tree], alternatives: list[Tree]) -> Schema:
        """Return the schema of one alternative besides null."""
        others = [each for each in alternatives if not (isinstance(each, dict) and each.get("type") == "null")]
        if len(others) != 1:
            raise DataError("a JSON schema with several alternatives has no type in Connect")
        made = self._of(others[0])
        made = made if "default" not in told else _with_default(made, told["default"])
        return made.changed(optional=made.optional or len(others) < len(alternatives))

    def _of_type(self, told: dict[str, Tree], kind: Tree) -> Schema:
        own = told.get("connect.type")
        if own == "map":
            return self._map(told, kind)
        if own == "bytes":
            return Schema(Type.BYTES)
        if kind == "object" or (kind is None and "properties" in told):
            return self._struct(told)
        if kind == "array":
            return array_schema(self._of(told.get("items", {})))
        if not isinstance(kind, str) or kind not in _TYPES:
            raise DataError(f"{json.dumps(kind)[:100]} is no type of JSON schema that Connect has a type for")
        numbers = {each.value: each for each in (*_INTEGERS, *_FLOATS)}
        return Schema(numbers.get(str(own), _TYPES[kind]) if kind in ("integer", "number") else _TYPES[kind])

    def _map(self, told: dict[str, Tree], kind: Tree) -> Schema:
        if kind == "object":
            return map_schema(STRING, self._of(told.get("additionalProperties", {})))
        entry = self._of(told.get("items", {}))
        key, value = (entry.field(name) for name in ("key", "value"))
        if key is None or value is None:
            raise DataError("a map whose entries have no key and value")
        return map_schema(key.schema, value.schema)

    def _struct(self, told: dict[str, Tree]) -> Schema:
        properties = told.get("properties") or {}
        required = told.get("required")
        is_indexed = all(isinstance(each, dict) and "connect.index" in each for each in properties.values())
        names = sorted(properties, key=lambda name: properties[name]["connect.index"]) if is_indexed else properties
        fields = []
        for name in names:
            made = self._of(properties[name])
            if not is_indexed and name not in (required or ()):
                made = made.changed(optional=True)
            fields.append((name, made))
        return struct_schema(fields)


def _about(told: dict[str, Tree]) -> Iterator[tuple[str, Tree]]:
    for name, option in (("title", "name"), ("description", "doc"), ("connect.version", "version")):
        if isinstance(told.get(name), int if option == "version" else str):
            yield option, told[name]
    parameters = told.get("connect.parameters")
    if isinstance(parameters, dict) and parameters:
        yield "parameters", {name: str(value) for name, value in parameters.items()}


def _with_default(schema: Schema, told: Tree) -> Schema:
    if told is None:
        return schema
    plain = schema.changed(optional=False)
    return schema.changed(default=_PLAIN.value_of(plain, _exact(_with_maps(plain, told, _pair))))


def _with_maps(schema: Schema, tree: Tree, entry: Callable[[Tree, Tree], Tree]) -> Tree:
    """Return JSON in which each entry of a map that is an array is made by `entry` of its key and value."""
    if tree is None:
        return None
    match schema.type, tree:
        case Type.MAP, list():
            of_keys, of_values = _known(schema.key_schema), _known(schema.value_schema)
            return [
                entry(_with_maps(of_keys, key, entry), _with_maps(of_values, value, entry))
                for key, value in map(_key_and_value, tree)
            ]
        case Type.MAP, dict():
            return {key: _with_maps(_known(schema.value_schema), each, entry) for key, each in tree.items()}
        case Type.ARRAY, list():
            return [_with_maps(_known(schema.value_schema), each, entry) for each in tree]
        case Type.STRUCT, dict():
            return {f.name: _with_maps(f.schema, tree.get(f.name), entry) for f in schema.fields}
    return tree


def _key_and_value(told: Tree) -> tuple[Tree, Tree]:
    """Return the key and the value of an entry."""
    if isinstance(told, dict):
        return told.get("key"), told.get("value")
    if isinstance(told, list) and len(told) == 2:
        return told[0], told[1]
    raise DataError(f"{json.dumps(told)[:100]} is no entry of a map")


def _object(key: Tree, value: Tree) -> Tree:
    return {"key": key, "value": value}


def _pair(key: Tree, value: Tree) -> Tree:
    return [key, value]


def _exact(tree: Tree) -> Tree:
    """Return JSON whose fractions are decimals, as JsonConverter takes them."""
    if isinstance(tree, float):
        return Decimal(repr(tree))
    if isinstance(tree, list):
        return [_exact(each) for each in tree]
    return {name: _exact(each) for name, each in tree.items()} if isinstance(tree, dict) else tree


_PLAIN: Final = JsonConverter({"converter.type": "value", "schemas.enable": "false"})
_CONFIG: Final = registered_config(
    ConfigKey(
        _FORMAT, OptionType.STRING, "BASE64", Importance.LOW, "How decimals are written: BASE64 or NUMERIC.",
        one_of_ignoring_case("NUMERIC", "BASE64"),
    ),
)  # fmt: skip
