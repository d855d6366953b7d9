"""Cases of Avro, and the tables with the answers of Confluent's registry to them.

    avro_compatibility.jsonl  name, reader, writer, the messages of AvroSchema.isBackwardCompatible
    avro_texts.jsonl          name, schema, references, then the canonical, the normalized and the resolved text (null:
                              it has none), whether AvroSchemaProvider accepts the schema, and whether as a new one
    avro_levels.jsonl         level, name in HISTORIES, the messages of ParsedSchema.isCompatible

The answers are those of Confluent's Schema Registry 8.3.1 with Avro 1.12.1 on Java 17; the cases are ours.

`python -m tests.schemas.avro_cases COMMAND` writes the tables anew. COMMAND reads a line of JSON for each request and
answers it with one line: the attributes of both are in `_answers`, below.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any, Final, NamedTuple

from kcli.schemas.compatibility import Level

HERE: Final = Path(__file__).parent
COMPATIBILITY: Final = HERE / "avro_compatibility.jsonl"
TEXTS: Final = HERE / "avro_texts.jsonl"
LEVELS: Final = HERE / "avro_levels.jsonl"

PRIMITIVES: Final = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")


def record(name: str, *fields: Any, **others: Any) -> dict[str, Any]:
    """Return a record's schema."""
    return {"type": "record", "name": name, "fields": list(fields), **others}


def of(name: str, schema: Any, **others: Any) -> dict[str, Any]:
    """Return a field's schema."""
    return {"name": name, "type": schema, **others}


def enum(name: str, symbols: str, **others: Any) -> dict[str, Any]:
    """Return the schema of an enum whose symbols are letters."""
    return {"type": "enum", "name": name, "symbols": list(symbols), **others}


def fixed(name: str, size: int, **others: Any) -> dict[str, Any]:
    """Return a fixed's schema."""
    return {"type": "fixed", "name": name, "size": size, **others}


def array(items: Any, **others: Any) -> dict[str, Any]:
    """Return an array's schema."""
    return {"type": "array", "items": items, **others}


def mapped(values: Any, **others: Any) -> dict[str, Any]:
    """Return a map's schema."""
    return {"type": "map", "values": values, **others}


class Text(NamedTuple):
    """A text to parse, and those that it refers to."""

    name: str
    schema: str
    references: Sequence[str] = ()


NODE: Final = record("Node", of("value", "int"), of("next", ["null", "Node"]))
NODE_STRING: Final = record("Node", of("value", "string"), of("next", ["null", "Node"]))
COMPLEX: Final = {
    "array": array("int"),
    "map": mapped("int"),
    "fixed": fixed("F", 4),
    "enum": enum("E", "AB"),
    "record": record("R", of("f", "int")),
    "union": ["null", "int"],
}


def pairs() -> Iterator[tuple[str, Any, Any]]:
    """Iterate over the cases of compatibility: a name, the reader's schema, the writer's."""
    for reader, writer in product(PRIMITIVES, repeat=2):
        yield f"{reader} reads {writer}", reader, writer
    for primitive, (name, schema) in product(PRIMITIVES, COMPLEX.items()):
        yield f"{primitive} reads {name}", primitive, schema
        yield f"{name} reads {primitive}", schema, primitive
    for name, other in product(COMPLEX, repeat=2):
        yield f"{name} reads {other}", COMPLEX[name], COMPLEX[other]
    yield from PAIRS


