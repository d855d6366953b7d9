"""Decoders of JSON texts to values of one type, or to VARIANT. formats/kernels/payload/json.pyx lists conversions."""

from __future__ import annotations

import random

import pyarrow as pa
import pyarrow.types as pt

from formats.kernels.payload.json import JsonProgram
from formats.kernels.payload.payloads import NO_HEADER
from formats.kernels.payload.variant import VariantDecoding
from kcli.export.decoding.programs import ProgramDecoder
from kcli.export.decoding.shapes import Node, run, shape, tree
from kcli.schema_client.errors import SchemaError

# Spark passes VARIANT to and from Python as this struct; other readers see a struct of two binaries.
VARIANT = pa.struct(
    [
        pa.field("value", pa.binary(), nullable=False),
        pa.field("metadata", pa.binary(), nullable=False, metadata={b"variant": b"true"}),
    ]
)


class JsonDecoder(ProgramDecoder):
    """Decodes payloads of one JSON text each to one type. strict: a text with a field that the type lacks does not
    decode."""

    def __init__(self, kind: pa.DataType, *, strict: bool) -> None:
        """Make the program at once, to raise SchemaError for a type that no JSON text decodes to."""
        super().__init__(kind)
        self.strict = strict
        _ = self.program

    def make_program(self) -> JsonProgram:
        """Return the program that decodes JSON texts to the decoder's type."""
        return json_program(self.root, strict=self.strict)


def json_program(
    root: Node, *, strict: bool, headers: tuple[bytes, ...] = (b"",), header: int = NO_HEADER
) -> JsonProgram:
    """Return the program with which compiled code (formats.kernels.payload.json) decodes JSON texts into the columns of
    the tree `root`.

    strict: a text with a field that the type lacks does not decode. headers: the Schema Registry prefixes that may come
    before the texts. header: their kind, SCHEMA_ID or NO_HEADER of formats.kernels.payload.payloads. Raises SchemaError
    for a type that no JSON text decodes to, such as a map whose keys are not strings.
    """
    names = []
    for node in root.walk():
        if pt.is_map(node.type) and not pt.is_string(node.type.key_type):
            raise SchemaError(f"JSON has no {node.type}: its keys are strings")
        names.append([name.encode() for name in node.names])
    return JsonProgram(shape(root), names, strict, dict.fromkeys(headers, 0), header)


class VariantDecoder:
    """Decodes payloads of one JSON text each to VARIANT, in which each value keeps its own type and fields."""

    type: pa.DataType = VARIANT

    def decode(self, payloads: pa.BinaryArray) -> tuple[pa.Array, pa.StringArray]:
        """Decode a column of JSON texts: (values, reasons), as Decoder.decode."""
        root = tree(VARIANT)
        decoding = VariantDecoding(shape(root), random.getrandbits(64))
        return run(decoding.decode, root, payloads)
