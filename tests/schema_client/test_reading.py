"""Keys and values by the schemas that they name."""

from __future__ import annotations

import json
from uuid import UUID

import pytest

from kcli.schema_client import reading
from kcli.schema_client.codec import BadPayload
from kcli.schema_client.decoded import decoded_json, text_of
from kcli.schema_client.errors import RegistryError
from kcli.schema_client.reading import PayloadReader
from kcli.schema_client.registry import KnownRegistry
from kcli.schema_client.sources import RegisteredSchema, UnknownSchema
from kcli.schema_client.wire import header_of, message_indexes, schema_id

GUID = UUID("3f3d93c0-bb61-ba9a-ea4b-9dd26ec66403")
SALE = 'syntax = "proto3"; message A { int32 a = 1; } message B { message C { string c = 1; } }'
ANSWERS = [
    {"id": 1, "subject": "s", "version": 1, "schema": '"string"', "guid": str(GUID)},
    {"id": 2, "subject": "p", "version": 1, "schema": SALE, "schemaType": "PROTOBUF"},
    {"id": 3, "subject": "j", "version": 1, "schema": "{}", "schemaType": "JSON"},
    {"id": 4, "subject": "b", "version": 1, "schema": "{", "schemaType": "AVRO"},
    {"id": 5, "subject": "x", "version": 1, "schema": "x", "schemaType": "THRIFT"},
    {"id": 6, "subject": ":.c:s", "version": 1, "schema": '"int"'},
    {"id": 1, "subject": ":.c:t", "version": 1, "schema": '"int"'},
]


class Counting(KnownRegistry):
    """Counts the schemas that it is asked for."""

    asked = 0

    def schema(self, schema_id: int) -> RegisteredSchema:
        self.asked += 1
        return super().schema(schema_id)


@pytest.fixture
def registry() -> Counting:
    return Counting("R", ANSWERS)


def prefix(number: int) -> bytes:
    return b"\0" + number.to_bytes(4)


@pytest.mark.parametrize(
    ("data", "text", "schema", "reason"),
    [
        (None, None, None, None),
        (prefix(1) + b"\x04hi", '"hi"', 1, None),
        (prefix(1) + b"\x02\x1b", '"\\u001b"', 1, None),
        (prefix(1), None, 1, "the payload ends inside a value"),
        (prefix(2) + b"\0\x08\x07", '{"a":7}', 2, None),
        (prefix(2) + b"\x04\x02\x00\x0a\x01x", '{"c":"x"}', 2, None),
        (prefix(2) + b"\x02\x0a", None, 2, "schema 2: the schema has no message 5"),
        (prefix(2) + b"\x02", None, 2, "the message indexes are cut off"),
        (prefix(2) + b"\xfe\xff\xff\xff\x0f", None, 2, "2147483647 message indexes"),
        (prefix(3) + b'{"a": 1}', '{"a":1}', 3, None),
        (prefix(4), None, 4, "schema 4: not an Avro schema: JSONDecodeError: "),
        (prefix(5), None, 5, "schema 5: schema type 'THRIFT' is none of AVRO, PROTOBUF, JSON"),
        (prefix(6) + b"\x02", "1", 6, None),
        (prefix(99), None, 99, "R has no schema 99"),
        (b"\0\0", None, None, "the schema's id is cut off"),
        (b"\x01\0", None, None, "the schema's GUID is cut off"),
        (b"", None, None, "no schema's id: it is empty"),
        (b"{}", None, None, "no schema's id: it does not begin with a byte 0"),
    ],
)
def test_a_value(
    registry: Counting, data: bytes | None, text: str | None, schema: int | None, reason: str | None
) -> None:
    found = PayloadReader(registry).read(data)
    assert (found.text, found.schema) == (text, schema)
    assert (found.reason or "").startswith(reason or "")
    assert (found.reason is None) == (reason is None)


def test_a_header_that_names_the_schema(registry: Counting) -> None:
    reader = PayloadReader(registry)
    assert reader.read(b"\x04hi", b"\x01" + GUID.bytes).text == '"hi"'
    assert reader.read(b"\x04hi", prefix(1)).text == '"hi"'
    assert reader.read(b"\x08\x07", prefix(2) + b"\0").text == '{"a":7}'
    assert reader.read(b"x", b"\x01" + bytes(16)).reason == "R has no schema 00000000-0000-0000-0000-000000000000"
    assert reader.read(b"x", b"\x07").reason == "no schema's id: it does not begin with a byte 0"
    assert header_of([("a", b"1"), ("b", b"2"), ("a", None)], "b") == b"2"


def test_each_schema_is_asked_for_once(registry: Counting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "UNKNOWN_MAX", 10)
    reader = PayloadReader(registry)
    for _ in range(100):
        assert reader.read(prefix(1) + b"\0").text == '""'
        assert reader.read(prefix(99)).text is None
    assert registry.asked == 2
    for number in range(1000, 1100):
        assert reader.read(prefix(number)).text is None
    assert registry.asked == 11
    assert reader.read(prefix(2000)).reason == "schema 2000: the registry does not have 10 others: not asked for"
    assert reader.read(prefix(1) + b"\0").text == '""'


def test_what_is_kept_is_bounded(registry: Counting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "CODECS_MAX", 2)
    reader = PayloadReader(registry)
    for _ in range(2):
        for number in (1, 2, 3, 6):
            reader.read(prefix(number) + b"\0\0")
    assert registry.asked == 8
    assert len(reader._schemas) == len(reader._codecs) == 2


def test_a_registry_that_fails_ends_it() -> None:
    class Failing(KnownRegistry):
        def schema(self, schema_id: int) -> RegisteredSchema:  # noqa: ARG002 (the signature of KnownRegistry)
            raise RegistryError("down", 503)

    with pytest.raises(RegistryError, match="down"):
        PayloadReader(Failing("R")).read(prefix(1))


def test_ids_of_a_context_are_not_those_of_the_default_one() -> None:
    found = KnownRegistry("R", ANSWERS[::-1])
    assert found.schema(1).text == '"string"'
    assert found.schema(6).text == '"int"'
    with pytest.raises(UnknownSchema):
        found.schema(7)


def test_what_is_shown(registry: Counting) -> None:
    reader = PayloadReader(registry)
    key, value = reader.read(b"k1"), reader.read(prefix(99))
    assert text_of(b"k1", key.as_key(), -1) == "k1"
    assert text_of(prefix(99), value, -1) == '"\\u0000\\u0000\\u0000\\u0000c" (R has no schema 99)'
    assert text_of(b"", reader.read(prefix(3) + b'"abcdef"'), 4) == '"abc... (8 B)'
    assert json.loads(decoded_json(key.as_key(), value)) == {
        "key": None,
        "value": None,
        "value_schema": 99,
        "value_error": "R has no schema 99",
    }
    with pytest.raises(BadPayload):
        schema_id(b"\x02")
    assert message_indexes(b"\x00", 0) == ((0,), 1)
