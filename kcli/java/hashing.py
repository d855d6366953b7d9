"""Java's hash codes, which decide the partition of a coordinator's key and the iteration order of small hash maps.

Source: String.hashCode, Integer.hashCode, HashMap, HashSet; Uuid of Kafka's clients.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import TypeVar
from uuid import UUID

HASH_BITS = 32
INT_MIN = -(1 << 31)
KEYS_KEPT = 10_000
MAP_SIZE = 16
"""The number of buckets of a HashMap that is created without a size; it doubles when the entries exceed three quarters
of it."""

K = TypeVar("K")


def java_order(text: str) -> bytes:
    """A sort key for the order of String.compareTo: the text's code units in UTF-16."""
    return text.encode("utf-16-be", "surrogatepass")


def java_hash(text: str) -> int:
    """Java's String.hashCode."""
    value = 0
    units = java_order(text)
    for i in range(0, len(units), 2):
        value = (value * 31 + (units[i] << 8 | units[i + 1])) & 0xFFFFFFFF
    return value - (1 << HASH_BITS) if value >> (HASH_BITS - 1) else value


@lru_cache(maxsize=KEYS_KEPT)
def partition_of(key: str, count: int) -> int:
    """Return the partition of a coordinator's key, such as a group id, in a topic with `count` partitions (Kafka's
    Utils.abs)."""
    value = java_hash(key)
    return 0 if value == INT_MIN else abs(value) % count


def uuid_hash(uuid: UUID) -> int:
    """The hash code of Kafka's Uuid, its bits without a sign."""
    value = uuid.int
    halves = value ^ value >> 64
    return (halves ^ halves >> 32) & 0xFFFFFFFF


def map_size(count: int, size: int = MAP_SIZE) -> int:
    """The number of buckets of a HashMap with `count` entries that had `size` buckets before they were added."""
    while count > size * 3 // 4:
        size *= 2
    return size


def size_for(capacity: int) -> int:
    """The number of buckets of an empty HashMap that was created with a capacity."""
    return 1 << max(capacity - 1, 0).bit_length()


def set_size(count: int) -> int:
    """The number of buckets of a HashSet made from a collection of `count` elements."""
    return size_for(max(int(count / 0.75) + 1, MAP_SIZE))


def hash_order(keys: Iterable[K], hash_code: Callable[[K], int], size: int) -> list[K]:
    """The order in which a HashMap of `size` buckets iterates over distinct keys that were put in this order."""

    def bucket(key: K) -> int:
        value = hash_code(key) & 0xFFFFFFFF
        return (value ^ value >> 16) & (size - 1)

    return sorted(keys, key=bucket)


def hash_map_order(keys: Iterable[str]) -> list[str]:
    """The order in which a HashMap made without a size iterates over distinct keys that were put in this order."""
    known = list(dict.fromkeys(keys))
    return hash_order(known, java_hash, map_size(len(known)))