PAIRS: Final[Sequence[tuple[str, Any, Any]]] = (
    ("array: items promoted", array("long"), array("int")),
    ("array: items not demoted", array("int"), array("long")),
    ("array of arrays", array(array("int")), array(array("string"))),
    ("map: values promoted", mapped("double"), mapped("float")),
    ("map: values differ", mapped("boolean"), mapped("null")),
    ("map of arrays of maps", mapped(array(mapped("int"))), mapped(array(mapped("string")))),
    ("fixed: size", fixed("F", 8), fixed("F", 4)),
    ("fixed: name", fixed("G", 4), fixed("F", 4)),
    ("fixed: name and size", fixed("G", 8), fixed("F", 4)),
    ("fixed: namespace", fixed("x.F", 4), fixed("y.F", 4)),
    ("fixed: alias", fixed("G", 4, aliases=["F"]), fixed("F", 4)),
    ("fixed: full alias", fixed("x.G", 4, aliases=["y.F"]), fixed("y.F", 4)),
    ("fixed: alias in the namespace", fixed("x.G", 4, aliases=["F"]), fixed("x.F", 4)),
    ("fixed: alias in another namespace", fixed("x.G", 4, aliases=["F"]), fixed("y.F", 4)),
    ("fixed: alias without a namespace", fixed("x.G", 4, aliases=[".F"]), fixed("F", 4)),
    ("fixed: alias, both without a namespace", fixed("G", 4, aliases=[".F"]), fixed("F", 4)),
    ("fixed: the writer's alias counts not", fixed("F", 4), fixed("G", 4, aliases=["F"])),
    ("fixed reads bytes", fixed("F", 4), "bytes"),
    ("enum: more symbols", enum("E", "ABC"), enum("E", "AB")),
    ("enum: fewer symbols", enum("E", "A"), enum("E", "ABC")),
    ("enum: other order", enum("E", "BA"), enum("E", "AB")),
    ("enum: fewer symbols, a default", enum("E", "A", default="A"), enum("E", "ABC")),
    ("enum: the writer's default counts not", enum("E", "A"), enum("E", "AB", default="A")),
    ("enum: name", enum("D", "AB"), enum("E", "AB")),
    ("enum: name and symbols", enum("D", "A"), enum("E", "ABZ")),
    ("enum: name, a default", enum("D", "A", default="A"), enum("E", "AB")),
    ("enum: alias", enum("D", "AB", aliases=["E"]), enum("E", "AB")),
    ("enum: namespace", enum("n.E", "AB"), enum("m.E", "AB")),
    ("enum: no symbols", enum("E", ""), enum("E", "A")),
    ("enum: missing symbols are sorted", enum("E", ""), enum("E", "ZBCA")),
    ("record: same", record("R", of("f", "int")), record("R", of("f", "int"))),
    ("record: name", record("S", of("f", "int")), record("R", of("f", "int"))),
    ("record: namespace", record("a.R", of("f", "int")), record("b.R", of("f", "int"))),
    ("record: alias", record("S", of("f", "int"), aliases=["R"]), record("R", of("f", "int"))),
    ("record: name and type", record("S", of("f", "int")), record("R", of("f", "string"))),
    ("record: an error", {**record("R", of("f", "int")), "type": "error"}, record("R", of("f", "int"))),
    ("field added", record("R", of("f", "int"), of("g", "int")), record("R", of("f", "int"))),
    ("field added, default", record("R", of("f", "int"), of("g", "int", default=1)), record("R", of("f", "int"))),
    ("field added, default null", record("R", of("g", ["null", "int"], default=None)), record("R")),
    ("field added, a union of null", record("R", of("g", ["null", "int"])), record("R")),
    ("field added, of null", record("R", of("g", "null")), record("R")),
    ("field added, enum with a default", record("R", of("g", enum("E", "A", default="A"))), record("R")),
    ("field added, enum without a default", record("R", of("g", enum("E", "A"))), record("R")),
    ("field removed", record("R", of("f", "int")), record("R", of("f", "int"), of("g", "int"))),
    (
        "fields in another order",
        record("R", of("g", "int"), of("f", "int")),
        record("R", of("f", "int"), of("g", "int")),
    ),
    ("fields added", record("R", of("f", "int"), of("g", "int"), of("h", "int")), record("R", of("g", "int"))),
    ("field renamed", record("R", of("g", "int")), record("R", of("f", "int"))),
    ("field renamed, alias", record("R", of("g", "int", aliases=["f"])), record("R", of("f", "int"))),
    ("field renamed, one of the aliases", record("R", of("g", "int", aliases=["e", "f"])), record("R", of("f", "int"))),
    ("field renamed, alias, type", record("R", of("g", "int", aliases=["f"])), record("R", of("f", "string"))),
    ("field renamed, the writer's alias", record("R", of("g", "int")), record("R", of("f", "int", aliases=["g"]))),
    (
        "field of two of the writer's",
        record("R", of("f", "int", aliases=["g"])),
        record("R", of("f", "int"), of("g", "int"), of("h", array("string"), default=[])),
    ),
    (
        "field of two aliases",
        record("R", of("f", ["null", "int"], aliases=["g", "h"])),
        record("R", of("g", "int"), of("h", "int")),
    ),
    ("field promoted", record("R", of("f", "double")), record("R", of("f", "int"))),
    ("field demoted", record("R", of("f", "int")), record("R", of("f", "double"))),
    ("field made a union", record("R", of("f", ["null", "int"])), record("R", of("f", "int"))),
    ("field no longer a union", record("R", of("f", "int")), record("R", of("f", ["null", "int"]))),
    ("field of one branch", record("R", of("f", "int")), record("R", of("f", ["int"]))),
    (
        "several fields differ",
        record("R", of("f", "int"), of("g", "boolean")),
        record("R", of("f", "string"), of("g", "null")),
    ),
    (
        "record in a record",
        record("R", of("f", record("S", of("g", "int")))),
        record("R", of("f", record("S", of("g", "string")))),
    ),
    (
        "record in a record, renamed",
        record("R", of("f", record("T", of("g", "int")))),
        record("R", of("f", record("S", of("g", "int")))),
    ),
    (
        "record in an array in a map",
        record("R", of("f", mapped(array(record("S", of("g", "int")))))),
        record("R", of("f", mapped(array(record("S", of("h", "int")))))),
    ),
    (
        "record used twice",
        record("R", of("a", record("S", of("g", "int"))), of("b", "S")),
        record("R", of("a", record("S", of("g", "string"))), of("b", "S")),
    ),
    (
        "record defined twice",
        record("R", of("a", record("S", of("g", "int"))), of("b", record("S", of("g", "int")))),
        record("R", of("a", record("S", of("g", "string"))), of("b", record("S", of("g", "string")))),
    ),
    (
        "record used first inside a union",
        record("R", of("a", ["null", record("S", of("g", "int"))]), of("b", "S")),
        record("R", of("a", record("S", of("g", "string"))), of("b", "S")),
    ),
    (
        "record used first inside unions",
        record("R", of("a", ["null", record("S", of("g", "int"))]), of("b", "S")),
        record("R", of("a", ["null", record("S", of("g", "string"))]), of("b", "S")),
    ),
    ("recursive", NODE, NODE),
    ("recursive, type", NODE, NODE_STRING),
    ("recursive, field added", record("Node", of("value", "int"), of("next", ["null", "Node"]), of("x", "int")), NODE),
    ("recursive without a union", record("N", of("n", "N")), record("N", of("n", "N"))),
    (
        "recursive in an array",
        record("N", of("n", array("N")), of("v", "int")),
        record("N", of("n", array("N")), of("v", "long")),
    ),
    (
        "recursive in a map",
        record("N", of("n", mapped("N")), of("v", "int")),
        record("N", of("n", mapped("N")), of("w", "int")),
    ),
    (
        "recursive in two",
        record("A", of("b", record("B", of("a", ["null", "A"]), of("v", "int")))),
        record("A", of("b", record("B", of("a", ["null", "A"]), of("v", "string")))),
    ),
    (
        "recursive in one",
        record("A", of("a", ["null", "A"])),
        record("A", of("a", ["null", record("B", of("a", ["null", "A"]))])),
    ),
    (
        "recursive, mismatch behind the recursion",
        record("A", of("x", ["null", "A"]), of("y", "int")),
        record("A", of("x", ["null", "A"]), of("y", "string")),
    ),
    (
        "recursive, mismatch before the recursion",
        record("A", of("y", "int"), of("x", ["null", "A"])),
        record("A", of("y", "string"), of("x", ["null", "A"])),
    ),
    (
        "recursive, each through the other",
        record("A", of("b", ["null", record("B", of("a", "A"), of("v", "int"))]), of("c", ["null", "B"])),
        record("A", of("b", ["null", record("B", of("a", "A"), of("v", "null"))]), of("c", ["null", "B"])),
    ),
    ("union: more branches", ["null", "int", "string"], ["null", "int"]),
    ("union: fewer branches", ["null"], ["null", "int", "string"]),
    ("union: other order", ["int", "null"], ["null", "int"]),
    ("union: branches promoted", ["double", "string"], ["int", "bytes"]),
    ("union: two branches of one", ["long"], ["int", "long"]),
    ("union reads a branch", ["null", "string"], "string"),
    ("union reads what a branch promotes", ["null", "long"], "int"),
    ("union reads no branch", ["null", "long"], "boolean"),
    ("union reads no record", ["null", record("S", of("f", "int"))], record("R", of("f", "int"))),
    ("union reads a record of a branch", ["null", record("R", of("f", "int"))], record("R", of("f", "int"))),
    ("union reads no changed record", ["null", record("R", of("f", "int"))], record("R", of("f", "string"))),
    ("union reads an enum", ["null", enum("E", "AB")], enum("E", "ABC")),
    ("union reads a fixed", ["null", fixed("F", 4)], fixed("F", 5)),
    ("union reads an array", ["null", array("long")], array("int")),
    ("union of arrays differs", ["null", array("int")], ["null", array("string")]),
    ("a type reads a union of it", "long", ["int", "long"]),
    ("a type reads a union of another one", "long", ["int", "string"]),
    ("a type reads a union of others", "int", ["null", "string", "int", "boolean"]),
    ("a type reads an empty union", "int", []),
    ("empty union reads a type", [], "int"),
    ("empty unions", [], []),
    ("empty union reads a union", [], ["int"]),
    (
        "a record reads a union of records",
        record("R", of("f", "int")),
        [record("R", of("f", "int")), record("S", of("f", "int"))],
    ),
    (
        "a record reads a union with mismatches",
        record("R", of("f", "int")),
        [record("R", of("f", "string")), record("S", of("g", "int"))],
    ),
    ("array of unions", array(["null", "int"]), array(["null", "string"])),
    ("array reads an array of a union", array("int"), array(["int", "null"])),
    ("map reads a map of a union", mapped("string"), mapped(["bytes", "string"])),
    ("union in a field", record("R", of("f", ["null", "int"])), record("R", of("f", ["null", "string"]))),
    (
        "union in a field of a union's record",
        ["null", record("R", of("f", ["null", "int"]))],
        ["null", record("R", of("f", ["null", "string"]))],
    ),
    ("logical types count not", {"type": "int", "logicalType": "date"}, {"type": "int", "logicalType": "time-millis"}),
    (
        "decimals of another scale",
        {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2},
        {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 1},
    ),
    (
        "docs and order count not",
        record("R", of("f", "int", doc="x", order="ignore"), doc="y"),
        record("R", of("f", "int")),
    ),
    ("a field's name with letters of Unicode", record("R", of("größe", "int")), record("R")),
    (
        "a deep path",
        record("A", of("b", array(mapped(record("B", of("c", enum("C", "X"))))))),
        record("A", of("b", array(mapped(record("B", of("c", enum("C", "XYZ"))))))),
    ),
    (
        "all kinds at once",
        record(
            "A",
            of("e", enum("E", "X")),
            of("f", fixed("F", 1)),
            of("n", record("N")),
            of("u", ["null"]),
            of("t", "int"),
            of("d", "int"),
        ),
        record(
            "A",
            of("e", enum("E", "Y")),
            of("f", fixed("F", 2)),
            of("n", record("M")),
            of("u", ["int"]),
            of("t", "null"),
        ),
    ),
)


