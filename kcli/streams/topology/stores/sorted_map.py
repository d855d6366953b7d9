"""A map that iterates in the order of its keys, as Java's TreeMap does."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from typing import Any, Generic, TypeVar

K = TypeVar("K", bound=Any)
V = TypeVar("V")


class SortedMap(Generic[K, V]):
    """A map with ordered keys. An iterator goes over the keys that were there when it was made."""

    def __init__(self) -> None:
        self._keys: list[K] = []
        self._values: dict[K, V] = {}

    def __len__(self) -> int:
        return len(self._keys)

    def get(self, key: K) -> V | None:
        """Return the key's value, None if there is none."""
        return self._values.get(key)

    def put(self, key: K, value: V) -> None:
        """Set the key's value."""
        if key not in self._values:
            insort(self._keys, key)
        self._values[key] = value

    def pop(self, key: K) -> V | None:
        """Remove the key. Returns its value, None if there is none."""
        if key not in self._values:
            return None
        del self._keys[bisect_left(self._keys, key)]
        return self._values.pop(key)

    def range(self, first: K | None = None, last: K | None = None, *, reverse: bool = False) -> Iterator[tuple[K, V]]:
        """Yield keys and values from `first` to `last`, both included; None is no bound."""
        start = 0 if first is None else bisect_left(self._keys, first)
        end = len(self._keys) if last is None else bisect_right(self._keys, last)
        keys = self._keys[start:end]
        for key in reversed(keys) if reverse else keys:
            if key in self._values:
                yield key, self._values[key]

    def first(self) -> tuple[K, V]:
        """Return the first key and its value. Raises IndexError if the map is empty."""
        key = self._keys[0]
        return key, self._values[key]

    def drop_below(self, bound: K) -> None:
        """Remove all keys below the bound."""
        end = bisect_left(self._keys, bound)
        for key in self._keys[:end]:
            del self._values[key]
        del self._keys[:end]
