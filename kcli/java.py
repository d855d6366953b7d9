"""What Java's hash codes decide: the partition of a coordinator's key, and the order of small hash maps.

Source: String.hashCode, HashMap.
"""

from __future__ import annotations

from collections.abc import Iterable

HASH_BITS = 32
MAP_SIZE = 16
"""Buckets of a HashMap that was given no size; they double when three quarters are exceeded."""


def java_hash(text: str) -> int:
    """Java's String.hashCode."""
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for i in range(0, len(units), 2):
        value = (value * 31 + (units[i] << 8 | units[i + 1])) & 0xFFFFFFFF
    return value - (1 << HASH_BITS) if value >> (HASH_BITS - 1) else value


def hash_map_order(keys: Iterable[str]) -> list[str]:
    """Distinct keys as a HashMap gives them back that got them in this order."""
    known = list(dict.fromkeys(keys))
    size = MAP_SIZE
    while len(known) > size * 3 // 4:
        size *= 2
    return sorted(known, key=lambda key: _spread(java_hash(key)) & (size - 1))


def _spread(value: int) -> int:
    value &= 0xFFFFFFFF
    return value ^ value >> 16
