"""Values for any message in any version, odd ones included, from a source of randomness: a seed or Hypothesis."""

import struct
from random import Random
from typing import Any

from formats.message import UNKNOWN_TAGS, MessageSchema, schema_files, schemas
from formats.message_compiler import uuid_text
from formats.message_schema import Layout, Slot

TEXTS = (
    "",
    "a",
    "group-1",
    "topic.name_2",
    'quote " and \\ backslash',
    "tab\tnewline\nbell\x07unit\x1fdel\x7f",
    "\u00e9\u4e2d\U0001f600",
    "\u2028",
    "x" * 130,
    "\udcff",
    "\udced\udca0\udc80",
    "a\udcedb",
    "consumer",
    "\u0000",
)
RANGES = {
    "int8": (-128, 127),
    "int16": (-32768, 32767),
    "uint16": (0, 65535),
    "int32": (-(2**31), 2**31 - 1),
    "uint32": (0, 2**32 - 1),
    "int64": (-(2**63), 2**63 - 1),
}
DOUBLES = (0.0, -0.0, 1.0, 1e7, 1e-3, 0.1, 123456.789, 1.5e300, -2.5e-8, 5e-324, float("inf"), float("-inf"))
VERSIONS = [
    (message, version)
    for file in schema_files()
    for message in schemas(file)
    for version in range(message.versions.low, message.versions.high + 1)
]


def any_value(rng: Random, message: MessageSchema, version: int) -> dict[str, Any]:
    """Return a value that the message can hold in that version, sometimes with invalid UTF-8 and unknown tags."""
    return _struct(rng, message.layout(version))


def _struct(rng: Random, layout: Layout) -> dict[str, Any]:
    slots = {slot.name: slot for slot in (*layout.slots, *layout.tagged)}
    value = {name: _field(rng, slots[name]) for name in layout.names}
    if layout.flexible and rng.random() < 0.15:
        tags = sorted(rng.sample(range(40, 400), rng.randint(1, 3)))
        value[UNKNOWN_TAGS] = [(tag, rng.randbytes(rng.choice((0, 1, 5, 130)))) for tag in tags]
    return value


def _field(rng: Random, slot: Slot) -> Any:
    if slot.tag is not None and rng.random() < 0.4:
        return slot.default
    if slot.nullable and rng.random() < 0.25:
        return None
    if slot.is_array:
        return [_one(rng, slot) for _ in range(rng.choice((0, 1, 2, 3)))]
    return _one(rng, slot)


def _one(rng: Random, slot: Slot) -> Any:
    if slot.element is not None:
        return _struct(rng, slot.element)
    match slot.type:
        case "bool":
            return rng.random() < 0.5
        case "float64":
            return rng.choice((*DOUBLES, struct.unpack(">d", struct.pack(">q", rng.randint(0, 2046 << 52)))[0]))
        case "string":
            return rng.choice(TEXTS)
        case "bytes":
            return rng.choice((b"", rng.randbytes(rng.randint(1, 40)), b"\x00\x01" + rng.randbytes(8)))
        case "uuid":
            return uuid_text(rng.choice((bytes(16), rng.randbytes(16))))
        case integer:
            low, high = RANGES[integer]
            return rng.choice((0, 1, low, high, rng.randint(low, high), rng.randint(0, 9)))
