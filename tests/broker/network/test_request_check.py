"""Requests are checked before kio reads them: a request that claims more than it has is refused, a whole one passes."""

from __future__ import annotations

import struct
from dataclasses import fields
from datetime import timedelta
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formats.errors import BadCount, BadValue, FormatError, LimitExceeded, Truncated
from kcli.broker.wire.apis import BROKER_APIS as APIS
from kcli.broker.wire.apis import is_flexible
from kcli.broker.wire.kio_readable import readable
from kcli.broker.wire.messages import BadRequest, messages, read_request
from kcli.broker.wire.request_check import ITEMS_MAX, has_unknown_tags
from tests.broker.hostile import mutated, whole_request

VERSIONS = [(api.key, version) for api in APIS.values() for version in range(api.least, api.most + 1)]
WITHOUT_TAGS = [
    (key, version)
    for key, version in VERSIONS
    if is_flexible(key, version)
    and key != 0  # Produce is read by a kernel: test_produce_request
    and not any("tag" in each.metadata for each in fields(messages(key, version).request_type))
]
METADATA, CREATE_TOPICS = 3, 19
UNKNOWN = b"\x02\x65\x03abc\x87\x01\x00"
"""Two tagged fields with unknown tags: 101 and 135."""


def body_of(random: Random, key: int, version: int) -> bytes:
    """A request without its header, whose client id is "fuzz"."""
    return whole_request(random, key, version)[14 + is_flexible(key, version) :]


@pytest.mark.parametrize(("key", "version"), VERSIONS)
def test_whole_requests(key: int, version: int) -> None:
    """A whole request passes and has no unknown tags; every truncation is refused; the check changes no bytes."""
    kind = messages(key, version)
    random = Random(key * 100 + version)
    for _ in range(20):
        data = body_of(random, key, version)
        assert not has_unknown_tags(kind.request_type, data, 0)
        assert readable(kind.request_type, data, 0) == data
        for size in range(0, len(data), max(1, len(data) // 50)):
            with pytest.raises(FormatError):
                has_unknown_tags(kind.request_type, data[:size], 0)


@pytest.mark.parametrize(("key", "version"), WITHOUT_TAGS)
def test_unknown_tags_are_skipped(key: int, version: int) -> None:
    """Unknown tags behind the last field of the request; the next test has some in between."""
    kind = messages(key, version)
    data = body_of(Random(version), key, version)
    request, _ = kind.read(data, 0)
    newer = memoryview(bytearray(data[:-1] + UNKNOWN))
    assert has_unknown_tags(kind.request_type, newer, 0)
    assert readable(kind.request_type, bytes(newer), 0) == data
    assert str(read_request(kind, newer, 0)) == str(request)  # as nan is not nan


@pytest.mark.parametrize(
    ("byte", "value"), [(0, False), (1, True), (2, True), (0x7F, True), (0x80, True), (0xFF, True)]
)
def test_every_byte_but_zero_is_true(byte: int, value: bool) -> None:
    """The same with tagged fields behind the boolean, and in versions without tagged fields."""
    for version, body in ((4, struct.pack(">iB", 0, byte)), (9, bytes([1, byte, byte, byte]) + UNKNOWN)):
        request = read_request(messages(METADATA, version), memoryview(body), 0)
        assert request.allow_auto_topic_creation is value


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (b"a\xffb", "a\ufffdb"),
        (b"\xed\xa0\x80", "\ufffd"),
        (b"\xc0\x80", "\ufffd\ufffd"),
        (b"\xf0\x9f\x98", "\ufffd"),
        (b"\xe2\x82", "\ufffd"),
    ],
)
def test_a_string_that_is_not_utf_8_has_replacement_characters(name: bytes, text: str) -> None:
    """Those that Kafka 4.3 answered with."""
    plain = struct.pack(">ih", 1, len(name)) + name
    compact = bytes([2, len(name) + 1]) + name
    for version, body in ((4, plain + b"\1"), (9, compact + b"\0\1\0\0\0")):
        request = read_request(messages(METADATA, version), memoryview(body), 0)
        assert [each.name for each in request.topics] == [text]
    length = len(name).to_bytes(2)
    produce = length + name + struct.pack(">hii", 1, 0, 1) + length + name + struct.pack(">i", 0)
    request = read_request(messages(0, 8), memoryview(produce), 0)
    assert (request.transactional_id, [each.name for each in request.topic_data]) == (text, [text])


