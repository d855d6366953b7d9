"""JSON Schema as Confluent's registry handles it, case by case.

json_schema_texts.json and json_schema_compatibility.json hold our schemas and the registry's answers; each says how it
was made.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from kcli.schemas.json_schema import parse
from kcli.schemas.json_schema.differences import KINDS, LENIENT
from kcli.schemas.schema import InvalidSchema

_HERE = Path(__file__).parent
_TEXTS = json.loads((_HERE / "json_schema_texts.json").read_text("utf-8"))["cases"]
_PAIRS = json.loads((_HERE / "json_schema_compatibility.json").read_text("utf-8"))["cases"]


def _schema(value: Any, references: dict[str, Any]) -> Any:
    return parse(json.dumps(value), {name: json.dumps(each) for name, each in references.items()})


@pytest.mark.parametrize("case", _TEXTS, ids=range(len(_TEXTS)))
def test_a_text_is_refused_or_canonical(case: dict[str, Any]) -> None:
    if "canonical" not in case:
        with pytest.raises(InvalidSchema) as refused:
            parse(case["text"], case.get("references", {}))
        assert "\n" not in str(refused.value)
        return
    schema = parse(case["text"], case.get("references", {}))
    assert schema.canonical == schema.formatted("") == schema.formatted("resolved") == case["canonical"]
    normalized = schema.normalized()
    assert normalized.canonical == case.get("normalized", case["canonical"])
    assert normalized.normalized().canonical == normalized.canonical
    assert parse(schema.canonical, case.get("references", {})).canonical == schema.canonical
    assert not normalized.incompatibilities(schema)


@pytest.mark.parametrize("case", _PAIRS, ids=range(len(_PAIRS)))
def test_a_pair_has_the_differences(case: dict[str, Any]) -> None:
    old = _schema(case["old"], case.get("old_references", {}))
    new = _schema(case["new"], case.get("new_references", {}))
    found = new.incompatibilities(old)
    assert [each.text for each in found] == case["found"]
    for each in found:
        assert each.text.startswith(f'{{errorType:"{each.kind}"')
        assert not KINDS[each.kind] or f"'{each.path}'" in each.text
    lenient = new.incompatibilities(old, is_lenient=True)
    assert {each.kind for each in lenient}.isdisjoint(LENIENT)


def test_each_kind_is_among_the_cases() -> None:
    found = {text.split('"')[1] for case in _PAIRS for text in case["found"]}
    assert set(KINDS) - found == set()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"exclusiveMaximum": 3}, {"exclusiveMaximum": 2}),
        ({"exclusiveMaximum": 3, "maximum": 9}, {"exclusiveMaximum": 2, "maximum": 9}),
    ],
)
def test_a_lower_exclusive_maximum_is_told(old: Any, new: Any) -> None:
    """Confluent's registry compares it with `maximum`: it fails where there is none."""
    assert [each.kind for each in _schema(new, {}).incompatibilities(_schema(old, {}))] == [
        "EXCLUSIVE_MAXIMUM_DECREASED"
    ]


def test_a_constant_null_is_compared() -> None:
    """Confluent's registry fails."""
    null, one = _schema({"const": None}, {}), _schema({"const": 1}, {})
    assert not null.incompatibilities(null)
    assert [each.kind for each in one.incompatibilities(null)] == ["ENUM_ARRAY_CHANGED"]


@pytest.mark.parametrize("recursive", [{"$ref": "#/definitions/n"}, {"anyOf": [{"$ref": "#/definitions/n"}, {}]}])
def test_a_difference_is_found_in_a_recursion(recursive: Any) -> None:
    def tree(value: Any) -> Any:
        node = {"type": "object", "properties": {"next": recursive, "value": value}, "additionalProperties": False}
        return _schema({"$ref": "#/definitions/n", "definitions": {"n": node}}, {})

    found = [each.path for each in tree({"type": "integer"}).incompatibilities(tree({"type": "string"}))]
    assert "#/properties/value" in found


def test_the_shared_schema_of_json_schema_is_known() -> None:
    """Nothing is fetched for it."""
    pytest.importorskip("jsonschema_specifications")
    for uri in ("http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft-04/schema"):
        schema = _schema({"properties": {"x": {"$ref": uri}}}, {})
        assert not schema.incompatibilities(schema)


def test_reserved_names_are_refused_where_the_caller_asks() -> None:
    _schema({"properties": {"a$$": {}}}, {}).validate_new()
    with pytest.raises(InvalidSchema, match=r"\$\$a"):
        _schema({"properties": {"$$a": {}}}, {}).validate_new()


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jsonschema_specifications", None)
    with pytest.raises(InvalidSchema, match=r"pip install 'kafka-kcli\[registry\]'"):
        _schema({"$ref": "http://json-schema.org/draft-06/schema"}, {})
