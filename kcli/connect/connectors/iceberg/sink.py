"""IcebergSinkConnector: records to rows of Iceberg tables.

    table    each of iceberg.tables; with route-field those whose route-regex matches the field; with dynamic-enabled
             the one that the field names, in lower case
    row      the fields of a struct, or the entries of a map without a schema; no row for a record without a value
    commit   each commit.interval-ms while there are records, and when there are no more; one snapshot for each table,
             which has the group's offsets. A row that the table has already, by these offsets, is not written again
    group    commits once all tables have committed

So each record is in each table once, whatever is killed. The Java connector has its tasks tell a coordinator of their
files, over a control topic; here each task commits its own files, and those of several tasks come one after another.
Source: Apache Iceberg's kafka-connect: SinkWriter, RecordConverter, SchemaUtils.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from kcli.connect.config.config_def import ConfigDef, ConfigValue, words
from kcli.connect.connectors.arrow import rows_of
from kcli.connect.connectors.fields import field_of
from kcli.connect.connectors.iceberg import options
from kcli.connect.connectors.sink import SinkConnector, place_of
from kcli.connect.data.errors import ConnectError, DataError, RetriableError
from kcli.connect.data.records import SinkRecord
from kcli.connect.data.schema import Schema
from kcli.connect.data.struct import Struct
from kcli.connect.data.texts import java_text
from kcli.connect.engine.tasks import RETRY_S, Rest, SinkContext, SinkTask, config_int
from kcli.errors import KcliError
from kcli.pipelines.tables.appending import Away, Overtaken, Tables, TableWriter
from kcli.protocol.topic_partition import TopicPartition

log = logging.getLogger("kcli.connect")
VERSION: Final = "1.10.0"
HELD_BYTES: Final = 64 << 20
"""How much of a table's rows is in memory."""
COMMITTED_S: Final = "committed_s"


