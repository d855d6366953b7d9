"""Session stores: the value of each key and session, by the session's end, the key's bytes and the session's start.

A session leaves the store when the latest end put so far is retention_ms after its own.

    key in the changelog   key, session end (8 bytes), session start (8 bytes)

Source: InMemorySessionStore, SessionKeySchema.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from kcli.streams.serdes import Serde
from kcli.streams.topology.stores.sorted_map import SortedMap
from kcli.streams.topology.stores.store import Log, StateStore, StoreBuilder
from kcli.streams.windows import Window, Windowed

K = TypeVar("K")
V = TypeVar("V")

SUFFIX = struct.Struct(">qq")


@dataclass(frozen=True, kw_only=True)
class SessionStoreBuilder(StoreBuilder["SessionStore[Any, Any]"]):
    """The definition of a session store. retention_ms: how long it keeps a session, from its end."""

    retention_ms: int

    def build(self, log: Log) -> SessionStore[Any, Any]:
        return SessionStore(self, log)


class SessionStore(StateStore, Generic[K, V]):
    """The values of keys and sessions."""

    def __init__(self, definition: SessionStoreBuilder, log: Log) -> None:
        assert definition.key_serde is not None
        assert definition.value_serde is not None
        self.name = definition.name
        self._retention_ms, self._log = definition.retention_ms, log
        self._key_serde: Serde[K] = definition.key_serde
        self._value_serde: Serde[V] = definition.value_serde
        self._sessions: SortedMap[tuple[int, bytes, int], bytes] = SortedMap()
        self._stream_time = -1

    def put(self, session: Windowed[K], value: V | None) -> None:
        """Set a session's value; None removes it. A session that is too old is not kept."""
        key, (start, end), data = self._key(session.key), session.window, self._value_serde.to_bytes(value)
        self._stream_time = max(self._stream_time, end)
        self._sessions.drop_below((self._oldest(),))  # type: ignore[arg-type]
        if end >= self._oldest():
            if data is None:
                self._sessions.pop((end, key, start))
            else:
                self._sessions.put((end, key, start), data)
        self._log(key + SUFFIX.pack(end, start), data, None)

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
        """Yield the sessions of all keys that end from earliest_end to latest_end, both included."""
        for session, data in self._from(earliest_end):
            if session[0] > latest_end:
                return
            yield self._entry(session, data)

    def all(self) -> Iterator[tuple[Windowed[K], V]]:
        """Yield all sessions and their values, the one that ended first at first."""
        for session, data in self._from(0):
            yield self._entry(session, data)

    def _from(self, earliest_end: int) -> Iterator[tuple[tuple[int, bytes, int], bytes]]:
        return self._sessions.range((max(earliest_end, self._oldest()),))  # type: ignore[arg-type]

    def _entry(self, session: tuple[int, bytes, int], data: bytes) -> Any:
        end, key, start = session
        return Windowed(self._key_serde.from_bytes(key), Window(start, end)), self._value_serde.from_bytes(data)

    def _oldest(self) -> int:
        """Return the earliest session end that the store keeps."""
        return self._stream_time - self._retention_ms + 1

    def _key(self, key: K) -> bytes:
        return self._key_serde.serialize_key(key, self.name)
