"""Random schemas, values and records of Connect, as JSON of tests/connect/wire.py."""

from __future__ import annotations

import struct
from random import Random
from typing import Any

Json = Any
PRIMITIVES = ["INT8", "INT16", "INT32", "INT64", "FLOAT32", "FLOAT64", "BOOLEAN", "STRING", "BYTES"]
LOGICAL = ["Decimal", "Date", "Time", "Timestamp"]
PACKAGE = "org.apache.kafka.connect.data."
DAY_MS = 86_400_000
NAMES = ["id", "name", "a", "b", "ts", "amount", "inner", "created.at", "Straße", "x`y"]
WORDS = [
    "", "a", "true", "false", "null", "12", "-7", "+3", "300", "70000", "5000000000", "1.5", "-0.25", "1e3", "NaN",
    "text with space", " 5 ", "ß", "日本", "\U0001f600", 'quote"d', "back\\slash", "\x01\x1f", "2020-02-30",
    "2021-05-06", "2021-05-06 07:08:09.010",
    "2021-05-06T07:08:09.010Z", "12:34:56.789Z", "[1, 2]", '{"a":1}', "0x10", "99999999999999999999",
]  # fmt: skip
KINDS = {
    "ts": ["INT64", "STRING", "Date", "Time", "Timestamp"],
    "created.at": ["INT64", "STRING", "Timestamp"],
    "amount": ["INT32", "INT64", "FLOAT32", "FLOAT64", "Decimal", "STRING"],
    "inner": ["STRUCT"],
}
"""The types that fields of some names mostly have, for transforms that ask for them."""
FLOATS = [3.5e15, 0.0, -0.0, 1.0, 0.5, -2.25, 100.0, 1234567.0, 1e7, 12345678.0, 0.001, 0.0001, -1e20, float("inf"),
          float("-inf"), float("nan"), 300.7, -129.9]  # fmt: skip


def schema(rng: Random, depth: int = 2, kind: str | None = None) -> Json:
    """Return a schema. depth: how many levels of arrays, maps and structs it may have. kind: a type or logical type."""
    kind = kind or rng.choice([*PRIMITIVES, *LOGICAL, *(["ARRAY", "MAP", "STRUCT", "STRUCT"] if depth else [])])
    made: dict[str, Json] = {"type": kind}
    if kind in LOGICAL:
        made |= {"type": {"Decimal": "BYTES", "Timestamp": "INT64"}.get(kind, "INT32"), "name": PACKAGE + kind}
        made["version"] = 1
        if kind == "Decimal":
            made["parameters"] = {"scale": str(rng.choice([0, 2, 5, -1]))}
    elif kind == "ARRAY":
        made["value"] = schema(rng, depth - 1)
    elif kind == "MAP":
        made["key"] = schema(rng, 0, rng.choice(["STRING", "STRING", "INT32", "INT64", "BOOLEAN"]))
        made["key"].pop("default", None)
        made["value"] = schema(rng, depth - 1)
    elif kind == "STRUCT":
        names = rng.sample(NAMES, rng.randrange(1, 6))
        made["fields"] = [[name, _field(rng, name, depth - 1)] for name in names]
    if kind not in LOGICAL:
        made |= {
            name: value
            for name, value in [("name", "com.x.Name"), ("version", 3), ("doc", 'a "doc"'), ("parameters", {"p": "q"})]
            if rng.random() < 0.1
        }
    if rng.random() < 0.4:
        made["optional"] = True
    if rng.random() < 0.2 and kind != "STRUCT" and not (kind in ("ARRAY", "MAP") and "BYTES" in repr(made)):
        # Java does not find a list of bytes equal to another
        made["default"] = value(rng, made, nullable=False)
    return made


def _field(rng: Random, name: str, depth: int) -> Json:
    kinds = [each for each in KINDS.get(name, []) if each != "STRUCT" or depth > 0]
    return schema(rng, depth, rng.choice(kinds) if kinds and rng.random() < 0.7 else None)


