from typing import TypeAlias

from formats.kernels.payload.columns import Shape
from formats.kernels.payload.payloads import Decoded, Payloads

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

ProtoField: TypeAlias = tuple[int, int, int, int, int, int, int, int]

ProtoMessage: TypeAlias = tuple[int, int, list[ProtoField], list[int]]

class ProtoProgram:
    """A decoder of Protobuf. messages: (column, count of oneofs, fields, columns that get null), fields by number:
    (number, code, column, label, message, oneof, first symbol, count of symbols), see protobuf.pyx; symbols: (number,
    name) of all enums; roots: the message for each header."""

    def __init__(
        self,
        shape: Shape,
        messages: list[ProtoMessage],
        symbols: list[tuple[int, bytes]],
        roots: dict[bytes, int],
        header: int,
    ) -> None: ...
    def decode(self, payloads: Payloads) -> Decoded:
        """Decode a column of payloads; the result has the form of AvroProgram.decode's."""