def _field(default: Any, schema: Any) -> str:
    return json.dumps(record("R", of("f", schema, default=default)), ensure_ascii=False)


def texts() -> Iterator[Text]:
    """Iterate over the texts to parse."""
    for primitive in PRIMITIVES:
        yield Text(f"{primitive} by name", f'"{primitive}"')
        yield Text(f"{primitive} as an object", f'{{"type" : "{primitive}"}}')
        yield Text(f"{primitive} with a property", f'{{"p":1,"type":"{primitive}"}}')
    for name, schema in COMPLEX.items():
        yield Text(name, json.dumps(schema, indent=2))
        yield Text(f"{name} with properties", json.dumps(record("X", of("x", _with_props(schema)))))
    for name, schema, default in DEFAULTS:
        yield Text(f"default: {name}", _field(default, schema))
    for name, schema in LOGICAL:
        yield Text(f"logical type: {name}", json.dumps(schema))
    yield from TEXTS_ALONE
    yield from TEXTS_WITH_REFERENCES


def _with_props(schema: Any) -> Any:
    return schema if isinstance(schema, list) else {**schema, "z": [1, {"b": 2, "a": 1.0}], "a": None, "doc": "a doc"}


DEFAULTS: Final[Sequence[tuple[str, Any, Any]]] = (
    ("int", "int", 1),
    ("int too large", "int", 1 << 31),
    ("int of a fraction", "int", 1.0),
    ("int of a string", "int", "1"),
    ("long", "long", -(1 << 63)),
    ("long too large", "long", 1 << 63),
    ("float of an int", "float", 1),
    ("float", "float", 0.1),
    ("float rounded", "float", 16777217),
    ("float too large", "float", 1e300),
    ("float NaN", "float", "NaN"),
    ("float of a word", "float", "many"),
    ("double of an int", "double", 1),
    ("double of a string", "double", "1e3"),
    ("double Infinity", "double", "-Infinity"),
    ("double small", "double", 1e-5),
    ("boolean", "boolean", True),
    ("boolean of an int", "boolean", 1),
    ("null", "null", None),
    ("null of false", "null", False),
    ("string", "string", 'é "quoted" \\ \n'),
    ("string of an int", "string", 1),
    ("bytes", "bytes", "\u0000ÿ"),
    ("bytes beyond ÿ", "bytes", "Āa"),
    ("fixed", fixed("F", 2), "ab"),
    ("fixed of another size", fixed("F", 2), "abc"),
    ("enum", enum("E", "AB"), "A"),
    ("enum of no symbol", enum("E", "AB"), "C"),
    ("array", array("double"), [1, 2.5]),
    ("array of a wrong item", array("int"), [1, "2"]),
    ("array of an object", array("int"), {}),
    ("map", mapped("long"), {"b": 1, "a": 2}),
    ("map of a wrong value", mapped("long"), {"a": None}),
    ("record", record("S", of("a", "float"), of("b", "int", default=7)), {"a": 1}),
    ("record without a field", record("S", of("a", "int")), {}),
    ("record with another field", record("S", of("a", "int")), {"a": 1, "z": 1}),
    ("union: first branch", ["null", "int"], None),
    ("union: second branch", ["null", "int"], 1),
    ("union: no branch", ["null", "int"], "x"),
    ("union: an array second", ["null", array("int")], [1]),
    ("union: an empty array second", ["null", array("int")], []),
    ("union: a map second", ["null", mapped("int")], {"b": 1, "a": 2}),
    ("union: a string of bytes", ["bytes", "string"], "Ā"),
    ("itself", "R", {}),
    ("itself in a union", ["null", "R"], None),
)


