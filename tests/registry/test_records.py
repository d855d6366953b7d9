"""Records of `_schemas`: those of older registries and of Karapace are read, damaged ones are passed over."""

from __future__ import annotations

import pytest

from kcli.registry.image import Image
from kcli.registry.records import BadRecord, Key, noop_key, parse_config, parse_key, parse_schema, schema_value

SCHEMA_KEY = b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}'

KEYS = [
    (b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}', Key("SCHEMA", "s", 1)),
    (b'{"magic":1,"keytype":"SCHEMA","version":1,"subject":"s"}', Key("SCHEMA", "s", 1)),
    (b'{"keytype": "CONFIG", "subject": null, "magic": 0}', Key("CONFIG")),
    (b'{"keytype":"CONFIG","magic":0}', Key("CONFIG")),
    (b'{"keytype":"NOOP","magic":0}', Key("NOOP")),
    (b'{"keytype":"CONTEXT","tenant":"default","context":".c","magic":0}', Key("CONTEXT", context=".c")),
    (b'{"keytype":"LATER","subject":"s"}', Key("LATER", "s")),
]


@pytest.mark.parametrize(("data", "key"), KEYS)
def test_keys(data: bytes, key: Key) -> None:
    assert parse_key(data) == key


def test_a_noop_key_is_confluents() -> None:
    assert noop_key() == b'{"keytype":"NOOP","magic":0}'


DAMAGED = [
    (b"", b"{}", "the key is no JSON"),
    (b"{", b"{}", "the key is no JSON"),
    (b"\xff", b"{}", "the key is no JSON: Invalid UTF-8 in byte 0"),
    (b"[" * 100_000, b"{}", "the key is no JSON: the JSON is nested too deep"),
    (b"[]", b"{}", "the key is no JSON object"),
    (b"{}", b"{}", "the key has no keytype"),
    (b'{"keytype":"LATER"}', b"{}", "the keytype is 'LATER'"),
    (b'{"keytype":"SCHEMA","subject":"s"}', b"{}", "the key's version is 0"),
    (b'{"keytype":"SCHEMA","subject":5,"version":1}', b"{}", "the key's subject is no text"),
    (SCHEMA_KEY, b"{", "the schema is no JSON"),
    (SCHEMA_KEY, b" ", "the schema is no JSON"),
    (SCHEMA_KEY, b"{}", "the schema's id is None"),
    (SCHEMA_KEY, b'{"id":true,"schema":""}', "the schema's id is True"),
    (SCHEMA_KEY, b'{"id":1}', "the schema has no text"),
    (SCHEMA_KEY, b'{"id":1,"schema":"x","schemaType":5}', "the schema's type is no text"),
    (SCHEMA_KEY, b'{"id":1,"schema":"x","references":[{}]}', "a reference of the schema has no name"),
    (SCHEMA_KEY, b'{"id":1,"schema":"x","references":{}}', "the schema's references are no list"),
    (SCHEMA_KEY, b'{"id":1,"schema":"x","metadata":[]}', "the schema's metadata or rules"),
    (b'{"keytype":"CONFIG"}', b'{"compatibilityLevel":"x"}', "the config's compatibilityLevel is 'x'"),
    (b'{"keytype":"CONFIG"}', b'{"normalize":"x"}', "the config's normalize is 'x'"),
    (b'{"keytype":"MODE"}', b"{}", "the mode is None"),
    (b'{"keytype":"CONTEXT"}', b"{}", "the key's context is missing"),
    (b'{"keytype":"DELETE_SUBJECT","subject":"s"}', b"{}", "the deleted version is None"),
]


@pytest.mark.parametrize(("key", "value", "reason"), DAMAGED)
def test_damaged_records_are_passed_over_with_a_reason(key: bytes, value: bytes, reason: str) -> None:
    image = Image()
    image.replay(key, value, 7)
    assert [each.offset for each in image.skipped] == [7]
    assert image.skipped[0].reason.startswith(reason)
    assert (image.skipped_count, image.next_offset) == (1, 8)


def test_only_the_last_skipped_records_are_kept() -> None:
    image = Image()
    for offset in range(1000):
        image.replay(b"", b"", offset)
    assert (image.skipped_count, len(image.skipped), image.skipped[-1].offset) == (1000, 100, 999)


def test_a_schema_of_karapace() -> None:
    """Karapace leaves out the type of Avro and writes more fields."""
    value = b'{"subject": "s", "version": 1, "id": 3, "schema": "\\"int\\"", "deleted": false, "later": [1]}'
    schema = parse_schema(Key("SCHEMA", "s", 1), value, 5)
    assert (schema.type, schema.id, schema.references, schema.timestamp_ms) == ("AVRO", 3, (), 5)
    assert schema.guid == "ef524ea1-b91e-7317-3d93-8ade36c1db32"


def test_jackson_leaves_out_what_is_empty_and_escapes_in_upper_case() -> None:
    value = '{"subject":"s","version":1,"id":2,"schemaType":"AVRO","schema":"\\u001F\\\\u001f é","deleted":true}'
    assert schema_value(parse_schema(Key("SCHEMA", "s", 1), value.encode(), 0)) == value.encode()


def test_metadata_and_rules_in_javas_order() -> None:
    value = (
        '{"subject":"s","version":1,"id":7,"schemaType":"JSON",'
        '"references":[{"name":"n","subject":"rs","version":3}],'
        '"metadata":{"tags":{"t":["y","z"]},"properties":{"a":"2","b":"1"},"sensitive":["p","q"]},'
        '"ruleSet":{"migrationRules":[{"name":"m","doc":"d","kind":"CONDITION","mode":"UPGRADE","type":"X",'
        '"tags":["a","b"],"params":{"x":"2","y":"1"},"expr":"e","onSuccess":"NONE","onFailure":"ERROR",'
        '"disabled":true}],"domainRules":[{"name":"r","kind":"TRANSFORM","mode":"WRITEREAD","type":"CEL",'
        '"disabled":false}]},"schema":"\\"str\\u001Fingé/\\"","deleted":false}'
    )
    schema = parse_schema(Key("SCHEMA", "s", 1), value.encode(), 0)
    assert schema_value(schema).decode() == value
    assert schema.guid == "321ef0e9-6585-8c31-4e64-dd701be680ea"  # as the original's Schema.getGuid


def test_an_unknown_field_of_a_config_is_skipped() -> None:
    assert parse_config(b'{"later":1,"compatibilityLevel":"FULL","alias":null}') == {"compatibilityLevel": "FULL"}


def test_a_bad_record_is_an_error_with_one_line() -> None:
    with pytest.raises(BadRecord, match="the key is no JSON object"):
        parse_key(b"5")
