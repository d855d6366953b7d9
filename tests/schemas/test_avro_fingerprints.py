"""The Parsing Canonical Form and its fingerprints, beside those of fastavro and the ones of Avro's own test data."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fastavro.schema import fingerprint, parse_schema, to_parsing_canonical_form

from kcli.schemas.avro import parse
from kcli.schemas.avro.fingerprints import crc_64_avro, md5, sha_256
from tests.schemas.avro_cases import COMPLEX, NODE, array, enum, fixed, mapped, of, record

RABIN = {
    "null": 7195948357588979594,
    "boolean": -6970731678124411036,
    "int": 8247732601305521295,
    "long": -3434872931120570953,
    "float": 5583340709985441680,
    "double": -8181574048448539266,
    "bytes": 5746618253357095269,
    "string": -8142146995180207161,
}
"""share/test/data/schema-tests.txt of Avro."""

SCHEMAS = (
    *COMPLEX.values(),
    NODE,
    record("n.R", of("f", enum("E", "AB", doc="x"), doc="y", default="A"), of("g", "E"), aliases=["S"], namespace="m"),
    record("R", of("f", fixed("n.F", 4, p=1)), of("g", array(mapped({"type": "int", "logicalType": "date"})))),
    record("a.b.R", of("f", record("S", of("r", ["null", "R"])))),
)


@pytest.mark.parametrize("primitive", RABIN)
def test_rabin_fingerprints_of_primitives(primitive: str) -> None:
    form = parse(f'{{"type":"{primitive}","doc":"x"}}', {}).parsing_canonical_form
    assert form == f'"{primitive}"'
    assert int.from_bytes(crc_64_avro(form), "little", signed=True) == RABIN[primitive]


@pytest.mark.parametrize("schema", SCHEMAS)
def test_forms_are_those_of_fastavro(schema: Any) -> None:
    form = parse(json.dumps(schema), {}).parsing_canonical_form
    assert form == to_parsing_canonical_form(parse_schema(schema))
    assert crc_64_avro(form).hex() == fingerprint(form, "CRC-64-AVRO")
    assert md5(form).hex() == fingerprint(form, "MD5")
    assert sha_256(form).hex() == fingerprint(form, "SHA-256")


def test_the_form_has_the_types_of_references() -> None:
    schema = parse('{"type":"array","items":"n.E"}', {"E": json.dumps(enum("n.E", "A"))})
    assert schema.parsing_canonical_form == '{"type":"array","items":{"name":"n.E","type":"enum","symbols":["A"]}}'
