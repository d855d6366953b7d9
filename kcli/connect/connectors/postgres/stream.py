"""The stream of changes, from a position on, as records.

A change waits until the next message of its transaction: the last one has the offset of the complete transaction. After
a start the server sends again all transactions that are not complete, and what of them is done is passed over.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from kcli.connect.connectors.postgres.events import Events, Origin, Tables, with_offset
from kcli.connect.connectors.postgres.pgoutput import (
    Begin,
    Commit,
    Delete,
    Insert,
    Keepalive,
    Relation,
    Truncate,
    Update,
    parse,
)
from kcli.connect.connectors.postgres.position import Position
from kcli.connect.connectors.postgres.replication import Replication
from kcli.connect.data.errors import ConnectError
from kcli.connect.data.records import SourceRecord

WAIT_S: Final = 0.1
MORE_S: Final = 0.02
"""How long further changes are waited for: with exactly-once support those of a poll are a transaction."""
Change = Insert | Update | Delete | Truncate


class Stream:
    """Reads changes. position: behind what `read` has returned. is_idle: nothing has been read yet that is not stored,
    so that the server may forget all before a Keepalive."""

    def __init__(
        self, replication: Replication, tables: Tables, events: Events, position: Position, *, is_idle: bool
    ) -> None:
        self._replication, self._tables, self._events = replication, tables, events
        self.position, self.is_idle = position, is_idle
        self._begin: Begin | None = None
        self._is_complete = False
        self._pending: tuple[Sequence[SourceRecord], Position] | None = None
        self._at = (0, 0)

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is being read."""
        return self._begin is not None

    def read(self, count: int) -> list[SourceRecord]:
        """Return the next records: those of `count` changes, or what is there. Raises RetriableError, ConnectError."""
        found: list[SourceRecord] = []
        until_s = time.monotonic() + WAIT_S
        while len(found) < count:
            item = self._replication.read(until_s)
            if item is None:
                break
            if isinstance(item, Keepalive):
                self._note_end(item.end)
                continue
            message = parse(item.data)
            if isinstance(message, Begin):
                self._begin, self._at = message, (0, 0)
                self._is_complete = message.commit < (self.position.committed or 0)
            elif isinstance(message, Commit):
                found += self._commit(message)
            elif isinstance(message, Relation):
                self._tables.learn(message)
            elif message is not None:
                found += self._change(item.start, message)
            until_s = time.monotonic() + (MORE_S if found else WAIT_S)
        return found

    def beat(self, time_us: int) -> Position:
        """Return the position of a heartbeat."""
        self.is_idle = False
        self.position = replace(
            self.position, lsn=max(self.position.lsn, self.position.committed or 0), time_us=time_us
        )
        return self.position

    def _note_end(self, end: int) -> None:
        if self._begin is None:
            self.position = replace(self.position, committed=max(end, self.position.committed or 0))
            if self.is_idle:
                self._replication.confirm(end)

    def _change(self, lsn: int, message: Change) -> Sequence[SourceRecord]:
        begin = self._begin
        if begin is None:
            raise ConnectError("a change outside of a transaction")
        self._at = (lsn, self._at[1] + 1 if lsn == self._at[0] else 1)
        if self._is_complete or self._is_done(begin):
            return ()
        records = self._records(message, Origin(begin.time_us, begin.transaction, lsn, self.position.committed))
        if not records:
            return ()
        self.is_idle = False
        ready = self._ready()
        done = replace(self.position, lsn=lsn, done=self._at[1], transaction=begin.transaction, time_us=begin.time_us)
        self._pending = records, done
        return ready

    def _is_done(self, begin: Begin) -> bool:
        """Whether the change has been read before the start."""
        known = self.position
        return begin.transaction == known.transaction and bool(known.done) and self._at <= (known.lsn, known.done)

    def _ready(self) -> Sequence[SourceRecord]:
        """Return the change that waits, in the midst of its transaction."""
        if self._pending is None:
            return ()
        records, self.position = self._pending
        self._pending = None
        return with_offset(records, self.position.offset())

    def _commit(self, message: Commit) -> Sequence[SourceRecord]:
        begin, self._begin = self._begin, None
        if self._pending is None:
            known = self.position
            is_another = begin is None or begin.transaction != known.transaction
            self.position = replace(known.complete_to(message.end), done=known.done if is_another else 0)
            return ()
        records, position = self._pending
        self._pending = None
        self.position = position.complete_to(message.end)
        return with_offset(records, self.position.offset())

    def _records(self, message: Change, origin: Origin) -> list[SourceRecord]:
        match message:
            case Insert(oid, new):
                return self._events.insert(oid, new, origin)
            case Update(oid, old, is_key, new):
                return self._events.update(oid, old, new, origin, is_key=is_key)
            case Delete(oid, old, is_key):
                return self._events.delete(oid, old, origin, is_key=is_key)
        return self._events.truncate(message.oids, origin)
