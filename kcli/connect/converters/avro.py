"""AvroConverter: Avro by a schema registry, under the name of Confluent's class.

    INT8, INT16            int, with connect.type         ARRAY    array
    INT32, INT64           int, long                      MAP      map; with other keys than required strings an array
    FLOAT32, FLOAT64       float, double                           of records io.confluent.connect.avro.MapEntry
    BOOLEAN, STRING, BYTES boolean, string, bytes         STRUCT   record, named as the schema, else ConnectDefault
    Decimal                bytes, decimal                 optional union with null, first unless there is a default
    Date, Time, Timestamp  int date, int time-millis, long timestamp-millis

Names, versions, parameters, docs and defaults are in connect.* of the Avro schema (connect.meta.data=true). Enums and
fixed are read as STRING and BYTES; a union of several types as a struct with a field for each.

Source: the documentation of Confluent's AvroConverter, and the schemas that it registers.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, Final

from kcli.connect.config.config_def import ConfigDef, ConfigKey, Importance
from kcli.connect.config.config_def import Type as OptionType
from kcli.connect.converters.registered import RegisteredConverter, registered_config
from kcli.connect.data.builder import array_schema, map_schema, struct_schema
from kcli.connect.data.errors import DataError
from kcli.connect.data.logical import date_of, decimal_bytes, decimal_of, decimal_schema, encoded
from kcli.connect.data.schema import STRING, Schema, Type
from kcli.connect.data.struct import Struct, validate
from kcli.connect.data.values import LOGICAL_DATE, LOGICAL_DECIMAL, LOGICAL_TIME, LOGICAL_TIMESTAMP, Date
from kcli.schema_client.avro import JsonSchema, Named, look_up, parse
from kcli.schema_client.sources import SchemaSource

NAMESPACE: Final = "io.confluent.connect.avro"
DEFAULT_NAME: Final = "ConnectDefault"
MAP_ENTRY: Final = "MapEntry"
UNION: Final = f"{NAMESPACE}.Union"
ENUM: Final = f"{NAMESPACE}.Enum"
_PRECISION: Final = 64
_PRIMITIVE: Final = {
    Type.INT8: "int", Type.INT16: "int", Type.INT32: "int", Type.INT64: "long", Type.FLOAT32: "float",
    Type.FLOAT64: "double", Type.BOOLEAN: "boolean", Type.STRING: "string", Type.BYTES: "bytes",
}  # fmt: skip
_TYPES: Final = {
    "int": Type.INT32, "long": Type.INT64, "float": Type.FLOAT32, "double": Type.FLOAT64, "boolean": Type.BOOLEAN,
    "string": Type.STRING, "bytes": Type.BYTES, "enum": Type.STRING, "fixed": Type.BYTES,
}  # fmt: skip
_LOGICAL_TYPES: Final = {LOGICAL_DATE: "date", LOGICAL_TIME: "time-millis", LOGICAL_TIMESTAMP: "timestamp-millis"}
_LOGICAL_NAMES: Final = {name: logical for logical, name in _LOGICAL_TYPES.items()}
_LOGICAL: Final = {LOGICAL_DECIMAL, *_LOGICAL_TYPES}
_NOT_FINITE: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_META: Final = "connect.meta.data"


class AvroConverter(RegisteredConverter):
    """The converter. See the module."""

    CLASS = "io.confluent.connect.avro.AvroConverter"
    LANGUAGE = "AVRO"

    @classmethod
    def config(cls) -> ConfigDef:
        """Return the options."""
        return _CONFIG

    def text_of(self, schema: Schema) -> str:
        """Return the Avro schema of a schema."""
        return json.dumps(avro_schema(schema, with_meta=self.options[_META] is True), separators=(",", ":"))

    def schema_of(self, source: SchemaSource, indexes: tuple[int, ...]) -> Schema:
        """Return the schema of an Avro schema."""
        del indexes
        tree, named = parse(source)
        return _Read(named).of(tree)

    def tree_of(self, schema: Schema, value: Any) -> Any:
        """Return the JSON of a value."""
        validate(schema, value)
        return _tree(schema, value, "")

    def value_of(self, schema: Schema, tree: Any) -> Any:
        """Return the value of JSON."""
        return _value(schema, tree)


def avro_schema(schema: Schema, *, with_meta: bool) -> Any:
    """Return the Avro schema of a schema, as JSON. with_meta: with connect.* in it. Raises DataError."""
    return _Written(with_meta=with_meta).of(schema)


def branch_of(schema: Schema) -> str:
    """Return the name of the branch of a union for a schema, which is not a struct's."""
    if schema.type is Type.MAP:
        return "map" if has_text_keys(schema) else "array"
    return "array" if schema.type is Type.ARRAY else _PRIMITIVE[schema.type]


