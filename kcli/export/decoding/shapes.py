"""Conversion of Arrow types to trees of columns, which the compiled code of formats.kernels.payload fills, and of the
filled columns to Arrow arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.types as pt

from formats.kernels.payload import columns as kernel
from formats.kernels.payload.payloads import Payloads
from kcli.export.decoding.decoder import no_reasons
from kcli.schema_client.errors import SchemaError

if TYPE_CHECKING:
    from formats.kernels.payload.payloads import Decoded

COLUMNS_MAX = 20_000
SHOWN_MAX = 40

_KINDS: list[tuple[Callable[[pa.DataType], bool], int, int]] = [
    (pt.is_boolean, kernel.BOOLEAN, kernel.PLAIN),
    (pt.is_int8, kernel.INT8, kernel.PLAIN),
    (pt.is_int16, kernel.INT16, kernel.PLAIN),
    (pt.is_int32, kernel.INT32, kernel.PLAIN),
    (pt.is_int64, kernel.INT64, kernel.PLAIN),
    (pt.is_float32, kernel.FLOAT, kernel.PLAIN),
    (pt.is_float64, kernel.DOUBLE, kernel.PLAIN),
    (pt.is_string, kernel.BINARY, kernel.TEXT),
    (pt.is_binary, kernel.BINARY, kernel.PLAIN),
    (pt.is_date32, kernel.INT32, kernel.DATE),
    (pt.is_decimal128, kernel.DECIMAL, kernel.PLAIN),
    (pt.is_map, kernel.LIST, kernel.MAP),
    (pt.is_list, kernel.LIST, kernel.PLAIN),
    (pt.is_struct, kernel.STRUCT, kernel.PLAIN),
]


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """One column of the tree of a type's columns.

    column: the column's number in the tree. children: the columns of a struct's fields, of a list's items, or of a
    map's entries (one struct of key and value). names: a struct's field names; () for other types.
    """

    type: pa.DataType
    column: int
    children: tuple[Node, ...]
    names: tuple[str, ...] = ()

    def walk(self) -> Iterator[Node]:
        """Yield all columns of the tree, in the order of their numbers."""
        yield self
        for child in self.children:
            yield from child.walk()

    def child(self, name: str) -> Node | None:
        """Return the column of a struct's field, None if the struct lacks the field."""
        return self.children[self.names.index(name)] if name in self.names else None


def tree(kind: pa.DataType) -> Node:
    """Return the tree of a type's columns. Raises SchemaError for a type of more than COLUMNS_MAX columns."""
    return _tree(kind, count())


def _tree(kind: pa.DataType, numbers: count[int]) -> Node:
    names: tuple[str, ...] = ()
    parts: list[pa.DataType] = []
    column = next(numbers)
    if column >= COLUMNS_MAX:
        raise SchemaError(f"a type of more than {COLUMNS_MAX:,} columns")
    if pt.is_map(kind):
        parts = [pa.struct([pa.field("key", kind.key_type, nullable=False), pa.field("value", kind.item_type)])]
    elif pt.is_list(kind):
        parts = [kind.value_type]
    elif pt.is_struct(kind):
        parts, names = [field.type for field in kind], tuple(field.name for field in kind)
    return Node(kind, column, tuple(_tree(part, numbers) for part in parts), names)


def shape(root: Node) -> kernel.Shape:
    """Return the tree in the form that formats.kernels.payload takes. Raises SchemaError for a type that no payload
    decodes to."""
    return kernel.Shape([_row(node) for node in root.walk()])


def _row(node: Node) -> kernel.ShapeRow:
    kind = node.type
    if pt.is_timestamp(kind) and kind.unit == "us":
        return kernel.INT64, kernel.LOCAL_TIMESTAMP if kind.tz is None else kernel.TIMESTAMP, 0, 0, 0
    precision, scale = (kind.precision, kind.scale) if pt.is_decimal128(kind) else (0, 0)
    for matches, found, meaning in _KINDS:
        if matches(kind):
            return found, meaning, len(node.children), precision, scale
    raise SchemaError(f"no payload decodes to {kind}")


def run(
    decode: Callable[[Payloads], Decoded],
    root: Node,
    payloads: pa.BinaryArray,
    header_reason: Callable[[bytes], str] = lambda header: header.hex(),
) -> tuple[pa.Array, pa.StringArray]:
    """Decode a column of payloads with the method `decode` of a program: (values, reasons), as Decoder.decode.

    root: the tree of the values' type. header_reason: called with a payload whose Schema Registry prefix the program
    does not know; returns the reason why the payload does not decode.
    """
    columns, faults = decode(kernel_payloads(payloads))
    values = _array(root, columns)
    if not faults:
        return values, no_reasons(len(payloads))
    reasons: list[str | None] = [None] * len(payloads)
    for row, fault, position in faults:
        if fault == kernel.HEADER_NOT_KNOWN:
            reasons[row] = header_reason(payloads[row].as_py())
            continue
        reason = f"{kernel.REASONS[fault]} (byte {position})"
        if fault in kernel.ABOUT_TEXT:
            reason += f": {_shown(payloads[row].as_buffer(), position)}"
        reasons[row] = reason
    return values, pa.array(reasons, pa.string())


def _shown(payload: pa.Buffer, position: int) -> str:
    """Return at most 40 characters of a payload's text from byte `position` on, quoted, to show in a reason."""
    rest = payload[position : position + SHOWN_MAX + 1].to_pybytes().decode(errors="replace")
    return repr(rest) if len(rest) <= SHOWN_MAX else f"{rest[:SHOWN_MAX]!r}..."


def kernel_payloads(payloads: pa.BinaryArray) -> Payloads:
    """Return a column in the form that formats.kernels.payload reads, without a copy of its data."""
    if not pt.is_binary(payloads.type):
        payloads = payloads.cast(pa.binary())
    rows = len(payloads)
    _, offsets, data = payloads.buffers()
    if not rows or offsets is None:
        return Payloads(memoryview(bytes(4)).cast("i"), b"", b"")
    places = memoryview(offsets).cast("B").cast("i")[payloads.offset : payloads.offset + rows + 1]
    if payloads.null_count:
        valid = memoryview(payloads.is_valid().cast(pa.uint8()).buffers()[1]).cast("B")[:rows]
    else:
        valid = memoryview(b"\1" * rows)
    return Payloads(places, b"" if data is None else memoryview(data).cast("B"), valid)


def _array(node: Node, columns: list[kernel.FinishedColumn], *, nullable: bool = True) -> pa.Array:
    rows, nulls, validity, data, offsets = columns[node.column]
    # Parquet's writer refuses nulls in a field that is not nullable, even where the struct with the field is null
    if not nullable:
        nulls, validity = 0, None
    buffers = [None if validity is None else pa.py_buffer(validity)]
    buffers += [pa.py_buffer(part) for part in (offsets, data) if part is not None]
    needed = [field.nullable for field in node.type] if pt.is_struct(node.type) else [True] * len(node.children)
    children = [
        _array(child, columns, nullable=may_be_null) for child, may_be_null in zip(node.children, needed, strict=True)
    ]
    return pa.Array.from_buffers(node.type, rows, buffers, nulls, children=children or None)