LOGICAL: Final[Sequence[tuple[str, Any]]] = (
    *(
        (f"{name} of {primitive}", {"zz": 1, "type": primitive, "logicalType": name, "aa": 2})
        for name, primitive in (
            ("date", "int"),
            ("date", "long"),
            ("time-millis", "int"),
            ("time-micros", "long"),
            ("timestamp-millis", "long"),
            ("timestamp-micros", "int"),
            ("timestamp-nanos", "long"),
            ("local-timestamp-millis", "long"),
            ("local-timestamp-micros", "long"),
            ("local-timestamp-nanos", "string"),
            ("uuid", "string"),
            ("uuid", "bytes"),
            ("big-decimal", "bytes"),
            ("unknown", "int"),
        )
    ),
    ("decimal", {"type": "bytes", "scale": 2, "logicalType": "decimal", "b": 1, "precision": 4}),
    ("decimal of scale 0", {"type": "bytes", "scale": 0, "b": 1, "logicalType": "decimal", "precision": 4}),
    ("decimal without a precision", {"type": "bytes", "scale": 2, "b": 1, "logicalType": "decimal"}),
    ("decimal of a large scale", {"type": "bytes", "scale": 5, "b": 1, "logicalType": "decimal", "precision": 4}),
    ("decimal of a fixed", fixed("F", 2, z=1, scale=1, precision=4, logicalType="decimal")),
    ("decimal of a fixed that is too small", fixed("F", 2, z=1, scale=1, precision=5, logicalType="decimal")),
    ("duration", fixed("F", 12, a=1, logicalType="duration")),
    ("duration of 11 bytes", fixed("F", 11, a=1, logicalType="duration")),
    ("uuid of a fixed", fixed("F", 16, a=1, logicalType="uuid")),
    ("with a class of Java", {"type": "int", "java-class": "x.Y", "logicalType": "date"}),
    ("map", array(record("E", of("key", "int"), of("value", "int")), z=1, a=2, logicalType="map")),
    ("map of another record", array(record("E", of("k", "int"), of("value", "int")), z=1, a=2, logicalType="map")),
    ("variant", record("V", of("metadata", "bytes"), of("value", "bytes"), z=1, a=2, logicalType="variant")),
    ("variant of another record", record("V", of("value", "bytes"), z=1, a=2, logicalType="variant")),
    ("no string", {"type": "int", "logicalType": 5}),
)

