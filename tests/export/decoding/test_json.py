"""JSON: inferred, of a given type, by a JSON schema, and as VARIANT."""

from __future__ import annotations

import datetime as dt
import json
import math
import pickle
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.errors import UnreadableInput
from kcli.export.decoding import DecoderSpec, SchemaError, Survey, make_decoder, survey

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)
JSON = DecoderSpec.parse("json")

# Accepted by some parsers, JSON by none.
NOT_JSON = [
    *(b"", b" ", b"{", b"}", b"[1,]", b"[,1]", b'{"a":1,}', b'{"a"}', b'{"a":}', b"{a:1}", b"{1:2}", b"[1 2]", b"[1]]"),
    *(b"01", b"-", b"+1", b"1.", b".5", b"1e", b"1e+", b"0x1", b"1 2", b"{} {}", b"/**/1", b'{"a":1 "b":2}'),
    *(b"tru", b"nul", b"nulll", b"True", b"NaN", b"Infinity", b"'a'", b'"a', b'"\\x"', b'"\t"', b'"\n"'),
    *(b'"\\u12"', b'"\\u12g4"', b'"\\ud800"', b'"\\udc00\\ud800"', b'"\xff"', b'"\xc3\x28"', b'"\xed\xa0\x80"'),
    *(b"\xef\xbb\xbf1", b"[" * 1000, b'{"a":' * 1000),
]


def payloads(*values: Any) -> pa.BinaryArray:
    texts = [value if isinstance(value, bytes) or value is None else json.dumps(value).encode() for value in values]
    return pa.array(texts, pa.binary())


def same(decoded: Any, value: Any) -> bool:
    """Return whether a column shows the value: missing fields are null, and text may stand for values without a common
    type.

    Integers among fractions are doubles, as in Spark: from 2^53 on the nearest.
    """
    if isinstance(decoded, str) and not isinstance(value, str):
        return bool(json.loads(decoded) == value)
    if isinstance(decoded, dict):
        known = set(value) <= set(decoded)
        return known and all(same(item, value.get(name)) for name, item in decoded.items())
    if isinstance(decoded, list):
        return len(decoded) == len(value) and all(map(same, decoded, value))
    return bool(decoded == (float(value) if isinstance(decoded, float) else value))


@given(st.lists(VALUES, max_size=6), st.booleans())
def test_what_is_inferred_decodes(values: list[Any], ascii_only: bool) -> None:
    column = pa.array([json.dumps(value, ensure_ascii=ascii_only, indent=1).encode() for value in values], pa.binary())
    decoder = pickle.loads(pickle.dumps(make_decoder(JSON, survey(JSON, column))))
    decoded, reasons = decoder.decode(column)
    decoded.validate(full=True)
    assert reasons.to_pylist() == [None] * len(values)
    assert decoded.type == decoder.type
    assert all(map(same, decoded.to_pylist(), values))


@given(st.lists(VALUES, max_size=6))
def test_a_variant_is_the_value_as_pyspark_reads_it(values: list[Any]) -> None:
    variant_val = pytest.importorskip("pyspark.sql.types").VariantVal
    decoded, reasons = make_decoder("json:variant").decode(payloads(*(json.dumps(value).encode() for value in values)))
    assert reasons.to_pylist() == [None] * len(values)
    for row, value in zip(decoded.to_pylist(), values, strict=True):
        assert plain(variant_val(row["value"], row["metadata"]).toPython()) == value


def plain(value: Any) -> Any:
    """Return decimals as the floats that JSON's text means."""
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list) else value


def test_large_variants() -> None:
    variant_val = pytest.importorskip("pyspark.sql.types").VariantVal
    values: list[Any] = [
        {f"field {i:04}": [i, "x" * i] for i in reversed(range(400))},
        list(range(70_000)),
        "long " * 40_000,
        {"a": {"b": {"c": ["d" * 63, "e" * 64]}}},
    ]
    decoded, _ = make_decoder("json:variant").decode(payloads(*values))
    for row, value in zip(decoded.to_pylist(), values, strict=True):
        assert variant_val(row["value"], row["metadata"]).toPython() == value


def test_a_variants_bytes() -> None:
    """As the encoding's specification lays them out."""
    decoded, reasons = make_decoder("json:variant").decode(
        payloads(b'{"b":1, "a":41.90}', b"null", b"1e2", b"300", b"-70000", b"9223372036854775808", b'{"a":1,"a":2}')
    )
    rows = decoded.to_pylist()
    assert rows[0] == {
        "metadata": b"\x01\x02\x00\x01\x02ba",
        # two fields, ids of a and b, where their values are, then b: int8 1, then a: decimal4, scale 2, 4190
        "value": b"\x02\x02\x01\x00\x02\x00\x08\x0c\x01\x20\x02\x5e\x10\x00\x00",
    }
    assert [row["value"].hex() for row in rows[1:5]] == ["00", "1c" + "0000000000005940", "102c01", "1490eefeff"]
    assert rows[5]["value"] == b"\x28\x00" + (2**63).to_bytes(16, "little")
    assert rows[6] is None
    assert reasons[6].as_py() == "a key or a field is there twice (byte 13)"


