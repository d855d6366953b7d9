"""kcli takes over the topic of Karapace.

karapace.jsonl has the records that Karapace (3bbc1f8d, after 6.2.0) wrote while schemas were registered, deleted softly
and for good, and configured; ANSWERS is what it answered then.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.registry.registry import Registry

RECORDS = [json.loads(line) for line in Path(__file__).with_name("karapace.jsonl").read_text().splitlines()]
ANSWERS = [
    ("/subjects", ["d", "j", "p", "ref", "s", "s2"]),
    ("/subjects?deleted=true", ["d", "e", "j", "p", "ref", "s", "s2"]),
    ("/subjects/s/versions", [1, 2]),
    ("/subjects/d/versions", [2]),
    ("/subjects/d/versions?deleted=true", [1, 2]),
    ("/schemas/ids/1/versions", [{"subject": "s", "version": 1}, {"subject": "s2", "version": 1}]),
    ("/subjects/s/versions/1/referencedby", [5]),
    ("/config", {"compatibilityLevel": "NONE"}),
    ("/config/s", {"compatibilityLevel": "FULL"}),
]
SCHEMAS = [("s", 1, 1), ("s", 2, 2), ("s2", 1, 1), ("j", 1, 3), ("p", 1, 4), ("ref", 1, 5), ("d", 2, 7)]
AVRO = '{"type": "record", "name": "A", "fields": [{"name": "a", "type": "string"}]}'


@pytest.fixture
def registry() -> Registry:
    """A registry that has replayed them."""
    registry = Registry()
    for offset, (key, value) in enumerate(RECORDS):
        registry.image.replay(key.encode(), None if value is None else value.encode(), offset)
    return registry


def test_it_answers_as_karapace_does(registry: Registry) -> None:
    assert [(path, registry.json(f"GET {path}")) for path, _ in ANSWERS] == ANSWERS
    assert list(registry.image.skipped) == []


@pytest.mark.parametrize(("subject", "version", "number"), SCHEMAS)
def test_ids_and_versions_are_karapaces(registry: Registry, subject: str, version: int, number: int) -> None:
    found = registry.json(f"GET /subjects/{subject}/versions/{version}")
    assert isinstance(found, dict)
    assert found["id"] == number


def test_an_empty_value_is_a_tombstone(registry: Registry) -> None:
    """Karapace writes no null to delete for good."""
    assert [key for key, value in RECORDS if value == ""] == [RECORDS[-3][0], RECORDS[-1][0]]
    assert registry.code("GET /subjects/h/versions/1?deleted=true") == 40401
    assert registry.code("GET /config/d") == 40408


def test_what_is_registered_keeps_its_id_and_new_ids_are_new(registry: Registry) -> None:
    """Karapace sorts the keys of a schema, and the canonical form of Avro does not."""
    again = registry.json("POST /subjects/s/versions", {"schema": AVRO})
    assert isinstance(again, dict)
    assert (again["id"], again["version"]) == (1, 1)
    new = registry.json("POST /subjects/new/versions", {"schema": '"bytes"'})
    assert isinstance(new, dict)
    assert new["id"] == 9
