"""ProtobufConverter: Protobuf by a schema registry, under the name of Confluent's class.

    INT8, INT16, INT32   int32; confluent.field_meta has connect.type   ARRAY, MAP   repeated, map
    INT64                int64                                          STRUCT       message, named as the schema, else
    FLOAT32, FLOAT64     float, double                                               ConnectDefault1, ...
    BOOLEAN, STRING      bool, string                                   Decimal      confluent.type.Decimal
    BYTES                bytes                                          Timestamp    google.protobuf.Timestamp

A key or value is a struct. A null of an optional number, string or array of bytes is read as 0 or as empty, unless
optional.for.nullables=true writes fields with presence; other optional fields keep it. Date and Time, arrays and maps
within each other, and maps whose keys are neither integers, booleans nor strings have no Protobuf.

Other writers' schemas: all fields but repeated and required ones are optional; wrappers are what they wrap, enums
STRING, a oneof a struct NAME_INDEX with a field for each member.

Source: the documentation of Confluent's ProtobufConverter, and the schemas that it registers.
"""

from __future__ import annotations

import math
import re
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from kcli.connect.config.config_def import ConfigDef, ConfigKey, Importance
from kcli.connect.config.config_def import Type as OptionType
from kcli.connect.converters.registered import RegisteredConverter, registered_config
from kcli.connect.data.builder import array_schema, map_schema, struct_schema
from kcli.connect.data.errors import DataError
from kcli.connect.data.logical import OPTIONAL_TIMESTAMP, decimal_schema, scaled, unscaled_of
from kcli.connect.data.schema import Schema, Type
from kcli.connect.data.struct import Struct, validate
from kcli.connect.data.values import (
    LOGICAL_DATE,
    LOGICAL_DECIMAL,
    LOGICAL_TIME,
    LOGICAL_TIMESTAMP,
    Date,
    wrapped,
)
from kcli.java.values import as_float, java_integer
from kcli.schema_client.protobuf import message_of, prepare
from kcli.schema_client.sources import SchemaSource

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor

NAMESPACE: Final = "io.confluent.connect.protobuf"
ENUM: Final = f"{NAMESPACE}.Enum"
UNION: Final = f"{NAMESPACE}.Union"
_OPTIONAL: Final = "optional.for.nullables"
_META_FIELD: Final = 1088
_SCALARS: Final = {
    Type.INT8: "int32", Type.INT16: "int32", Type.INT32: "int32", Type.INT64: "int64", Type.FLOAT32: "float",
    Type.FLOAT64: "double", Type.BOOLEAN: "bool", Type.STRING: "string", Type.BYTES: "bytes",
}  # fmt: skip
_KEYS: Final = (Type.INT8, Type.INT16, Type.INT32, Type.INT64, Type.BOOLEAN, Type.STRING)
_KINDS: Final = {
    1: Type.FLOAT64, 2: Type.FLOAT32, 3: Type.INT64, 4: Type.INT64, 5: Type.INT32, 6: Type.INT64, 7: Type.INT64,
    8: Type.BOOLEAN, 9: Type.STRING, 12: Type.BYTES, 13: Type.INT64, 14: Type.STRING, 15: Type.INT32, 16: Type.INT64,
    17: Type.INT32, 18: Type.INT64,
}  # fmt: skip
"""The types of fields (FieldDescriptorProto.Type) besides group and message."""
_ENUM_KIND: Final = 14
_WRAPPERS: Final = {
    f"google.protobuf.{name}Value": kind
    for name, kind in (
        ("Double", Type.FLOAT64), ("Float", Type.FLOAT32), ("Int64", Type.INT64), ("UInt64", Type.INT64),
        ("Int32", Type.INT32), ("UInt32", Type.INT64), ("Bool", Type.BOOLEAN), ("String", Type.STRING),
        ("Bytes", Type.BYTES),
    )
}  # fmt: skip
_TIMESTAMP: Final = "google.protobuf.Timestamp"
_DECIMAL: Final = "confluent.type.Decimal"
_NOT_FINITE: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MOMENT: Final = re.compile(r"(.*?)(?:\.(\d+))?Z")
_IMPORTS: Final = {
    "google.protobuf.Timestamp": "google/protobuf/timestamp.proto",
    "confluent.type.Decimal": "confluent/type/decimal.proto",
    "confluent.field_meta": "confluent/meta.proto",
}


