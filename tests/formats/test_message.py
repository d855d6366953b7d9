"""Messages: the compiled reader against the Construct definition, every schema and version, sound bytes and bad."""

import subprocess
import sys
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formats.errors import BadCount, BadLength, BadValue, BadVarint, FormatError, Truncated, UnknownType, UnknownVersion
from formats.java_text import jackson
from formats.message import UNKNOWN_TAGS, MessageSchema, build, definition, parse, reader, schema, uuid_bytes
from formats.message_json import json_text, to_json
from tests.formats.message_values import VERSIONS, any_value

IDS = [f"{message.name}-v{version}" for message, version in VERSIONS]
EACH_VERSION = pytest.mark.parametrize(("message", "version"), VERSIONS, ids=IDS)


def outcome(read: Any) -> object:
    """Return a value, or the fields of the error, which must be a FormatError."""
    try:
        return read()
    except FormatError as error:
        return type(error), error.reason, error.position


def assert_same(message: MessageSchema, version: int, data: bytes) -> object:
    """Assert that the reader and the definition read the same from these bytes."""
    fast = outcome(lambda: reader(message.name, version)(data, 0)[0])
    slow = outcome(lambda: definition(message.name, version).parse(data))
    assert repr(fast) == repr(slow)
    return fast


@EACH_VERSION
def test_builds_what_it_parses(message: MessageSchema, version: int) -> None:
    for seed in range(12):
        value = any_value(Random(seed), message, version)
        data = build(message.name, version, value)
        assert repr(parse(message.name, version, data)) == repr(value)
        assert repr(definition(message.name, version).parse(data)) == repr(value)
        assert list(parse(message.name, version, data)) == list(value)
        assert json_text(message.name, version, value) == jackson(to_json(message.name, version, value))


@EACH_VERSION
def test_truncation_at_every_byte_is_a_typed_error(message: MessageSchema, version: int) -> None:
    data = build(message.name, version, any_value(Random(3), message, version))
    for end in range(len(data)):
        found = assert_same(message, version, data[:end])
        assert isinstance(found, tuple), found
        assert 0 <= found[2] <= end


@settings(deadline=None, max_examples=400)
@given(st.sampled_from(VERSIONS), st.integers(0, 2**32), st.data())
def test_damaged_bytes_give_the_same_in_both(which: tuple[MessageSchema, int], seed: int, data: st.DataObject) -> None:
    message, version = which
    raw = bytearray(build(message.name, version, any_value(Random(seed), message, version)))
    for _ in range(data.draw(st.integers(1, 3))):
        if raw:
            raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    assert_same(message, version, bytes(raw))


@settings(deadline=None, max_examples=200)
@given(st.sampled_from(VERSIONS), st.binary(max_size=60))
def test_any_bytes_give_the_same_in_both(which: tuple[MessageSchema, int], raw: bytes) -> None:
    assert_same(*which, raw)


@EACH_VERSION
def test_an_empty_value_is_all_defaults(message: MessageSchema, version: int) -> None:
    data = build(message.name, version, {})
    assert parse(message.name, version, data) == message.layout(version).default()
    assert build(message.name, version, parse(message.name, version, data)) == data


def test_bytes_behind_a_message_are_reported() -> None:
    data = build("GroupMetadataKey", 0, {"group": "g"})
    with pytest.raises(BadLength) as caught:
        parse("GroupMetadataKey", 0, data + b"!")
    assert caught.value.position == len(data)


def test_names_and_versions_that_are_not_there() -> None:
    with pytest.raises(UnknownType):
        schema("NoSuchRecord")
    with pytest.raises(UnknownType):
        schema("MemberMetadata")
    for call in (lambda: parse("OffsetCommitValue", 5, b""), lambda: build("OffsetCommitValue", -1, {})):
        with pytest.raises(UnknownVersion):
            call()


@pytest.mark.parametrize(
    ("name", "data", "error", "position"),
    [
        ("GroupMetadataKey", b"\x7f\xff", BadLength, 0),
        ("GroupMetadataKey", b"\xff\xff", BadValue, 0),
        ("GroupMetadataKey", b"\x00", Truncated, 0),
        ("OffsetCommitKey", b"\x00\x01g\x00\x01t\x00\x00\x00", Truncated, 6),
        ("TransactionLogValue", bytes(15) + b"\x7f\xff\xff\xff", BadCount, 15),
        ("NoOpRecord", b"\xff\xff\xff\xff\xff\x01", BadVarint, 0),
        ("NoOpRecord", b"\x01\x07\xff\xff\xff\xff\x07", BadLength, 1),
        ("NoOpRecord", b"\x01\x07\xff\xff\xff\xff\x0f", BadLength, 1),
        ("NoOpRecord", b"\xff\xff\xff\xff\x07", Truncated, 5),
        ("PartitionRecord", bytes(20) + b"\xff\xff\xff\xff\x07", BadCount, 20),
        ("PartitionRecord", bytes(20) + b"\x80\x80\x80\x80\x08", BadCount, 20),
    ],
)
def test_lengths_and_counts_are_checked_before_anything_is_made(
    name: str, data: bytes, error: type[FormatError], position: int
) -> None:
    with pytest.raises(error) as caught:
        parse(name, 0, data)
    assert caught.value.position == position
    assert_same(schema(name), 0, data)


