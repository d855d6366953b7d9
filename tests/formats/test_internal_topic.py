"""Internal topics: every golden record is decoded and built again byte for byte; errors of bad ones."""

import json
import struct
from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from formats.errors import BadLength, BadValue, FormatError, Truncated, UnknownType, UnknownVersion
from formats.internal_topic import DecodedRecord, decode, encode, is_internal, record_types, to_json
from formats.message import build
from tests.formats.internal_records import decoded_runs, raw_records
from tests.inspector.record_text_cases import TOPICS, any_record


def test_every_golden_record_is_rebuilt_byte_for_byte() -> None:
    built: Counter[str] = Counter()
    names: set[str] = set()
    for path, decoder, _ in decoded_runs():
        topic = TOPICS[decoder]
        for record in raw_records(path):
            if not record.is_control:
                decoded = decode(topic, record.key, record.value)
                assert (decoded.key_rest, decoded.value_rest) == (b"", b"")
                assert encode(topic, decoded) == (record.key, record.value)
                names.add(decoded.value_name)
                built[topic] += 1
    print(f"rebuilt {dict(built)}, {len(names)} kinds of records")
    assert set(built) == set(TOPICS.values())


def test_what_a_record_says() -> None:
    key = struct.pack(">h", 2) + build("GroupMetadataKey", 0, {"group": "g"})
    subscription = struct.pack(">h", 1) + build("ConsumerProtocolSubscription", 1, {"topics": ["t"]})
    member = {"memberId": "m", "subscription": subscription, "assignment": b"\x00\x09odd"}
    value = {"protocolType": "consumer", "protocol": "range", "members": [member]}
    raw = struct.pack(">h", 3) + build("GroupMetadataValue", 3, value)
    record = decode("__consumer_offsets", key, raw)
    assert (record.key_type, record.key_name, record.key) == (2, "GroupMetadataKey", {"group": "g"})
    assert (record.value_version, record.value_name) == (3, "GroupMetadataValue")
    assert record.value is not None
    decoded = record.value["members"][0]
    assert decoded["subscription"] == {"version": 1, "data": {"topics": ["t"], "userData": None, "ownedPartitions": []}}
    assert decoded["assignment"] == b"\x00\x09odd"
    assert encode("__consumer_offsets", record) == (key, raw)
    tombstone = decode("__consumer_offsets", key, None)
    assert (tombstone.value_version, tombstone.value, tombstone.value_name) == (None, None, "GroupMetadataValue")
    assert encode("__consumer_offsets", tombstone) == (key, None)


def test_a_decoded_record_as_json() -> None:
    kinds: dict[str, str] = {}
    for path, decoder, _ in decoded_runs():
        for record in raw_records(path):
            if not record.is_control:
                node = to_json(decode(TOPICS[decoder], record.key, record.value))
                kinds[node["value_name"]] = json.dumps(node)
    assert json.loads(kinds["NoOpRecord"]) == {
        "key_type": 20,
        "key_name": None,
        "key": None,
        "value_version": 0,
        "value_name": "NoOpRecord",
        "value": {},
    }
    key = struct.pack(">h", 2) + build("GroupMetadataKey", 0, {"group": "g"})
    subscription = struct.pack(">h", 0) + build("ConsumerProtocolSubscription", 0, {"userData": b"\x00"})
    members = [{"subscription": subscription, "assignment": b"\xff"}]
    raw = struct.pack(">h", 0) + build("GroupMetadataValue", 0, {"protocolType": "consumer", "members": members})
    member = to_json(decode("__consumer_offsets", key, raw))["value"]["members"][0]
    assert member["subscription"] == {"version": 0, "data": {"topics": [], "userData": "AA=="}}
    assert member["assignment"] == "/w=="
    assert to_json(decode("__consumer_offsets", key, None))["value"] is None


def test_bytes_behind_a_coordinator_record_are_kept() -> None:
    key = struct.pack(">h", 2) + build("GroupMetadataKey", 0, {"group": "g"}) + b"more"
    raw = struct.pack(">h", 0) + build("GroupMetadataValue", 0, {}) + b"\x01"
    record = decode("__consumer_offsets", key, raw)
    assert (record.key_rest, record.value_rest) == (b"more", b"\x01")
    assert encode("__consumer_offsets", record) == (key, raw)