TEXTS_ALONE: Final = (
    Text("comments", '/* one */ {"type": // two\n "int"} /* three */'),
    Text("a comment without an end", '"int" /* x'),
    Text("nothing", ""),
    Text("white space", " \n\t "),
    Text("null of JSON", "null"),
    Text("a number", "1"),
    Text("two schemas", '"int" "int"'),
    Text("no end", '{"type":"int"'),
    Text("equal names", '{"type":"int","a":1,"b":2,"a":3,"type":"long"}'),
    Text(
        "numbers",
        '{"type":"int","a":1.0,"b":1e3,"c":-0,"d":-0.0,"e":12345678901234567890,"f":1E400,"g":0.001,"h":0.0001,"i":1e7,'
        '"j":123456.75,"k":9999999.0}',
    ),
    Text(
        "an integer of a record that is too large", '{"type":"record","name":"R","fields":[],"p":12345678901234567890}'
    ),
    Text(
        "an integer of a field that is too large", _field(1, "int").replace('"int"', '"int", "p":12345678901234567890')
    ),
    Text("an integer of an array that is too large", '{"type":"array","items":"int","p":[12345678901234567890]}'),
    Text("characters", '{"type":"int","a":"\\u0001\\u001f\\u007f\\u2028\\/é\\ud83d\\ude00\\b\\t"}'),
    Text("NaN", '{"type":"int","a":NaN}'),
    Text("an attribute type that is an object", '{"type":{"type":"int"}}'),
    Text("an attribute type that is missing", '{"name":"R"}'),
    Text("a type that nobody knows", '["null","Nobody"]'),
    Text(
        "a type by an object",
        '[{"type":"enum","name":"E","symbols":["A"]},{"type":"array","items":{"type":"E","p":1}}]',
    ),
    Text("record without fields", '{"type":"record","name":"R"}'),
    Text("record without a name", '{"type":"record","fields":[]}'),
    Text("an error", '{"type":"error","name":"R","fields":[]}'),
    Text("field without a name", '{"type":"record","name":"R","fields":[{"type":"int"}]}'),
    Text("field without a type", '{"type":"record","name":"R","fields":[{"name":"f"}]}'),
    Text("field that is a string", '{"type":"record","name":"R","fields":["f"]}'),
    Text("two fields of a name", json.dumps(record("R", of("f", "int"), of("f", "long")))),
    Text(
        "order",
        json.dumps(
            record(
                "R",
                *(
                    of(f"f{i}", "int", order=each)
                    for i, each in enumerate(["ascending", "descending", "ignore", "IGNORE"])
                ),
            )
        ),
    ),
    Text("an order that nobody knows", json.dumps(record("R", of("f", "int", order="up")))),
    Text("an order that is no string", json.dumps(record("R", of("f", "int", order=1)))),
    Text(
        "docs",
        json.dumps(
            record("R", of("f", enum("E", "A", doc=""), doc=""), of("g", fixed("F", 1, doc="x"), doc="y"), doc="")
        ),
    ),
    Text("a doc that is no string", json.dumps(record("R", of("f", "int", doc=1), doc=["x"]))),
    Text(
        "aliases",
        json.dumps(
            record("n.R", of("f", "int", aliases=["z", "a", "z"]), aliases=["S", "m.T", ".U", "n.V", "n.int", "S"])
        ),
    ),
    Text("aliases without a namespace", json.dumps(record("R", aliases=["S", "m.T", ".U"]))),
    Text(
        "aliases of an enum and a fixed",
        json.dumps([enum("n.E", "A", aliases=["b.B", "A"]), fixed("F", 1, aliases=["B", "A"])]),
    ),
    Text("aliases that are no array", json.dumps(record("R", aliases="S"))),
    Text("an alias that is no string", json.dumps(record("R", aliases=[1]))),
    Text("an alias with a dash", json.dumps(record("R", aliases=["a-b"]))),
    Text("an alias of a field with a dash", json.dumps(record("R", of("f", "int", aliases=["a-b"])))),
    Text("default of a record", json.dumps(record("R", default={"x": 1}, order="x"))),
    Text("default of an array", json.dumps(array("int", default=[]))),
    Text("namespace", json.dumps(record("R", of("f", enum("E", "A")), of("g", "E"), of("h", "n.E"), namespace="n"))),
    Text(
        "namespace in the name",
        json.dumps(record("n.R", of("f", enum("E", "A", namespace="m")), of("g", "m.E"), namespace="x")),
    ),
    Text(
        "namespace left", json.dumps(record("n.R", of("f", enum("E", "A", namespace="")), of("g", "E"), of("h", ".E")))
    ),
    Text("namespace left, by a name", json.dumps(record("n.R", of("f", enum("E", "A", namespace="")), of("g", "E")))),
    Text("namespace that is no string", json.dumps(record("R", namespace=1))),
    Text("namespace of parts", json.dumps(record("a.b.c.R", of("f", record("a.b.S", of("g", "a.b.c.R")))))),
    Text("namespace with a dash", json.dumps(record("a-b.R"))),
    Text("namespace with an empty part", json.dumps(record("a..R"))),
    Text("a name that is a type's", json.dumps(record("n.R", of("f", record("n.record", of("g", "n.record")))))),
    Text("a primitive's name", json.dumps(record("int"))),
    Text(
        "a primitive's name in a namespace",
        json.dumps(record("n.R", of("f", record("int")), of("g", "int"), of("h", "n.int"))),
    ),
    Text("a name with a dash", json.dumps(record("a-b"))),
    Text("a name with a digit first", json.dumps(record("1a"))),
    Text("a name with letters of Unicode", json.dumps(record("Größe", of("größe", "int")), ensure_ascii=False)),
    Text("a name beyond Unicode's first plane", json.dumps(record("a😀"), ensure_ascii=False)),
    Text("an empty name", json.dumps(record(""))),
    Text("a field with a dash", json.dumps(record("R", of("a-b", "int")))),
    Text("a field with a dot", json.dumps(record("R", of("a.b", "int")))),
    Text("a symbol with a dash", json.dumps({"type": "enum", "name": "E", "symbols": ["a-b"]})),
    Text("a symbol that is no string", json.dumps({"type": "enum", "name": "E", "symbols": [1]})),
    Text("symbols twice", json.dumps(enum("E", "AA"))),
    Text("no symbols", json.dumps(enum("E", ""))),
    Text("enum without symbols", '{"type":"enum","name":"E"}'),
    Text("enum with a default", json.dumps(enum("E", "AB", default="B", z=1, aliases=["D"], doc="x"))),
    Text("enum with a default of no symbol", json.dumps(enum("E", "AB", default="C"))),
    Text("enum with a default of no string", json.dumps(enum("E", "AB", default=1))),
    Text("fixed of no bytes", json.dumps(fixed("F", 0))),
    Text("fixed of less", json.dumps(fixed("F", -1))),
    Text("fixed of the most bytes", json.dumps(fixed("F", 2147483639))),
    Text("fixed of more bytes", json.dumps(fixed("F", 2147483640))),
    Text("fixed of too many bytes", json.dumps(fixed("F", 2147483648))),
    Text("fixed of a fraction", '{"type":"fixed","name":"F","size":1.0}'),
    Text("array without items", '{"type":"array"}'),
    Text("map without values", '{"type":"map"}'),
    Text("union twice of a type", '["int","int"]'),
    Text("union of two arrays", json.dumps([array("int"), array("long")])),
    Text("union twice of a record", json.dumps([record("R"), "R"])),
    Text("union twice of a name", json.dumps([record("R"), record("n.R")])),
    Text("union of a union", '["int",["null"]]'),
    Text("union of nothing", "[]"),
    Text("union in an array", json.dumps(array(["null", "int"]))),
    Text("recursive", json.dumps(NODE)),
    Text("recursive in a namespace", json.dumps(record("n.N", of("a", ["null", "N"]), of("b", array("n.N"))))),
    Text("a name before its type", json.dumps(record("R", of("a", "S"), of("b", record("S", of("c", ["null", "R"])))))),
    Text("a name before its type, in a union", json.dumps(["S", record("R", of("f", "S")), enum("E", "A")])),
    Text(
        "a name before its type, in a union that has it",
        json.dumps([record("R", of("f", "S")), record("S", of("g", "E")), enum("E", "A")]),
    ),
    Text("a type twice", json.dumps(record("R", of("a", enum("E", "A")), of("b", enum("E", "A", doc="x"))))),
    Text("a type twice, different", json.dumps(record("R", of("a", enum("E", "A")), of("b", enum("E", "B"))))),
    Text("a recursive type twice", json.dumps(record("R", of("a", NODE), of("b", NODE)))),
    Text(
        "a record twice",
        json.dumps(record("R", of("a", record("S", of("f", "int"))), of("b", record("S", of("f", "int"))))),
    ),
    Text(
        "a record twice, default of another type",
        json.dumps(
            record(
                "R",
                of("a", record("S", of("f", "double", default=1))),
                of("b", record("S", of("f", "double", default=1.0))),
            )
        ),
    ),
    Text(
        "connect's properties",
        json.dumps(
            record(
                "R",
                of("f", {"type": "int", "connect.default": 0, "connect.type": "int16"}, default=0),
                **{"connect.name": "R", "connect.version": 1},
            )
        ),
    ),
    Text(
        "properties of a field", json.dumps(record("R", of("f", "int", z=1, logicalType="date", a={"y": 1, "b": [{}]})))
    ),
)

