"""Random evolutions of Avro's schemas: where nothing is incompatible, fastavro reads each value that was written.

The other direction is not held: a reader that may fail (at an enum's unknown symbol, at a union's other branch) reads
the values that avoid it.
"""

from __future__ import annotations

import io
import json
from random import Random
from typing import Any

from fastavro import parse_schema, schemaless_reader, schemaless_writer
from hypothesis import given
from hypothesis import strategies as st

from kcli.schemas.avro import parse
from kcli.schemas.compatibility import Level, check
from tests.conftest import examples

DEPTH = 3
VALUES = 5
NAME = "-type"
"""The key at which a record has the name of its type, for fastavro."""
PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "string")
"""bytes is missing: a string of a writer that is no UTF-8 is no string to a reader."""
PROMOTED = {"int": ("long", "float", "double"), "long": ("float", "double"), "float": ("double",)}


class Schemas:
    """Makes schemas of a seed, changed ones, and values."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._names = 0
        self._renamed: dict[str, str] = {}

    def schema(self, depth: int = DEPTH, *, in_union: bool = False) -> Any:
        """Return a schema whose types have names of their own."""
        kinds = ["primitive", "enum", "fixed"]
        if depth:
            kinds += ["record", "record", "array", "map"] + ["union"] * (not in_union)
        match self._random.choice(kinds):
            case "primitive":
                return self._random.choice(PRIMITIVES)
            case "enum":
                symbols = self._random.sample("ABCD", self._random.randint(1, 3))
                return self._named("enum", symbols=symbols) | self._random.choice([{}, {"default": symbols[0]}])
            case "fixed":
                return self._named("fixed", size=self._random.randint(1, 3))
            case "array":
                return {"type": "array", "items": self.schema(depth - 1)}
            case "map":
                return {"type": "map", "values": self.schema(depth - 1)}
            case "union":
                branches = [self.schema(depth - 1, in_union=True) for _ in range(self._random.randint(1, 3))]
                return _distinct(branches)
        named = self._named("record")
        fields = [self._field(i, depth, named["name"]) for i in range(self._random.randint(0, 3))]
        return named | {"fields": fields}

    def _named(self, kind: str, **others: Any) -> dict[str, Any]:
        self._names += 1
        return {"type": kind, "name": self._random.choice(["n.", "m.x."]) + f"T{self._names}", **others}

    def _field(self, position: int, depth: int, name: str) -> dict[str, Any]:
        if self._random.random() < 0.15:
            return {"name": f"f{position}", "type": ["null", name], "default": None}
        return self._with_default({"name": f"f{position}", "type": self.schema(depth - 1)})

    def _with_default(self, field: dict[str, Any]) -> dict[str, Any]:
        if isinstance(field["type"], str) and field["type"] in PRIMITIVES and self._random.random() < 0.5:
            zero = {"null": None, "boolean": False, "string": "x"}.get(field["type"], 0)
            return field | {"default": zero}
        return field

    def evolved(self, schema: Any) -> Any:
        """Return the schema with a change here and there: some that readers cope with, some that they do not."""
        return self._with_new_names(self._evolved(schema))

    def _with_new_names(self, schema: Any) -> Any:
        if isinstance(schema, dict):
            return {
                key: self._with_new_names(each) if key in ("type", "items", "values", "fields") else each
                for key, each in schema.items()
            }
        if isinstance(schema, list):
            return [self._with_new_names(each) for each in schema]
        return self._renamed.get(schema, schema)

    def _evolved(self, schema: Any) -> Any:
        if isinstance(schema, str):
            if schema not in PRIMITIVES:
                return schema
            if self._random.random() < 0.1:
                return [schema, "null"] if schema != "null" else ["null", "int"]
            return self._random.choice((schema, *PROMOTED.get(schema, ()))) if self._random.random() < 0.3 else schema
        if isinstance(schema, list):
            branches = [self._evolved(each) for each in schema]
            if self._random.random() < 0.3:
                branches.append(self._random.choice(PRIMITIVES))
            return _distinct(self._random.sample(branches, len(branches)))
        if self._random.random() < 0.02:
            return "int"
        changed = dict(schema)
        match schema["type"]:
            case "array":
                changed["items"] = self._evolved(schema["items"])
            case "map":
                changed["values"] = self._evolved(schema["values"])
            case "enum":
                if self._random.random() < 0.3:
                    changed["symbols"] = [*schema["symbols"], "Z"]
                elif self._random.random() < 0.2 and len(schema["symbols"]) > 1:
                    changed["symbols"] = schema["symbols"][:-1]
            case "record":
                changed["fields"] = self._evolved_fields(schema["fields"])
        if "name" in schema and self._random.random() < 0.1:
            self._renamed[schema["name"]] = f"{schema['name']}x"
            return changed | {"name": f"{schema['name']}x", "aliases": [schema["name"]]}
        return changed

    def _evolved_fields(self, fields: list[Any]) -> list[Any]:
        changed = []
        for each in fields:
            if self._random.random() < 0.1:
                continue
            schema = self._evolved(each["type"])
            field = {**each, "type": schema}
            if schema != each["type"]:
                field.pop("default", None)
            if self._random.random() < 0.1:
                field |= {"name": f"{each['name']}x", "aliases": [each["name"]]}
            changed.append(field)
        if self._random.random() < 0.3:
            changed.append(self._with_default({"name": "new", "type": self._random.choice(PRIMITIVES)}))
        return self._random.sample(changed, len(changed))

    def value(self, schema: Any, types: dict[str, Any], depth: int = 0) -> Any:
        """Return a value of a schema. types: the named types above it."""
        schema = types.get(schema, schema) if isinstance(schema, str) else schema
        if isinstance(schema, list):
            branch = "null" if depth > DEPTH * 3 and "null" in schema else self._random.choice(schema)
            value = self.value(branch, types, depth + 1)
            return (value[NAME], value) if isinstance(value, dict) and NAME in value else value
        kind = schema if isinstance(schema, str) else schema["type"]
        match kind:
            case "record":
                types[schema["name"]] = schema
                return {
                    **{each["name"]: self.value(each["type"], types, depth + 1) for each in schema["fields"]},
                    NAME: schema["name"],
                }
            case "enum":
                return self._random.choice(schema["symbols"])
            case "fixed":
                return self._random.randbytes(schema["size"])
            case "array":
                return [self.value(schema["items"], types, depth + 1) for _ in range(self._random.randint(0, 2))]
            case "map":
                return {each: self.value(schema["values"], types, depth + 1) for each in self._random.sample("ab", 1)}
        numbers = {"int": 7, "long": 1 << 40, "float": 0.5, "double": 0.25}
        return {"null": None, "boolean": True, "string": "text", **numbers}[kind]


def _distinct(branches: list[Any]) -> list[Any]:
    """Return the branches of a union without those that another one resembles: a reader takes the first that fits.

    A branch that is a union itself stands for its own branches.
    """
    resembled = {"record": "map", "long": "int", "float": "int", "double": "int", "enum": "string"}
    kept: dict[str, Any] = {}
    for branch in branches:
        for each in branch if isinstance(branch, list) else [branch]:
            kind = each if isinstance(each, str) else each["type"]
            kept.setdefault(resembled.get(kind, kind), each)
    return list(kept.values())


def _read(reader: Any, writer: Any, value: Any) -> None:
    out = io.BytesIO()
    schemaless_writer(out, writer, value)
    out.seek(0)
    schemaless_reader(out, writer, reader)
    assert not out.read(), "the reader reads all bytes"


@examples(300, soak=30_000)
@given(st.integers(0, 1 << 32))
def test_a_compatible_reader_reads_each_value(seed: int) -> None:
    made = Schemas(Random(seed))
    old = made.schema()
    new = made.evolved(old)
    versions = [(1, parse(json.dumps(old), {}))]
    parsed = parse(json.dumps(new), {})
    assert not check(Level.FULL, versions[0][1], versions), "a schema reads itself"
    can_read = not check(Level.BACKWARD, parsed, versions)
    can_be_read = not check(Level.FORWARD, parsed, versions)
    assert (not check(Level.FULL, parsed, versions)) == (can_read and can_be_read)
    for _ in range(VALUES):
        if can_read:
            _read(parse_schema(new), parse_schema(old), made.value(old, {}))
        if can_be_read:
            _read(parse_schema(old), parse_schema(new), made.value(new, {}))


def test_the_random_evolutions_are_of_both_kinds() -> None:
    kinds = []
    for seed in range(300):
        made = Schemas(Random(seed))
        writer = made.schema()
        reader = made.evolved(writer)
        is_changed = json.dumps(reader) != json.dumps(writer)
        found = parse(json.dumps(reader), {}).incompatibilities(parse(json.dumps(writer), {}))
        kinds.append((is_changed, bool(found)))
    assert kinds.count((True, False)) > 50
    assert kinds.count((True, True)) > 30