def test_a_string_that_is_too_long_with_its_replacement_characters_is_refused() -> None:
    name = b"\xff" * 20_000
    with pytest.raises(BadRequest, match="a string of more than"):
        read_request(messages(METADATA, 4), memoryview(struct.pack(">ih", 1, len(name)) + name + b"\1"), 0)


def test_unknown_tags_of_inner_structs() -> None:
    kind = messages(CREATE_TOPICS, 7)
    config = b"\x02a\x02b" + UNKNOWN
    topic = b"\x02t" + struct.pack(">ih", 1, 1) + b"\x01\x02" + config + UNKNOWN
    data = memoryview(bytearray(b"\x02" + topic + struct.pack(">i", 5) + b"\0" + UNKNOWN))
    request = read_request(kind, data, 0)
    assert [(each.name, each.num_partitions) for each in request.topics] == [("t", 1)]
    assert [(each.name, each.value) for each in request.topics[0].configs] == [("a", "b")]


@given(st.integers(0, 2**32 - 1), st.sampled_from(VERSIONS))
def test_changed_requests(seed: int, version: tuple[int, int]) -> None:
    """Read, or refused."""
    random = Random(seed)
    data = memoryview(bytearray(mutated(random, body_of(random, *version))))
    try:
        read_request(messages(*version), data, 0)
    except BadRequest:
        return


@pytest.mark.parametrize(
    ("version", "data", "error"),
    [
        (1, struct.pack(">i", 2**31 - 1), Truncated),
        (1, struct.pack(">i", -2), BadCount),
        (9, b"\xff\xff\xff\xff\x0f\0\0\0\0", Truncated),
        (9, b"\xff\xff\xff\xff\xff\x0f", FormatError),
        (9, b"\2\x81\x80\2" + b"t" * 32_768 + b"\0\0\0\0", LimitExceeded),
        (0, struct.pack(">i", -1), BadValue),
        (1, struct.pack(">ih", 1, -1), BadValue),
        (1, struct.pack(">ih", 1, -2), BadCount),
        (1, struct.pack(">i", ITEMS_MAX + 1) + bytes(2 * ITEMS_MAX + 2), LimitExceeded),
    ],
)
def test_absurd_numbers(version: int, data: bytes, error: type[FormatError]) -> None:
    kind = messages(METADATA, version)
    with pytest.raises(error):
        has_unknown_tags(kind.request_type, data, 0)


def test_the_longest_string() -> None:
    """The length of a compact string is a varint, and Kafka's readers accept no more than an int16 could hold."""
    kind = messages(METADATA, 9)
    assert not has_unknown_tags(kind.request_type, b"\2\x80\x80\2" + b"t" * 32_767 + b"\0\0\0\0\0", 0)


@pytest.mark.parametrize("duration_ms", [2**63 - 1, -(2**63), -1, 0, 10**15])
def test_a_duration_may_be_for_ever(duration_ms: int) -> None:
    """Some clients send Long.MAX_VALUE as the period of RenewDelegationToken."""
    longest = timedelta(milliseconds=(2**63 - 1) // 1000)
    data = struct.pack(">i1sq", 1, b"x", duration_ms)
    found = read_request(messages(39, 1), memoryview(data), 0).renew_period
    if abs(duration_ms) > 10**17:
        assert found == (longest if duration_ms > 0 else -longest)
    else:
        assert found == timedelta(milliseconds=duration_ms)