TEXTS_WITH_REFERENCES: Final = (
    Text("a reference", json.dumps(record("R", of("f", "n.S"))), (json.dumps(record("n.S", of("g", "int"))),)),
    Text(
        "a reference in its namespace",
        json.dumps(record("n.R", of("f", "S"))),
        (json.dumps(record("n.S", of("g", "int"))),),
    ),
    Text("a reference alone", '"S"', (json.dumps(record("S", of("g", "int"))),)),
    Text("an array of references", json.dumps(array("S")), (json.dumps(record("S")),)),
    Text("a reference twice", json.dumps(record("R", of("f", "S"), of("g", "S"))), (json.dumps(record("S")),)),
    Text("a reference without a namespace", json.dumps(record("n.R", of("f", "S"))), (json.dumps(record("S")),)),
    Text(
        "two references",
        json.dumps(record("R", of("f", "S"), of("g", "T"))),
        (json.dumps(record("S")), json.dumps(enum("T", "A"))),
    ),
    Text(
        "a reference to a reference",
        json.dumps(record("R", of("f", "T"))),
        (json.dumps(record("S")), json.dumps(record("T", of("s", "S")))),
    ),
    Text(
        "references in the wrong order",
        json.dumps(record("R", of("f", "T"))),
        (json.dumps(record("T", of("s", "S"))), json.dumps(record("S"))),
    ),
    Text(
        "a type inside a reference",
        json.dumps(record("R", of("f", "E"))),
        (json.dumps(record("S", of("e", enum("E", "A")))),),
    ),
    Text(
        "a reference that is a union",
        json.dumps(record("R", of("f", "S"))),
        (json.dumps([record("S"), enum("E", "A")]),),
    ),
    Text(
        "a reference defined again",
        json.dumps(record("R", of("f", record("S", of("g", "int"))))),
        (json.dumps(record("S", of("g", "int"))),),
    ),
    Text(
        "a reference defined again, different",
        json.dumps(record("R", of("f", record("S", of("g", "int"))))),
        (json.dumps(record("S", of("g", "long"))),),
    ),
    Text(
        "a reference that is the schema",
        json.dumps(record("S", of("g", "int"), doc="x")),
        (json.dumps(record("S", of("g", "int"))),),
    ),
    Text(
        "a reference that refers to the schema",
        json.dumps(record("R", of("f", "S"))),
        (json.dumps(record("S", of("g", "R"))),),
    ),
    Text("a recursive reference", json.dumps(record("R", of("f", "Node"))), (json.dumps(NODE),)),
    Text(
        "a reference with a bad default",
        json.dumps(record("R", of("f", "S"))),
        (json.dumps(record("S", of("g", "int", default="x"))),),
    ),
    Text("a reference with a bad name", json.dumps(record("R", of("f", "a-b"))), (json.dumps(record("a-b")),)),
    Text("a reference with a bad namespace", json.dumps(record("R", of("f", "a-b.S"))), (json.dumps(record("a-b.S")),)),
    Text(
        "a default of a reference's type",
        json.dumps(record("R", of("f", "S", default={"g": 1}))),
        (json.dumps(record("S", of("g", "double"))),),
    ),
    Text("a reference that is not used", '"int"', (json.dumps(record("S")),)),
    Text("a reference that is no schema", '"int"', ("{}",)),
    Text(
        "a reference that is normalized otherwise",
        json.dumps(record("R", of("f", "E"))),
        (json.dumps(record("S", of("e", record("E", of("d", "double", default=1))))),),
    ),
)

