"""JSON texts as values of one type, or as VARIANT. What becomes what: formats/kernels/payload_json.pxi."""

from __future__ import annotations

import random

import pyarrow as pa
import pyarrow.types as pt

from formats.kernels import payload as kernel
from kcli.export.decoding.errors import SchemaError
from kcli.export.decoding.programs import ProgramDecoder
from kcli.export.decoding.shapes import Node, run, shape, tree

# As Spark passes VARIANT to and from Python: readers see a struct of two binaries.
VARIANT = pa.struct(
    [
        pa.field("value", pa.binary(), nullable=False),
        pa.field("metadata", pa.binary(), nullable=False, metadata={b"variant": b"true"}),
    ]
)


class JsonDecoder(ProgramDecoder):
    """JSON, one text a payload. strict: a field that the type has not is a reason not to decode."""

    def __init__(self, kind: pa.DataType, *, strict: bool) -> None:
        """Raises SchemaError for a type that JSON has not."""
        super().__init__(kind)
        self.strict = strict
        _ = self.program

    def make_program(self) -> kernel.JsonProgram:
        """See ProgramDecoder."""
        return json_program(self.root, strict=self.strict)


def json_program(
    root: Node, *, strict: bool, headers: tuple[bytes, ...] = (b"",), header: int = kernel.NO_HEADER
) -> kernel.JsonProgram:
    """The kernel's program for JSON of this type. Raises SchemaError for a map whose keys are no strings."""
    names = []
    for node in root.walk():
        if pt.is_map(node.type) and not pt.is_string(node.type.key_type):
            raise SchemaError(f"JSON has no {node.type}: its keys are strings")
        names.append([name.encode() for name in node.names])
    return kernel.JsonProgram(shape(root), names, strict, dict.fromkeys(headers, 0), header)


class VariantDecoder:
    """JSON, one text a payload, each kept as VARIANT: its own type and fields, whatever the others have."""

    type: pa.DataType = VARIANT

    def decode(self, payloads: pa.BinaryArray) -> tuple[pa.Array, pa.StringArray]:
        """Decode a column of JSON texts."""
        root = tree(VARIANT)
        decoding = kernel.VariantDecoding(shape(root), random.getrandbits(64))
        return run(decoding.decode, root, payloads)