@pytest.mark.parametrize("spec", ["json:variant", "json:STRING", "json:a INT, b ARRAY<STRING>", "json:ARRAY<INT>"])
def test_what_is_not_json_is_null_with_a_reason(spec: str) -> None:
    values, reasons = make_decoder(spec).decode(pa.array([b"null", *NOT_JSON, b"null"], pa.binary()))
    values.validate(full=True)
    assert [text for text, reason in zip(NOT_JSON, reasons.to_pylist()[1:-1], strict=True) if reason is None] == []
    assert reasons[0].as_py() is reasons[-1].as_py() is None


@given(st.binary(max_size=20))
def test_any_bytes_are_values_or_reasons(noise: bytes) -> None:
    text = b'{"a":' + noise + b"}"
    for spec in ("json:variant", "json:a STRING", "json:a TIMESTAMP, b MAP<STRING,DOUBLE>", "json:a DECIMAL(5,2)"):
        values, reasons = make_decoder(spec).decode(pa.array([noise, text], pa.binary()))
        values.validate(full=True)
        assert all(value.as_py() is None for value, why in zip(values, reasons, strict=True) if why.is_valid)


@pytest.mark.parametrize(
    ("ddl", "text", "value"),
    [
        ("BOOLEAN", "true", True),
        ("TINYINT", "-128", -128),
        ("SMALLINT", "32767", 32767),
        ("INT", "1e3", 1000),
        ("BIGINT", "-9223372036854775808", -(2**63)),
        ("BIGINT", "12.0", 12),
        ("FLOAT", "0.1", 0.10000000149011612),
        ("DOUBLE", "123456789012345678901234567890", 123456789012345678901234567890.0),
        ("DOUBLE", '"-Infinity"', -math.inf),
        ("DOUBLE", "2.2250738585072011e-308", 2.2250738585072011e-308),
        ("DECIMAL(10,2)", "41.9", Decimal("41.90")),
        ("DECIMAL(10,2)", '"41.90"', Decimal("41.90")),
        ("DECIMAL(38,0)", "9" * 38, Decimal("9" * 38)),
        ("DECIMAL(3,1)", "-1.2e1", Decimal("-12.0")),
        ("STRING", ' {"a": [1, 2]} ', '{"a": [1, 2]}'),
        ("STRING", "12.50", "12.50"),
        ("STRING", '"\\ud83d\\ude00\\u00e9\\n\\/"', "😀é\n/"),
        ("BINARY", '"AAEC/w=="', b"\0\1\2\xff"),
        ("DATE", '"2024-02-29"', dt.date(2024, 2, 29)),
        ("DATE", '"0001-01-01"', dt.date(1, 1, 1)),
        ("TIMESTAMP", '"2024-02-29T12:30:15.123456789+02:00"', "2024-02-29T10:30:15.123456+00:00"),
        ("TIMESTAMP", '"1969-12-31 23:59:59.5Z"', "1969-12-31T23:59:59.500000+00:00"),
        ("TIMESTAMP", '"2024-02-29"', "2024-02-29T00:00:00+00:00"),
        ("TIMESTAMP_NTZ", '"2024-02-29T12:30"', "2024-02-29T12:30:00"),
        ("MAP<STRING, ARRAY<INT>>", '{"a": [1, null], "b": null}', [("a", [1, None]), ("b", None)]),
        ("a INT, b STRUCT<c: STRING>", '{"z": [{}], "b": {"c": "x", "d": 1}}', {"a": None, "b": {"c": "x"}}),
    ],
)
def test_a_given_type(ddl: str, text: str, value: Any) -> None:
    decoded, reasons = make_decoder(f"json:{ddl}").decode(payloads(text.encode()))
    assert reasons.to_pylist() == [None]
    found = decoded.to_pylist()[0]
    assert (found.isoformat() if isinstance(found, dt.datetime) else found) == value


