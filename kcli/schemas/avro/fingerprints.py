"""The Parsing Canonical Form of a schema, and its fingerprints. Schemas with the same form read the same data.

The form has the attributes type, name, fields, symbols, items, values and size only, in this order, with full names and
without white space.

Source: Avro specification 1.12, "Parsing Canonical Form for Schemas" and "Schema Fingerprints".
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Final

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

_EMPTY: Final = 0xC15D213AA4D7A795


def parsing_canonical_form(schema: Schema) -> str:
    """Return the Parsing Canonical Form. Raises InvalidSchema if it is nested too deep."""
    return json_text(_form(schema, set(), 0))


def crc_64_avro(form: str) -> bytes:
    """Return the Rabin fingerprint of a canonical form: 8 bytes, little endian."""
    table = _table()
    value = _EMPTY
    for each in form.encode():
        value = value >> 8 ^ table[(value ^ each) & 0xFF]
    return value.to_bytes(8, "little")


def md5(form: str) -> bytes:
    """Return the MD5 fingerprint of a canonical form: 16 bytes."""
    return hashlib.md5(form.encode(), usedforsecurity=False).digest()


def sha_256(form: str) -> bytes:
    """Return the SHA-256 fingerprint of a canonical form: 32 bytes."""
    return hashlib.sha256(form.encode()).digest()


@lru_cache(maxsize=1)
def _table() -> list[int]:
    table = []
    for each in range(256):
        value = each
        for _ in range(8):
            value = value >> 1 ^ (_EMPTY if value & 1 else 0)
        table.append(value)
    return table


def _form(schema: Schema, known: set[str], depth: int) -> Json:
    if depth > DEPTH_MAX:
        raise too_deep()
    match schema:
        case Primitive():
            return schema.type
        case Union():
            return [_form(each, known, depth + 1) for each in schema.branches]
        case Array():
            return {"type": "array", "items": _form(schema.items, known, depth + 1)}
        case Map():
            return {"type": "map", "values": _form(schema.values, known, depth + 1)}
        case Unresolved():
            return schema.full
    if schema.name.full in known:
        return schema.name.full
    known.add(schema.name.full)
    return _named(schema, known, depth)


def _named(schema: NamedType, known: set[str], depth: int) -> Json:
    node: dict[str, Json] = {"name": schema.name.full, "type": schema.type}
    match schema:
        case Record():
            node["fields"] = [_field(each, known, depth + 2) for each in schema.fields.values()]
        case Enum():
            node["symbols"] = list(schema.symbols)
        case Fixed():
            node["size"] = schema.size
    return node


def _field(field: Field, known: set[str], depth: int) -> Json:
    return {"name": field.name, "type": _form(field.schema, known, depth + 1)}
