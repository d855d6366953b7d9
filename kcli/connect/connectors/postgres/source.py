"""PostgresConnector: the rows of a database and their changes, as Debezium's connector gives them.

    start      the publication, the slot; then the snapshot, if snapshot.mode wants one and no offset says that it is
               complete; then the stream of changes, from the offset on
    snapshot   at the point of a temporary slot: a transaction is in it, or comes in the stream. One that was
               interrupted begins anew, and the stream begins at the point of the first: a row may be older for a while
    slot       the server may forget what the offset has that the task was started with: it is stored

A task that lost the server tries again at its next poll, in the same transaction at the change behind the last one.
Source: PostgresConnectorTask, PostgresStreamingChangeEventSource, PostgresSnapshotChangeEventSource of Debezium.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import Final

from kcli.connect.config.config_def import ConfigDef, ConfigError, ConfigValue
from kcli.connect.connectors.postgres import options
from kcli.connect.connectors.postgres.catalog import Catalog, create_publication, set_identities
from kcli.connect.connectors.postgres.connecting import Connection, connected, errors_of
from kcli.connect.connectors.postgres.events import VERSION, Events, Tables, with_offset
from kcli.connect.connectors.postgres.options import Options
from kcli.connect.connectors.postgres.pgoutput import Relation
from kcli.connect.connectors.postgres.position import Position, offset_error
from kcli.connect.connectors.postgres.replication import PLUGIN, Replication
from kcli.connect.connectors.postgres.snapshot import Snapshot
from kcli.connect.connectors.postgres.stream import WAIT_S, Stream
from kcli.connect.data.errors import ConnectError, RetriableError
from kcli.connect.data.records import SourceRecord
from kcli.connect.engine.tasks import Rest, SourceContext, SourceTask
from kcli.connect.plugins import Offset, Partition, PluginType

LONG_S: Final = 3600.0
WITHOUT_SNAPSHOT: Final = ("never", "no_data")
_SLOT: Final = "SELECT plugin, database, active FROM pg_replication_slots WHERE slot_name = %s"


class PostgresSource:
    """The connector."""

    CLASS = "io.debezium.connector.postgresql.PostgresConnector"
    TASK_CLASS = "io.debezium.connector.postgresql.PostgresConnectorTask"
    TYPE = PluginType.SOURCE
    VERSION = VERSION

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._properties = properties

    @classmethod
    def config(cls) -> ConfigDef:
        """Return the connector's options."""
        return options.OPTIONS

    @classmethod
    def check(cls, properties: Mapping[str, str | None], values: Mapping[str, ConfigValue]) -> None:
        """Refuse lists of both kinds, patterns that are none, and what would be passed over."""
        given = {name: text for name, text in properties.items() if text}
        for name in (*options.LISTS, *options.COLUMN_LISTS):
            other = name.replace("include", "exclude")
            if name in given and name in values and (reason := options.pattern_error(given[name])):
                values[name].errors.append(str(ConfigError.of(name, given[name], reason)))
            if name != other and name in given and other in given and other in values:
                values[other].errors.append(f"{name} and {other} are exclusive")
        for name in options.REFUSED:
            if name in given and "topic.prefix" in values:
                values["topic.prefix"].errors.append(f"{name} is not supported")

    @classmethod
    def exactly_once(cls, properties: Mapping[str, str]) -> bool:  # noqa: ARG003 (whatever it is)
        """Return True: the offset is exact to the change."""
        return True

    def task_configs(self, tasks_max: int) -> Sequence[Mapping[str, str]]:  # noqa: ARG002 (a slot has one reader)
        """Return the configuration of the one task."""
        if self._properties.get("snapshot.mode") == "always":
            return [{**self._properties, options.RUN: str(time.time_ns())}]
        return [dict(self._properties)]

    def alter_offsets(self, offsets: Sequence[tuple[Partition, Offset | None]]) -> bool:
        """Check offsets that a user has given. Raises ConnectError for those of others."""
        for partition, offset in offsets:
            if [*(partition or ())] != ["server"]:
                raise ConnectError(f"{partition}: a partition has a server, which is topic.prefix")
            if offset is not None and (reason := offset_error(offset)):
                raise ConnectError(f"{dict(offset)}: {reason}")
        return True

    class TASK(SourceTask):
        """Reads the snapshot and the stream."""

        def start(self, config: Mapping[str, str], context: SourceContext) -> None:
            """Find where to go on."""
            self._options, self._context = Options(config), context
            self._partition: Partition = {"server": self._options.prefix}
            offset = context.offset(self._partition)
            self._is_new = offset is None
            self._position = Position() if offset is None else Position.of(offset)
            self._stored = None if self._position.in_snapshot else self._position.committed
            self._is_idle = True
            self._session: _Session | None = None

        def poll(self) -> Sequence[SourceRecord]:
            """Return the next records. Raises ConnectError."""
            found: Sequence[SourceRecord] = []
            try:
                if self._session is None:
                    self._session = _Session(self._options)
                    self._open(self._session)
                found = self._session.read(self._options.batch_max)
                self._is_idle = self._is_idle and not found
                if self._session.has_read_snapshot:
                    self._end_snapshot(self._session)
                self._context.goes_on()
            except RetriableError as error:
                self._context.interrupted(str(error))
                self._note()
                self.stop()
                time.sleep(WAIT_S)
            self._note()
            return found or self._heartbeat()

        def is_midway(self) -> bool:
            """Return whether a snapshot or a transaction is being read."""
            return self._session is not None and self._session.is_midway

        def rest(self) -> Rest:
            """Wait for new changes."""
            if self._options.snapshot == "initial_only" and not self._wants_snapshot():
                return Rest(until_s=time.time() + LONG_S)
            return Rest(until_s=time.time() + self._options.poll_s)

        def stop(self) -> None:
            """Close the connections."""
            found: _Session | None = getattr(self, "_session", None)
            self._session = None
            if found is not None:
                found.close()

        def _open(self, session: _Session) -> None:
            opened, position = self._options, self._position
            session.prepare(must_have_slot=position.committed is not None and opened.snapshot != "initial_only")
            if self._wants_snapshot():
                session.begin_snapshot(replace(self._position, run=opened.run))
            elif opened.snapshot != "initial_only":
                session.begin_stream(self._position, is_idle=self._is_idle)
                if self._stored is not None:
                    session.replication.confirm(self._stored)

        def _wants_snapshot(self) -> bool:
            mode, position = self._options.snapshot, self._position
            if mode in WITHOUT_SNAPSHOT:
                return False
            if mode == "always" and position.run != self._options.run:
                return True
            return position.in_snapshot or position.committed is None

        def _end_snapshot(self, session: _Session) -> None:
            self._position = session.end_snapshot()
            if self._is_new and self._is_idle:
                self._context.begin(self._partition, self._position.snapshot_offset(is_last=True))
            if self._options.snapshot != "initial_only":
                session.begin_stream(self._position, is_idle=self._is_idle)

        def _note(self) -> None:
            """Take over where the session is."""
            session = self._session
            if session is not None and session.stream is not None:
                self._position = session.stream.position
            elif session is not None and session.snapshot is not None and not self._is_idle:
                self._position = session.snapshot.position

        def _heartbeat(self) -> Sequence[SourceRecord]:
            session, now_us = self._session, time.time_ns() // 1000
            due_us = self._position.time_us + self._options.heartbeat_ms * 1000
            if not self._options.heartbeat_ms or session is None or session.stream is None or now_us < due_us:
                return []
            if session.stream.in_transaction or self._position.done:
                return []
            self._position, self._is_idle = session.stream.beat(now_us), False
            return with_offset([session.events.heartbeat(now_us // 1000)], self._position.offset())


class _Session:
    """The connections of a task. rows: of the snapshot; None once they are read, or if there is none."""

    def __init__(self, opened: Options) -> None:
        """Raises RetriableError, ConnectError."""
        self._options = opened
        self.replication = Replication(opened.parameters, opened.status_s)
        self._connections: list[Connection] = []
        self.snapshot: Snapshot | None = None
        self.rows: Iterator[SourceRecord] | None = None
        self.stream: Stream | None = None

    @property
    def is_midway(self) -> bool:
        """Whether a snapshot or a transaction is being read."""
        return self.rows is not None or (self.stream is not None and self.stream.in_transaction)

    def prepare(self, *, must_have_slot: bool) -> None:
        """Have the publication and the slot. must_have_slot: a new one would not have all changes. Raises
        RetriableError, ConnectError."""
        opened, connection = self._options, self._connected()
        catalog = Catalog(connection)
        self._tables = Tables(opened, catalog)
        self.events = Events(opened, self._tables)
        if opened.publication_mode == "filtered" or opened.identities:
            tables = [each for each in catalog.tables() if opened.captures(each.schema, each.name)]
            set_identities(connection, _identities(tables, opened.identities))
        else:
            tables = []
        create_publication(connection, opened.publication, opened.publication_mode, tables)
        with errors_of("the slot"):
            row = connection.execute(_SLOT, (opened.slot,)).fetchone()
        if row is None:
            if must_have_slot:
                raise ConnectError(
                    f"the replication slot {opened.slot} is gone, and with it changes since the connector's offset: "
                    "reset the offsets for a new snapshot"
                )
            if opened.snapshot != "initial_only":
                self.replication.create_slot(opened.slot)
        elif (row[0], row[1]) != (PLUGIN, opened.database):
            raise ConnectError(
                f"the replication slot {opened.slot} is one of the plug-in {row[0]} and the database {row[1]}"
            )

    @property
    def has_read_snapshot(self) -> bool:
        """Whether all rows of a snapshot have been read."""
        return self.snapshot is not None and self.rows is None

    def begin_snapshot(self, position: Position) -> None:
        """Begin to read rows. Raises RetriableError, ConnectError."""
        slot = f"kcli_{time.time_ns()}"
        point = self.replication.snapshot(slot)
        self.snapshot = Snapshot(self._connected(), self._options, point, position)
        self.rows = self.snapshot.records()
        self.replication.drop_slot(slot)

    def end_snapshot(self) -> Position:
        """End the snapshot; return the position behind it."""
        assert self.snapshot is not None, "it has been read"
        found, self.snapshot = self.snapshot.completed, None
        self._connections.pop().close()
        return found

    def begin_stream(self, position: Position, *, is_idle: bool) -> None:
        """Begin to read changes."""
        self.replication.start(self._options.slot, self._options.publication, position.committed or 0)
        self.stream = Stream(self.replication, self._tables, self.events, position, is_idle=is_idle)

    def read(self, count: int) -> Sequence[SourceRecord]:
        """Return the next records. Raises RetriableError, ConnectError."""
        if self.rows is not None:
            found = list(islice(self.rows, count))
            if len(found) < count:
                self.rows = None
            return found
        return [] if self.stream is None else self.stream.read(count)

    def close(self) -> None:
        """Close the connections."""
        self.replication.close()
        for each in self._connections:
            with suppress(ConnectError), errors_of("closing"):
                each.close()

    def _connected(self) -> Connection:
        found = connected(self._options.parameters)
        self._connections.append(found)
        return found


def _identities(tables: Sequence[Relation], wanted: Sequence[str]) -> list[tuple[Relation, str]]:
    """Return the replica identities that replica.identity.autoset.values names."""
    pairs = [each.rpartition(":")[::2] for each in wanted]
    patterns = [(options.patterns_of(name), identity.strip()) for name, identity in pairs]
    return [
        (table, identity)
        for table in tables
        for found, identity in patterns
        if any(each.matches(f"{table.schema}.{table.name}") for each in found)
    ]
