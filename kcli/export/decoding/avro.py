"""Avro schemas as Arrow types, and as programs for the compiled Avro decoder (formats.kernels.payload.avro).

    null                              string (always null)
    boolean, int, long, float, double, bytes, string     the same type; fixed: binary
    enum                              string
    array, map, record                list, map, struct
    union of null and one other type  the other type
    union of int and long             long; of float and double: double
    any other union                   struct of member0, member1, ..: only one of them is not null, as in Spark
    a record within itself, or without fields            binary: the record in Avro's encoding
    date, decimal, uuid               date, decimal (above 38 digits: binary), string
    timestamp-millis, -micros         timestamp (UTC); local-timestamp-*: without a zone
    other logical types               the type of their encoding

All values may be null: a field that the writer's schema lacks is null. Source: the Avro 1.12 specification, Spark's
SchemaConverters. fastavro parses the schemas; tests compare the decoder's values with fastavro's.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from formats.kernels.payload import avro as kernel
from formats.kernels.payload.payloads import SCHEMA_ID
from kcli.export.decoding.ddl import TIMESTAMP, TIMESTAMP_NTZ
from kcli.export.decoding.shapes import COLUMNS_MAX, Node, shape
from kcli.schema_client.avro import JsonSchema as Schema
from kcli.schema_client.avro import look_up
from kcli.schema_client.avro import parse as parse_avro
from kcli.schema_client.errors import SchemaError
from kcli.schema_client.sources import SchemaSource

language = "AVRO"
header = SCHEMA_ID

_SIMPLE: dict[str, tuple[int, pa.DataType]] = {
    "null": (kernel.AVRO_NULL, pa.null()),
    "boolean": (kernel.AVRO_BOOLEAN, pa.bool_()),
    "int": (kernel.AVRO_INT, pa.int32()),
    "long": (kernel.AVRO_LONG, pa.int64()),
    "float": (kernel.AVRO_FLOAT, pa.float32()),
    "double": (kernel.AVRO_DOUBLE, pa.float64()),
    "bytes": (kernel.AVRO_BYTES, pa.binary()),
    "string": (kernel.AVRO_STRING, pa.string()),
    "fixed": (kernel.AVRO_FIXED, pa.binary()),
}
_LOGICAL: dict[tuple[str, str], tuple[pa.DataType, int]] = {
    ("int", "date"): (pa.date32(), 1),
    ("long", "timestamp-millis"): (TIMESTAMP, 1000),
    ("long", "timestamp-micros"): (TIMESTAMP, 1),
    ("long", "local-timestamp-millis"): (TIMESTAMP_NTZ, 1000),
    ("long", "local-timestamp-micros"): (TIMESTAMP_NTZ, 1),
}
_BYTES = frozenset({"bytes", "fixed"})


class AvroSchema:
    """One Avro schema, parsed. named: the named types of the schema and its imports, by full name."""

    def __init__(self, source: SchemaSource) -> None:
        """Parse the source's imports, then its schema. Raises SchemaError."""
        self.root, self.named = parse_avro(source)

    def look_up(self, schema: Schema) -> tuple[str, dict[str, Any]]:
        """Return the kind of a schema and the schema itself as a dict, as kcli.schema_client.avro.look_up."""
        return look_up(schema, self.named)

    def type_of(self, schema: Schema, path: tuple[str, ...] = ()) -> pa.DataType:
        """Return the Arrow type for values of a schema. path: the names of the records that contain the schema; a
        record whose name is in `path` is within itself, and becomes binary."""
        kind, parts = self.look_up(schema)
        if kind == "union":
            return self._union_type(parts["members"], path)
        if kind == "array":
            return pa.list_(self.type_of(parts["items"], path))
        if kind == "map":
            return pa.map_(pa.string(), self.type_of(parts["values"], path))
        if kind == "record":
            name = parts["name"]
            if name in path or not parts["fields"]:
                return pa.binary()
            return pa.struct([(field["name"], self.type_of(field["type"], (*path, name))) for field in parts["fields"]])
        if kind == "enum":
            return pa.string()
        return _simple_type(kind, parts)

    def _union_type(self, members: list[Any], path: tuple[str, ...]) -> pa.DataType:
        others = [member for member in members if self.look_up(member)[0] != "null"]
        types = [self.type_of(member, path) for member in others]
        if not types:
            return pa.null()
        if len(types) == 1:
            return types[0]
        for wider in ({pa.int32(), pa.int64()}, {pa.float32(), pa.float64()}):
            if set(types) == wider:
                return max(types, key=lambda kind: kind.bit_width)
        return pa.struct([(f"member{i}", kind) for i, kind in enumerate(types)])


def _simple_type(kind: str, parts: Mapping[str, Any]) -> pa.DataType:
    logical = parts.get("logicalType")
    if kind in _BYTES and (decimal := _decimal(parts)) is not None:
        return pa.decimal128(*decimal)
    if kind == "fixed" and logical == "uuid" and parts["size"] == 16:
        return pa.string()
    found = _LOGICAL.get((kind, logical)) if isinstance(logical, str) else None
    return found[0] if found else _SIMPLE[kind][1]


def _decimal(parts: Mapping[str, Any]) -> tuple[int, int] | None:
    """Return (precision, scale) of a decimal of at most 38 digits; None for other types and for invalid decimals."""
    precision, scale = parts.get("precision"), parts.get("scale", 0)
    if parts.get("logicalType") != "decimal" or not isinstance(precision, int) or not isinstance(scale, int):
        return None
    return (precision, scale) if 0 < precision <= 38 and 0 <= scale <= precision else None


def prepare(source: SchemaSource) -> SchemaSource:
    """Return the source unchanged: each worker parses Avro schemas itself."""
    return source