class ProtobufConverter(RegisteredConverter):
    """The converter. See the module."""

    CLASS = "io.confluent.connect.protobuf.ProtobufConverter"
    LANGUAGE = "PROTOBUF"

    @classmethod
    def config(cls) -> ConfigDef:
        """Return the options."""
        return _CONFIG

    def text_of(self, schema: Schema) -> str:
        """Return the .proto file of a schema."""
        return _Written(keeps_null=self.options[_OPTIONAL] is True).file(schema)

    def schema_of(self, source: SchemaSource, indexes: tuple[int, ...]) -> Schema:
        """Return the schema of a message."""
        return _Read().message(message_of(prepare(source), indexes))

    def tree_of(self, schema: Schema, value: Any) -> Any:
        """Return the JSON of a message."""
        validate(schema, value)
        return _tree(schema, value)

    def value_of(self, schema: Schema, tree: Any) -> Any:
        """Return the struct of a message's JSON."""
        return _struct(schema, tree)


class _Written:
    """A schema of Connect on its way to a .proto file."""

    def __init__(self, *, keeps_null: bool) -> None:
        self._keeps_null = keeps_null
        self._unnamed = count(1)
        self._used: set[str] = set()

    def file(self, schema: Schema) -> str:
        """Return the file, whose first message is the schema."""
        if schema.type is not Type.STRUCT:
            raise DataError(f"{ProtobufConverter.CLASS} writes structs only, not {schema.type.name}")
        package = (schema.name or "").rpartition(".")[0]
        if package:
            _checked(*package.split("."))
        message = self._message(schema, "")
        imports = [f'import "{_IMPORTS[name]}";' for name in sorted(self._used)]
        return "\n".join(['syntax = "proto3";', *([f"package {package};"] if package else []), *imports, message, ""])

    def _message(self, schema: Schema, indent: str) -> str:
        name = (schema.name or "").rpartition(".")[2] or f"ConnectDefault{next(self._unnamed)}"
        _checked(name, *(each.name for each in schema.fields))
        inner: list[str] = []
        fields = [
            self._field(field.name, number, field.schema, inner, indent + "  ")
            for number, field in enumerate(schema.fields, 1)
        ]
        return "\n".join([f"{indent}message {name} {{", *fields, *inner, f"{indent}}}"])

    def _field(self, name: str, number: int, schema: Schema, inner: list[str], indent: str) -> str:
        label, options = "", ""
        if schema.type is Type.ARRAY:
            element = _known(schema.value_schema)
            label, kind = "repeated ", self._kind(element, inner, indent)
        elif schema.type is Type.MAP:
            kind = self._map(schema, inner, indent)
        else:
            kind = self._kind(schema, inner, indent)
            if schema.optional and self._keeps_null and kind in _SCALARS.values():
                label = "optional "
            options = self._meta(schema)
        return f"{indent}{label}{kind} {name} = {number}{options};"

    def _map(self, schema: Schema, inner: list[str], indent: str) -> str:
        key = _known(schema.key_schema)
        if key.type not in _KEYS or key.name in (LOGICAL_DATE, LOGICAL_TIME, LOGICAL_TIMESTAMP):
            raise DataError(f"a map with keys of type {key.type.name} has no Protobuf")
        return f"map<{_SCALARS[key.type]}, {self._kind(_known(schema.value_schema), inner, indent)}>"

    def _kind(self, schema: Schema, inner: list[str], indent: str) -> str:
        if schema.name == LOGICAL_TIMESTAMP:
            self._used.add(_TIMESTAMP)
            return _TIMESTAMP
        if schema.name == LOGICAL_DECIMAL:
            self._used |= {_DECIMAL, "confluent.field_meta"}
            return _DECIMAL
        if schema.name in (LOGICAL_DATE, LOGICAL_TIME):
            raise DataError(f"{schema.name} has no Protobuf")
        if schema.type in (Type.ARRAY, Type.MAP):
            raise DataError("arrays and maps within each other have no Protobuf")
        if schema.type is not Type.STRUCT:
            return _SCALARS[schema.type]
        text = self._message(schema, indent)
        inner.append(text)
        return text.split()[1]

    def _meta(self, schema: Schema) -> str:
        params = {}
        if schema.type in (Type.INT8, Type.INT16):
            params["connect.type"] = schema.type.value
        elif schema.name == LOGICAL_DECIMAL:
            scale = (schema.parameters or {}).get("scale", "0")
            if java_integer(scale) is None:
                raise DataError(f"the scale {scale!r} of a decimal is no number")
            params["scale"] = scale
        if not params:
            return ""
        self._used.add("confluent.field_meta")
        told = ", ".join(f'{{key: "{name}", value: "{value}"}}' for name, value in params.items())
        return f" [(confluent.field_meta) = {{params: [{told}]}}]"