def test_unknown_tags_are_kept_and_rebuilt_among_the_known_ones() -> None:
    data = build("RemoteLogSegmentMetadataRecord", 0, {"txnIndexEmpty": True})
    tagged = data[:-4] + b"\x03\x00\x01\x01\x05\x02hi\x85\x01\x00"
    value = parse("RemoteLogSegmentMetadataRecord", 0, tagged)
    assert value["txnIndexEmpty"] is True
    assert value[UNKNOWN_TAGS] == [(5, b"hi"), (133, b"")]
    assert build("RemoteLogSegmentMetadataRecord", 0, value) == tagged
    value = parse("PartitionChangeRecord", 0, bytes(20) + b"\x03\x01\x04\x00\x00\x00\x07\x0a\x01a\x05\x01\x02")
    assert (value["leader"], value["leaderRecoveryState"], value["isr"]) == (7, 2, None)
    assert list(value)[:3] == ["partitionId", "topicId", "isr"]
    rebuilt = bytes(20) + b"\x03\x01\x04\x00\x00\x00\x07\x05\x01\x02\x0a\x01a"
    assert build("PartitionChangeRecord", 0, value) == rebuilt


def test_tags_of_other_versions_are_refused() -> None:
    with pytest.raises(BadValue, match="Tag 8 is not valid for version 0") as caught:
        parse("PartitionChangeRecord", 0, bytes(20) + b"\x01\x08\x01\x01")
    assert caught.value.position == 21


def test_a_json_null_default_is_an_empty_value_and_the_word_null_is_null() -> None:
    member = parse("ConsumerGroupMemberMetadataValue", 0, build("ConsumerGroupMemberMetadataValue", 0, {}))
    assert member["classicMemberMetadata"] == {"sessionTimeoutMs": 0, "supportedProtocols": []}
    assert "classicMemberMetadata" not in to_json("ConsumerGroupMemberMetadataValue", 0, member)
    null = build("ConsumerGroupMemberMetadataValue", 0, {"classicMemberMetadata": None})
    assert null.endswith(b"\x01\x00\x01\x00")
    assert parse("ConsumerGroupMemberMetadataValue", 0, null)["classicMemberMetadata"] is None
    assert parse("PartitionChangeRecord", 2, bytes(21))["directories"] is None


def test_defaults_are_not_shared_between_values() -> None:
    read = definition("StreamsGroupMetadataValue", 0)
    data = read.build({})
    read.parse(data)["lastAssignmentConfigs"].append("mine")
    assert read.parse(data)["lastAssignmentConfigs"] == []


def test_what_is_not_utf8_survives() -> None:
    value = parse("GroupMetadataKey", 0, b"\x00\x04a\xff\xed\xa0")
    assert build("GroupMetadataKey", 0, value) == b"\x00\x04a\xff\xed\xa0"
    assert to_json("GroupMetadataKey", 0, value) == {"group": "a\ufffd\ufffd"}


def test_a_version_that_is_not_there_reads_as_the_nearest_but_structs_refuse_it() -> None:
    data = build("ConsumerProtocolSubscription", 3, {"topics": ["t"], "rackId": "r"})
    assert reader("ConsumerProtocolSubscription", 9)(data, 0)[0]["rackId"] == "r"
    assert reader("ConsumerProtocolSubscription", 9) is reader("ConsumerProtocolSubscription", 4)
    data = build("ConsumerProtocolSubscription", 3, {"ownedPartitions": [{"topic": "t"}]})
    with pytest.raises(UnknownVersion, match="Can't read version 4 of TopicPartition"):
        reader("ConsumerProtocolSubscription", 9)(data, 0)


@pytest.mark.parametrize(
    ("name", "version", "value"),
    [
        ("OffsetCommitValue", 0, {"leaderEpoch": 1}),
        ("OffsetCommitValue", 4, {"offset": 2**63}),
        ("OffsetCommitValue", 4, {"offset": "1"}),
        ("OffsetCommitValue", 4, {"offset": True}),
        ("OffsetCommitValue", 4, {"metadata": None}),
        ("OffsetCommitValue", 4, {"metadata": "x" * 32768}),
        ("OffsetCommitValue", 4, {"metadata": "\ud800"}),
        ("OffsetCommitValue", 4, {"topicId": "short"}),
        ("OffsetCommitValue", 4, {"topicId": "A" * 21 + "\u00e9"}),
        ("OffsetCommitValue", 4, {"topicId": None}),
        ("OffsetCommitValue", 4, {UNKNOWN_TAGS: [(0, b"known")]}),
        ("OffsetCommitValue", 4, {UNKNOWN_TAGS: [(1, "text")]}),
        ("OffsetCommitValue", 3, {UNKNOWN_TAGS: [(1, b"")]}),
        ("PartitionRecord", 0, {"replicas": 5}),
        ("PartitionRecord", 0, {"replicas": [2**31]}),
        ("PartitionRecord", 0, {UNKNOWN_TAGS: [(1, b"of version 2")]}),
        ("VotersRecord", 0, {"voters": [7]}),
        ("RegisterBrokerRecord", 0, {"fenced": 1}),
        ("ClientQuotaRecord", 0, {"value": "1.5"}),
    ],
)
def test_values_that_a_schema_does_not_allow(name: str, version: int, value: dict[str, Any]) -> None:
    with pytest.raises((BadValue, BadLength)):
        build(name, version, value)


def test_uuids() -> None:
    raw = bytes(range(240, 256))
    value = parse("OffsetCommitValue", 4, build("OffsetCommitValue", 4, {"topicId": "8PHy8_T19vf4-fr7_P3-_w"}))
    assert uuid_bytes(value["topicId"]) == raw


def test_reading_needs_no_construct_and_one_schema_file() -> None:
    program = (
        "import sys, formats.message as m\n"
        "m.parse('GroupMetadataKey', 0, b'\\0\\1g')\n"
        "assert 'construct' not in sys.modules, 'construct was imported'\n"
        "assert m.schemas.cache_info().currsize == 1, m.schemas.cache_info()\n"
        "m.build('GroupMetadataKey', 0, {'group': 'g'})\n"
        "assert 'construct' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
