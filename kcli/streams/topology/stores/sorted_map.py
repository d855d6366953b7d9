"""A map that iterates in the order of its keys, as Java's TreeMap does."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

from kcli.streams.kernels.bytes_map import BytesMap, Records

K = TypeVar("K", bound=Any)
V = TypeVar("V")

FEW = 16
"""So many new keys are put in their places one by one; more are sorted together with the others."""


class SortedMap(Generic[K, V]):
    """A map with ordered keys. get: returns a key's value, None if there is none.

    An iterator goes over the keys that were there when it was made. New keys are brought into order when the order is
    asked for: a store that is restored need not be sorted for each key.
    """

    def __init__(self, values: dict[K, V] | None = None) -> None:
        self._keys: list[K] = []
        self._new: list[K] = []
        self._values = {} if values is None else values
        self.get: Callable[[K], V | None] = self._values.get

    def __len__(self) -> int:
        return len(self._values)

    def put(self, key: K, value: V) -> None:
        """Set the key's value."""
        is_new = key not in self._values
        self._values[key] = value
        if is_new:
            self._new.append(key)
            self._drop_gone()

    def pop(self, key: K) -> V | None:
        """Remove the key. Returns its value, None if there is none."""
        if key not in self._values:
            return None
        place = bisect_left(self._keys, key)
        if place < len(self._keys) and self._keys[place] == key:
            del self._keys[place]
        return self._values.pop(key)

    def _sorted(self) -> list[K]:
        """Return the keys in their order, those that were added since the last call included."""
        if self._new:
            added, self._new = self._added(), []
            if len(added) <= FEW:
                for key in added:
                    insort(self._keys, key)
            else:
                self._keys += added
                self._keys.sort()
        return self._keys

    def _drop_gone(self) -> None:
        """Keep the list of new keys short, though keys come and go."""
        if len(self._new) > 2 * len(self._values) + FEW:
            self._new = self._added()

    def _added(self) -> list[K]:
        return [key for key in dict.fromkeys(self._new) if key in self._values]

    def range(self, first: K | None = None, last: K | None = None, *, reverse: bool = False) -> Iterator[tuple[K, V]]:
        """Yield keys and values from `first` to `last`, both included; None is no bound."""
        found = self._sorted()
        start = 0 if first is None else bisect_left(found, first)
        end = len(found) if last is None else bisect_right(found, last)
        keys = found[start:end]
        for key in reversed(keys) if reverse else keys:
            if key in self._values:
                yield key, self._values[key]

    def first(self) -> tuple[K, V]:
        """Return the first key and its value. Raises IndexError if the map is empty."""
        key = self._sorted()[0]
        return key, self._values[key]

    def drop_below(self, bound: K) -> None:
        """Remove all keys below the bound."""
        found = self._sorted()
        end = bisect_left(found, bound)
        for key in found[:end]:
            del self._values[key]
        del found[:end]


class SortedBytes(SortedMap[bytes, bytes]):
    """A map from bytes to bytes, in memory of a kernel's own. Records of a changelog come in many at once: only if the
    order is asked for, a list of the keys is made."""

    def __init__(self) -> None:
        self._entries = BytesMap()
        self._has_all = True
        super().__init__(self._entries)  # type: ignore[arg-type]  # it has what is used of a dict

    def restore(self, records: Records, data: memoryview, *, timestamped: bool) -> int:
        """Put records of a changelog. Returns how many: those before the first one without a key."""
        self._has_all = False
        self._keys, self._new = [], []
        return self._entries.restore(records, data, timestamped=timestamped)

    def _sorted(self) -> list[bytes]:
        if not self._has_all:
            self._has_all = True
            self._keys, self._new = sorted(self._entries), []
        return super()._sorted()
