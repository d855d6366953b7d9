"""Serdes: values to the bytes of a record's key or value, and back. None is no bytes in all of them.

    BYTES    bytes as they are
    STRING   text, in UTF-8
    INTEGER  int, 4 bytes, big endian
    LONG     int, 8 bytes, big endian
    DOUBLE   float, 8 bytes, IEEE 754, big endian
    JSON     dicts, lists, text, numbers, booleans: JSON without spaces, in UTF-8

    time_windowed     a key and, in 8 bytes, its window's start; the size gives the end
    session_windowed  a key and, in 8 bytes each, its window's end and start

Source: Serdes, TimeWindowedSerde, SessionWindowedSerde of Kafka.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from kcli.streams.kernels.values import from_bytes, serialized_key, to_bytes
from kcli.streams.windows import Window, Windowed

T = TypeVar("T")
K = TypeVar("K")

_TIME = struct.Struct(">q")
_SPAN = struct.Struct(">qq")


@dataclass(frozen=True)
class Serde(Generic[T]):
    """How values become bytes and back.

    serialize, deserialize: the two functions; they are not called with None. They raise ValueError, TypeError,
    LookupError or struct.error for a value that they cannot serialize, or bytes that they cannot deserialize.
    window_bytes: how many bytes at the end are a window, which does not decide a record's partition.
    """

    name: str
    serialize: Callable[[T], bytes]
    deserialize: Callable[[bytes], T]
    window_bytes: int = 0

    def to_bytes(self, value: T | None) -> bytes | None:
        """Return the value's bytes. Raises SerializationError."""
        return to_bytes(self, value)

    def serialize_key(self, key: T | None, store: str) -> bytes:
        """Return the bytes of a key in a store of this name. Raises SerializationError, also for None."""
        return serialized_key(self, key, store)

    def from_bytes(self, data: bytes | None) -> T | None:
        """Return the value of these bytes. Raises SerializationError."""
        return from_bytes(self, data)


def _number(name: str, layout: str) -> Serde[Any]:
    packed = struct.Struct(layout)

    def deserialize(data: bytes) -> Any:
        return packed.unpack(data)[0]

    return Serde(name, packed.pack, deserialize)


BYTES: Serde[bytes] = Serde("BYTES", lambda value: memoryview(value).tobytes(), bytes)
STRING: Serde[str] = Serde("STRING", str.encode, bytes.decode)
INTEGER: Serde[int] = _number("INTEGER", ">i")
LONG: Serde[int] = _number("LONG", ">q")
DOUBLE: Serde[float] = _number("DOUBLE", ">d")
JSON: Serde[Any] = Serde(
    "JSON",
    lambda value: json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode(),
    json.loads,
)


def time_windowed(inner: Serde[K], size_ms: int) -> Serde[Windowed[K]]:
    """Return the serde of keys in windows of this size.

    inner: the serde of the keys without their windows. size_ms: a window's end minus its start.
    """

    def serialize(windowed: Windowed[K]) -> bytes:
        return inner.serialize(windowed.key) + _TIME.pack(windowed.window.start)

    def deserialize(data: bytes) -> Windowed[K]:
        start: int = _TIME.unpack(data[-_TIME.size :])[0]
        return Windowed(inner.deserialize(data[: -_TIME.size]), Window(start, start + size_ms))

    return Serde(f"windowed {inner.name}", serialize, deserialize, _TIME.size)


def session_windowed(inner: Serde[K]) -> Serde[Windowed[K]]:
    """Return the serde of keys in session windows. inner: the serde of the keys without their windows."""

    def serialize(windowed: Windowed[K]) -> bytes:
        return inner.serialize(windowed.key) + _SPAN.pack(windowed.window.end, windowed.window.start)

    def deserialize(data: bytes) -> Windowed[K]:
        end, start = _SPAN.unpack(data[-_SPAN.size :])
        return Windowed(inner.deserialize(data[: -_SPAN.size]), Window(start, end))

    return Serde(f"session windowed {inner.name}", serialize, deserialize, _SPAN.size)
