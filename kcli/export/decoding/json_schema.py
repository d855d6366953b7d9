"""JSON schemas as Arrow types. Keywords that do not change the type (`required`, `minimum`, ...) are ignored.

    object with properties            struct; without properties, but with additionalProperties of one schema: map
    array with items                  list
    integer, number, boolean          bigint, double, boolean
    string                            string; with format date or date-time: date, timestamp (UTC)
    several types, anyOf, oneOf       their common type without null, else string
    allOf                             a struct of the fields of all
    const, enum                       the common type of the listed values
    $ref                              the type of its target, in this schema or one of its references
    other schemas, and a schema within itself            string: the JSON text of the value

Source: JSON Schema 2020-12 and draft 7.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from formats.kernels.payload.json import JsonProgram
from formats.kernels.payload.payloads import SCHEMA_ID
from kcli.export.decoding.ddl import TIMESTAMP
from kcli.export.decoding.inference import json_type
from kcli.export.decoding.json_text import json_program
from kcli.export.decoding.shapes import Node
from kcli.export.decoding.unify import unify_all
from kcli.schema_client.errors import SchemaError
from kcli.schema_client.sources import SchemaSource

language = "JSON"
header = SCHEMA_ID

DEPTH_MAX = 64

_SIMPLE = {"integer": pa.int64(), "number": pa.float64(), "boolean": pa.bool_(), "null": pa.null()}
_FORMATS = {"date": pa.date32(), "date-time": TIMESTAMP}


def prepare(source: SchemaSource) -> SchemaSource:
    """Return the source unchanged: each worker parses JSON schemas itself."""
    return source


@lru_cache(maxsize=256)
def type_of(source: SchemaSource, header: bytes) -> pa.DataType:  # noqa: ARG001 (one signature for all languages)
    """Return the Arrow type for values with this schema. header: not used. Raises SchemaError."""
    try:
        documents = {name: json.loads(text) for name, text in source.imports}
        root = json.loads(source.text)
    except (ValueError, RecursionError) as error:
        raise SchemaError(f"not a JSON schema: {error}") from error
    if not isinstance(root, dict):
        raise SchemaError("not a JSON schema: no object")
    return _Reader(root, documents).type_of(root, root, ())


def program(root: Node, sources: Mapping[bytes, SchemaSource], header: int) -> JsonProgram:
    """Return the program with which compiled code (formats.kernels.payload.json) decodes JSON texts into the columns of
    the tree `root`; the schemas in `sources` have no effect on it.

    sources: its keys are the Schema Registry prefixes of payloads. header: the kind of prefix.
    """
    return json_program(root, strict=False, headers=tuple(sources), header=header)


class _Reader:
    def __init__(self, root: dict[str, Any], documents: dict[str, Any]) -> None:
        self.root = root
        self.documents = documents

    def type_of(self, schema: Any, document: Any, path: tuple[int, ...]) -> pa.DataType:
        """Return the Arrow type of a schema.

        document: the document in which the schema's references are looked up. path: id() of each schema that contains
        this one.
        """
        if not isinstance(schema, dict) or id(schema) in path or len(path) > DEPTH_MAX:
            return pa.string()
        path = (*path, id(schema))
        if isinstance(schema.get("$ref"), str):
            return self.type_of(*self.look_up(schema["$ref"], document), path)
        for word in ("anyOf", "oneOf", "allOf"):
            if isinstance(schema.get(word), list) and schema[word]:
                parts = [self.type_of(part, document, path) for part in schema[word]]
                if word == "allOf" and "properties" in schema:
                    parts.append(self.object_type(schema, document, path))
                return unify_all(parts, text=True)
        if "const" in schema or isinstance(schema.get("enum"), list):
            return json_type([schema["const"]] if "const" in schema else schema["enum"])
        kinds = schema.get("type", "object" if "properties" in schema else None)
        if isinstance(kinds, list):
            return unify_all((self.simple_type(kind, schema, document, path) for kind in kinds), text=True)
        return self.simple_type(kinds, schema, document, path)

    def simple_type(self, kind: Any, schema: dict[str, Any], document: Any, path: tuple[int, ...]) -> pa.DataType:
        if kind == "object":
            return self.object_type(schema, document, path)
        if kind == "array":
            items = schema.get("items")
            return pa.list_(self.type_of(items, document, path)) if isinstance(items, dict) else pa.string()
        if kind == "string":
            return _FORMATS.get(str(schema.get("format")), pa.string())
        return _SIMPLE.get(str(kind), pa.string())

    def object_type(self, schema: dict[str, Any], document: Any, path: tuple[int, ...]) -> pa.DataType:
        properties = schema.get("properties")
        if isinstance(properties, dict) and properties:
            return pa.struct([(name, self.type_of(part, document, path)) for name, part in properties.items()])
        others = schema.get("additionalProperties")
        if isinstance(others, dict) and others:
            return pa.map_(pa.string(), self.type_of(others, document, path))
        return pa.string()

    def look_up(self, reference: str, document: Any) -> tuple[Any, Any]:
        """Return the schema that a reference names, and the document with that schema. Raises SchemaError."""
        name, _, pointer = reference.partition("#")
        if name:
            if name not in self.documents:
                raise SchemaError(f"a JSON schema refers to {name!r}, which is not there")
            document = self.documents[name]
        found = document
        for step in pointer.split("/")[1:]:
            key = unquote(step).replace("~1", "/").replace("~0", "~")
            if isinstance(found, list) and key.isdecimal() and int(key) < len(found):
                found = found[int(key)]
            elif isinstance(found, dict) and key in found:
                found = found[key]
            else:
                raise SchemaError(f"a JSON schema refers to {reference!r}, which is not there")
        return found, document