class IcebergSink(SinkConnector):
    """The connector, under Apache Iceberg's class name. Rows that a table has are not written again, whatever the
    group's offsets are."""

    CLASS = "org.apache.iceberg.connect.IcebergSinkConnector"
    TASK_CLASS = "org.apache.iceberg.connect.IcebergSinkTask"
    VERSION = VERSION

    @classmethod
    def config(cls) -> ConfigDef:
        """Return the connector's options."""
        return options.OPTIONS

    @classmethod
    def check(cls, properties: Mapping[str, str | None], values: Mapping[str, ConfigValue]) -> None:
        """Refuse a configuration without a table or a catalog, and options of tables that are none."""
        for name, reason in options.wrong(properties):
            values[name].errors.append(reason)

    class TASK(SinkTask):
        """Writes rows, and commits them."""

        def start(self, config: Mapping[str, str], context: SinkContext) -> None:
            """Make no request yet. Raises ConnectError."""
            try:
                tables = Tables(config.get("iceberg.catalog", "iceberg"), options.below(config, options.CATALOG))
            except ValueError as error:
                raise ConnectError(str(error)) from error
            self._context = context
            self._tables = _Targets(config, tables, context)
            self._interval_s = config_int(config, "iceberg.control.commit.interval-ms", 300_000) / 1000
            self._reached: dict[TopicPartition, int] = {}
            self._not_before_s = 0.0
            self._is_overtaken = False

        def put(self, records: Sequence[SinkRecord]) -> None:
            """Write rows. Raises RetriableError, ConnectError."""
            if self._is_overtaken:
                return
            fresh = [each for each in records if each.offset >= self._reached.get(place_of(each), 0)]
            with_rows = [each for each in fresh if each.value is not None]
            try:
                for target, batches in self._tables.batches(with_rows):
                    target.hold(batches)
                for each in fresh:
                    self._reached[place_of(each)] = each.offset + 1
                self._tables.spill()
            except Away as error:
                raise RetriableError(str(error)) from error
            except ConnectError:
                raise
            except KcliError as error:
                raise ConnectError(str(error)) from error

        def flush(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
            """Commit rows if it is time. Return the offsets up to which all is in the tables. Raises ConnectError."""
            if self._is_overtaken:
                return {}
            for place, at in offsets.items():
                self._reached[place] = max(at, self._reached.get(place, 0))
            if self._tables.has_rows:
                now_s = time.time()
                is_due = now_s >= self._context.state.get(COMMITTED_S, 0.0) + self._interval_s
                if not is_due and not self._context.is_ending:
                    return {}
                if not self._commit():
                    return {}
                self._context.state[COMMITTED_S] = now_s
                self._not_before_s = 0.0 if is_due else now_s + self._interval_s
            return dict(self._reached)

        def is_midway(self) -> bool:
            """Whether there are rows without a commit."""
            return self._tables.has_rows

        def rest(self, ends: Mapping[TopicPartition, int]) -> Rest:
            """Wait for records, and for the time of the next commit."""
            if self._is_overtaken or self._tables.has_rows:
                return Rest(until_s=time.time() + RETRY_S)
            return Rest(ends=ends, not_before_s=self._not_before_s)

        def _commit(self) -> bool:
            """Commit all rows; return whether that was done."""
            try:
                self._tables.commit(self._reached)
            except Away as error:
                log.warning("%s: %s", self._context.connector, error)
                return False
            except Overtaken as error:
                log.warning("%s: %s", self._context.connector, error)
                self._is_overtaken = True
                return False
            except KcliError as error:
                raise ConnectError(str(error)) from error
            return True


class _Targets:
    """The tables of a task, as far as records were routed to them."""

    def __init__(self, config: Mapping[str, str], tables: Tables, context: SinkContext) -> None:
        self._config, self._tables, self._context = config, tables, context
        self._field = config.get("iceberg.tables.route-field")
        self._is_dynamic = _is_true(config, "iceberg.tables.dynamic-enabled")
        names = words(config.get("iceberg.tables", ""))
        self._static = {name: options.table_options(config, name) for name in names}
        self._targets: dict[str, _Target | None] = {}

    def batches(self, records: Sequence[SinkRecord]) -> Iterator[tuple[_Target, list[pa.RecordBatch]]]:
        """Return the rows of records by table, all of them or none. Raises Away, DataError, KcliError."""
        chosen: dict[str, list[SinkRecord]] = {}
        for each in records:
            for name in self._routes(each):
                chosen.setdefault(name, []).append(each)
        found = []
        for name, of_table in chosen.items():
            target = self._target(name, of_table)
            if target is not None:
                found.append((target, target.batches(of_table)))
        return iter(found)

    @property
    def has_rows(self) -> bool:
        """Whether a table has rows without a commit."""
        return any(each is not None and each.has_rows for each in self._targets.values())

    def spill(self) -> None:
        """Write rows to files where many are in memory. Raises Away, KcliError."""
        for each in self._targets.values():
            if each is not None:
                each.spill(HELD_BYTES)

    def commit(self, reached: Mapping[TopicPartition, int]) -> None:
        """Commit the rows of all tables. Raises Away, Overtaken, KcliError."""
        for each in self._targets.values():
            if each is not None and each.has_rows:
                each.spill(0)
                each.writer.commit(reached)

    def _routes(self, record: SinkRecord) -> Iterator[str]:
        if self._field is None:
            yield from self._static
            return
        try:
            value = field_of(record.value, self._field)
        except DataError:  # no field, no table
            return
        if value is None:
            return
        text = java_text(value)
        if self._is_dynamic:
            yield text.lower()
            return
        for name, table in self._static.items():
            if table.route is not None and table.route.matches(text):
                yield name

    def _target(self, name: str, records: Sequence[SinkRecord]) -> _Target | None:
        """Return a table, which is created if the configuration says so; None for one that is not there, if records
        name the tables. Raises Away, DataError, KcliError."""
        if name in self._targets:
            return self._targets[name]
        if "." not in name:
            raise DataError(f"{_where(records[0])}: {name!r} is no table: NAMESPACE.NAME")
        own = self._static.get(name) or options.table_options(self._config, name)
        context, properties = self._context, options.below(self._config, options.WRITE)
        writer = TableWriter(self._tables, name, context.group, context.topic_ids, own.branch, properties)
        target: _Target | None = _Target(writer, evolves=_is_true(self._config, "iceberg.tables.evolve-schema-enabled"))
        if not writer.load():
            if _is_true(self._config, "iceberg.tables.auto-create-enabled"):
                self._create(writer, own, records)
            elif self._is_dynamic:
                log.warning("%s: there is no table %s: its records are left out", context.connector, name)
                target = None
            else:
                raise ConnectError(f"there is no table {name}, and iceberg.tables.auto-create-enabled is not set")
        self._targets[name] = target
        return target

    def _create(self, writer: TableWriter, own: options.TableOptions, records: Sequence[SinkRecord]) -> None:
        columns = _rows(records[:1])[0].schema
        if _is_true(self._config, "iceberg.tables.schema-force-optional"):
            columns = pa.schema([pa.field(each.name, each.type) for each in columns])
        writer.create(columns, own.keys, own.layout, options.below(self._config, options.CREATE))


class _Target:
    """A table with the rows that are not in a file yet."""

    def __init__(self, writer: TableWriter, *, evolves: bool) -> None:
        self.writer, self._evolves = writer, evolves
        self._held: list[pa.RecordBatch] = []

    @property
    def has_rows(self) -> bool:
        """Whether there are rows without a commit."""
        return bool(self._held) or self.writer.has_files

    def batches(self, records: Sequence[SinkRecord]) -> list[pa.RecordBatch]:
        """Return the rows of records that the table does not have. Raises Away, DataError, KcliError."""
        expected = self.writer.expected
        new = [each for each in records if each.offset >= expected.get(place_of(each), 0)]
        found = []
        for rows in _rows(new):
            if self._evolves:
                self.writer.evolve(rows.schema)
            try:
                found.append(self.writer.fit(rows))
            except (ValueError, pa.ArrowException) as error:
                _blame(new, self._fit_one)
                raise DataError(f"{self.writer.name}: {error}") from error
        return found

    def _fit_one(self, record: SinkRecord) -> None:
        for rows in _unplaced([record]):
            try:
                self.writer.fit(rows)
            except (ValueError, pa.ArrowException) as error:
                raise DataError(f"{self.writer.name}: {error}") from error

    def hold(self, batches: Sequence[pa.RecordBatch]) -> None:
        """Take rows."""
        self._held += batches

    def spill(self, bytes_max: int) -> None:
        """Write the rows to files if they have more bytes. Raises Away, KcliError."""
        if self._held and sum(each.nbytes for each in self._held) > bytes_max:
            self.writer.write(self._held)
            self._held = []


def _rows(records: Sequence[SinkRecord]) -> list[pa.RecordBatch]:
    """Return the rows of records, a batch for each schema. Raises DataError, with the place of the record."""
    try:
        return _unplaced(records)
    except DataError:
        _blame(records, lambda record: _unplaced([record]))
        raise


def _unplaced(records: Sequence[SinkRecord]) -> list[pa.RecordBatch]:
    structs: dict[Schema, list[Struct]] = {}
    maps = []
    for each in records:
        if isinstance(each.value, Struct):
            structs.setdefault(each.value.schema, []).append(each.value)
        elif isinstance(each.value, Mapping):
            maps.append(each.value)
        else:
            raise DataError("the value is no struct and no map")
    found = [*map(rows_of, structs.values())]
    try:
        return [*found, *([_of_maps(maps)] if maps else [])]
    except DataError:  # their values have different types
        return [*found, *(_of_maps([each]) for each in maps)]


def _of_maps(maps: Sequence[Mapping[Any, Any]]) -> pa.RecordBatch:
    """Return maps without a schema as rows, with the types of their values."""
    if not all(maps):
        raise DataError("the value is a map without entries")
    names = list(dict.fromkeys(str(name) for each in maps for name in each))
    try:
        return pa.RecordBatch.from_arrays([pa.array([each.get(name) for each in maps]) for name in names], names)
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
        raise DataError(str(error)) from error


def _blame(records: Sequence[SinkRecord], attempt: Callable[[SinkRecord], object]) -> None:
    """Raise DataError with the place of the first record that fails alone, if there is one."""
    for each in records:
        try:
            attempt(each)
        except DataError as error:
            raise DataError(f"{_where(each)}: {error}") from error


def _where(record: SinkRecord) -> str:
    return f"{record.original_topic}-{record.original_partition}, offset {record.offset}"


def _is_true(config: Mapping[str, str], name: str) -> bool:
    return config.get(name, "false").strip().lower() == "true"
