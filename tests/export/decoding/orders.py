"""The record with which the speed of Avro is measured, and many of them."""

from __future__ import annotations

import io
import random
from typing import Any

import fastavro
import pyarrow as pa

SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "shop.Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "customer", "type": "string"},
        {"name": "total", "type": "double"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID", "SHIPPED"]}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {
            "name": "address",
            "type": {
                "type": "record",
                "name": "Address",
                "fields": [{"name": "street", "type": "string"}, {"name": "zip", "type": "int"}],
            },
        },
        {"name": "placed", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}


def orders(count: int, seed: int = 1) -> list[dict[str, Any]]:
    """Return `count` orders as fastavro accepts them; times in milliseconds."""
    chance = random.Random(seed)
    return [
        {
            "id": chance.getrandbits(40),
            "customer": f"customer-{chance.getrandbits(20)}",
            "total": chance.random() * 1000,
            "note": None if chance.random() < 0.5 else "leave it at the door",
            "state": chance.choice(["NEW", "PAID", "SHIPPED"]),
            "tags": [f"tag{chance.randrange(100)}" for _ in range(chance.randrange(4))],
            "address": {"street": f"{chance.randrange(200)} Main Street", "zip": chance.randrange(100000)},
            "placed": 1_790_000_000_000 + chance.getrandbits(30),
        }
        for _ in range(count)
    ]


def encoded(schema: Any, values: list[Any], prefix: bytes = b"") -> pa.BinaryArray:
    """The values in Avro, each behind the prefix."""
    parsed = fastavro.parse_schema(schema)
    payloads = []
    for value in values:
        out = io.BytesIO()
        out.write(prefix)
        fastavro.schemaless_writer(out, parsed, value)
        payloads.append(out.getvalue())
    return pa.array(payloads, pa.binary())
