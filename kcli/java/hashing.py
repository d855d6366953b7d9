"""Java's hash codes, which decide the partition of a coordinator's key and the iteration order of small hash maps; and
murmur2, by which Kafka's clients choose the partition of a key.

Source: String.hashCode, Integer.hashCode, Long.hashCode, Objects.hash, HashMap, HashSet; Uuid and Utils of Kafka's
clients.
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
"""The number of buckets of a HashMap that is created without a size. A HashMap doubles its buckets when the entries
exceed three quarters of their number."""

K = TypeVar("K")


def java_order(text: str) -> bytes:
    """Return a sort key for the order of String.compareTo: the text's code units in UTF-16."""
    return text.encode("utf-16-be", "surrogatepass")


def java_hash(text: str) -> int:
    """Return what Java's String.hashCode returns for the text: a signed 32-bit integer."""
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


def long_hash(value: int) -> int:
    """Return the hash code of a Java Long with these 64 bits as an unsigned 32-bit integer."""
    return (value ^ value >> 32) & 0xFFFFFFFF


def list_hash(hashes: Iterable[int]) -> int:
    """Return the hash code of Java's Objects.hash for objects with these hash codes as an unsigned 32-bit integer."""
    value = 1
    for each in hashes:
        value = (31 * value + each) & 0xFFFFFFFF
    return value


def murmur2(data: bytes) -> int:
    """Return Kafka's Utils.murmur2 of the bytes as an unsigned 32-bit integer."""
    factor, mask = 0x5BD1E995, 0xFFFFFFFF
    value = (0x9747B28C ^ len(data)) & mask
    whole = len(data) & ~3
    for i in range(0, whole, 4):
        part = int.from_bytes(data[i : i + 4], "little") * factor & mask
        part = (part ^ part >> 24) * factor & mask
        value = value * factor & mask ^ part
    if rest := data[whole:]:
        value = (value ^ int.from_bytes(rest, "little")) * factor & mask
    value = (value ^ value >> 13) * factor & mask
    return value ^ value >> 15


def uuid_hash(uuid: UUID) -> int:
    """Return the hash code of Kafka's Uuid as an unsigned 32-bit integer."""
    value = uuid.int
    halves = value ^ value >> 64
    return (halves ^ halves >> 32) & 0xFFFFFFFF


def map_size(count: int, size: int = MAP_SIZE) -> int:
    """Return the number of buckets of a HashMap that had `size` buckets when empty and now has `count` entries."""
    while count > size * 3 // 4:
        size *= 2
    return size


def size_for(capacity: int) -> int:
    """Return the number of buckets of an empty HashMap that was created with a capacity."""
    return 1 << max(capacity - 1, 0).bit_length()


def set_size(count: int) -> int:
    """Return the number of buckets of a HashSet made from a collection of `count` elements."""
    return size_for(max(int(count / 0.75) + 1, MAP_SIZE))


def hash_order(keys: Iterable[K], hash_code: Callable[[K], int], size: int) -> list[K]:
    """Return the distinct keys, which were put into a HashMap of `size` buckets in this order, in the order in which
    the HashMap iterates over them."""

    def bucket(key: K) -> int:
        value = hash_code(key) & 0xFFFFFFFF
        return (value ^ value >> 16) & (size - 1)

    return sorted(keys, key=bucket)


def hash_map_order(keys: Iterable[str]) -> list[str]:
    """Return the distinct `keys` in the order in which a Java HashMap iterates over them. The map is made without a
    size, and the keys are put into it in the order of `keys`."""
    known = list(dict.fromkeys(keys))
    return hash_order(known, java_hash, map_size(len(known)))
