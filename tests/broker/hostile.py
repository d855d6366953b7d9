"""Hostile requests: every API at every version, with random values, well-formed or with mutated bytes.

`Values` makes the values of fields; a subclass may look at the fields' names. All randomness comes from a Random, so a
seed gives the same requests.
"""

from __future__ import annotations

import dataclasses
import struct
import time
import typing
from collections.abc import Callable
from datetime import timedelta
from io import BytesIO
from random import Random
from types import NoneType
from typing import Any
from uuid import UUID

from formats.kernels.crc import crc32c
from kcli.broker.wire.apis import is_flexible
from kcli.broker.wire.messages import entity_writer, messages
from tests.log.batches import batch

INT_MAX, INT_MIN = 2**31 - 1, -(2**31)
Maker = Callable[[Random], Any]

STRINGS = (
    *(
        "",
        "known",
        "compacted",
        "..",
        ".",
        "a/b",
        "../../x",
        "a\0b",
        "x" * 249,
        "x" * 250,
        "é",
        "\U0001f600",
        "a.b",
        "a_b",
    ),
    *("__consumer_offsets", "__cluster_metadata", "missing", "z" * 30_000, "1", "-1", "0", "kafka.server"),
    *("retention.ms", "cleanup.policy", "segment.bytes", "max.message.bytes", "compression.type", "compact", "zstd"),
    *("user", "client-id", "ip", "producer_byte_rate", "consumer_byte_rate", "request_percentage", "127.0.0.1"),
    *("controller_mutation_rate", "metadata.version", "kraft.version", "transaction.version", "9" * 40, "1e400", "١"),
)
FLOATS = (0.0, -0.0, 1.0, -1.0, 1e-300, 1e300, 5e-324, float("inf"), float("-inf"), float("nan"), 1e9)


def records(random: Random) -> bytes | None:
    """What a producer may send, or not."""
    producer = random.choice(((-1, -1), (1, 0), (5, 3)))
    whole = batch(
        *random.choices((b"", b"value", bytes(5000)), k=random.randrange(1, 4)),
        producer=producer,
        sequence=random.choice((-1, 0, 7, INT_MAX)) if producer[0] >= 0 else -1,
        transactional=random.random() < 0.2,
        timestamp_ms=random.choice((0, -1, int(time.time() * 1000), 2**62)),
        codec=random.randrange(5),
    )
    choice = random.randrange(8)
    if choice < 3:
        return bytes(whole)
    if choice == 3:
        return random.choice((None, b"", random.randbytes(61), bytes(whole) * 2))
    broken = bytearray(mutated(random, bytes(whole)))
    if choice > 5 and len(broken) > 61:  # past the checksum
        struct.pack_into(">i", broken, 8, len(broken) - 12)
        broken[16] = 2
        struct.pack_into(">I", broken, 17, crc32c(memoryview(broken)[21:]))
    return bytes(broken)