def test_metadata_records_carry_their_type_in_the_value() -> None:
    raw = b"\x01\x14\x00\x00"
    record = decode("__cluster_metadata", None, raw)
    assert (record.key_type, record.key_name, record.key, record.value_name) == (20, None, None, "NoOpRecord")
    assert encode("__cluster_metadata", record) == (None, raw)


def test_which_topics_are_internal() -> None:
    assert all(is_internal(topic) for topic in TOPICS.values())
    assert not is_internal("__connect_offsets")
    counts = {topic: len(record_types(topic)) for topic in TOPICS.values()}
    assert counts == {
        "__consumer_offsets": 22,
        "__transaction_state": 1,
        "__share_group_state": 2,
        "__cluster_metadata": 26,
        "__remote_log_metadata": 4,
    }


@pytest.mark.parametrize(
    ("topic", "key", "value", "error", "position"),
    [
        ("orders", b"", b"", BadValue, None),
        ("__consumer_offsets", None, b"", BadValue, None),
        ("__consumer_offsets", b"\x00", b"", Truncated, 0),
        ("__consumer_offsets", b"\x00\x63", None, UnknownType, 0),
        ("__consumer_offsets", b"\x00\x02\x00\x05a", None, BadLength, 2),
        ("__consumer_offsets", b"\x00\x02\x00\x01a", b"\x00", Truncated, 0),
        ("__consumer_offsets", b"\x00\x02\x00\x01a", b"\x00\x63", UnknownVersion, 0),
        ("__consumer_offsets", b"\x00\x02\x00\x01a", b"\x00\x00\x00\x00\x00", Truncated, 4),
        ("__cluster_metadata", None, None, BadValue, None),
        ("__cluster_metadata", None, b"", Truncated, 0),
        ("__cluster_metadata", None, b"\x00\x14\x00\x00", UnknownVersion, 0),
        ("__cluster_metadata", None, b"\x01\x63\x00", UnknownType, 1),
        ("__cluster_metadata", None, b"\x01\x14\x09\x00", UnknownVersion, 2),
        ("__cluster_metadata", None, b"\x01\x14\x00\x00\x00", BadLength, 4),
    ],
)
def test_bad_records_say_what_and_where(
    topic: str, key: bytes | None, value: bytes | None, error: type[FormatError], position: int | None
) -> None:
    with pytest.raises(error) as caught:
        decode(topic, key, value)
    assert caught.value.position == position


@pytest.mark.parametrize("topic", TOPICS.values())
def test_any_record_decodes_or_gives_a_typed_error(topic: str) -> None:
    sound = 0
    rng = Random(topic)
    for _ in range(400):
        key, value = any_record(rng, topic)
        try:
            record = decode(topic, key, value)
        except FormatError:
            continue
        sound += 1
        encoded = encode(topic, record)
        assert repr(decode(topic, *encoded)) == repr(record)
    assert sound > 100


@pytest.mark.parametrize("topic", TOPICS.values())
def test_truncation_at_every_byte_is_a_typed_error(topic: str) -> None:
    rng = Random(1)
    for _ in range(60):
        key, value = any_record(rng, topic)
        for end in range(min(len(value or b""), 80)):
            try:
                decode(topic, key, (value or b"")[:end])
            except FormatError:
                continue


def test_records_that_cannot_be_encoded() -> None:
    record = DecodedRecord(key_type=20, key_name=None, key=None, value_version=0, value_name="NoOpRecord", value={})
    for topic, bad in [
        ("orders", record),
        ("__consumer_offsets", record),
        ("__cluster_metadata", replace(record, value=None)),
        ("__cluster_metadata", replace(record, key_type=-1)),
        ("__cluster_metadata", replace(record, value_version=7)),
        ("__consumer_offsets", replace(record, key_type=70000, key_name="GroupMetadataKey", key={})),
    ]:
        with pytest.raises(FormatError):
            encode(topic, bad)
