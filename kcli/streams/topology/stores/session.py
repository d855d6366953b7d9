"""Session stores: the value of each key and session, by the session's end, the key's bytes and the session's start.

A session leaves the store when the latest end put so far is retention_ms after its own. A store with segments keeps it
for `find_ended` until its whole segment of segment_ms is that old: sessions that are sent when they are closed would
otherwise be gone by then.

    key in the changelog   key, session end (8 bytes), session start (8 bytes)

Source: InMemorySessionStore, RocksDBTimeOrderedSessionSegmentedBytesStore, AbstractSegments, SessionKeySchema.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Generic, TypeVar

from kcli.streams.records import NO_TIMESTAMP
from kcli.streams.serdes import Serde
from kcli.streams.topology.stores.sorted_map import SortedMap
from kcli.streams.topology.stores.store import Log, StateStore, StoreBuilder
from kcli.streams.windows import Window, Windowed

K = TypeVar("K")
V = TypeVar("V")

SUFFIX = struct.Struct(">qq")


@dataclass(frozen=True, kw_only=True)
class SessionStoreBuilder(StoreBuilder["SessionStore[Any, Any]"]):
    """The definition of a session store. retention_ms: how long it keeps a session, from its end. segment_ms: the
    length of its segments, 0 for none."""

    retention_ms: int
    segment_ms: int = 0

    @property
    def changelog_retention_ms(self) -> int:
        return self.retention_ms

    def build(self, log: Log) -> SessionStore[Any, Any]:
        return SessionStore(self, log)


class SessionStore(StateStore, Generic[K, V]):
    """The values of keys and sessions."""

    def __init__(self, definition: SessionStoreBuilder, log: Log) -> None:
        assert definition.key_serde is not None
        assert definition.value_serde is not None
        self.name = definition.name
        self._retention_ms, self._segment_ms, self._log = definition.retention_ms, definition.segment_ms, log
        self._key_serde: Serde[K] = definition.key_serde
        self._value_serde: Serde[V] = definition.value_serde
        self._sessions: SortedMap[tuple[int, bytes, int], bytes] = SortedMap()
        self._stream_time = NO_TIMESTAMP

    def put(self, session: Windowed[K], value: V | None) -> None:
        """Set a session's value; None removes it. A session that is too old is not kept."""
        key, (start, end), data = self._key(session.key), session.window, self._value_serde.to_bytes(value)
        self._put((end, key, start), data)
        self._log(key + SUFFIX.pack(end, start), data, None)

    def restore(self, key: bytes, value: bytes | None, timestamp: int) -> None:  # noqa: ARG002
        end, start = SUFFIX.unpack(key[-SUFFIX.size :])
        self._put((end, key[: -SUFFIX.size], start), value)

    def _put(self, session: tuple[int, bytes, int], data: bytes | None) -> None:
        end = session[0]
        self._stream_time = max(self._stream_time, end)
        self._sessions.drop_below((self._oldest_segment(),))  # type: ignore[arg-type]
        if end >= self._oldest_segment():
            if data is None:
                self._sessions.pop(session)
            else:
                self._sessions.put(session, data)

    def remove(self, session: Windowed[K]) -> None:
        """Remove a session."""
        key, (start, end) = self._key(session.key), session.window
        self._sessions.pop((end, key, start))
        self._log(key + SUFFIX.pack(end, start), None, None)

    def fetch_session(self, key: K, start: int, end: int) -> V | None:
        """Return the value of a session by its first and last time, None if there is none."""
        data = self._sessions.get((end, self._key(key), start)) if end >= self._oldest() else None
        return self._value_serde.from_bytes(data)

    def fetch(self, key: K) -> Iterator[tuple[Windowed[K], V]]:
        """Yield the key's sessions and their values, the one that ended first at first."""
        return self.find_sessions(key, 0, None)

    def find_sessions(self, key: K, earliest_end: int, latest_start: int | None) -> Iterator[tuple[Windowed[K], V]]:
        """Yield the key's sessions that end at earliest_end or later and start at latest_start or earlier."""
        key_bytes = self._key(key)
        for session, data in self._from(earliest_end):
            _, found, start = session
            if found == key_bytes and (latest_start is None or start <= latest_start):
                yield self._entry(session, data)

    def find_ended(self, earliest_end: int, latest_end: int) -> Iterator[tuple[Windowed[K], V]]:
        """Yield the sessions of all keys that end from earliest_end to latest_end, both included; in a store with
        segments those that end together by their start, then by their key."""
        found: Iterable[Any] = takewhile(
            lambda each: each[0][0] <= latest_end, self._from(earliest_end, self._oldest_segment())
        )
        if self._segment_ms:
            found = sorted(found, key=lambda each: (each[0][0], each[0][2], each[0][1]))
        for session, data in found:
            yield self._entry(session, data)

    def all(self) -> Iterator[tuple[Windowed[K], V]]:
        """Yield all sessions and their values, the one that ended first at first."""
        for session, data in self._from(0):
            yield self._entry(session, data)

    def _from(self, earliest_end: int, oldest: int | None = None) -> Iterator[tuple[tuple[int, bytes, int], bytes]]:
        bound = self._oldest() if oldest is None else oldest
        return self._sessions.range((max(earliest_end, bound),))  # type: ignore[arg-type]

    def _entry(self, session: tuple[int, bytes, int], data: bytes) -> Any:
        end, key, start = session
        return Windowed(self._key_serde.from_bytes(key), Window(start, end)), self._value_serde.from_bytes(data)

    def _oldest_segment(self) -> int:
        """Return the earliest session end that the store still has."""
        if not self._segment_ms:
            return self._oldest()
        return (self._oldest() - 1) // self._segment_ms * self._segment_ms

    def _oldest(self) -> int:
        """Return the earliest session end that the store keeps."""
        return self._stream_time - self._retention_ms + 1

    def _key(self, key: K) -> bytes:
        return self._key_serde.serialize_key(key, self.name)
