"""What the comparison finds compatible, held against a validator: each document that the old schema allows must be
allowed by the new one. LOOSER lists where Confluent's rules, and so ours, say less than that."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from kcli.schemas.json_schema import parse

jsonschema = pytest.importorskip("jsonschema")

RECENT = "https://json-schema.org/draft/2020-12/schema"
NAMES = ("a", "b", "c", "ab")
TEXTS = ("", "a", "b", "abc", "abcdef")
SEEDS = 8

S: Any = {"type": "string"}
I: Any = {"type": "integer"}  # noqa: E741
LOOSER: list[tuple[str, Any, Any, Any]] = [
    ("a required name without a schema", {"type": "object"}, {"type": "object", "required": ["a"]}, {}),
    (
        "a required name with a default",
        {"properties": {"a": S}, "additionalProperties": False},
        {"properties": {"a": {**S, "default": ""}}, "additionalProperties": False, "required": ["a"]},
        {},
    ),
    ("propertyNames", {"type": "object"}, {"type": "object", "propertyNames": {"maxLength": 1}}, {"ab": 1}),
    ("contains, in drafts 6 and 7", {"type": "array"}, {"type": "array", "contains": S}, []),
    ("format", S, {**S, "format": "ipv4"}, "x"),
    ("a type beside its keywords", {"minLength": 1}, {**S, "minLength": 1}, 5),
    ("if", {"if": {}, "then": {}}, {"if": {}, "then": False}, 1),
    (
        "patternProperties",
        {"type": "object", "patternProperties": {"a": S}},
        {"type": "object", "patternProperties": {"a": I}},
        {"a": ""},
    ),
    (
        "an optional name in a closed model, whose pattern has no schema for it any more",
        {"type": "object", "patternProperties": {"b": S}},
        {"type": "object", "patternProperties": {"b": S}, "properties": {"a": I}},
        {"a": ""},
    ),
    (
        "a reference to a reference",
        {"properties": {"x": {"$ref": "#/definitions/a"}}, "definitions": {"a": {"$ref": "#/definitions/b"}, "b": S}},
        {"properties": {"x": {"$ref": "#/definitions/a"}}, "definitions": {"a": {"$ref": "#/definitions/b"}, "b": I}},
        {"x": ""},
    ),
    ("a longer oneOf", {"oneOf": [S, I]}, {"oneOf": [S, I, {"enum": ["x"]}]}, "x"),
    ("a oneOf in place of a schema", S, {"oneOf": [S, {**S, "maxLength": 9}]}, "x"),
    (
        "exclusive limits of draft 4",
        {"$schema": "http://json-schema.org/draft-04/schema#", "minimum": 1},
        {"$schema": "http://json-schema.org/draft-04/schema#", "minimum": 1, "exclusiveMinimum": True},
        1,
    ),
    (
        "a schema with a type and an enum within an anyOf of draft 2020-12",
        {"$schema": RECENT, "anyOf": [S, {"enum": [1]}]},
        {"$schema": RECENT, "anyOf": [{**S, "enum": [1]}]},
        "x",
    ),
    (
        "unevaluatedProperties beside unknown keywords",
        {"$schema": RECENT, "type": "object", "x-any": 1},
        {"$schema": RECENT, "type": "object", "x-any": 1, "unevaluatedProperties": False},
        {"a": 1},
    ),
    ("types that Kafka Connect writes", {"type": "number", "connect.type": "bytes"}, {**S, "connect.type": "bytes"}, 1),
]


def _validator(schema: Any) -> Any:
    kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft7Validator)
    return kind(schema, format_checker=jsonschema.FormatChecker(["ipv4"]))


def _differences(old: Any, new: Any) -> list[Any]:
    return parse(json.dumps(new), {}).incompatibilities(parse(json.dumps(old), {}))


@pytest.mark.parametrize(("why", "old", "new", "document"), LOOSER, ids=[each[0] for each in LOOSER])
def test_confluents_rules_are_looser(why: str, old: Any, new: Any, document: Any) -> None:
    assert not _differences(old, new), why
    assert _validator(old).is_valid(document)
    assert not _validator(new).is_valid(document)


class _Random:
    """Random schemas of keywords for which the rules are sound, changes of them, and documents."""

    def __init__(self, seed: int, *, is_recent: bool) -> None:
        self.random = random.Random(seed)
        self.is_recent = is_recent

    def maybe(self, chance: float = 0.35) -> bool:
        return self.random.random() < chance

    def root(self) -> dict[str, Any]:
        schema: dict[str, Any] = self.schema(3)
        schema["definitions"] = {"d": self.object(1), "e": self.schema(0)}
        return {"$schema": RECENT, **schema} if self.is_recent else schema

    def schema(self, depth: int) -> dict[str, Any]:
        """Return a schema that has a type wherever it has keywords of one."""
        kinds = (
            ("text", "number", "types", "enum")
            if not depth
            else ("object", "object", "array", "any", "ref", "text", "number")
        )
        match self.random.choice(kinds):
            case "text":
                limits = {key: self.random.randrange(5) for key in ("minLength", "maxLength") if self.maybe()}
                return {"type": "string", **limits}
            case "number":
                limits = {
                    key: self.random.randrange(6)
                    for key in ("minimum", "maximum", "exclusiveMinimum")
                    if self.maybe(0.2)
                }
                limits |= {"multipleOf": self.random.choice([1, 2, 3, 4])} if self.maybe(0.2) else {}
                return {"type": self.random.choice(["integer", "number"]), **limits}
            case "types":
                return {"type": self.random.sample(["string", "integer", "number", "null", "boolean"], 2)}
            case "enum":
                return {"enum": self.random.sample([1, 2, "a", "b", None, True], 2)}
            case "any":
                return {"anyOf": [self.schema(depth - 1) for _ in range(self.random.choice([1, 2, 3]))]}
            case "ref":
                return {"$ref": f"#/definitions/{self.random.choice('de')}"}
            case "array":
                return self.array(depth)
        return self.object(depth)

    def array(self, depth: int) -> dict[str, Any]:
        schema: dict[str, Any] = {"type": "array"}
        schema |= {key: self.random.randrange(3) for key in ("minItems", "maxItems") if self.maybe(0.15)}
        schema |= {"uniqueItems": True} if self.maybe(0.15) else {}
        if self.maybe(0.5):
            return {**schema, "items": self.schema(depth - 1)}
        first, rest = ("prefixItems", "items") if self.is_recent else ("items", "additionalItems")
        schema[first] = [self.schema(depth - 1) for _ in range(self.random.choice([1, 2]))]
        if self.maybe(0.6):
            schema[rest] = self.random.choice([False, self.schema(0)])
        return schema

    def object(self, depth: int) -> dict[str, Any]:
        names = self.random.sample(NAMES, self.random.randrange(4))
        schema: dict[str, Any] = {"type": "object", "properties": {name: self.schema(depth - 1) for name in names}}
        schema["required"] = [name for name in names if self.maybe()]
        if self.maybe(0.6):
            schema["additionalProperties"] = self.random.choice([False, self.schema(0)])
        schema |= {key: self.random.randrange(3) for key in ("minProperties", "maxProperties") if self.maybe(0.1)}
        needs = "dependentRequired" if self.is_recent else "dependencies"
        schema |= {needs: {self.random.choice(NAMES): [self.random.choice(NAMES)]}} if self.maybe(0.15) else {}
        return schema

    def changed(self, schema: Any) -> Any:
        """Return the schema with a change at one place within it."""
        schema = json.loads(json.dumps(schema))
        places = [schema]
        for each in places:
            for key in ("properties", "definitions"):
                places += [value for value in each.get(key, {}).values() if isinstance(value, dict)]
            for key in ("items", "anyOf", "prefixItems", "additionalProperties", "additionalItems"):
                inner = each.get(key)
                places += [
                    value for value in (inner if isinstance(inner, list) else [inner]) if isinstance(value, dict)
                ]
        place = self.random.choice(places)
        limits = [key for key in place if key.startswith(("min", "max", "exc")) or key in ("multipleOf", "uniqueItems")]
        choice = self.random.random()
        if choice < 0.4 and limits:
            key = self.random.choice(limits)
            if self.maybe(0.5) or key == "uniqueItems":
                del place[key]
            else:
                place[key] = max(1, place[key] + self.random.choice([-1, 1]))
        elif choice < 0.7 and "properties" in place:
            name = self.random.choice(NAMES)
            if place["properties"].pop(name, None) is None:
                place["properties"][name] = self.schema(1)
            place["required"] = [each for each in place["required"] if each in place["properties"] and self.maybe(0.7)]
        elif choice < 0.8 and "anyOf" in place:
            place["anyOf"].append(self.schema(1))
        elif choice < 0.9 and place is not schema:
            new = self.schema(0)
            place.clear()
            place.update(new)
        elif place.get("type") in ("integer", "string"):
            place["type"] = "number" if place["type"] == "integer" else ["string", "null"]
        return schema

    def document(self, schema: Any, root: Any, depth: int = 6) -> Any:
        """Return a document that the schema likely allows."""
        if not isinstance(schema, dict) or not depth or self.maybe(0.04):
            return self.random.choice([None, True, 0, 1, 2, 2.5, "a", "abcd", [], {}, {"a": "a"}, [1, "a"]])
        if "$ref" in schema:
            return self.document(root["definitions"][schema["$ref"][-1]], root, depth - 1)
        if "enum" in schema:
            return self.random.choice(schema["enum"])
        if "anyOf" in schema:
            return self.document(self.random.choice(schema["anyOf"]), root, depth - 1)
        kind = self.random.choice(schema["type"]) if isinstance(schema["type"], list) else schema["type"]
        match kind:
            case "string":
                return self.random.choice(TEXTS)
            case "integer" | "number":
                return self.random.choice([0, 1, 2, 3, 4, 5, 6, 12, *([0.5, 2.5] if kind == "number" else [])])
            case "object":
                names = [name for name in NAMES if name in schema["required"] or self.maybe(0.5)]
                schemas = {name: schema["properties"].get(name, schema.get("additionalProperties")) for name in names}
                return {
                    name: self.document(each, root, depth - 1) for name, each in schemas.items() if each is not False
                }
            case "array":
                items = schema.get("items")
                first = schema.get("prefixItems", items if isinstance(items, list) else [])
                rest = schema.get("additionalItems") if isinstance(items, list) else items
                each = [*first, *[rest for _ in range(self.random.randrange(3)) if rest is not False]]
                return [self.document(item, root, depth - 1) for item in each]
        return None if kind == "null" else self.maybe(0.5)


@pytest.mark.parametrize("is_recent", [False, True], ids=["draft 7", "2020-12"])
@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_compatible_schema_allows_what_the_old_one_allows(seed: int, *, is_recent: bool) -> None:
    chance = _Random(seed, is_recent=is_recent)
    compatible = documents = 0
    for _ in range(40):
        old = new = chance.root()
        for _ in range(chance.random.choice([1, 1, 2])):
            new = chance.changed(new)
        if _differences(old, new):
            continue
        compatible += 1
        allowed, read = _validator(old), _validator(new)
        for _ in range(6):
            document = chance.document(old, old)
            if allowed.is_valid(document):
                documents += 1
                assert read.is_valid(document), f"{json.dumps(old)}\n{json.dumps(new)}\n{json.dumps(document)}"
    assert compatible > 3
    assert documents > 10
