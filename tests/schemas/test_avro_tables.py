"""Avro as Confluent's registry handles it, case by case. The tables are those of avro_cases."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kcli.schemas.avro import parse
from kcli.schemas.avro.resolution import UNEXPECTED
from kcli.schemas.compatibility import Level, differences
from kcli.schemas.schema import InvalidSchema
from tests.schemas import avro_cases


def _rows(path: Any) -> list[Any]:
    lines = path.read_text().split("\n")[:-1]
    return [pytest.param(*json.loads(line), id=str(i)) for i, line in enumerate(lines)]


@pytest.mark.parametrize(("name", "reader", "writer", "messages"), _rows(avro_cases.COMPATIBILITY))
def test_a_reader_reads_a_writers_data(name: str, reader: Any, writer: Any, messages: list[str]) -> None:
    found = parse(json.dumps(reader), {}).incompatibilities(parse(json.dumps(writer), {}))
    assert [each.text for each in found] == messages, name
    for each in found:
        if each.kind != UNEXPECTED:
            assert each.text.startswith(f"{{errorType:'{each.kind}'")
            assert each.path in each.text


@pytest.mark.parametrize(
    ("name", "schema", "references", "canonical", "normalized", "resolved", "is_valid", "is_valid_as_new"),
    _rows(avro_cases.TEXTS),
)
def test_a_text_has_its_canonical_form(
    name: str,
    schema: str,
    references: list[str],
    canonical: str | None,
    normalized: str | None,
    resolved: str | None,
    is_valid: bool,
    is_valid_as_new: bool,
) -> None:
    texts = {f"r{i}": each for i, each in enumerate(references)}
    if not is_valid:
        with pytest.raises(InvalidSchema):
            parse(schema, texts)
        return
    parsed = parse(schema, texts)
    assert (parsed.canonical, parsed.formatted(" Resolved ")) == (canonical, resolved), name
    assert parsed.formatted("") == parsed.formatted("no form") == canonical
    if is_valid_as_new:
        parsed.validate_new()
    else:
        with pytest.raises(InvalidSchema):
            parsed.validate_new()
    if normalized is None:
        with pytest.raises(InvalidSchema):
            parsed.normalized()
    else:
        assert parsed.normalized().canonical == normalized
        assert parsed.normalized().normalized().canonical == normalized


@pytest.mark.parametrize(("level", "name", "messages"), _rows(avro_cases.LEVELS))
def test_a_level_compares_versions(level: str, name: str, messages: list[str]) -> None:
    new, versions = next((new, old) for history, new, old in avro_cases.HISTORIES if history == name)
    older = [(None, parse(json.dumps(each), {})) for each in versions]
    assert differences(Level(level), parse(json.dumps(new), {}), older) == messages


def test_the_tables_have_all_cases() -> None:
    counts = [len(_rows(each)) for each in (avro_cases.COMPATIBILITY, avro_cases.TEXTS, avro_cases.LEVELS)]
    histories = len(avro_cases.HISTORIES) * len(Level)
    assert counts == [len(list(avro_cases.pairs())), len(list(avro_cases.texts())), histories]