def _checked(*names: str) -> None:
    """Refuse a name that would be something else in the text of a .proto file. Raises DataError."""
    for name in names:
        if not _NAME.fullmatch(name):
            raise DataError(f"{name!r} is no name of Protobuf: letters, digits and _, and no digit first")


def _known(schema: Schema | None) -> Schema:
    if schema is None:
        raise DataError("an array or a map without a schema for its elements")
    return schema


class _Read:
    """A message of Protobuf on its way to Connect."""

    def __init__(self) -> None:
        self._open: set[str] = set()

    def message(self, message: Descriptor) -> Schema:
        """Return the schema of a message."""
        if message.full_name in self._open:
            raise DataError(f"the message {message.full_name} contains itself, which no schema of Connect can")
        self._open.add(message.full_name)
        made = struct_schema(self._fields(message), name=message.full_name)
        self._open.discard(message.full_name)
        return made

    def _fields(self, message: Descriptor) -> Iterator[tuple[str, Schema]]:
        chosen: set[str] = set()
        for field in message.fields:
            oneof = field.containing_oneof
            if oneof is None or (len(oneof.fields) == 1 and oneof.name == f"_{field.name}"):
                yield field.name, self._field(field)
            elif oneof.name not in chosen:
                chosen.add(oneof.name)
                members = [(each.name, self._field(each).changed(optional=True)) for each in oneof.fields]
                yield f"{oneof.name}_{oneof.index}", struct_schema(members, name=UNION, optional=True)

    def _field(self, field: FieldDescriptor) -> Schema:
        if field.is_repeated:
            entry = field.message_type
            if entry is not None and entry.GetOptions().map_entry:
                key, value = (self._single(entry.fields_by_name[name]) for name in ("key", "value"))
                return map_schema(key.changed(optional=False), value.changed(optional=False))
            return array_schema(self._single(field).changed(optional=False))
        return self._single(field).changed(optional=not field.is_required)

    def _single(self, field: FieldDescriptor) -> Schema:
        if field.message_type is not None:
            name = field.message_type.full_name
            if name in _WRAPPERS:
                return Schema(_WRAPPERS[name])
            if name == _TIMESTAMP:
                return OPTIONAL_TIMESTAMP
            if name == _DECIMAL:
                return decimal_schema(int(_params(field).get("scale", "0")))
            return self.message(field.message_type)
        kind = _KINDS.get(field.type)
        if kind is None:
            raise DataError(f"the field {field.full_name} has a type of Protobuf that Connect has none for")
        if field.type == _ENUM_KIND:
            symbols = {f"{ENUM}.{value.name}": str(value.number) for value in field.enum_type.values}
            return Schema(kind, parameters={ENUM: field.enum_type.name} | symbols)
        own = _params(field).get("connect.type")
        return Schema(Type(own) if kind is Type.INT32 and own in ("int8", "int16") else kind)


def _params(field: FieldDescriptor) -> Mapping[str, str]:
    """Return what confluent.field_meta says of a field."""
    from google.protobuf.descriptor_pb2 import FieldOptions
    from google.protobuf.message_factory import GetMessageClass

    try:
        extension = field.file.pool.FindExtensionByNumber(
            field.file.pool.FindMessageTypeByName("google.protobuf.FieldOptions"), _META_FIELD
        )
    except KeyError:
        return {}
    options: Any = GetMessageClass(extension.containing_type)
    told = options.FromString(FieldOptions.SerializeToString(field.GetOptions()))
    return dict(told.Extensions[extension].params)


