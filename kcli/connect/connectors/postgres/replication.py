"""Logical replication: a slot, and the stream of its changes, by psycopg's layer of libpq.

    CREATE_REPLICATION_SLOT name LOGICAL       the slot that keeps the server's log; a temporary one: the snapshot at a
                                               point of the log
    START_REPLICATION SLOT name LOGICAL lsn    the stream: whole transactions, each when it is committed, in the order
                                               of their commits

The server keeps its log from the slot's confirmed LSN on; `confirm` moves it.
"""

from __future__ import annotations

import select
import time
from collections.abc import Mapping
from typing import Final, NamedTuple

from psycopg import pq

from kcli.connect.connectors.postgres.catalog import quoted
from kcli.connect.connectors.postgres.connecting import connected, is_passing
from kcli.connect.connectors.postgres.pgoutput import (
    Keepalive,
    XLogData,
    lsn_of,
    lsn_text,
    parse_stream,
    status,
)
from kcli.connect.data.errors import ConnectError, RetriableError

PLUGIN: Final = "pgoutput"


class Point(NamedTuple):
    """A point of the server's log, and the name of its snapshot."""

    lsn: int
    snapshot: str


class Replication:
    """A connection for replication. All methods raise RetriableError, ConnectError. status_s: how often the server is
    told the confirmed LSN."""

    def __init__(self, parameters: Mapping[str, str], status_s: float) -> None:
        self._connection = connected(parameters, replication="database")
        self._pgconn = self._connection.pgconn
        self._status_s = status_s
        self._confirmed = 0
        self._told_s = 0.0

    def create_slot(self, name: str) -> int:
        """Create a slot; return the LSN from which it has all changes."""
        row = self._command(f"CREATE_REPLICATION_SLOT {quoted(name)} LOGICAL {PLUGIN} (SNAPSHOT 'nothing')")
        return lsn_of(row[1])

    def snapshot(self, name: str) -> Point:
        """Return a point with its snapshot, which lasts until the connection's next command. name: of a temporary
        slot."""
        row = self._command(f"CREATE_REPLICATION_SLOT {quoted(name)} TEMPORARY LOGICAL {PLUGIN} (SNAPSHOT 'export')")
        return Point(lsn_of(row[1]), row[2])

    def drop_slot(self, name: str) -> None:
        """Drop a slot."""
        self._command(f"DROP_REPLICATION_SLOT {quoted(name)}")

    def start(self, slot: str, publication: str, lsn: int) -> None:
        """Start the stream with the first transaction that was committed at this LSN or later, and that the server
        still has."""
        published = publication.replace('"', '""').replace("'", "''")
        options = f"(proto_version '1', publication_names '\"{published}\"')"
        result = self._pgconn.exec_(f"START_REPLICATION SLOT {quoted(slot)} LOGICAL {lsn_text(lsn)} {options}".encode())
        if result.status != pq.ExecStatus.COPY_BOTH:
            raise self._error(result)

    def read(self, until_s: float) -> XLogData | Keepalive | None:
        """Return what comes next; None if nothing has come by a time (monotonic s)."""
        while True:
            self._tell()
            size, data = self._pgconn.get_copy_data(1)
            if size > 0:
                found = parse_stream(bytes(data))
                if isinstance(found, Keepalive) and found.wants_reply:
                    self._told_s = 0.0
                return found
            if size < 0:
                raise self._error(self._pgconn.get_result())
            wait_s = until_s - time.monotonic()
            if wait_s <= 0:
                return None
            if select.select([self._pgconn.socket], [], [], min(wait_s, self._status_s))[0]:
                self._read_socket()

    def confirm(self, lsn: int) -> None:
        """Say that all changes up to an LSN are stored elsewhere."""
        if lsn > self._confirmed:
            self._confirmed = lsn
            self._told_s = 0.0

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _tell(self) -> None:
        now_s = time.monotonic()
        if now_s - self._told_s >= self._status_s or not self._told_s:
            self._told_s = now_s
            try:
                self._pgconn.put_copy_data(status(self._confirmed, time.time_ns() // 1000))
                while self._pgconn.flush():
                    select.select([], [self._pgconn.socket], [], self._status_s)
            except Exception as error:
                raise RetriableError(f"replication: {error}") from error

    def _read_socket(self) -> None:
        try:
            self._pgconn.consume_input()
        except Exception as error:
            raise RetriableError(f"replication: {error}") from error

    def _command(self, sql: str) -> list[str]:
        result = self._pgconn.exec_(sql.encode())
        if result.status not in (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK):
            raise self._error(result)
        return [(result.get_value(0, column) or b"").decode() for column in range(result.nfields)]

    def _error(self, result: pq.abc.PGresult | None) -> ConnectError:
        text = (b"" if result is None else result.error_message) or self._pgconn.error_message
        reason = text.decode("utf-8", "replace").strip().splitlines() or ["the server has ended the stream"]
        state = None if result is None else result.error_field(pq.DiagnosticField.SQLSTATE)
        is_lasting = state is not None and not is_passing(state.decode())
        return (ConnectError if is_lasting else RetriableError)(f"replication: {'; '.join(reason)}")