@lru_cache(maxsize=256)
def parse(source: SchemaSource) -> AvroSchema:
    """Return the parsed schema of a source. Raises SchemaError."""
    return AvroSchema(source)


def type_of(source: SchemaSource, header: bytes) -> pa.DataType:  # noqa: ARG001 (one signature for all languages)
    """Return the Arrow type for values with this schema. header: not used. Raises SchemaError."""
    schema = parse(source)
    try:
        return schema.type_of(schema.root)
    except RecursionError:
        raise SchemaError("an Avro schema that is nested too deep") from None


def program(root: Node, sources: Mapping[bytes, SchemaSource], header: int) -> kernel.AvroProgram:
    """Return the program with which compiled code (formats.kernels.payload.avro) decodes values of several schemas into
    the columns of one type.

    root: that type's tree of columns. sources: Schema Registry prefix of a payload -> schema. header: the kind of
    prefix, SCHEMA_ID or NO_HEADER of formats.kernels.payload.payloads. Raises SchemaError.
    """
    compiler = _Compiler()
    roots = {}
    for start, source in sources.items():
        compiler.schema = parse(source)
        compiler.skipped = {}
        roots[start] = compiler.op(compiler.schema.root, root)
    ops: list[kernel.AvroOp] = [(op[0], op[1], op[2], op[3], op[4], op[5]) for op in compiler.ops]
    return kernel.AvroProgram(shape(root), ops, compiler.symbols, roots, header)


class _Compiler:
    """Translates schemas into the operations of formats.kernels.payload.avro. In its methods `node` is the column for a
    value, None to skip the value."""

    def __init__(self) -> None:
        self.schema: AvroSchema
        self.ops: list[list[Any]] = []
        self.symbols: list[bytes] = []
        self.skipped: dict[str, int] = {}

    def add(self, code: int, node: Node | None, argument: int = 0, size: int = 0) -> int:
        if len(self.ops) > 16 * COLUMNS_MAX:
            raise SchemaError("an Avro schema with very many parts")
        self.ops.append([code, -1 if node is None else node.column, argument, size, [], []])
        return len(self.ops) - 1

    def op(self, schema: Schema, node: Node | None) -> int:
        kind, parts = self.schema.look_up(schema)
        if kind == "record" and node is not None and pt.is_binary(node.type):
            raw = self.add(kernel.AVRO_RAW, node)
            self.ops[raw][4] = [self.op(schema, None)]
            return raw
        if kind in {"record", "union", "array", "map"}:
            return getattr(self, f"_{kind}")(parts, node)  # type: ignore[no-any-return]
        if kind == "enum":
            found = self.add(kernel.AVRO_ENUM, node, len(self.symbols), len(parts["symbols"]))
            self.symbols += [symbol.encode() for symbol in parts["symbols"]]
            return found
        return self._simple(kind, parts, node)

    def _simple(self, kind: str, parts: Mapping[str, Any], node: Node | None) -> int:
        if node is not None and kind in _BYTES and pt.is_decimal(node.type):
            decimal = _decimal(parts)
            assert decimal is not None
            return self.add(kernel.AVRO_DECIMAL, node, parts["size"] if kind == "fixed" else -1, decimal[1])
        if node is not None and kind == "fixed" and pt.is_string(node.type):
            return self.add(kernel.AVRO_UUID, node)
        logical = parts.get("logicalType")
        known = _LOGICAL.get((kind, logical)) if isinstance(logical, str) else None
        argument = parts["size"] if kind == "fixed" else known[1] if known else 1
        return self.add(_SIMPLE[kind][0], node, argument)

    def _record(self, parts: Mapping[str, Any], node: Node | None) -> int:
        name = parts["name"]
        if node is None and name in self.skipped:
            return self.skipped[name]
        found = self.add(kernel.AVRO_RECORD, node)
        if node is None:
            self.skipped[name] = found
        fields = parts["fields"]
        links = [self.op(field["type"], node.child(field["name"]) if node else None) for field in fields]
        self.ops[found][4] = links
        if node is not None:
            written = {field["name"] for field in fields}
            self.ops[found][5] = [node.child(name).column for name in node.names if name not in written]  # type: ignore[union-attr]
        return found

    def _union(self, parts: Mapping[str, Any], node: Node | None) -> int:
        found = self.add(kernel.AVRO_UNION, node)
        members = parts["members"]
        apart = node is not None and sum(self.schema.look_up(member)[0] != "null" for member in members) > 1
        apart = apart and node is not None and node.names[:1] == ("member0",)
        links = []
        number = 0
        for member in members:
            if self.schema.look_up(member)[0] == "null":
                links.append(self.add(kernel.AVRO_NULL, node))
            elif apart and node is not None:
                links.append(self._member(member, node, number))
                number += 1
            else:
                links.append(self.op(member, node))
        self.ops[found][4] = links
        return found

    def _member(self, schema: Schema, node: Node, number: int) -> int:
        found = self.add(kernel.AVRO_MEMBER, node)
        own = node.child(f"member{number}")
        self.ops[found][4] = [self.op(schema, own)]
        self.ops[found][5] = [child.column for child in node.children if child is not own]
        return found

    def _array(self, parts: Mapping[str, Any], node: Node | None) -> int:
        found = self.add(kernel.AVRO_ARRAY, node)
        self.ops[found][4] = [self.op(parts["items"], node.children[0] if node else None)]
        return found

    def _map(self, parts: Mapping[str, Any], node: Node | None) -> int:
        found = self.add(kernel.AVRO_MAP, node)
        key, value = node.children[0].children if node else (None, None)
        self.ops[found][4] = [self.add(kernel.AVRO_STRING, key), self.op(parts["values"], value)]
        return found
