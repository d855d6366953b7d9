from typing import TypeAlias

from formats.kernels.payload.columns import Shape
from formats.kernels.payload.payloads import Decoded, Payloads

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

AvroOp: TypeAlias = tuple[int, int, int, int, list[int], list[int]]

class AvroProgram:
    """A decoder of Avro. ops: (code, column, argument, size, links to other ops, columns that get null), see avro.pyx;
    symbols: those of all enums; roots: the first op of the schema with each header."""

    def __init__(
        self, shape: Shape, ops: list[AvroOp], symbols: list[bytes], roots: dict[bytes, int], header: int
    ) -> None: ...
    def decode(self, payloads: Payloads) -> Decoded:
        """Return the columns of the shape, each (count, nulls, validity bits or None, data or None, offsets or None),
        and (row, fault, byte in the payload) of each payload that does not decode and is null. Raises MemoryError."""