def has_text_keys(schema: Schema) -> bool:
    """Return whether a map becomes a map of Avro, not an array of entries."""
    keys = schema.key_schema
    return keys is not None and keys.type is Type.STRING and not keys.optional


def _full_name(schema: Schema, number: int) -> str:
    return schema.name or f"{NAMESPACE}.{DEFAULT_NAME}{number if number > 1 else ''}"


class _Written:
    """A schema of Connect on its way to Avro. A named type is written in full where it is first."""

    def __init__(self, *, with_meta: bool) -> None:
        self._with_meta = with_meta
        self._names: dict[str, Schema] = {}
        self._unnamed = 0

    def of(self, schema: Schema) -> Any:
        """Return the Avro schema, as JSON."""
        base = self._base(schema)
        if not schema.optional:
            return base
        return ["null", base] if schema.default is None else [base, "null"]

    def _base(self, schema: Schema) -> Any:
        if schema.type is Type.STRUCT:
            return self._record(schema)
        made: dict[str, Any]
        if schema.type is Type.ARRAY:
            made = {"type": "array", "items": self.of(_known(schema.value_schema))}
        elif schema.type is Type.MAP:
            made = self._map(schema)
        else:
            made = {"type": _PRIMITIVE[schema.type]}
            if schema.type in (Type.INT8, Type.INT16):
                made["connect.type"] = schema.type.value
            if schema.name in _LOGICAL_TYPES:
                made["logicalType"] = _LOGICAL_TYPES[schema.name]
            elif schema.name == LOGICAL_DECIMAL:
                made |= {"logicalType": "decimal", "precision": _PRECISION, "scale": int(_scale(schema))}
        made |= self._meta(schema)
        return made["type"] if made.keys() == {"type"} else made

    def _map(self, schema: Schema) -> dict[str, Any]:
        if has_text_keys(schema):
            return {"type": "map", "values": self.of(_known(schema.value_schema))}
        fields = [("key", schema.key_schema), ("value", schema.value_schema)]
        entry = {
            "type": "record",
            "name": MAP_ENTRY,
            "namespace": NAMESPACE,
            "fields": [{"name": name, "type": self.of(_known(each))} for name, each in fields],
        }
        if f"{NAMESPACE}.{MAP_ENTRY}" in self._names:
            raise DataError("two maps whose keys are no strings in one Avro schema")
        self._names[f"{NAMESPACE}.{MAP_ENTRY}"] = schema
        return {"type": "array", "items": entry}

    def _record(self, schema: Schema) -> Any:
        if schema.name is None:
            self._unnamed += 1
        full = _full_name(schema, self._unnamed)
        if full in self._names:
            if self._names[full] == schema:
                return full
            raise DataError(f"two different schemas of the name {full} in one Avro schema")
        self._names[full] = schema
        namespace, _, name = full.rpartition(".")
        made: dict[str, Any] = {"type": "record", "name": name} | ({"namespace": namespace} if namespace else {})
        made["fields"] = [self._field(field.name, field.schema) for field in schema.fields]
        if schema.doc is not None:
            made["doc"] = schema.doc
        return made | self._meta(schema)

    def _field(self, name: str, schema: Schema) -> dict[str, Any]:
        made: dict[str, Any] = {"name": name, "type": self.of(schema)}
        if schema.doc is not None:
            made["doc"] = schema.doc
        if schema.default is not None:
            made["default"] = _tree(schema.changed(optional=False), schema.default, "")
        elif schema.optional:
            made["default"] = None
        return made

    def _meta(self, schema: Schema) -> dict[str, Any]:
        if not self._with_meta:
            return {}
        made: dict[str, Any] = {}
        if schema.doc is not None and schema.type is not Type.STRUCT:
            made["connect.doc"] = schema.doc
        if schema.version is not None:
            made["connect.version"] = schema.version
        if schema.parameters:
            made["connect.parameters"] = dict(schema.parameters)
        if schema.default is not None:
            made["connect.default"] = _tree(schema.changed(optional=False), schema.default, "")
        if schema.name is not None:
            made["connect.name"] = schema.name
        return made


