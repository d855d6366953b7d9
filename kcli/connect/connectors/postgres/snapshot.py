"""The rows of the captured tables at a point of the server's log, as records."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from kcli.connect.connectors.postgres.catalog import Catalog, quoted
from kcli.connect.connectors.postgres.connecting import Connection, errors_of
from kcli.connect.connectors.postgres.events import Events, Origin, Tables, with_offset
from kcli.connect.connectors.postgres.options import Options
from kcli.connect.connectors.postgres.pgoutput import Relation, Value
from kcli.connect.connectors.postgres.position import Position
from kcli.connect.connectors.postgres.replication import Point
from kcli.connect.data.records import SourceRecord


class _Row(NamedTuple):
    oid: int
    values: Sequence[Value]
    is_first: bool


class Snapshot:
    """Reads a snapshot. position: what its records have as offset; its `lsn` is where the stream begins then."""

    def __init__(self, connection: Connection, options: Options, point: Point, position: Position) -> None:
        """Raises RetriableError, ConnectError."""
        self._connection = connection
        catalog = Catalog(connection)
        with errors_of("the snapshot"):
            connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            connection.execute(f"SET TRANSACTION SNAPSHOT '{point.snapshot}'".encode())
        tables = Tables(options, catalog)
        self._relations = [each for each in catalog.tables() if options.captures(each.schema, each.name)]
        for each in self._relations:
            tables.learn(each)
        self._events, self._point = Events(options, tables), point
        now_us = time.time_ns() // 1000
        begins = point.lsn if position.committed is None else position.committed
        self.position = Position(begins, begins, time_us=now_us, in_snapshot=True, run=position.run)

    @property
    def completed(self) -> Position:
        """The position behind the snapshot."""
        return replace(self.position, in_snapshot=False)

    def records(self) -> Iterator[SourceRecord]:
        """Yield the records; the last one has an offset that says so. Raises RetriableError, ConnectError."""
        rows = self._rows()
        following, is_first = next(rows, None), True
        while (row := following) is not None:
            following = next(rows, None)
            is_last = following is None
            mark = "true"
            if is_last:
                mark = "last"
            elif is_first:
                mark = "first"
            elif following is not None and following.is_first:
                mark = "last_in_data_collection"
            elif row.is_first:
                mark = "first_in_data_collection"
            is_first = False
            origin = Origin(self.position.time_us, None, self._point.lsn, None, mark)
            yield from with_offset(
                self._events.read(row.oid, row.values, origin), self.position.snapshot_offset(is_last=is_last)
            )

    def _rows(self) -> Iterator[_Row]:
        for relation in self._relations:
            is_first = True
            for values in self._rows_of(relation):
                yield _Row(relation.oid, values, is_first)
                is_first = False

    def _rows_of(self, relation: Relation) -> Iterator[Sequence[Value]]:
        columns = ", ".join(quoted(each.name) for each in relation.columns)
        table = f"{quoted(relation.schema)}.{quoted(relation.name)}"
        sql = f"COPY (SELECT {columns} FROM ONLY {table}) TO STDOUT"  # noqa: S608 (names are quoted)
        with errors_of("the snapshot"), self._connection.cursor() as cursor, cursor.copy(sql.encode()) as copy:
            yield from copy.rows()
