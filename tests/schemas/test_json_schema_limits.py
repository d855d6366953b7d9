"""What a schema of JSON Schema may cost: time, memory, depth."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from kcli.schemas.json_schema import comparison, parse
from kcli.schemas.json_schema.differences import REPORTED_MAX
from kcli.schemas.json_schema.matching import largest_matching
from kcli.schemas.json_schema.patterns import found_in, syntax_error
from kcli.schemas.json_schema.uris import resolve
from kcli.schemas.schema import DEPTH_MAX, InvalidSchema

RECENT = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
DRAFTS = pytest.mark.parametrize("draft", [{}, RECENT], ids=["draft 7", "2020-12"])


def _parsed(schema: Any) -> Any:
    return parse(json.dumps(schema), {})


def _kinds(new: Any, old: Any) -> list[str]:
    return [each.kind for each in _parsed(new).incompatibilities(_parsed(old))]


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"items":' * 100_000 + "{}" + "}" * 100_000,
        '{"not":' * (DEPTH_MAX + 1) + "{}" + "}" * (DEPTH_MAX + 1),
        '"' * 300_001,
        '{"a":"' + '\\"' * 300_000,
        "9" * 1_000_000,
        '{"a":1e99999999999}',
        '{"a":"\\ud800"}',
        '{"pattern":"' + "[" * 100_000 + '"}',
        '{"pattern":"' + "(" * 100_000 + '"}',
        " " * 1_000_000,
        '{"$ref":"file:///etc/passwd"}',
        '{"$ref":"http://127.0.0.1:1/x.json"}',
        '{"$ref":"classpath:/x.json"}',
    ],
    ids=lambda text: text[:30],
)
def test_a_hostile_text_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(InvalidSchema) as refused:
        parse(text, {})
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 400


@pytest.mark.parametrize("keyword", ["not", "items", "properties", "allOf", "if"])
@DRAFTS
def test_the_deepest_schemas_are_compared(draft: dict[str, Any], keyword: str) -> None:
    def nested(leaf: Any) -> Any:
        schema, levels = leaf, DEPTH_MAX - 5
        while levels > 0:
            levels -= 1 if keyword in ("not", "items", "if") else 2
            schema = {keyword: {"a": schema} if keyword == "properties" else [schema] if keyword == "allOf" else schema}
        return {**draft, "anyOf": [{"const": [[[0]]]}, schema]}

    found = _kinds(nested({"type": "integer"}), nested({"type": "string"}))
    assert bool(found) == (keyword != "if")


@DRAFTS
def test_a_long_chain_of_references_is_followed(draft: dict[str, Any]) -> None:
    def chain(leaf: Any) -> Any:
        links = {f"d{i}": {"properties": {"x": {"$ref": f"#/definitions/d{i + 1}"}}} for i in range(500)}
        return {**draft, "$ref": "#/definitions/d0", "definitions": {**links, "d500": leaf}}

    assert _kinds(chain({"type": "integer"}), chain({"type": "string"})) == ["TYPE_CHANGED"]


@DRAFTS
def test_references_that_multiply_are_compared_once(draft: dict[str, Any]) -> None:
    def laughs(leaf: Any) -> Any:
        levels = {
            f"d{i}": {"properties": {name: {"$ref": f"#/definitions/d{i + 1}"} for name in "abcdefgh"}}
            for i in range(50)
        }
        return {**draft, "$ref": "#/definitions/d0", "definitions": {**levels, "d50": leaf}}

    found = _kinds(laughs({"type": "integer"}), laughs({"type": "string"}))
    assert 1 <= len(found) <= REPORTED_MAX
    assert not _kinds(laughs({}), laughs({}))


@DRAFTS
def test_circles_of_references_end(draft: dict[str, Any]) -> None:
    circle = {
        **draft,
        "$ref": "#/definitions/a",
        "definitions": {"a": {"$ref": "#/definitions/b"}, "b": {"$ref": "#/definitions/a"}},
    }
    assert not _kinds(circle, circle)
    texts = {"a": '{"properties":{"x":{"$ref":"b"}}}', "b": '{"properties":{"x":{"$ref":"a"}}}'}
    schema = parse(json.dumps({**draft, "$ref": "a"}), texts)
    assert not schema.incompatibilities(schema)


@DRAFTS
def test_recursive_choices_take_no_exponential_time(draft: dict[str, Any]) -> None:
    def grid(width: int) -> Any:
        rows = {
            f"d{i}": {
                "oneOf": [
                    {
                        "type": "object",
                        "properties": {"t": {"const": j}, "n": {"$ref": f"#/definitions/d{(i * 7 + j) % 6}"}},
                    }
                    for j in range(width)
                ]
            }
            for i in range(6)
        }
        return {**draft, "$ref": "#/definitions/d0", "definitions": rows}

    assert not _kinds(grid(4), grid(4))
    assert "SUM_TYPE_NARROWED" in _kinds(grid(3), grid(4))


def test_a_schema_of_one_type_many_times_is_loaded_once() -> None:
    deepest = DEPTH_MAX // 2 - 2
    parse('{"type":["object","object"],"properties":{"a":' * deepest + "{}" + "}}" * deepest, {})


def test_too_many_pairs_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "COMPARISONS_MAX", 1000)
    schema = {"anyOf": [{"type": "string", "maxLength": i} for i in range(50)]}
    with pytest.raises(InvalidSchema, match="1,000 pairs"):
        _kinds(schema, schema)


@pytest.mark.parametrize(
    ("old", "new", "kinds"),
    [
        ("1", "1e300", ["MULTIPLE_OF_EXPANDED"]),
        ("1e-300", "1e300", ["MULTIPLE_OF_EXPANDED"]),
        ("1e300", "1e-300", []),
    ],
)
def test_numbers_far_apart_are_compared(old: str, new: str, kinds: list[str]) -> None:
    schemas = [parse(f'{{"multipleOf":{number}}}', {}) for number in (old, new)]
    assert [each.kind for each in schemas[1].incompatibilities(schemas[0])] == kinds
    least, most = (parse(f'{{"minimum":{number}}}', {}) for number in ("-1e999999999", "1e999999999"))
    assert [each.kind for each in most.incompatibilities(least)] == ["MINIMUM_INCREASED"]


def _seconds(work: Callable[[], object]) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin


@DRAFTS
def test_time_grows_with_the_text(draft: dict[str, Any]) -> None:
    def text(count: int) -> str:
        names = {f"p{i}": {"type": ["string", "null"], "title": "t" * 20, "maxLength": i} for i in range(count)}
        return json.dumps({**draft, "properties": names, "definitions": names})

    def work(schema: str) -> Callable[[], object]:
        return lambda: parse(schema, {}).incompatibilities(parse(schema, {}))

    small = min(_seconds(work(text(50))) for _ in range(3))
    large = _seconds(work(text(500)))
    assert large < 40 * small + 0.1, "ten times the text"


@pytest.mark.parametrize(
    ("edges", "right", "size"),
    [
        ([], 0, 0),
        ([[0, 1], [0]], 2, 2),
        ([[0], [0], [0]], 1, 1),
        ([[0, 1], [0, 2], [1, 2]], 3, 3),
        ([[0, 1], [0], [1, 2], [2, 3], [3]], 4, 4),
        ([list(range(100 - i)) for i in range(100)], 100, 100),
    ],
)
def test_a_matching_is_the_largest(edges: list[list[int]], right: int, size: int) -> None:
    assert largest_matching(edges, right) == size
    assert largest_matching(edges[::-1], right) == size


@pytest.mark.parametrize(
    ("pattern", "is_valid"),
    [
        ("^(?!.*x)[a-z]{2,5}+$", True),
        (r"\p{L}\Q*\E[a-z&&[^b]](?<n>a)\k<n>", True),
        (r"[\w-.]|\x{1F600}|\N{SPACE}|(?i)a|(?s:b)|[]a]", True),
        ("a**", False),
        ("a{,3}", False),
        ("[z-a]", False),
        ("[a", False),
        ("(a", False),
        ("a)", False),
        (r"\y", False),
        (r"\p{Foo}", False),
        ("(?<n>a)(?<n>b)", False),
        (r"\k<n>", False),
        ("(?P<n>a)", False),
        ("a{2,1}", False),
        ("[^]", False),
        ("\\", False),
    ],
)
def test_a_pattern_is_one_of_javas(pattern: str, *, is_valid: bool) -> None:
    assert (syntax_error(pattern) is None) == is_valid


def test_a_pattern_covers_a_name() -> None:
    assert found_in("^a.*z$", "abcz")
    assert found_in("b", "abc")
    assert not found_in("^b", "abc")
    assert not found_in("(?=a)a", "a"), "look-ahead is not supported: it covers nothing"
    assert not found_in("(a+)+$", "a" * 50 + "b")


@pytest.mark.parametrize(
    ("base", "reference", "uri"),
    [
        (None, "a.json#/x", "a.json#/x"),
        ("http://x/a/b.json", "c.json", "http://x/a/c.json"),
        ("http://x/a/b.json", "../c.json", "http://x/c.json"),
        ("http://x/a/b.json", "/c.json", "http://x/c.json"),
        ("http://x/a/b.json", "//y/c.json", "http://y/c.json"),
        ("http://x/a/b.json#f", "#g", "http://x/a/b.json#g"),
        ("http://x/a/b.json", "http://y/", "http://y/"),
        ("urn:a:b", "c.json", "c.json"),
        ("a/b.json", "./c/./d.json", "a/c/d.json"),
    ],
)
def test_a_uri_is_resolved(base: str | None, reference: str, uri: str) -> None:
    assert resolve(base, reference) == uri


@pytest.mark.parametrize("uri", ["a b", "a^b", "%zz", "1a:b", "http:", "a<b", "#a#b", "[a]"])
def test_a_bad_uri_is_refused(uri: str) -> None:
    with pytest.raises(ValueError, match="URI"):
        resolve(None, uri)