def _scale(schema: Schema) -> str:
    scale = (schema.parameters or {}).get("scale")
    if scale is None:
        raise DataError("Invalid Decimal schema: scale parameter not found.")
    return scale


def _known(schema: Schema | None) -> Schema:
    if schema is None:
        raise DataError("an array or a map without a schema for its elements")
    return schema


class _Read:
    """A schema of Avro on its way to Connect."""

    def __init__(self, named: Named) -> None:
        self._named = named
        self._open: set[str] = set()

    def of(self, tree: JsonSchema, default: Any = None) -> Schema:
        """Return the schema. default: of the field, as JSON."""
        kind, parts = look_up(tree, self._named)
        if kind == "union":
            return self._union(parts["members"], default)
        if kind == "null":
            raise DataError("Avro's null is no schema of Connect outside of a union")
        made = self._of_kind(kind, parts)
        own = parts.get("connect.default", default)
        return made if own is None else made.changed(default=_value(made, own))

    def _union(self, members: list[Any], default: Any) -> Schema:
        others = [each for each in members if look_up(each, self._named)[0] != "null"]
        is_optional = len(others) < len(members)
        if len(others) == 1:
            return self.of(others[0], default).changed(optional=is_optional)
        fields = [(_member_name(*look_up(each, self._named)), self.of(each).changed(optional=True)) for each in others]
        return struct_schema(fields, name=UNION, optional=is_optional)

    def _of_kind(self, kind: str, parts: Mapping[str, Any]) -> Schema:
        about: dict[str, Any] = {
            "name": parts.get("connect.name"),
            "version": parts.get("connect.version"),
            "doc": parts.get("connect.doc"),
            "parameters": parts.get("connect.parameters"),
        }
        match kind:
            case "record":
                return self._record(parts, about)
            case "map":
                return map_schema(STRING, self.of(parts["values"]), **about)
            case "array":
                return self._array(parts, about)
            case "enum":
                symbols = {f"{ENUM}.{symbol}": symbol for symbol in parts["symbols"]}
                about["parameters"] = (about["parameters"] or {}) | {ENUM: parts["name"]} | symbols
            case "fixed":
                about["parameters"] = (about["parameters"] or {}) | {"connect.fixed.size": str(parts["size"])}
        return self._primitive(kind, parts, about)

    def _primitive(self, kind: str, parts: Mapping[str, Any], about: dict[str, Any]) -> Schema:
        logical = parts.get("logicalType")
        if logical == "decimal" and kind == "bytes":
            made = decimal_schema(int(parts.get("scale", 0)))
            precision = parts.get("precision", _PRECISION)
            more = {} if precision == _PRECISION else {"connect.decimal.precision": str(precision)}
            return made.changed(parameters={**(made.parameters or {}), **(about["parameters"] or {}), **more})
        if logical in _LOGICAL_NAMES:
            about |= {"name": _LOGICAL_NAMES[logical], "version": 1}
        own = parts.get("connect.type")
        return Schema(Type(own) if own in ("int8", "int16") and kind == "int" else _TYPES[kind], **about)

    def _array(self, parts: Mapping[str, Any], about: dict[str, Any]) -> Schema:
        kind, items = look_up(parts["items"], self._named)
        if kind == "record" and items["name"] == f"{NAMESPACE}.{MAP_ENTRY}":
            key, value = (self.of(field["type"]) for field in items["fields"])
            return map_schema(key, value, **about)
        return array_schema(self.of(parts["items"]), **about)

    def _record(self, parts: Mapping[str, Any], about: dict[str, Any]) -> Schema:
        name = parts["name"]
        if name in self._open:
            raise DataError(f"the Avro record {name} contains itself, which no schema of Connect can")
        self._open.add(name)
        about |= {"name": about["name"] or name, "doc": parts.get("doc") or about["doc"]}
        if name.rpartition(".")[2].startswith(DEFAULT_NAME) and "connect.name" not in parts:
            about["name"] = None if name.startswith(f"{NAMESPACE}.") else about["name"]
        fields = [(field["name"], self._field(field)) for field in parts["fields"]]
        self._open.discard(name)
        return struct_schema(fields, **about)

    def _field(self, field: Mapping[str, Any]) -> Schema:
        made = self.of(field["type"], field.get("default"))
        return made if made.doc or "doc" not in field else made.changed(doc=field["doc"])


