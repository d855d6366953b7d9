"""Schemas to JSON: each named type in full where it first occurs, by its name after that.

The order of attributes is Java's:

    record    type, name, namespace, doc, fields, properties, aliases
    field     name, type, doc, default, order, aliases, properties
    enum      type, name, namespace, doc, symbols, default, properties, aliases
    fixed     type, name, namespace, doc, size, properties, aliases
    array     type, items, properties
    map       type, values, properties

A namespace is written where it differs from that around it; `order` is written unless it is ascending.
"""

from __future__ import annotations

from collections.abc import Iterable

from kcli.schemas.avro.json_text import Json
from kcli.schemas.avro.types import (
    Array,
    Enum,
    Field,
    Fixed,
    Map,
    NamedType,
    Primitive,
    Record,
    Schema,
    Union,
    Unresolved,
)
from kcli.schemas.jackson import json_text, too_deep
from kcli.schemas.schema import DEPTH_MAX


def to_json(schema: Schema, known: Iterable[str] = ()) -> Json:
    """Return the JSON value of a schema. known: the full names of types that are not written in full. Raises
    InvalidSchema if the value is nested too deep: through names, types can be nested deeper than in any text."""
    return _Printer(known).schema(schema, "", 0)


def schema_text(schema: Schema) -> str:
    """Return the text of a schema for a message. Raises InvalidSchema if it is nested too deep."""
    return json_text(to_json(schema))


class _Printer:
    def __init__(self, known: Iterable[str]) -> None:
        self._known = set(known)

    def schema(self, schema: Schema, space: str, depth: int) -> Json:
        """Return the JSON value of a schema. space: the namespace around it. depth: how deep the value is nested."""
        if depth > DEPTH_MAX:
            raise too_deep()
        match schema:
            case Primitive():
                return {"type": schema.type, **schema.props} if schema.props else schema.type
            case Union():
                return [self.schema(each, space, depth + 1) for each in schema.branches]
            case Array():
                return {"type": "array", "items": self.schema(schema.items, space, depth + 1), **schema.props}
            case Map():
                return {"type": "map", "values": self.schema(schema.values, space, depth + 1), **schema.props}
            case Unresolved():
                return schema.full
        if schema.name.full in self._known:
            return schema.name.within(space)
        self._known.add(schema.name.full)
        return self._named(schema, space, depth)

    def _named(self, schema: NamedType, space: str, depth: int) -> Json:
        node: dict[str, Json] = {
            "type": "error" if isinstance(schema, Record) and schema.is_error else schema.type,
            "name": schema.name.simple,
        }
        if schema.name.space != space:
            node["namespace"] = schema.name.space
        if schema.doc is not None:
            node["doc"] = schema.doc
        match schema:
            case Record():
                fields = schema.fields.values()
                node["fields"] = [self._field(each, schema.name.space, depth + 2) for each in fields]
            case Enum():
                node["symbols"] = list(schema.symbols)
                if schema.default is not None:
                    node["default"] = schema.default
            case Fixed():
                node["size"] = schema.size
        node |= schema.props
        if schema.aliases:
            node["aliases"] = [each.within(schema.name.space) for each in schema.aliases]
        return node

    def _field(self, field: Field, space: str, depth: int) -> Json:
        node: dict[str, Json] = {"name": field.name, "type": self.schema(field.schema, space, depth + 1)}
        if field.doc is not None:
            node["doc"] = field.doc
        if field.has_default:
            node["default"] = field.default
        if field.order != "ascending":
            node["order"] = field.order
        if field.aliases:
            node["aliases"] = list(field.aliases)
        return node | field.props