HISTORIES: Final[Sequence[tuple[str, Any, Sequence[Any]]]] = (
    ("no versions", record("R"), ()),
    ("a default added", record("R", of("f", "int", default=1)), (record("R"),)),
    ("no default", record("R", of("f", "int")), (record("R"),)),
    ("removed", record("R"), (record("R", of("f", "int")),)),
    ("both ways", record("R", of("f", "int")), (record("R", of("f", "string")),)),
    (
        "the latest is compatible",
        record("R", of("f", "int", default=1)),
        (record("R", of("f", "string")), record("R", of("f", "int"))),
    ),
    (
        "the first is compatible",
        record("R", of("f", "int")),
        (record("R", of("f", "int")), record("R", of("f", "string"))),
    ),
    (
        "all differ",
        record("R", of("f", "int"), of("g", "int")),
        (record("R", of("f", "null")), record("R", of("f", "string"))),
    ),
    ("a long text", record("R", of("f", "int")), (record("R", doc="é😀" + "x" * 10300),)),
    (
        "kinds",
        record("A", of("e", enum("E", "X")), of("d", "int"), of("u", ["null"])),
        (record("B", of("e", enum("E", "XY")), of("u", ["int"])),),
    ),
    (
        "a text with %",
        record("R", of("f", "int", aliases=["g"], doc="x")),
        (record("R", of("f", "string"), doc="'%s'"),),
    ),
)


