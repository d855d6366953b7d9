"""Maps in the order in which a HashMap of Java iterates over them: what is written of them is what Kafka writes.

Keys other than strings, booleans, integers and None stay in the order of their insertion.

Source: java.util.HashMap.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from kcli.java.hashing import MAP_SIZE, hash_order, java_hash, long_hash, map_size, size_for

ORDERS_KEPT = 1000
_TRUE_HASH, _FALSE_HASH = 1231, 1237


def hash_map(values: dict[Any, Any], *, size: int = MAP_SIZE) -> dict[Any, Any]:
    """Return the map in the order of a HashMap into which its entries were put in their order. size: the HashMap's
    number of buckets when it was made."""
    if len(values) < 2:
        return values
    kinds = {type(key) for key in values}
    size = map_size(len(values), size)
    if kinds == {str}:
        return {key: values[key] for key in _order(tuple(values), size)}
    if all(issubclass(kind, (str, int, type(None))) for kind in kinds):
        return {key: values[key] for key in hash_order(values, _hash, size)}
    return values


def copy_size(count: int) -> int:
    """Return the number of buckets of a HashMap made of a map with this many entries."""
    return size_for(int(count / 0.75 + 1)) if count else MAP_SIZE


@lru_cache(ORDERS_KEPT)
def _order(keys: tuple[str, ...], size: int) -> tuple[str, ...]:
    return tuple(hash_order(keys, java_hash, size))


def _hash(key: str | int | None) -> int:
    if key is None:
        return 0
    if isinstance(key, str):
        return java_hash(key)
    if isinstance(key, bool):
        return _TRUE_HASH if key else _FALSE_HASH
    return key if type(key) is not int else long_hash(key)
