"""Protobuf descriptors as Arrow types, and as programs for the compiled decoder (formats.kernels.payload.protobuf).

    double, float, bool, string, bytes             the same type
    int32, sint32, sfixed32                        int
    int64, sint64, sfixed64                        bigint
    uint32, fixed32                                bigint
    uint64, fixed64                                decimal(20)
    enum                                           string: the symbol, or the number if it has no symbol
    message                                        struct; a message within itself, or without fields: binary
    repeated, map                                  list, map
    google.protobuf.Timestamp                      timestamp (UTC)
    google.protobuf.Int64Value, other wrappers     the type of their field `value`

A field that is not in a payload is null; with implicit presence (plain fields of proto3) it is zero or empty. protoc
from grpcio-tools compiles .proto files; tests compare the decoder's values with those of protobuf's Python runtime.
Source: protobuf.dev, "Encoding", "Field Presence"; Confluent's wire format for the message's indexes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.types as pt

from formats.kernels.payload import protobuf as kernel
from formats.kernels.payload.payloads import SCHEMA_MESSAGE
from kcli.export.decoding.ddl import TIMESTAMP
from kcli.export.decoding.shapes import COLUMNS_MAX, Node, shape
from kcli.schema_client.errors import SchemaError
from kcli.schema_client.protobuf import message_of, prepare
from kcli.schema_client.sources import SchemaSource

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor

__all__ = ["header", "language", "message_of", "prepare", "program", "type_of"]

language = "PROTOBUF"
header = SCHEMA_MESSAGE

# FieldDescriptor.type (1 to 18) -> the code for formats.kernels.payload.protobuf, and the Arrow type.
_CODES: dict[int, tuple[int, pa.DataType]] = {
    1: (kernel.PROTO_DOUBLE, pa.float64()),
    2: (kernel.PROTO_FLOAT, pa.float32()),
    3: (kernel.PROTO_INT64, pa.int64()),
    4: (kernel.PROTO_UINT64, pa.decimal128(20, 0)),
    5: (kernel.PROTO_INT32, pa.int32()),
    6: (kernel.PROTO_FIXED64, pa.decimal128(20, 0)),
    7: (kernel.PROTO_FIXED32, pa.int64()),
    8: (kernel.PROTO_BOOL, pa.bool_()),
    9: (kernel.PROTO_STRING, pa.string()),
    12: (kernel.PROTO_BYTES, pa.binary()),
    13: (kernel.PROTO_UINT32, pa.int64()),
    14: (kernel.PROTO_ENUM, pa.string()),
    15: (kernel.PROTO_SFIXED32, pa.int32()),
    16: (kernel.PROTO_SFIXED64, pa.int64()),
    17: (kernel.PROTO_SINT32, pa.int32()),
    18: (kernel.PROTO_SINT64, pa.int64()),
}
_GROUP, _MESSAGE, _ENUM = 10, 11, 14
_TIMESTAMP = "google.protobuf.Timestamp"
_WRAPPERS = frozenset(
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)


def _indexes(start: bytes) -> Sequence[int]:
    """Return the message indexes in a Schema Registry prefix, outermost message first; none for b"". They follow the
    schema id and the number of indexes. Return (0,) if that number is 0 (the short form for the first message) or
    missing."""
    if not start:
        return ()
    numbers: list[int] = []
    value = shift = 0
    for byte in start[5:]:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            numbers.append(value >> 1 ^ -(value & 1))
            value = shift = 0
    return numbers[1:] or (0,)


@lru_cache(maxsize=256)
def type_of(source: SchemaSource, header: bytes) -> pa.DataType:
    """Return the Arrow type for payloads of the schema. header: their Schema Registry prefix, whose message indexes
    select the message; b"" without one. Raises SchemaError."""
    message = message_of(source, _indexes(header))
    if not message.fields:
        raise SchemaError(f"message {message.full_name} has no fields")
    return _Types().message_type(message, ())


class _Types:
    def __init__(self) -> None:
        self.columns = 0

    def message_type(self, message: Descriptor, path: tuple[str, ...]) -> pa.DataType:
        if message.full_name in path or not message.fields:
            return pa.binary()
        self.columns += len(message.fields)
        if self.columns > COLUMNS_MAX:
            raise SchemaError(f"a type of more than {COLUMNS_MAX:,} columns")
        inner = (*path, message.full_name)
        return pa.struct([(field.name, self.field_type(field, inner)) for field in message.fields])

    def field_type(self, field: FieldDescriptor, path: tuple[str, ...]) -> pa.DataType:
        if _is_map(field):
            key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
            return pa.map_(self.value_type(key, path), self.value_type(value, path))
        found = self.value_type(field, path)
        return pa.list_(found) if field.is_repeated else found

    def value_type(self, field: FieldDescriptor, path: tuple[str, ...]) -> pa.DataType:
        message = field.message_type
        if message is None:
            return _CODES[field.type][1]
        if message.full_name == _TIMESTAMP:
            return TIMESTAMP
        if message.full_name in _WRAPPERS:
            return _CODES[message.fields_by_name["value"].type][1]
        return self.message_type(message, path)


def _is_map(field: FieldDescriptor) -> bool:
    return bool(field.message_type is not None and field.message_type.GetOptions().map_entry)


def program(root: Node, sources: Mapping[bytes, SchemaSource], header: int) -> kernel.ProtoProgram:
    """Return the program with which compiled code (formats.kernels.payload.protobuf) decodes messages of several
    schemas into the columns of one type.

    root: that type's tree of columns. sources: Schema Registry prefix of a payload -> schema. header: the kind of
    prefix, SCHEMA_MESSAGE or NO_HEADER of formats.kernels.payload.payloads. Raises SchemaError.
    """
    compiler = _Compiler()
    roots = {start: compiler.message(message_of(source, _indexes(start)), root) for start, source in sources.items()}
    messages: list[kernel.ProtoMessage] = [(one[0], one[1], one[2], one[3]) for one in compiler.messages]
    return kernel.ProtoProgram(shape(root), messages, compiler.symbols, roots, header)


class _Compiler:
    def __init__(self) -> None:
        self.messages: list[list[Any]] = []
        self.symbols: list[tuple[int, bytes]] = []

    def message(self, message: Descriptor, node: Node, *, label: int | None = None) -> int:
        """Add a message to the program; its fields are decoded to the columns of the struct `node`. Return the
        message's number in the program.

        label: the label (such as kernel.OPTIONAL) that all fields of a map's entry message get; None for any other
        message, in which each field has its own label.
        """
        made: list[Any] = [node.column, len(message.oneofs), [], []]
        self.messages.append(made)
        number = len(self.messages) - 1
        fields = sorted(message.fields, key=lambda field: field.number)
        for field in fields:
            child = node.child(field.name)
            if child is not None:
                made[2].append(self.field(field, child, label))
        written = {field.name for field in fields}
        made[3] = [child.column for name, child in zip(node.names, node.children, strict=True) if name not in written]
        return number

    def field(self, field: FieldDescriptor, node: Node, label: int | None) -> kernel.ProtoField:
        if label is None:
            label = kernel.OPTIONAL if field.has_presence else kernel.DEFAULT
        value = node
        if field.is_repeated:
            label = kernel.REPEATED
            value = node.children[0]
        oneof = -1 if field.containing_oneof is None else field.containing_oneof.index
        code, inner, first, count = self.value(field, value)
        return field.number, code, node.column, label, inner, oneof, first, count

    def value(self, field: FieldDescriptor, node: Node) -> tuple[int, int, int, int]:
        """Return the parts of a program's field that depend on the field's type: (code, number of its message in the
        program, index of its enum's first symbol, number of symbols). A part that the type does not need is 0."""
        message = field.message_type
        if message is None:
            if field.type != _ENUM:
                return _CODES[field.type][0], 0, 0, 0
            numbers = {value.number: value.name for value in reversed(field.enum_type.values)}
            first = len(self.symbols)
            self.symbols += [(number, name.encode()) for number, name in sorted(numbers.items())]
            return kernel.PROTO_ENUM, 0, first, len(numbers)
        if message.full_name == _TIMESTAMP:
            return kernel.PROTO_TIMESTAMP, self.timestamp(), 0, 0
        if message.full_name in _WRAPPERS:
            inner = message.fields_by_name["value"]
            entry = (1, _CODES[inner.type][0], node.column, kernel.DEFAULT, 0, -1, 0, 0)
            self.messages.append([-1, 0, [entry], []])
            return kernel.PROTO_MESSAGE, len(self.messages) - 1, 0, 0
        if pt.is_binary(node.type):
            return kernel.PROTO_RAW, 0, 0, 0
        code = kernel.PROTO_GROUP if field.type == _GROUP else kernel.PROTO_MESSAGE
        return code, self.message(message, node, label=kernel.DEFAULT if _is_map(field) else None), 0, 0

    def timestamp(self) -> int:
        """Add the message google.protobuf.Timestamp, whose seconds and nanoseconds the compiled code combines; return
        its number in the program."""
        fields = [
            (1, kernel.PROTO_INT64, -1, kernel.DEFAULT, 0, -1, 0, 0),
            (2, kernel.PROTO_INT32, -1, kernel.DEFAULT, 0, -1, 0, 0),
        ]
        self.messages.append([-1, 0, fields, []])
        return len(self.messages) - 1
