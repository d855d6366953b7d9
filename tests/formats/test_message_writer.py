"""The fast writer against the Construct definition: every schema and version, sound values and bad ones."""

from random import Random
from typing import Any

import pytest

from formats.errors import FormatError, UnknownType, UnknownVersion
from formats.message import UNKNOWN_TAGS, MessageSchema, build, parse
from formats.message_writer import write
from tests.formats.message_values import VERSIONS, any_value

IDS = [f"{message.name}-v{version}" for message, version in VERSIONS]
EACH_VERSION = pytest.mark.parametrize(("message", "version"), VERSIONS, ids=IDS)
ODD: tuple[object, ...] = (
    None,
    True,
    7,
    -1,
    1 << 70,
    "text",
    "x" * 40_000,
    "\ud800",
    b"\0",
    [],
    [None],
    {},
    {"odd": 1},
    0.5,
)


def outcome(make: Any) -> object:
    """Return the bytes, or the fields of the error, which must be a FormatError."""
    try:
        return make()
    except FormatError as error:
        return type(error), error.reason, error.position


@EACH_VERSION
def test_writes_what_construct_builds(message: MessageSchema, version: int) -> None:
    for seed in range(12):
        value = any_value(Random(seed), message, version)
        data = write(message.name, version, value)
        assert data == build(message.name, version, value)
        assert repr(parse(message.name, version, data)) == repr(value)
    assert write(message.name, version, {}) == build(message.name, version, {})


@EACH_VERSION
def test_refuses_what_construct_refuses(message: MessageSchema, version: int) -> None:
    random = Random(version)
    value = any_value(random, message, version)
    for name in [*value, "odd", UNKNOWN_TAGS]:
        for odd in ODD:
            bad = {**value, name: [(3, b"x"), odd] if name == UNKNOWN_TAGS else odd}
            slow = outcome(lambda bad=bad: build(message.name, version, bad))
            assert outcome(lambda bad=bad: write(message.name, version, bad)) == slow, (name, odd)


def test_knows_no_other_messages_or_versions() -> None:
    with pytest.raises(UnknownType):
        write("NoSuchRecord", 0, {})
    with pytest.raises(UnknownVersion):
        write("TopicRecord", 9, {})
