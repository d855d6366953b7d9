"""Protobuf as Confluent's registry handles it, case by case.

    protobuf_compatibility.jsonl  name, the writer's schema (old) and the reader's (new), their references; then all
                                  differences, and the messages of ProtobufSchema.isBackwardCompatible
    protobuf_texts.jsonl          name, schema, references; then the canonical text, the one without extensions if it is
                                  another, the normalized one or why there is none, the serialized descriptor if
                                  there is one; or the error

The cases are ours. The answers are those of Confluent's protobuf provider (version 8.5.0 in development, commit
794611bd, with Wire 5.5.0 and protobuf 4.34.0 on Java 17), which was asked for each case by a program that calls the
classes ProtobufSchema and SchemaDiff. Release 8.3.1 answers otherwise for fields that move between oneofs: its answer
is there as "messages of 8.3.1" ("normalized of 8.3.1").
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kcli.schemas.formats import parse as parse_any
from kcli.schemas.protobuf import parse
from kcli.schemas.schema import InvalidSchema, SchemaType

HERE = Path(__file__).parent


def _cases(name: str) -> list[Any]:
    lines = HERE.joinpath(name).read_text(encoding="utf-8").split("\n")[:-1]
    return [pytest.param(json.loads(line), id=str(i)) for i, line in enumerate(lines)]


@pytest.mark.parametrize("case", _cases("protobuf_compatibility.jsonl"))
def test_a_reader_reads_a_writers_data(case: dict[str, Any]) -> None:
    reader = parse(case["new"], case.get("references", {}))
    writer = parse(case["old"], case.get("old_references", {}))
    found = [f"{each.kind} {each.path}" for each in reader.differences(writer)]
    assert found == case["differences"], case["name"]
    incompatible = reader.incompatibilities(writer)
    assert [each.text for each in incompatible] == case["messages"], case["name"]
    for each in incompatible:
        assert each.text.startswith(f'{{errorType:"{each.kind}", ')
        assert each.path in each.text


@pytest.mark.parametrize("case", _cases("protobuf_texts.jsonl"))
def test_a_text_has_its_forms(case: dict[str, Any]) -> None:
    references = case.get("references", {})
    if "error" in case:
        with pytest.raises(InvalidSchema) as caught:
            parse(case["schema"], references)
        assert str(caught.value) == case["error"], case["name"]
        return
    schema = parse_any(SchemaType.PROTOBUF, case["schema"], references)
    assert schema.canonical == case["canonical"], case["name"]
    assert schema.formatted("") == schema.formatted("no form") == schema.canonical
    assert schema.formatted("ignore_extensions") == case.get("ignore_extensions", schema.canonical)
    if "normalized" in case:
        schema.validate_new()
        assert schema.normalized().canonical == case["normalized"], case["name"]
    else:
        with pytest.raises(InvalidSchema) as caught:
            schema.validate_new()
        assert str(caught.value) == case["normalize_error"], case["name"]
    if "serialized" in case:
        assert schema.formatted("serialized") == case["serialized"], case["name"]


@pytest.mark.parametrize("case", _cases("protobuf_texts.jsonl"))
def test_a_canonical_text_is_that_of_itself(case: dict[str, Any]) -> None:
    if "canonical" in case:
        assert parse(case["canonical"], {}).canonical == case["canonical"]