class Values:
    """Makes random values for fields, from usual to absurd. `name` is the field's."""

    def integer(self, random: Random, bits: int, name: str) -> int:  # noqa: ARG002  (subclasses read it)
        most = 2 ** (bits - 1) - 1
        small = random.choice((0, 0, 1, 1, -1, 2, 3, 5, -2))
        return random.choice((small, small, small, most, -most - 1, random.randint(-most - 1, most)))

    def milliseconds(self, random: Random, bits: int, name: str) -> int:
        return self.integer(random, 32, name) if bits == 32 else self.integer(random, 50, name) // 100

    def string(self, random: Random, name: str) -> str:  # noqa: ARG002  (subclasses read it)
        return random.choice(STRINGS)

    def uuid(self, random: Random, name: str) -> UUID:  # noqa: ARG002  (subclasses read it)
        return UUID(int=random.choice((1, random.getrandbits(128))))

    def data(self, random: Random, name: str) -> bytes:  # noqa: ARG002  (subclasses read it)
        return random.randbytes(random.choice((0, 1, 20)))

    def is_null(self, random: Random, name: str) -> bool:  # noqa: ARG002  (subclasses read it)
        return random.random() < 0.2

    def count(self, random: Random, name: str) -> int:  # noqa: ARG002  (subclasses read it)
        return random.choice((0, 1, 1, 1, 2, 3))

    def __init__(self) -> None:
        self._makers: dict[type, Maker] = {}

    def request(self, random: Random, key: int, version: int) -> Any:
        """A request of kio's."""
        return self._class_maker(messages(key, version).request_type)(random)

    def _class_maker(self, cls: type) -> Maker:
        known = self._makers.get(cls)
        if known is None:
            hints = typing.get_type_hints(cls)
            fields = {
                each.name: self._maker(hints[each.name], each.metadata.get("kafka_type"), each.name)
                for each in dataclasses.fields(cls)
            }
            known = self._makers[cls] = lambda random: cls(**{name: make(random) for name, make in fields.items()})
        return known

    def _maker(self, hint: Any, kafka_type: str | None, name: str) -> Maker:
        """What makes values of a field's type."""
        arguments = typing.get_args(hint)
        if NoneType in arguments:
            plain = self._maker(next(each for each in arguments if each is not NoneType), kafka_type, name)
            return lambda random: None if self.is_null(random, name) else plain(random)
        if typing.get_origin(hint) is tuple:
            inner = self._maker(arguments[0], kafka_type, name)
            return lambda random: tuple(inner(random) for _ in range(self.count(random, name)))
        if dataclasses.is_dataclass(hint):
            assert isinstance(hint, type), "a class"
            return self._class_maker(hint)
        match kafka_type:
            case "bool":
                return lambda random: random.random() < 0.5
            case "uint16":
                return lambda random: hint(random.choice((0, 1, 9092, 65_535)))
            case "int8" | "int16" | "int32" | "int64":
                return lambda random: hint(self.integer(random, int(kafka_type[3:]), name))
            case "timedelta_i32" | "timedelta_i64":
                bits = int(kafka_type[-2:])
                return lambda random: hint.parse(timedelta(milliseconds=self.milliseconds(random, bits, name)))
            case "float64":
                return lambda random: random.choice(FLOATS)
            case "string" if hint is str:
                return lambda random: self.string(random, name)
            case "string":
                return lambda random: hint(self.string(random, name))
            case "uuid":
                return lambda random: self.uuid(random, name)
            case "bytes":
                return lambda random: self.data(random, name)
            case "records":
                return records
        raise AssertionError(f"no values for {hint} {kafka_type}")


ANYTHING = Values()


def whole_request(random: Random, key: int, version: int, values: Values = ANYTHING) -> bytes:
    """Return a well-formed request with any values, without its size."""
    body = BytesIO()
    body.write(struct.pack(">hhih", key, version, 1, 4) + b"fuzz" + (b"\0" if is_flexible(key, version) else b""))
    entity_writer(messages(key, version).request_type)(body, values.request(random, key, version))
    return body.getvalue()


EXTREMES = (
    b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff",
    b"\x80\0\0\0",
    b"\xff\xff\xff\xff\x0f",
    b"\xff" * 10,
    b"\x7f\xff",
    b"\0",
)


def mutated(random: Random, data: bytes) -> bytes:
    """Return the bytes with some of them changed, cut or doubled, or with an absurd number in them."""
    found = bytearray(data)
    for _ in range(random.randrange(1, 4)):
        at = random.randrange(len(found) + 1)
        end = min(len(found), at + random.randrange(1, 30))
        match random.randrange(6):
            case 0:
                found[at : at + 1] = random.randbytes(1)
            case 1:
                extreme = random.choice(EXTREMES)
                found[at : at + len(extreme)] = extreme
            case 2:
                found[at:at] = random.choice(EXTREMES)
            case 3:
                del found[at:end]
            case 4:
                found[at:at] = found[at:end]
            case 5:
                del found[at:]
    return bytes(found)
