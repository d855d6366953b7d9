"""What Java's hash codes decide: the partition of a coordinator's key, and the order of small hash maps.

Source: String.hashCode, Integer.hashCode, HashMap, HashSet; Uuid of Kafka's clients.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar
from uuid import UUID

HASH_BITS = 32
MAP_SIZE = 16
"""Buckets of a HashMap that was given no size; they double when three quarters are exceeded."""

K = TypeVar("K")


def java_order(text: str) -> bytes:
    """A key to sort by as String.compareTo does: the units of UTF-16."""
    return text.encode("utf-16-be", "surrogatepass")


def java_hash(text: str) -> int:
    """Java's String.hashCode."""
    value = 0
    units = java_order(text)
    for i in range(0, len(units), 2):
        value = (value * 31 + (units[i] << 8 | units[i + 1])) & 0xFFFFFFFF
    return value - (1 << HASH_BITS) if value >> (HASH_BITS - 1) else value


def uuid_hash(uuid: UUID) -> int:
    """The hash code of Kafka's Uuid, its bits without a sign."""
    value = uuid.int
    halves = value ^ value >> 64
    return (halves ^ halves >> 32) & 0xFFFFFFFF


def map_size(count: int, size: int = MAP_SIZE) -> int:
    """Buckets of a HashMap of so many entries that had `size` of them before."""
    while count > size * 3 // 4:
        size *= 2
    return size


def size_for(capacity: int) -> int:
    """Buckets of an empty HashMap that was given a capacity."""
    return 1 << max(capacity - 1, 0).bit_length()


def set_size(count: int) -> int:
    """Buckets of a HashSet made from a collection of so many elements."""
    return size_for(max(int(count / 0.75) + 1, MAP_SIZE))


def hash_order(keys: Iterable[K], hash_code: Callable[[K], int], size: int) -> list[K]:
    """Distinct keys as a HashMap of `size` buckets gives them back that got them in this order."""

    def bucket(key: K) -> int:
        value = hash_code(key) & 0xFFFFFFFF
        return (value ^ value >> 16) & (size - 1)

    return sorted(keys, key=bucket)


def hash_map_order(keys: Iterable[str]) -> list[str]:
    """Distinct keys as a HashMap gives them back that was given no size and got them in this order."""
    known = list(dict.fromkeys(keys))
    return hash_order(known, java_hash, map_size(len(known)))
