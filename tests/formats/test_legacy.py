"""Message sets of magic 0 and 1: a round trip of any set, and wrappers decoded as Kafka does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formats import compression, legacy
from formats.errors import BadChecksum, BadCodec, BadCount, BadLength, BadMagic, BadValue, FormatError, Truncated
from formats.legacy import LOG_APPEND_TIME, Message, build_message, parse_message, parse_messages, unwrap, wrap

BYTES = st.one_of(st.none(), st.binary(max_size=30))
TIMES = st.integers(-1, 2**63 - 1)


def messages(magic: int, *, append_time: int | None = None) -> tuple[Message, ...]:
    time = -1 if magic == 0 else append_time
    attributes = 0 if append_time is None else LOG_APPEND_TIME
    return tuple(
        Message(100 + 2 * at, magic, attributes, 10 + at if time is None else time, key, b"v" * at)
        for at, key in enumerate((b"k", None, b"", b"key"))
    )


@given(st.integers(-(2**63), 2**63 - 1), st.integers(0, 1), TIMES, BYTES, BYTES)
def test_any_message_there_and_back(offset: int, magic: int, time: int, key: bytes | None, value: bytes | None) -> None:
    message = Message(offset, magic, 0, time if magic else -1, key, value)
    built = build_message(message)
    assert len(built) == message.size
    assert parse_message(b"12" + built, 2) == message
    assert parse_messages(built * 2) == (message, message)


@pytest.mark.parametrize("codec", [compression.GZIP, compression.SNAPPY, compression.LZ4])
@pytest.mark.parametrize("magic", [0, 1])
def test_wrappers(magic: int, codec: int) -> None:
    inner = messages(magic)
    wrapper = wrap(inner, codec)
    assert (wrapper.offset, wrapper.codec, wrapper.timestamp) == (106, codec, 13 if magic else -1)
    assert unwrap(parse_message(build_message(wrapper))) == inner


def test_log_append_time_is_the_wrappers() -> None:
    inner = messages(1, append_time=77)
    assert unwrap(wrap(inner, compression.GZIP)) == inner
    late = wrap(inner, compression.GZIP)
    late = Message(late.offset, 1, late.attributes, 99, None, late.value)
    assert {each.timestamp for each in unwrap(late)} == {99}


def test_offset_0_on_a_wrapper_leaves_offsets_as_they_are() -> None:
    wrapper = wrap(messages(1), compression.GZIP)
    zero = Message(0, 1, wrapper.attributes, wrapper.timestamp, None, wrapper.value)
    assert [each.offset for each in unwrap(zero)] == [0, 2, 4, 6]


def test_a_message_that_is_no_wrapper() -> None:
    message = messages(1)[0]
    assert unwrap(message) == (message,)


def wrapped(codec: int, value: bytes | None, offset: int = 50) -> Message:
    return Message(offset, 1, codec, 0, None, value)


@pytest.mark.parametrize(
    ("message", "error"),
    [
        (wrapped(compression.ZSTD, b""), BadCodec),
        (wrapped(5, b""), BadCodec),
        (wrapped(compression.GZIP, None), BadValue),
        (wrapped(compression.GZIP, compression.compress(compression.GZIP, b"")), BadCount),
        (wrapped(compression.GZIP, compression.compress(compression.GZIP, b"\0" * 40)), BadLength),
        (wrapped(compression.GZIP, compression.compress(compression.GZIP, b"\0" * 10)), Truncated),
        (wrap(messages(1), compression.GZIP), None),
        (wrap([wrap(messages(1), compression.GZIP)], compression.GZIP), BadCodec),
        (wrapped(compression.GZIP, wrap(messages(1), compression.GZIP).value, offset=3), BadValue),
    ],
)
def test_wrappers_that_are_not_sound(message: Message, error: type[FormatError] | None) -> None:
    if error is None:
        assert unwrap(message)
        return
    with pytest.raises(error):
        unwrap(message)


def test_damage_is_named_where_it_is() -> None:
    built = build_message(messages(1)[3])
    for data, error, position in (
        (built[:-1], Truncated, 0),
        (built[:16] + b"\2" + built[17:], BadMagic, 16),
        (built[:8] + bytes(4) + built[12:], BadLength, 8),
        (built[:-1] + b"!", BadChecksum, 12),
    ):
        with pytest.raises(error) as caught:
            parse_message(b"....." + data, 5)
        assert caught.value.position == 5 + position


def test_no_messages_make_no_wrapper() -> None:
    with pytest.raises(BadCount):
        wrap((), compression.GZIP)
    with pytest.raises(BadValue):
        build_message(Message(0, 2, 0, 0, None, None))
    assert legacy.parse_messages(b"") == ()