@pytest.mark.parametrize(
    ("ddl", "text"),
    [
        ("BOOLEAN", "1"),
        ("TINYINT", "128"),
        ("INT", "1.5"),
        ("INT", '"1"'),
        ("BIGINT", "9223372036854775808"),
        ("BIGINT", "1e400"),
        ("DOUBLE", "1e400"),
        ("FLOAT", "1e39"),
        ("DECIMAL(3,1)", "1.25"),
        ("DECIMAL(3,1)", "100"),
        ("BINARY", '"A"'),
        ("BINARY", '"AA=A"'),
        ("DATE", '"2023-02-29"'),
        ("DATE", '"2023-1-1"'),
        ("TIMESTAMP", '"2023-01-01T24:00"'),
        ("TIMESTAMP", "1700000000"),
        ("TIMESTAMP_NTZ", '"2024-02-29T12:30Z"'),
        ("MAP<STRING, INT>", '{"a": 1, "a": 2}'),
        ("MAP<STRING, INT>", "[]"),
        ("a INT", '{"a": 1, "a": 2}'),
        ("a INT", "[]"),
        ("ARRAY<INT>", "{}"),
    ],
)
def test_what_does_not_fit_its_type(ddl: str, text: str) -> None:
    decoded, reasons = make_decoder(f"json:{ddl}").decode(payloads(text.encode(), b"null"))
    assert decoded.to_pylist() == [None, None]
    assert reasons[0].is_valid
    assert not reasons[1].is_valid


def test_a_field_beyond_what_was_inferred_is_not_lost() -> None:
    known = survey(JSON, payloads({"a": 1})) | survey(JSON, payloads({"b": "x", "a": 2.5}))
    decoder = make_decoder(JSON, known)
    assert decoder.type == pa.struct([("a", pa.float64()), ("b", pa.string())])
    values, reasons = decoder.decode(payloads({"a": 1}, {"c": 1}, None))
    assert values.to_pylist() == [{"a": 1.0, "b": None}, None, None]
    assert reasons.to_pylist() == [None, """a field that the type has not (byte 1): '"c": 1}'""", None]


def test_nothing_to_infer_from() -> None:
    assert make_decoder(JSON, Survey()).type == pa.string()
    assert make_decoder(JSON, survey(JSON, payloads(None, {"a": None, "b": {}, "c": []}))).type == pa.struct(
        [("a", pa.string()), ("b", pa.string()), ("c", pa.list_(pa.string()))]
    )


def test_a_json_schema(tmp_path: Path) -> None:
    schema = {
        "$defs": {"money": {"type": "object", "properties": {"amount": {"type": "number"}, "unit": {"enum": ["EUR"]}}}},
        "type": "object",
        "properties": {
            "id": {"type": "integer"},
            "total": {"$ref": "#/$defs/money"},
            "placed": {"type": "string", "format": "date-time"},
            "tags": {"type": ["null", "array"], "items": {"type": "string"}},
            "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
            "parent": {"$ref": "#"},
            "free": {"anyOf": [{"type": "integer"}, {"type": "string"}, {"type": "null"}]},
        },
    }
    path = tmp_path / "order.json"
    path.write_text(json.dumps(schema))
    decoder = pickle.loads(pickle.dumps(make_decoder(f"json:{path}")))
    values, reasons = decoder.decode(
        payloads({"id": 1, "total": {"amount": 2, "unit": "EUR"}, "counts": {"a": 1}, "parent": {"id": 0}, "free": 7})
    )
    assert reasons.to_pylist() == [None]
    assert values.to_pylist() == [
        {
            "id": 1,
            "total": {"amount": 2.0, "unit": "EUR"},
            "placed": None,
            "tags": None,
            "counts": [("a", 1)],
            "parent": '{"id": 0}',
            "free": "7",
        }
    ]
    assert decoder.type.field("tags").type == pa.list_(pa.string())
    assert decoder.type.field("placed").type == pa.timestamp("us", "UTC")


def test_a_type_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "order.ddl"
    path.write_text("id BIGINT,\n  `odd name` STRING COMMENT 'it''s'\n".replace("''", "\\'"))
    assert make_decoder(f"json:{path}").type == pa.struct([("id", pa.int64()), ("odd name", pa.string())])


@pytest.mark.parametrize(
    "ddl",
    ["a", "a INT,", "a INT b INT", "a FOO", "a ARRAY<INT", "a DECIMAL(39,0)", "a INT, a INT", "MAP<INT,INT>", "a %"],
)
def test_a_type_that_is_none(ddl: str) -> None:
    with pytest.raises(SchemaError):
        make_decoder(f"json:{ddl}")


def test_a_json_schema_that_is_none(tmp_path: Path) -> None:
    path = tmp_path / "order.json"
    path.write_text('{"$ref": "#/nowhere"}')
    with pytest.raises(SchemaError, match="nowhere"):
        make_decoder(f"json:{path}")
    with pytest.raises(UnreadableInput):
        make_decoder("json:nothing.json")
