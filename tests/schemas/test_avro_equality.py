"""Which schemas of Avro are the same to a registry that looks one up. The answers are AvroSchema.equivalent's."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kcli.schemas.avro import parse
from kcli.schemas.parsed import equivalent
from tests.schemas.avro_cases import NODE, array, enum, fixed, mapped, of, record
from tests.schemas.test_compatibility import Words

S = record("n.S", of("g", "int"))


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("int", {"type": "int"}, True),
        ("int", "long", False),
        ("int", {"type": "int", "p": 1}, False),
        ({"type": "int", "p": 1, "q": 2}, {"type": "int", "q": 2, "p": 1}, True),
        ({"type": "int", "p": 1}, {"type": "int", "p": 1.0}, False),
        ({"type": "int", "p": {"a": 1, "b": 2}}, {"type": "int", "p": {"b": 2, "a": 1}}, True),
        (record("n.S", of("g", "int")), record("S", of("g", "int"), namespace="n"), True),
        (record("n.S", of("g", "int")), record("m.S", of("g", "int")), False),
        (record("S", of("g", "int")), record("S", of("g", "int"), doc="x"), False),
        (record("S", of("g", "int")), record("S", of("g", "int", doc="x")), False),
        (record("S", of("g", "int")), record("S", of("g", "int", order="ignore")), False),
        (record("S", of("g", "int")), record("S", of("g", "int", order="ascending")), True),
        (record("S", of("g", "int")), record("S", of("g", "int", default=0)), False),
        (record("S", of("g", "int", default=None)), record("S", of("g", "int")), False),
        (record("S", of("g", "int")), record("S", of("g", "int"), of("h", "int")), False),
        (record("S", aliases=["A", "B"]), record("S", aliases=["B", "A"]), True),
        (record("S", aliases=["A"]), record("S"), False),
        (record("S", of("g", "int", aliases=["a", "b"])), record("S", of("g", "int", aliases=["b", "a"])), True),
        (record("S", of("g", "int", aliases=["a"])), record("S", of("g", "int", aliases=["b"])), False),
        (record("S"), {**record("S"), "type": "error"}, True),
        (enum("E", "AB"), enum("E", "BA"), False),
        (enum("E", "AB"), enum("E", "AB", default="A"), False),
        (fixed("F", 1), fixed("F", 2), False),
        (fixed("F", 1), fixed("F", 1, doc="x"), False),
        (array(["null", "int"]), array(["null", "int"]), True),
        (array(["null", "int"]), array(["int", "null"]), False),
        (mapped("int"), array("int"), False),
        (["null"], ["null", "int"], False),
        (NODE, NODE, True),
        (NODE, record("Node", of("value", "int"), of("next", ["null", "Node"], doc="x")), False),
    ],
)
def test_equivalent(one: Any, other: Any, is_same: bool) -> None:
    schema, compared = parse(json.dumps(one), {}), parse(json.dumps(other), {})
    assert equivalent(schema, compared) is equivalent(compared, schema) is is_same
    assert equivalent(schema, schema)


def test_references_in_place_are_the_same() -> None:
    referring = parse(json.dumps(record("R", of("a", "n.S"), of("b", "n.S"))), {"S": json.dumps(S)})
    inlined = parse(json.dumps(record("R", of("a", S), of("b", "n.S"))), {})
    assert referring.canonical != inlined.canonical == referring.formatted("resolved")
    assert equivalent(referring, inlined)
    changed = parse(referring.canonical, {"S": json.dumps(record("n.S", of("g", "long")))})
    assert changed.canonical == referring.canonical
    assert not equivalent(referring, changed)


def test_deep_references_are_compared_without_recursion() -> None:
    texts = {f"r{i}": json.dumps(record(f"R{i}", *([of("f", f"R{i - 1}")] if i else []))) for i in range(2000)}
    assert equivalent(parse('"R1999"', texts), parse('"R1999"', texts))


def test_other_formats_are_compared_by_their_texts() -> None:
    assert equivalent(Words("a"), Words("a"))
    assert not equivalent(Words("a"), Words("b"))
    assert not equivalent(Words('"int"'), parse('"int"', {}))
    assert not equivalent(parse('"int"', {}), Words('"int"'))
