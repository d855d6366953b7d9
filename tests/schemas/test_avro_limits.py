"""Avro's schemas that are too large, too deep or too knotted: one line of an error, in bounded time and memory."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from kcli.schemas.avro import AvroSchema, parse
from kcli.schemas.avro.resolution import DEPTH_MAX as PAIRS_DEPTH_MAX
from kcli.schemas.avro.resolution import SHOWN_MAX, UNEXPECTED
from kcli.schemas.schema import DEPTH_MAX, InvalidSchema
from tests.schemas.avro_cases import enum, of, record

SECONDS_MAX = 20
"""The time limit for what takes a second; otherwise it would be hours."""
MEGABYTE = 1 << 20


@pytest.fixture(autouse=True)
def _in_time() -> Any:
    start = time.monotonic()
    yield
    assert time.monotonic() - start < SECONDS_MAX


def _arrays(depth: int) -> str:
    return '{"type":"array","items":' * depth + '"int"' + "}" * depth


def _referred(name: str, *schemas: Any) -> AvroSchema:
    """Return the schema of a name that a reference defines in a union."""
    return parse(f'"{name}"', {"r": json.dumps(schemas)})


def test_depth() -> None:
    assert parse(_arrays(DEPTH_MAX), {}).canonical == _arrays(DEPTH_MAX)
    for text in (_arrays(DEPTH_MAX + 1), _arrays(100_000), "[" * 100_000, '{"a":' * 100_000):
        with pytest.raises(InvalidSchema, match="nested deeper than 200 levels"):
            parse(text, {})


def test_depth_by_names() -> None:
    forward = [record(f"R{i}", of("f", f"R{i + 1}")) for i in range(5000)] + [record("R5000")]
    with pytest.raises(InvalidSchema, match="nested deeper than 200 levels"):
        parse(json.dumps(forward), {})
    backward = parse(json.dumps(forward[::-1]), {})
    assert backward.formatted("resolved") == backward.canonical
    with pytest.raises(InvalidSchema, match="nested deeper than 200 levels"):
        _referred("R0", *forward[::-1])
    text, texts = (
        '"R300"',
        {f"r{i}": json.dumps(record(f"R{i}", *([of("f", f"R{i - 1}")] if i else []))) for i in range(301)},
    )
    schema = parse(text, texts)
    schema.validate_new()
    assert schema.canonical == text
    with pytest.raises(InvalidSchema, match="nested deeper than 200 levels"):
        schema.formatted("resolved")
    with pytest.raises(InvalidSchema, match="nested deeper than 200 levels"):
        _ = schema.parsing_canonical_form
    assert not schema.incompatibilities(parse(text, texts))


@pytest.mark.parametrize(
    "text",
    [
        "/*" * MEGABYTE,
        "//" * MEGABYTE,
        "/ " * MEGABYTE,
        '"' + '\\"' * MEGABYTE,
        '"\\' * MEGABYTE,
        '{"type":"int","n":' + "9" * MEGABYTE + "}",
        '{"type":"int","n":0.' + "9" * MEGABYTE + "}",
        '{"type":"' + "x" * MEGABYTE + '"}',
        '"' + "a." * MEGABYTE + '"',
        json.dumps(record("a\nb", p="x" * MEGABYTE)),
        json.dumps([record("R", p="x" * MEGABYTE), record("R")]),
        json.dumps({"type": "enum", "name": "E", "symbols": ["A"] * 2, "p": "x" * MEGABYTE}),
        json.dumps({"type": "record", "name": "R", "fields": "x" * MEGABYTE}),
        '{"type":"\\ud800"}',
        '{"type":"int","doc":"\ud800"}',
        '{"type":"int","p":"\\udfff"}',
        "\ufeff{}",
        "\x00",
    ],
    ids=range(18),
)
def test_an_error_is_one_line(text: str) -> None:
    with pytest.raises(InvalidSchema) as error:
        parse(text, {}).validate_new()
    line = str(error.value)
    assert len(line.splitlines()) == 1
    assert len(line) < 3000
    assert line.encode()


def test_a_megabyte_is_parsed_in_linear_time() -> None:
    fields = [of(f"f{i}", ["null", "string"], default=None, doc="x" * 500) for i in range(2000)]
    text = json.dumps(record("R", *fields))
    assert len(text) > MEGABYTE
    schema = parse(text, {})
    schema.validate_new()
    assert not schema.incompatibilities(schema.normalized())


def test_a_type_that_occurs_often_is_compared_once() -> None:
    def laughs(leaf: str) -> AvroSchema:
        types = [record(f"L{i}", of("a", f"L{i - 1}"), of("b", f"L{i - 1}")) for i in range(1, 61)]
        return _referred("L60", record("L0", of("x", leaf)), *types)

    found = laughs("int").incompatibilities(laughs("string"))
    assert len(found) == SHOWN_MAX
    assert {each.kind for each in found} == {"TYPE_MISMATCH"}
    assert not laughs("long").incompatibilities(laughs("int"))


def test_unions_of_records_are_not_tried_in_all_ways() -> None:
    def tangled(leaf: str) -> AvroSchema:
        types = [record("A0", of("x", leaf)), record("B0", of("x", leaf))]
        for i in range(1, 31):
            types += [record(f"{each}{i}", of("x", [f"A{i - 1}", f"B{i - 1}"])) for each in "AB"]
        return _referred("A30", *types)

    found = tangled("int").incompatibilities(tangled("string"))
    assert [(each.kind, each.path) for each in found] == [
        ("MISSING_UNION_BRANCH", "/fields/0/type/0"),
        ("MISSING_UNION_BRANCH", "/fields/0/type/1"),
    ]


def test_circles_of_many_pairs_end() -> None:
    def circle(name: str, length: int) -> AvroSchema:
        return _referred(
            f"{name}0", *(record(f"{name}{i}", of("f", f"{name}{(i + 1) % length}")) for i in range(length))
        )

    (found,) = circle("A", 59).incompatibilities(circle("B", 61))
    assert (found.kind, found.path) == (UNEXPECTED, "/")
    assert f"nested deeper than {PAIRS_DEPTH_MAX:,} levels" in found.text
    found, *_ = circle("A", 7).incompatibilities(circle("B", 11))
    assert found.kind == "NAME_MISMATCH"


def test_large_unions_are_not_compared_to_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kcli.schemas.avro.resolution.WORK_MAX", 20_000)

    def wide(name: str) -> AvroSchema:
        return parse(json.dumps([enum(f"{name}{i}", "ABC") for i in range(100)]), {})

    (found,) = wide("A").incompatibilities(wide("B"))
    assert found.kind == UNEXPECTED
    assert "more than 2,000 pairs of types" in found.text
    assert not wide("A").incompatibilities(parse(json.dumps(enum("A99", "AB")), {}))


def test_a_default_of_unions_is_not_tried_in_all_ways() -> None:
    default: dict[str, Any] = {"x": 1}
    for _ in range(60):
        default = {"x": default}
    types = [record(each, of("x", ["A", "B"])) for each in "AB"]
    schema = parse(json.dumps([*types, record("R", of("f", ["A", "B"], default=default))]), {})
    with pytest.raises(InvalidSchema, match="Invalid default for field f"):
        schema.validate_new()


def test_a_default_of_records_is_not_tried_in_all_ways() -> None:
    types = [record(f"L{i}", *(of(each, f"L{i - 1}", default={}) for each in "ab")) for i in range(1, 61)]
    schema = parse(json.dumps([record("L0"), *types]), {})
    schema.validate_new()


def test_many_references_of_many_types() -> None:
    types = [record(f"R{i}", of("f", f"R{i - 1}" if i else "int")) for i in range(1000)]
    texts = {f"r{i}": json.dumps(types) for i in range(5)}
    assert parse('"int"', texts).canonical == '"int"'
