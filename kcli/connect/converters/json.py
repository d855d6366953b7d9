"""JsonConverter: JSON with its schema beside it, or JSON alone.

    schemas.enable=true    {"schema": {"type": "int32", "optional": false}, "payload": 7}
    schemas.enable=false   7, and read without a schema: int64, float64, boolean, string, array, map

    bytes     Base64                     Decimal   Base64 of its unscaled value, or a number (decimal.format=NUMERIC)
    map       an object, with keys that are no strings an array of [key, value]
    Date      days since 1970            Time, Timestamp   milliseconds

Source: org.apache.kafka.connect.json.JsonConverter, JsonSchema, JsonConverterConfig.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from binascii import Error as BadBase64
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

from kcli.connect.config.config_def import ConfigDef, ConfigKey, Importance, Width
from kcli.connect.config.config_def import Type as OptionType
from kcli.connect.config.validators import one_of_ignoring_case
from kcli.connect.converters.converter import NOTHING, KafkaConverter, converter_config
from kcli.connect.converters.jackson import MISSING, BadJson, head_of, payload_behind, read_tree
from kcli.connect.data.builder import array_schema, map_schema, struct_schema, with_default
from kcli.connect.data.errors import DataError, JavaError, SchemaBuilderError
from kcli.connect.data.logical import (
    date_days,
    date_of,
    decimal_bytes,
    decimal_of,
    time_millis,
    time_of,
    timestamp_millis,
)
from kcli.connect.data.maps import hash_map
from kcli.connect.data.numbers import double_of, integer_of
from kcli.connect.data.records import SchemaAndValue
from kcli.connect.data.schema import Schema, Type, remembered
from kcli.connect.data.struct import Struct, validate
from kcli.connect.data.texts import number_text
from kcli.connect.data.values import (
    INTEGER_BITS,
    LOGICAL_DATE,
    LOGICAL_DECIMAL,
    LOGICAL_TIME,
    LOGICAL_TIMESTAMP,
    Date,
    class_name,
    fits,
    type_of,
    wrapped,
)
from kcli.java.values import INT_MAX, INT_MIN, as_float
from kcli.schemas.jackson import string_text as jackson_text

_NAMES: Final = {kind: kind.value for kind in Type} | {Type.FLOAT32: "float", Type.FLOAT64: "double"}
_TYPES: Final = {name: kind for kind, name in _NAMES.items()}
_ENVELOPE: Final = {"schema", "payload"}
_SURROGATE: Final = re.compile("[\ud800-\udfff\U00010000-\U0010ffff]")
_SCHEMAS_KEPT: Final = 10_000
_NUMERIC: Final = "NUMERIC"


class JsonConverter(KafkaConverter):
    """The converter. See the module."""

    CLASS = "org.apache.kafka.connect.json.JsonConverter"

    def __init__(self, properties: Mapping[str, str | None]) -> None:
        options = self.config().parse(properties)
        self._with_schemas = options["schemas.enable"] is True
        self._replaces_null = options["replace.null.with.default"] is True
        self._decimal_format = str(options["decimal.format"]).upper()
        size = options["schemas.cache.size"]
        assert isinstance(size, int), size
        self._schema_text = remembered(self._written_schema, max(size, 0))
        self._schemas: dict[str, Schema] = {}
        self._schemas_max = size
        self._head: tuple[bytes, Schema] | None = None
        """The bytes before the last payload that had a schema before it, and that schema: most have the same."""
        content = options["schema.content"]
        self._schema = self._configured_schema(str(content)) if content else None

    @classmethod
    def config(cls) -> ConfigDef:
        """Return the options."""
        return _CONFIG

    def from_connect(self, topic: str, schema: Schema | None, value: object) -> bytes | None:
        """Return the JSON of a value."""
        del topic
        if schema is None and value is None:
            return None
        text = self._text(schema, value)
        if self._with_schemas:
            text = f'{{"schema":{"null" if schema is None else self._schema_text(schema)},"payload":{text}}}'
        try:
            return text.encode()
        except UnicodeEncodeError:
            raise DataError("Converting Kafka Connect data to byte[] failed due to serialization error: ") from None

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        """Return the value of JSON."""
        del topic
        if data is None:
            return NOTHING
        if self._head is not None and data.startswith(self._head[0]):
            payload = payload_behind(data, len(self._head[0]))
            if payload is not MISSING:
                return SchemaAndValue(self._head[1], self.value_of(self._head[1], payload))
        try:
            tree = read_tree(data)
        except BadJson:
            raise DataError("Converting byte[] to Kafka Connect data failed due to serialization error: ") from None
        if not self._with_schemas:
            return SchemaAndValue(None, self.value_of(None, tree))
        if self._schema is not None:
            return SchemaAndValue(self._schema, self.value_of(self._schema, tree))
        if not isinstance(tree, dict) or tree.keys() != _ENVELOPE:
            raise DataError(
                'JsonConverter with schemas.enable requires "schema" and "payload" fields and may not contain '
                "additional fields. If you are trying to deserialize plain JSON data, set schemas.enable=false in your "
                "converter configuration."
            )
        schema = self._read_schema(tree["schema"])
        head = head_of(data)
        self._head = None if head is None or schema is None else (head, schema)
        return SchemaAndValue(schema, self.value_of(schema, tree["payload"]))

    def _configured_schema(self, text: str) -> Schema | None:
        try:
            return self._read_schema(read_tree(text.encode()))
        except BadJson:
            raise DataError("Failed to parse schema in converter config due to serialization error: ") from None

    def _written_schema(self, schema: Schema) -> str:
        parts = [f'"type":"{_NAMES[schema.type]}"']
        if schema.type is Type.STRUCT:
            fields = (f'{self._schema_text(f.schema)[:-1]},"field":{string_text(f.name)}}}' for f in schema.fields)
            parts.append(f'"fields":[{",".join(fields)}]')
        elif schema.type is Type.MAP:
            parts.append(f'"keys":{self._optional_schema(schema.key_schema)}')
            parts.append(f'"values":{self._optional_schema(schema.value_schema)}')
        elif schema.type is Type.ARRAY:
            parts.append(f'"items":{self._optional_schema(schema.value_schema)}')
        parts.append(f'"optional":{"true" if schema.optional else "false"}')
        if schema.name is not None:
            parts.append(f'"name":{string_text(schema.name)}')
        if schema.version is not None:
            parts.append(f'"version":{schema.version}')
        if schema.doc is not None:
            parts.append(f'"doc":{string_text(schema.doc)}')
        if schema.parameters is not None:
            entries = (f"{string_text(name)}:{string_text(value)}" for name, value in schema.parameters.items())
            parts.append(f'"parameters":{{{",".join(entries)}}}')
        if schema.default is not None:
            parts.append(f'"default":{self._text(schema, schema.default)}')
        return f"{{{','.join(parts)}}}"

    def _optional_schema(self, schema: Schema | None) -> str:
        return "null" if schema is None else self._schema_text(schema)

    def _text(self, schema: Schema | None, value: Any) -> str:
        """Return the JSON of a value without its schema."""
        if value is None:
            return self._null(schema)
        if schema is not None and schema.name in _LOGICAL:
            return self._logical_text(schema, value)
        kind = _type(schema, value)
        match kind:
            case Type.STRING:
                return string_text(value)
            case Type.BOOLEAN:
                return "true" if value else "false"
            case Type.BYTES:
                return f'"{b64encode(value).decode()}"'
            case Type.ARRAY:
                of_values = schema and schema.value_schema
                return f"[{','.join([self._text(of_values, each) for each in value])}]"
            case Type.MAP:
                return self._map_text(schema, value)
            case Type.STRUCT:
                return self._struct_text(schema, value)
            case Type.FLOAT32 | Type.FLOAT64:
                text = number_text(value, schema)
                return f'"{text}"' if text[-1] in "Ny" else text
            case _:
                return str(int(value))

    def _null(self, schema: Schema | None) -> str:
        if schema is None:
            return "null"
        if schema.default is not None and self._replaces_null:
            return self._text(schema, schema.default)
        if schema.optional:
            return "null"
        raise DataError("Conversion error: null value for field that is required and has no default value")

    def _map_text(self, schema: Schema | None, values: Mapping[Any, Any]) -> str:
        of_keys, of_values = schema and schema.key_schema, schema and schema.value_schema
        if schema is None:
            is_object = all(isinstance(key, str) for key in values)
        else:
            is_object = of_keys is not None and of_keys.type is Type.STRING
        entries = [(self._text(of_keys, key), self._text(of_values, value)) for key, value in values.items()]
        if is_object:
            named = {key if key[0] == '"' else f'"{key}"': value for key, value in entries}
            return f"{{{','.join([f'{key}:{value}' for key, value in named.items()])}}}"
        return f"[{','.join([f'[{key},{value}]' for key, value in entries])}]"

    def _struct_text(self, schema: Schema | None, struct: Struct) -> str:
        if schema is None or (struct.schema is not schema and struct.schema != schema):
            raise DataError("Mismatching schema.")
        parts = []
        for (name, kind, field_schema), value in zip(_fields(schema), struct.values, strict=True):
            if kind is int and type(value) is int:
                parts.append(f"{_quoted(name)}:{value}")
            elif kind is str and type(value) is str:
                parts.append(f"{_quoted(name)}:{string_text(value)}")
            else:
                parts.append(f"{_quoted(name)}:{self._text(field_schema, value)}")
        return f"{{{','.join(parts)}}}"

    def _logical_text(self, schema: Schema, value: Any) -> str:
        if schema.name == LOGICAL_DECIMAL:
            if not isinstance(value, Decimal):
                raise DataError(
                    f"Invalid type for Decimal, expected BigDecimal but was class {class_name(value, schema)}"
                )
            if self._decimal_format == _NUMERIC:
                return number_text(value)
            return f'"{b64encode(decimal_bytes(schema, value)).decode()}"'
        assert schema.name is not None
        kind, encoded = _LOGICAL[schema.name]
        if not isinstance(value, Date):
            raise DataError(f"Invalid type for {kind}, expected Date but was class {class_name(value, schema)}")
        return str(encoded(schema, value))

    def _read_schema(self, tree: Any) -> Schema | None:
        """Return a schema from its JSON; None for null."""
        if tree is None:
            return None
        key = repr(tree)
        schema = self._schemas.get(key)
        if schema is None:
            schema = self._made_schema(tree)
            if self._schemas_max > 0:
                if len(self._schemas) >= self._schemas_max:
                    del self._schemas[next(iter(self._schemas))]
                self._schemas[key] = schema
        return schema

    def _made_schema(self, tree: Any) -> Schema:
        named = tree if isinstance(tree, dict) else {}
        name = named.get("type")
        if not isinstance(name, str):
            raise DataError("Schema must contain 'type' field")
        kind = _TYPES.get(name)
        if kind is None:
            raise DataError(f"Unknown schema type: {name}")
        made = self._of_type(kind, named)
        about: dict[str, Any] = {"optional": named.get("optional") is True}
        for option, allowed in (("name", str), ("doc", str), ("version", int)):
            value = named.get(option)
            if isinstance(value, allowed) and not isinstance(value, bool):
                about[option] = wrapped(value, 32) if isinstance(value, int) else value
        parameters = named.get("parameters")
        if isinstance(parameters, dict):
            if not all(isinstance(value, str) for value in parameters.values()):
                raise DataError("Schema parameters must have string values.")
            about["parameters"] = parameters or None
        made = made.changed(**about)
        if "default" not in named:
            return made
        default = self.value_of(made, named["default"])
        if kind is Type.STRUCT and default is not None:
            raise SchemaBuilderError("Invalid default value")  # Kafka compares the struct's schema with its builder
        return with_default(made, default)

    def _of_type(self, kind: Type, tree: dict[str, Any]) -> Schema:
        if kind is Type.ARRAY:
            items = self._read_schema(tree.get("items"))
            if items is None:
                raise DataError("Array schema did not specify the element type")
            return array_schema(items)
        if kind is Type.MAP:
            return map_schema(*(self._part(tree, name, what) for name, what in (("keys", "key"), ("values", "value"))))
        if kind is not Type.STRUCT:
            return Schema(kind)
        fields = tree.get("fields")
        if not isinstance(fields, list):
            raise DataError('Struct schema\'s "fields" argument is not an array.')
        return struct_schema([self._field(each) for each in fields])

    def _part(self, tree: dict[str, Any], name: str, what: str) -> Schema:
        if name not in tree:
            raise DataError(f"Map schema did not specify the {what} type")
        schema = self._read_schema(tree[name])
        if schema is None:
            raise SchemaBuilderError(f"{what}Schema cannot be null.")
        return schema

    def _field(self, tree: Any) -> tuple[str, Schema]:
        name = tree.get("field") if isinstance(tree, dict) else None
        if not isinstance(name, str):
            raise DataError("Struct schema's field name not specified properly")
        return name, self._made_schema(tree)

    def value_of(self, schema: Schema | None, tree: Any) -> Any:
        """Return the value of JSON, as `jackson.read_tree` returns it. Raises DataError."""
        if schema is None:
            return self._without_schema(tree)
        if tree is None:
            if schema.default is not None and self._replaces_null:
                return schema.default
            if schema.optional:
                return None
            raise DataError(f"Invalid null value for required {schema.type.name} field")
        if schema.name in _LOGICAL:
            return _logical_value(schema, tree)
        match schema.type:
            case Type.STRING:
                return tree if isinstance(tree, str) else None
            case Type.BOOLEAN:
                return tree is True
            case Type.BYTES:
                return _bytes(tree)
            case Type.ARRAY:
                entries = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ()
                return [self.value_of(schema.value_schema, each) for each in entries]
            case Type.MAP:
                return self._map(schema, tree)
            case Type.STRUCT:
                return self._struct(schema, tree)
            case Type.FLOAT32:
                return as_float(double_of(tree)) if _is_number(tree) else 0.0
            case Type.FLOAT64:
                return double_of(tree) if _is_number(tree) else 0.0
            case _:
                return wrapped(_integer(tree, schema.type), INTEGER_BITS[schema.type])

    def _without_schema(self, tree: Any) -> Any:
        if isinstance(tree, dict):
            return hash_map({name: self._without_schema(each) for name, each in tree.items()})
        if isinstance(tree, list):
            return [self._without_schema(each) for each in tree]
        if isinstance(tree, int) and not isinstance(tree, bool):
            return wrapped(tree, 64)
        if tree is MISSING:
            return None
        return double_of(tree) if isinstance(tree, Decimal) else tree

    def _map(self, schema: Schema, tree: Any) -> dict[Any, Any]:
        assert schema.key_schema is not None
        if schema.key_schema.type is Type.STRING:
            if not isinstance(tree, dict):
                raise DataError(
                    f"Maps with string fields should be encoded as JSON objects, but found {_node_type(tree)}"
                )
            return hash_map({name: self.value_of(schema.value_schema, each) for name, each in tree.items()})
        if not isinstance(tree, list):
            raise DataError(
                f"Maps with non-string fields should be encoded as JSON array of tuples, but found {_node_type(tree)}"
            )
        made = {}
        for entry in tree:
            if not isinstance(entry, list):
                raise DataError(f"Found invalid map entry instead of array tuple: {_node_type(entry)}")
            if len(entry) != 2:
                raise DataError(f"Found invalid map entry, expected length 2 but found :{len(entry)}")
            made[self.value_of(schema.key_schema, entry[0])] = self.value_of(schema.value_schema, entry[1])
        return hash_map(made)

    def _struct(self, schema: Schema, tree: Any) -> Struct:
        if not isinstance(tree, dict):
            raise DataError(f"Structs should be encoded as JSON objects, but found {_node_type(tree)}")
        struct = Struct(schema)
        values = struct.values
        for index, (name, kind, field_schema) in enumerate(_fields(schema)):
            value = tree.get(name)
            if (kind is str and type(value) is str) or (
                kind is int and type(value) is int and INT_MIN <= value <= INT_MAX
            ):
                values[index] = value
            elif value is not None or field_schema.default is not None or not field_schema.optional:
                value = self.value_of(field_schema, value)
                validate(field_schema, value, f'field: "{name}"')
                values[index] = value
        return struct


def _named_fields(schema: Schema) -> tuple[tuple[str, type | None, Schema], ...]:
    """Return name and schema of each field of a struct, and what a value is that is read and written as it is: int of
    at most 32 bits, str; None for others."""
    return tuple((field.name, _plain_class(field.schema), field.schema) for field in schema.fields)


_fields: Final = remembered(_named_fields, _SCHEMAS_KEPT)


def _plain_class(schema: Schema) -> type | None:
    if schema.name in _LOGICAL:
        return None
    if schema.type is Type.STRING:
        return str
    return int if schema.type in (Type.INT32, Type.INT64) else None


@lru_cache(_SCHEMAS_KEPT)
def _quoted(name: str) -> str:
    return string_text(name)


def _type(schema: Schema | None, value: Any) -> Type:
    """Return the type of a value, which its class must fit."""
    if schema is None:
        kind = type_of(value)
        if kind is None:
            raise DataError(f"Java class class {class_name(value)} does not have corresponding schema type.")
        return kind
    if fits(schema, value):
        return schema.type
    what = "bytes type" if schema.type is Type.BYTES else schema.type.name
    raise DataError(f"Invalid type for {what}: class {class_name(value)}")


def string_text(text: str) -> str:
    """Return a string in quotes. Jackson escapes each half of a surrogate pair when it writes UTF-8."""
    quoted = jackson_text(text)
    return quoted if quoted.isascii() or max(quoted) < "\ud800" else _SURROGATE.sub(_escaped, quoted)


def _escaped(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i : i + 2].hex().upper()}" for i in range(0, len(units), 2))


def _logical_value(schema: Schema, tree: Any) -> Any:
    if schema.name == LOGICAL_DECIMAL:
        if _is_number(tree):
            return Decimal(tree)
        if isinstance(tree, str):
            try:
                return decimal_of(schema, _bytes(tree) or b"")
            except (DataError, JavaError):
                raise DataError("Invalid bytes for Decimal field") from None
        raise DataError(
            f"Invalid type for Decimal, underlying representation should be numeric or bytes but was {_node_type(tree)}"
        )
    assert schema.name is not None
    kind = _LOGICAL[schema.name][0]
    is_integer = isinstance(tree, int) and not isinstance(tree, bool)
    if schema.name == LOGICAL_TIMESTAMP:
        if not is_integer:
            raise DataError(
                f"Invalid type for {kind}, underlying representation should be integral but was {_node_type(tree)}"
            )
        return Date(wrapped(tree, 64))
    if not is_integer or not INT_MIN <= tree <= INT_MAX:
        raise DataError(
            f"Invalid type for {kind}, underlying representation should be integer but was {_node_type(tree)}"
        )
    return date_of(tree) if schema.name == LOGICAL_DATE else time_of(tree)


def _bytes(tree: Any) -> bytes | None:
    """Return the bytes of Base64; None for what is no text."""
    if not isinstance(tree, str):
        return None
    text = "".join(each for each in tree if each > " ")
    try:
        return b64decode(text, validate=True)
    except (BadBase64, ValueError):
        raise DataError("Invalid bytes field") from None


def _integer(tree: Any, kind: Type) -> int:
    """Return the integer of a number, 0 for what is no number, as JsonNode.intValue or longValue does."""
    return integer_of(tree, 64 if kind is Type.INT64 else 32) if _is_number(tree) else 0


def _is_number(tree: Any) -> bool:
    return isinstance(tree, int | Decimal) and not isinstance(tree, bool)


def _node_type(tree: Any) -> str:
    if tree is MISSING:
        return "MISSING"
    if isinstance(tree, bool):
        return "BOOLEAN"
    kinds = {str: "STRING", list: "ARRAY", dict: "OBJECT", type(None): "NULL"}
    return kinds.get(type(tree), "NUMBER")


_LOGICAL: Final[dict[str | None, tuple[str, Callable[[Schema, Any], object]]]] = {
    LOGICAL_DECIMAL: ("Decimal", decimal_bytes),
    LOGICAL_DATE: ("Date", date_days),
    LOGICAL_TIME: ("Time", time_millis),
    LOGICAL_TIMESTAMP: ("Timestamp", timestamp_millis),
}
_CONFIG: Final = converter_config(
    ConfigKey(
        "schemas.enable", OptionType.BOOLEAN, "true", Importance.HIGH,
        "Whether each key or value has its schema beside it.",
        None, "Schemas", 0, Width.MEDIUM, "Enable Schemas",
    ),
    ConfigKey(
        "schemas.cache.size", OptionType.INT, "1000", Importance.HIGH,
        "The maximum number of schemas that the converter keeps.",
        None, "Schemas", 1, Width.MEDIUM, "Schema Cache Size",
    ),
    ConfigKey(
        "schema.content", OptionType.STRING, None, Importance.HIGH,
        "The schema of all keys or values, for sinks with schemas.enable; those beside the values are not looked at.",
        None, "Schemas", 2, Width.MEDIUM, "Schema Content",
    ),
    ConfigKey(
        "decimal.format", OptionType.STRING, "BASE64", Importance.LOW,
        "How decimals are written: BASE64 or NUMERIC, in any case.",
        one_of_ignoring_case(_NUMERIC, "BASE64"), "Serialization", 0, Width.MEDIUM, "Decimal Format",
    ),
    ConfigKey(
        "replace.null.with.default", OptionType.BOOLEAN, "true", Importance.LOW,
        "Whether a null is replaced by the default of its schema, if there is one.",
        None, "Serialization", 1, Width.MEDIUM, "Replace null with default",
    ),
)  # fmt: skip