def _member_name(kind: str, parts: Mapping[str, Any]) -> str:
    return str(parts["name"]).rpartition(".")[2] if kind in ("record", "enum", "fixed") else kind


def _tree(schema: Schema, value: Any, path: str) -> Any:
    """Return the JSON of a value that fits its schema."""
    if schema.optional:
        if value is None:
            return None
        plain = schema.changed(optional=False)
        tree = _tree(plain, value, path)
        return tree if schema.type is Type.STRUCT else {branch_of(plain): tree}
    if schema.name == LOGICAL_DECIMAL:
        return decimal_bytes(schema, value).decode("latin-1")
    if isinstance(value, Date):
        return encoded(schema, value)
    match schema.type:
        case Type.STRUCT:
            return {field.name: _tree(field.schema, value.value_of(field), field.name) for field in value.schema.fields}
        case Type.ARRAY:
            return [_tree(_known(schema.value_schema), each, path) for each in value]
        case Type.MAP:
            of_keys, of_values = _known(schema.key_schema), _known(schema.value_schema)
            if has_text_keys(schema):
                return {key: _tree(of_values, each, path) for key, each in value.items()}
            return [
                {"key": _tree(of_keys, key, path), "value": _tree(of_values, each, path)} for key, each in value.items()
            ]
        case Type.BYTES:
            return value.decode("latin-1")
        case Type.FLOAT32 | Type.FLOAT64:
            return float(value)
    return value


def _value(schema: Schema, tree: Any) -> Any:
    """Return the value of JSON that an Avro schema allows."""
    if tree is None:
        return None
    if schema.name == UNION and schema.type is Type.STRUCT:
        return _union_value(schema, tree)
    return _plain_value(schema, next(iter(tree.values())) if schema.optional else tree)


def _plain_value(schema: Schema, tree: Any) -> Any:
    if schema.name == LOGICAL_DECIMAL:
        return decimal_of(schema, tree.encode("latin-1"))
    if schema.name in _LOGICAL_TYPES:
        return date_of(tree) if schema.name == LOGICAL_DATE else Date(tree)
    match schema.type:
        case Type.STRUCT:
            struct = Struct(schema)
            for field in schema.fields:
                struct.put(field.name, _value(field.schema, tree.get(field.name)))
            return struct
        case Type.ARRAY:
            return [_value(_known(schema.value_schema), each) for each in tree]
        case Type.MAP:
            of_keys, of_values = _known(schema.key_schema), _known(schema.value_schema)
            if isinstance(tree, list):
                return {_value(of_keys, each["key"]): _value(of_values, each["value"]) for each in tree}
            return {key: _value(of_values, each) for key, each in tree.items()}
        case Type.BYTES:
            return tree.encode("latin-1")
        case Type.FLOAT32 | Type.FLOAT64:
            return _NOT_FINITE[tree] if isinstance(tree, str) else float(tree)
    return tree


def _union_value(schema: Schema, tree: dict[str, Any]) -> Struct:
    struct = Struct(schema)
    name, value = next(iter(tree.items()))
    field = schema.field(name) or schema.field(name.rpartition(".")[2])
    if field is None:
        raise DataError(f"{name} is not a branch of the union")
    struct.put(field.name, _plain_value(field.schema, value))
    return struct


_CONFIG: Final = registered_config(
    ConfigKey(
        _META, OptionType.BOOLEAN, "true", Importance.LOW,
        "Whether what Connect's schemas have and Avro's do not is in connect.* of the Avro schemas.",
    ),
)  # fmt: skip