def _tree(schema: Schema, value: Any) -> Any:
    """Return the JSON of a value that fits its schema, as Protobuf maps JSON."""
    if isinstance(value, Struct):
        pairs = ((field, value.value_of(field)) for field in value.schema.fields)
        return {field.name: _tree(field.schema, each) for field, each in pairs if each is not None}
    if isinstance(value, Date):
        return _moment(value)
    if isinstance(value, Decimal):
        unscaled = unscaled_of(value)
        size = (unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8 + 1
        scale = int((schema.parameters or {}).get("scale", "0"))
        return {"value": b64encode(unscaled.to_bytes(size, signed=True)).decode(), "scale": scale}
    match value:
        case bytes():
            return b64encode(value).decode()
        case list():
            return [_tree(_known(schema.value_schema), _present(each)) for each in value]
        case dict():
            of_values = _known(schema.value_schema)
            return {_key(key): _tree(of_values, _present(each)) for key, each in value.items()}
        case float():
            return value if math.isfinite(value) else "NaN" if math.isnan(value) else f"{'-' * (value < 0)}Infinity"
    return value


def _present(value: Any) -> Any:
    if value is None:
        raise DataError("a null within an array or a map has no Protobuf")
    return value


def _key(key: Any) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)


def _moment(value: Date) -> str:
    try:
        moment = value.moment
    except OverflowError:
        raise DataError(f"{value.millis} ms since 1970 are outside of the years 1 to 9999") from None
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{value.millis % 1000:03}Z".zfill(len("0000-00-00T00:00:00.000Z"))


def _struct(schema: Schema, tree: Mapping[str, Any]) -> Struct:
    struct = Struct(schema)
    for field in schema.fields:
        if field.schema.name == UNION:
            members = {each.name: tree[each.name] for each in field.schema.fields if each.name in tree}
            struct.put(field.name, _struct(field.schema, members) if members else None)
        else:
            struct.put(field.name, _value(field.schema, tree.get(field.name)))
    return struct


def _value(schema: Schema, tree: Any) -> Any:
    if tree is None:
        return None
    if schema.name == LOGICAL_TIMESTAMP:
        return _date(tree)
    if schema.name == LOGICAL_DECIMAL:
        scale = int((schema.parameters or {}).get("scale", "0"))
        return scaled(int.from_bytes(b64decode(tree.get("value", "")), signed=True), scale)
    match schema.type:
        case Type.STRUCT:
            return _struct(schema, tree)
        case Type.ARRAY:
            return [_value(_known(schema.value_schema), each) for each in tree]
        case Type.MAP:
            of_keys, of_values = _known(schema.key_schema), _known(schema.value_schema)
            return {_key_value(of_keys, key): _value(of_values, each) for key, each in tree.items()}
        case Type.INT64:
            return wrapped(int(tree), 64)
        case Type.FLOAT32 | Type.FLOAT64:
            number = _NOT_FINITE[tree] if isinstance(tree, str) else float(tree)
            return as_float(number) if schema.type is Type.FLOAT32 else number
        case Type.BYTES:
            return b64decode(tree)
    return tree


def _key_value(schema: Schema, key: str) -> Any:
    if schema.type is Type.STRING:
        return key
    return key == "true" if schema.type is Type.BOOLEAN else int(key)


def _date(text: str) -> Date:
    match = _MOMENT.fullmatch(text)
    if match is None:
        raise DataError(f"{text} is no google.protobuf.Timestamp")
    moment = datetime.fromisoformat(match[1]).replace(tzinfo=UTC)
    return Date(Date.of(moment).millis + int((match[2] or "0").ljust(3, "0")[:3]))


_CONFIG: Final = registered_config(
    ConfigKey(
        _OPTIONAL, OptionType.BOOLEAN, "false", Importance.MEDIUM,
        "Whether optional numbers, strings, booleans and bytes become fields with presence, which keep a null.",
    ),
)  # fmt: skip
