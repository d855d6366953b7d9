from typing import TypeAlias

BOOLEAN: int
INT8: int
INT16: int
INT32: int
INT64: int
FLOAT: int
DOUBLE: int
DECIMAL: int
BINARY: int
LIST: int
STRUCT: int

PLAIN: int
TEXT: int
DATE: int
TIMESTAMP: int
LOCAL_TIMESTAMP: int
MAP: int

NO_HEADER: int
SCHEMA_ID: int
SCHEMA_MESSAGE: int

REASONS: tuple[str, ...]
HEADER_NOT_KNOWN: int
ABOUT_TEXT: frozenset[int]

AVRO_NULL: int
AVRO_BOOLEAN: int
AVRO_INT: int
AVRO_LONG: int
AVRO_FLOAT: int
AVRO_DOUBLE: int
AVRO_BYTES: int
AVRO_STRING: int
AVRO_FIXED: int
AVRO_ENUM: int
AVRO_DECIMAL: int
AVRO_UUID: int
AVRO_ARRAY: int
AVRO_MAP: int
AVRO_RECORD: int
AVRO_UNION: int
AVRO_MEMBER: int
AVRO_RAW: int

PROTO_INT32: int
PROTO_INT64: int
PROTO_UINT32: int
PROTO_UINT64: int
PROTO_SINT32: int
PROTO_SINT64: int
PROTO_BOOL: int
PROTO_ENUM: int
PROTO_FIXED32: int
PROTO_FIXED64: int
PROTO_SFIXED32: int
PROTO_SFIXED64: int
PROTO_FLOAT: int
PROTO_DOUBLE: int
PROTO_STRING: int
PROTO_BYTES: int
PROTO_MESSAGE: int
PROTO_GROUP: int
PROTO_RAW: int
PROTO_TIMESTAMP: int

OPTIONAL: int
DEFAULT: int
REPEATED: int

ShapeRow: TypeAlias = tuple[int, int, int, int, int]
AvroOp: TypeAlias = tuple[int, int, int, int, list[int], list[int]]
ProtoField: TypeAlias = tuple[int, int, int, int, int, int, int, int]
ProtoMessage: TypeAlias = tuple[int, int, list[ProtoField], list[int]]
FinishedColumn: TypeAlias = tuple[int, int, bytes | None, bytes | None, bytes | None]
Decoded: TypeAlias = tuple[list[FinishedColumn], list[tuple[int, int, int]]]

class Payloads:
    """A column of payloads: count + 1 offsets (int32) into the data, and a byte for each: whether it is there.

    The offsets must lie within the data and not decrease. Raises ValueError.
    """

    count: int
    def __init__(self, offsets: memoryview, data: bytes | memoryview, valid: bytes | memoryview) -> None: ...
    def headers(self, header: int) -> set[bytes]:
        """All different headers before the values; payloads without one are passed over."""

class Shape:
    """A type as a tree of columns, in rows: kind, meaning, count of children, precision, scale. Raises ValueError."""

    def __init__(self, rows: list[ShapeRow]) -> None: ...

class AvroProgram:
    """Decodes Avro. ops: code, column, argument, size, ops it leads to, columns that get null; symbols: of all enums;
    roots: the first op by header."""

    def __init__(
        self, shape: Shape, ops: list[AvroOp], symbols: list[bytes], roots: dict[bytes, int], header: int
    ) -> None: ...
    def decode(self, payloads: Payloads) -> Decoded:
        """The columns of the shape: count, nulls, validity bits or None, data or None, offsets or None; and
        (row, fault, byte in the payload) of each payload that does not decode, which is null. Raises MemoryError."""

class ProtoProgram:
    """Decodes Protobuf. messages: column, count of oneofs, fields by number (number, code, column, label, message,
    oneof, first symbol, count of symbols), columns that get null; roots: the message by header."""

    def __init__(
        self,
        shape: Shape,
        messages: list[ProtoMessage],
        symbols: list[tuple[int, bytes]],
        roots: dict[bytes, int],
        header: int,
    ) -> None: ...
    def decode(self, payloads: Payloads) -> Decoded:
        """As AvroProgram.decode."""

class JsonProgram:
    """Decodes JSON. names: by column those of a struct's fields; strict: a field beyond them is a fault; roots: the
    headers that there may be, each with 0."""

    def __init__(
        self, shape: Shape, names: list[list[bytes]], strict: bool, roots: dict[bytes, int], header: int
    ) -> None: ...
    def decode(self, payloads: Payloads) -> Decoded:
        """As AvroProgram.decode."""

class VariantDecoding:
    """Decodes JSON as VARIANT, once. shape: a STRUCT of two BINARY, value and metadata; seed: any number."""

    def __init__(self, shape: Shape, seed: int) -> None: ...
    def decode(self, payloads: Payloads) -> Decoded:
        """As AvroProgram.decode."""
