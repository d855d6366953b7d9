"""The hand-written code for an offset's value writes the bytes of the general writer, and reads what the general reader
reads."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from formats.errors import FormatError
from formats.message import UNKNOWN_TAGS, build, parse, uuid_text
from kcli.group import offset_value
from kcli.group.committed import NONE, CommittedOffset
from kcli.group.records import committed_offset, offset_record, read_commit
from kcli.group.requests import ZERO_ID
from kcli.protocol.topic_partition import TopicPartition

LONG = st.integers(-(2**63), 2**63 - 1)
TOPIC_IDS = st.just(ZERO_ID) | st.binary(min_size=16, max_size=16).map(uuid_text)
PARTITION = TopicPartition("topic", 3)
offsets = st.builds(
    CommittedOffset,
    offset=LONG,
    commit_timestamp_ms=LONG,
    leader_epoch=st.integers(-(2**31), 2**31 - 1),
    metadata=st.text(max_size=130),
    expire_timestamp_ms=st.just(NONE) | LONG,
    topic_id=TOPIC_IDS,
    record_offset=st.just(7),
)


def fields(offset: CommittedOffset) -> dict[str, object]:
    """As the message has them."""
    return {
        "offset": offset.offset,
        "leaderEpoch": offset.leader_epoch,
        "metadata": offset.metadata,
        "commitTimestamp": offset.commit_timestamp_ms,
        "topicId": offset.topic_id,
    }


def built(value: dict[str, object], version: int = offset_value.VERSION) -> bytes:
    """The general way."""
    return version.to_bytes(2) + build("OffsetCommitValue", version, value)


@given(offsets)
@example(CommittedOffset(5, 1, metadata="m" * 126))
@example(CommittedOffset(5, 1, metadata="m" * 127))
@example(CommittedOffset(5, 1, metadata="\u00e9"))
def test_writes_and_reads_what_all_records_are(offset: CommittedOffset) -> None:
    value = offset_value.write(offset)
    is_plain = offset.metadata.isascii() and len(offset.metadata) <= 126 and offset.expire_timestamp_ms == NONE
    assert (value is not None) == is_plain
    if value is not None:
        assert value == built(fields(offset))
        assert offset_value.read(value, offset.record_offset) == offset


def test_most_are_plain() -> None:
    record = offset_record("group", *PARTITION, CommittedOffset(5, 1))
    assert read_commit(record, 9) == ("group", PARTITION, CommittedOffset(5, 1, record_offset=9))


@given(offsets, st.data())
def test_reads_no_other_value_otherwise(offset: CommittedOffset, data: st.DataObject) -> None:
    value = bytearray(built(fields(offset) | {"metadata": offset.metadata[:20]}))
    for _ in range(data.draw(st.integers(0, 3))):
        value[data.draw(st.integers(0, len(value) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(value[: data.draw(st.integers(0, len(value)))])
    for each in (bytes(value), cut):
        found = offset_value.read(each, 7)
        if found is not None:
            assert found == committed_offset(parse("OffsetCommitValue", 4, each[2:]), 7)


def test_leaves_others_to_the_general_way() -> None:
    plain = fields(CommittedOffset(5, 1))
    others = [
        built(plain | {UNKNOWN_TAGS: [(1, b"new")]}),
        built(plain | {"metadata": "m" * 200}),
        built({"offset": 5, "metadata": "", "commitTimestamp": 1}, 3),
        b"",
        b"\0\4",
    ]
    assert [offset_value.read(each, 7) for each in others] == [None] * len(others)
    key = offset_record("group", *PARTITION, CommittedOffset(5, 1))[0]
    assert [read_commit((key, each), 7) for each in (None, *others)] == [None] * (1 + len(others))


def test_other_keys_are_parsed() -> None:
    value = offset_value.write(CommittedOffset(5, 1))
    for key in (None, b"", b"\0", b"\0\2\0\1g", b"\0\x63"):
        assert read_commit((key, value), 7) is None


def test_bad_keys_are_typed_errors() -> None:
    with pytest.raises(FormatError):
        read_commit((b"\0\1\0\5g", offset_value.write(CommittedOffset(5, 1))), 7)