def value(rng: Random, of: Json, *, nullable: bool = True) -> Json:
    """Return a value of a schema."""
    if of.get("optional") and nullable and rng.random() < 0.3:
        return None
    if of.get("name", "").startswith(PACKAGE):
        return _logical(rng, of)
    match of["type"]:
        case "STRUCT":
            told = [_field_value(rng, field) for _, field in of["fields"]]
            return ["struct", of, told]
        case "ARRAY":
            return ["list", [value(rng, of["value"]) for _ in range(rng.randrange(4))]]
        case "MAP":
            entries = {
                repr(key): [key, value(rng, of["value"])]
                for key in (value(rng, of["key"]) for _ in range(rng.randrange(5)))
            }
            return ["map", list(entries.values())]
    return primitive(rng, of["type"])


def _field_value(rng: Random, of: Json) -> Json:
    if "default" in of and rng.random() < 0.3:
        return None
    return value(rng, of)


def _logical(rng: Random, of: Json) -> Json:
    match of["name"].removeprefix(PACKAGE):
        case "Decimal":
            return [
                "dec",
                str(rng.choice([0, 1, -1, 127, 128, -128, 12345, -(10**20)])),
                int(of["parameters"]["scale"]),
            ]
        case "Date":
            return ["date", rng.randrange(-800_000, 100_000) * DAY_MS]
        case "Time":
            return ["date", rng.randrange(DAY_MS)]
    return ["date", rng.choice([0, DAY_MS, rng.randrange(2**41), -rng.randrange(2**41)])]


def primitive(rng: Random, kind: str) -> Json:
    """Return a value of a primitive type."""
    match kind:
        case "BOOLEAN":
            return ["bool", rng.random() < 0.5]
        case "STRING":
            return ["str", rng.choice(WORDS)]
        case "BYTES":
            return ["bytes", rng.randbytes(rng.choice([0, 1, 2, 3, 8])).hex()]
        case "FLOAT32":
            return ["f32", struct.pack(">f", rng.choice(FLOATS[1:])).hex()]
        case "FLOAT64":
            return ["f64", struct.pack(">d", rng.choice(FLOATS)).hex()]
    bits = int(kind.removeprefix("INT"))
    limit = 1 << bits - 1
    return [f"i{bits}", rng.choice([0, 1, -1, limit - 1, -limit, rng.randrange(-limit, limit)])]


def without_schema(rng: Random, depth: int = 2) -> Json:
    """Return a value without a schema."""
    kind = rng.choice([*PRIMITIVES, "date", "dec", None, *(["list", "map", "map"] if depth else [])])
    match kind:
        case None:
            return None
        case "date":
            return ["date", rng.randrange(2**41)]
        case "dec":
            return ["dec", str(rng.randrange(-1000, 1000)), rng.randrange(3)]
        case "list":
            return ["list", [without_schema(rng, depth - 1) for _ in range(rng.randrange(4))]]
        case "map":
            return map_without_schema(rng, depth)
    return primitive(rng, kind)


def map_without_schema(rng: Random, depth: int = 2) -> Json:
    """Return a map of texts to values without a schema."""
    names = rng.sample(NAMES, rng.randrange(7))
    return ["map", [[["str", name], _member(rng, name, depth - 1)] for name in names]]


def _member(rng: Random, name: str, depth: int) -> Json:
    if name == "inner" and depth > 0:
        return map_without_schema(rng, depth)
    return (
        primitive(rng, rng.choice(["INT64", "STRING"])) if name in ("ts", "created.at") else without_schema(rng, depth)
    )


def either(rng: Random) -> tuple[Json, Json]:
    """Return a schema, or none, and a value of it: mostly structs and maps."""
    if rng.random() < 0.4:
        return None, map_without_schema(rng) if rng.random() < 0.7 else without_schema(rng)
    of = schema(rng, 3, "STRUCT" if rng.random() < 0.7 else None)
    return of, value(rng, of)


def record(rng: Random) -> Json:
    """Return a record of a source or a sink."""
    headers = []
    for _ in range(rng.choice([0, 0, 1, 3])):
        of = schema(rng, 0) if rng.random() < 0.7 else None
        headers.append([rng.choice(["h", "trace", "a"]), of, None if of is None else value(rng, of)])
    made = {
        "topic": rng.choice(["orders", "db.orders", "a-b_c", "t1"]),
        "partition": rng.choice([None, 0, 3]),
        "key": list(either(rng)),
        "value": list(either(rng)),
        "timestamp": rng.choice([None, 0, rng.randrange(2**41)]),
        "headers": headers,
    }
    if rng.random() < 0.5:
        made |= {"offset": rng.randrange(1000), "partition": rng.randrange(3)}
    return made