def main(command: Sequence[str]) -> None:
    """Write the tables: the answers of a program to all cases."""
    compared = list(pairs())
    answers = _answers(command, [{"schema": json.dumps(r), "previous": json.dumps(w)} for _, r, w in compared])
    rows = [
        [name, reader, writer, each["incompatibilities"]]
        for (name, reader, writer), each in zip(compared, answers, strict=True)
    ]
    _write(COMPATIBILITY, rows)
    parsed = list(texts())
    requests = [{"schema": each.schema, "references": list(each.references)} for each in parsed]
    plain, new = (_answers(command, [{**each, "isNew": is_new} for each in requests]) for is_new in (False, True))
    rows = [
        [*text, *(each.get(key) for key in ("canonicalString", "normalized", "resolved")), each["ok"], as_new["ok"]]
        for text, each, as_new in zip(parsed, plain, new, strict=True)
    ]
    _write(TEXTS, rows)
    levels = [(level, *history) for history in HISTORIES for level in Level]
    answers = _answers(
        command,
        [
            {"schema": json.dumps(new), "previous": [json.dumps(each) for each in old], "level": level}
            for level, _, new, old in levels
        ],
    )
    rows = [
        [level, name, each.get("levelIncompatibilities", [])]
        for (level, name, _, _), each in zip(levels, answers, strict=True)
    ]
    _write(LEVELS, rows)


def _answers(command: Sequence[str], requests: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the answers to requests, in order.

    Request: schema and references as texts, previous: the older versions' texts, level, isNew. Answer: ok (whether the
    schema is accepted), canonicalString, normalized, resolved; incompatibilities with the latest of the older versions,
    levelIncompatibilities with all of them.
    """
    lines = []
    for i, each in enumerate(requests):
        references = [
            {"name": f"r{i}", "subject": f"r{i}", "version": 1, "schema": text}
            for i, text in enumerate(each.get("references", []))
        ]
        lines.append(json.dumps({"id": i, "type": "AVRO", "isNew": False, **each, "references": references}))
    ran = subprocess.run(command, input="\n".join(lines) + "\n", capture_output=True, text=True, check=True)
    answers = [json.loads(each) for each in ran.stdout.split("\n") if each]
    assert [each["id"] for each in answers] == list(range(len(requests))), "the program answers each request"
    return answers


def _write(path: Path, rows: Sequence[Any]) -> None:
    path.write_text("".join(json.dumps(each, ensure_ascii=False) + "\n" for each in rows))
    print(path.name, len(rows))


if __name__ == "__main__":
    main(sys.argv[1:])
