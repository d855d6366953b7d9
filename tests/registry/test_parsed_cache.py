"""Each schema is parsed once; what is kept is bounded."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from kcli.registry import parsed_cache
from kcli.registry.parsed_cache import ParsedCache, hash_of
from kcli.registry.records import StoredSchema, digest_of
from kcli.schemas.formats import parse
from kcli.schemas.parsed import ParsedSchema
from kcli.schemas.schema import InvalidSchema, SchemaType


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that were parsed."""
    texts: list[str] = []

    def noted(schema_type: SchemaType, text: str, references: Mapping[str, str]) -> ParsedSchema:
        texts.append(text)
        return parse(schema_type, text, references)

    monkeypatch.setattr(parsed_cache, "parse", noted)
    return texts


def registered(text: str) -> StoredSchema:
    digest = digest_of(text, (), None, None)
    return StoredSchema("s", 1, 1, "AVRO", text, (), None, None, deleted=False, timestamp_ms=0, digest=digest)


def test_a_schema_is_parsed_once(parsed: list[str]) -> None:
    cache = ParsedCache()
    assert cache.parse("AVRO", '"int"', {}) is cache.parse("AVRO", '"int"', {})
    assert cache.shared_hash(registered('"int"'), {}) == hash_of('"int"')
    assert parsed == ['"int"']


def test_the_canonical_text_is_not_parsed_again(parsed: list[str]) -> None:
    cache = ParsedCache()
    first = cache.parse("AVRO", ' "int" ', {})
    assert cache.parse("AVRO", first.canonical, {}) is first
    assert parsed == [' "int" ']


def test_references_and_types_count(parsed: list[str]) -> None:
    cache = ParsedCache()
    record = '{"type":"record","name":"A","fields":[]}'
    cache.parse("AVRO", '"int"', {})
    cache.parse("AVRO", '"int"', {"A": record})
    cache.parse("JSON", "{}", {})
    assert len(parsed) == 3


def test_the_least_used_goes_first(parsed: list[str]) -> None:
    cache = ParsedCache(count_max=2)
    for text in ('"int"', '"long"', '"int"', '"string"', '"int"', '"long"'):
        cache.parse("AVRO", text, {})
    assert parsed == ['"int"', '"long"', '"string"', '"long"']


def test_a_schema_larger_than_the_cache_is_not_kept_but_its_hash_is(parsed: list[str]) -> None:
    cache = ParsedCache(size_max=3)
    for _ in range(3):
        cache.shared_hash(registered('"int"'), {})
    cache.parse("AVRO", '"int"', {})
    assert parsed == ['"int"']
    cache.let_go()
    cache.shared_hash(registered('"int"'), {})
    assert parsed == ['"int"']
    cache.parse("AVRO", '"int"', {})
    assert parsed == ['"int"'] * 2


def test_hashes_are_bounded(parsed: list[str]) -> None:
    cache = ParsedCache(count_max=0, hashes_max=1)
    for text in ('"int"', '"long"', '"int"'):
        cache.shared_hash(registered(text), {})
    assert len(parsed) == 3


def test_an_unknown_type_is_no_schema() -> None:
    with pytest.raises(InvalidSchema, match="Invalid schema type XML"):
        ParsedCache().parse("XML", "<a/>", {})


def test_references_count_in_the_hash() -> None:
    cache, text = ParsedCache(), '{"type":"record","name":"B","fields":[{"name":"a","type":"A"}]}'
    one, other = (json.dumps({"type": "enum", "name": "A", "symbols": [each]}) for each in "xy")
    hashes = [cache.shared_hash(registered(text), {"A": each}) for each in (one, other, one)]
    assert hashes[0] == hashes[2] != hashes[1]
