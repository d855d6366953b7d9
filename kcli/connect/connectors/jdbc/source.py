"""JdbcSourceConnector: rows of tables, or of a query, to topics.

    bulk                    all rows, each time
    incrementing            rows whose column is above the last one's
    timestamp               rows whose time is later than the last one's, and older than timestamp.delay.interval.ms
    timestamp+incrementing  rows with a later time, or the same time and a higher number

    topic      topic.prefix and the table's name, without its schema; of a query topic.prefix alone
    value      a struct named after the table, a field a column
    partition  {"protocol": "1", "table": NAME} or {"query": "query"}
    offset     {"incrementing": N, "timestamp": MS, "timestamp_nanos": N}, without what the mode does not have. With
               timestamp alone, rows of the same time have the offset of the time before, except the last of them

A table is read every poll.interval.ms. A row whose columns of time or number are changed back is not seen, nor one that
was deleted. Source: Aiven's and Confluent's JdbcSourceTask, TimestampIncrementingCriteria, TimestampIncrementingOffset.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from kcli.connect.config.config_def import ConfigDef, ConfigValue, words
from kcli.connect.connectors.jdbc import options
from kcli.connect.connectors.jdbc.columns import row_of, table_schema
from kcli.connect.connectors.jdbc.database import Database, database_of
from kcli.connect.connectors.jdbc.dialect import Column
from kcli.connect.data.errors import ConnectError, RetriableError
from kcli.connect.data.records import SourceRecord
from kcli.connect.engine.tasks import Rest, SourceContext, SourceTask, config_int
from kcli.connect.plugins import Offset, Partition, PluginType

TABLES: Final = "tables"
NS_PER_MS, NS_PER_S = 1_000_000, 1_000_000_000
INCREMENTING, TIMESTAMP, NANOS = "incrementing", "timestamp", "timestamp_nanos"
VERSION: Final = "10.8.4"


class JdbcSource:
    """The connector, under Confluent's class name."""

    CLASS = "io.confluent.connect.jdbc.JdbcSourceConnector"
    TASK_CLASS = "io.confluent.connect.jdbc.source.JdbcSourceTask"
    TYPE = PluginType.SOURCE
    VERSION = VERSION

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._properties = properties

    @classmethod
    def config(cls) -> ConfigDef:
        """Return the connector's options."""
        return options.SOURCE

    @classmethod
    def check(cls, properties: Mapping[str, str | None], values: Mapping[str, ConfigValue]) -> None:
        """Refuse a query beside tables, lists of both kinds, a mode without its columns, and a login to SQLite."""
        given = {name: text for name, text in properties.items() if text}
        if "query" in given and ("table.whitelist" in given or "table.blacklist" in given) and "query" in values:
            values["query"].errors.append("query may not be combined with whole-table copying settings")
        if "table.whitelist" in given and "table.blacklist" in given and "table.blacklist" in values:
            values["table.blacklist"].errors.append("table.blacklist and table.whitelist are exclusive")
        mode, name = given.get("mode", ""), "timestamp.column.name"
        if TIMESTAMP in mode.split("+") and name not in given and name in values:
            values[name].errors.append(f"{name} must be set with mode={mode}")
        options.check_connection(properties, values)

    def task_configs(self, tasks_max: int) -> Sequence[Mapping[str, str]]:
        """Return the configuration of each task, with its tables. Raises ConnectError."""
        if self._properties.get("query"):
            return [dict(self._properties)]
        source, named = database_of(self._properties), self._properties.get
        try:
            types = words((named("table.types") or "TABLE").upper())
            tables = source.tables(named("schema.pattern") or "", types)
        finally:
            source.close()
        short = source.dialect.topic_name
        wanted, left_out = (frozenset(words(named(f"table.{each}list", ""))) for each in ("white", "black"))
        chosen = [
            each
            for each in tables
            if (bool(wanted & {each, short(each)}) if wanted else not left_out & {each, short(each)})
        ]
        for name, count in Counter(map(short, chosen)).items():
            if count > 1:
                raise ConnectError(
                    f"several tables are called {name}, and would have one topic: name one in table.whitelist"
                )
        if named_wrongly := [each for each in chosen if "," in each]:
            raise ConnectError(
                f"the table {named_wrongly[0]!r} has a comma in its name: leave it out by table.blacklist"
            )
        count = min(tasks_max, len(chosen))
        return [{**self._properties, TABLES: ",".join(chosen[number::count])} for number in range(count)]

    def monitor(self) -> float | None:
        """Return when new tables are to be looked for."""
        every_ms = int(self._properties.get("table.poll.interval.ms", 60_000))
        return None if self._properties.get("query") else every_ms / 1000

    def alter_offsets(self, offsets: Sequence[tuple[Partition, Offset | None]]) -> bool:
        """Check offsets that a user has given. Raises ConnectError for those of others."""
        for partition, offset in offsets:
            if partition is None:
                raise ConnectError("Source partition may not be null")
            if "table" not in partition and "query" not in partition:
                raise ConnectError(f"{dict(partition)}: a partition has a table or a query")
            for name in (INCREMENTING, TIMESTAMP, NANOS):
                if offset is not None and type(offset.get(name, 0)) is not int:
                    raise ConnectError(f"{dict(offset)}: {name} is no whole number")
        return True

    class TASK(SourceTask):
        """Reads its tables, one after the other, each when it is time."""

        def start(self, config: Mapping[str, str], context: SourceContext) -> None:
            """Find where to go on. Raises ConnectError, NotInstalled."""
            self._database, self._context = database_of(config), context
            self._interval_s = config_int(config, "poll.interval.ms", 5000) / 1000
            self._rows_max = config_int(config, "batch.max.rows", 100)
            query = config.get("query", "")
            names = [query] if query else config[TABLES].split(",")
            self._readers = [_Reader(config, self._database, each, context, is_query=bool(query)) for each in names]
            self._pending: Iterator[SourceRecord] = iter(())
            self._left: list[_Reader] = []
            self._has_failed = True  # no round of all tables is done yet
            self._next_s = 0.0

        def poll(self) -> Sequence[SourceRecord]:
            """Return the next rows. Raises ConnectError."""
            found: list[SourceRecord] = []
            try:
                while not found:
                    for each in islice(self._pending, self._rows_max):
                        found.append(each)  # noqa: PERF402 (the rows before an error are sent, too)
                    if not found:
                        if not self._left:
                            if not self._has_failed:
                                self._context.goes_on()
                            if time.time() < self._next_s:
                                break
                            self._left, self._has_failed = list(self._readers), False
                            self._next_s = time.time() + self._interval_s
                        self._pending = self._left.pop(0).records()
            except RetriableError as error:
                self._context.interrupted(str(error))
                self._has_failed = True
                self._database.close()
                self._pending = iter(())
            return found

        def is_midway(self) -> bool:
            """Return whether a table is being read that the next turn would read again from an earlier row."""
            return any(each.is_midway for each in self._readers)

        def rest(self) -> Rest:
            """Wait for the interval."""
            return Rest(until_s=self._next_s)

        def stop(self) -> None:
            """Close the database."""
            found: Database | None = getattr(self, "_database", None)
            if found is not None:
                found.close()


@dataclass(frozen=True)
class _Stand:
    """Where a table was read up to."""

    number: int | None = None
    time_ns: int | None = None

    @classmethod
    def of(cls, offset: Offset) -> _Stand:
        """Return what an offset of Connect says. One without nanoseconds has its milliseconds alone."""
        time_ms: int | None = offset.get(TIMESTAMP)
        if time_ms is None:
            return cls(offset.get(INCREMENTING))
        nanos = offset.get(NANOS, time_ms % 1000 * NS_PER_MS)
        return cls(offset.get(INCREMENTING), time_ms // 1000 * NS_PER_S + nanos)

    def offset(self) -> Offset:
        """Return the offset of Connect."""
        found = {}
        if self.number is not None:
            found[INCREMENTING] = self.number
        if self.time_ns is not None:
            found |= {TIMESTAMP: self.time_ns // NS_PER_MS, NANOS: self.time_ns % NS_PER_S}
        return found


class _Reader:
    """Reads one table, or the query. is_midway: it has yielded rows behind the last one whose offset says where to go
    on."""

    is_midway = False

    def __init__(
        self, config: Mapping[str, str], source: Database, name: str, context: SourceContext, *, is_query: bool
    ) -> None:
        self._config, self._database, self._name, self._is_query = config, source, name, is_query
        self._dialect = source.dialect
        self._modes = config["mode"].split("+")
        self._topic = config["topic.prefix"] + ("" if is_query else self._dialect.topic_name(name))
        self._partition: Partition = {"query": "query"} if is_query else {"protocol": "1", "table": name}
        self._times = [*map(self._dialect.folded, words(config.get("timestamp.column.name", "")))]
        self._number = self._dialect.folded(config.get("incrementing.column.name", ""))
        known = context.offset(self._partition) or (None if is_query else context.offset({"table": name})) or {}
        initial = config.get("timestamp.initial")
        self._stand = _Stand.of(known)
        if self._stand.time_ns is None and initial:
            time_ms = int(initial) if int(initial) >= 0 else time.time_ns() // NS_PER_MS
            self._stand = _Stand(self._stand.number, time_ms * NS_PER_MS)
            context.begin(self._partition, self._stand.offset())

    def records(self) -> Iterator[SourceRecord]:
        """Yield the new rows. Raises RetriableError, ConnectError."""
        columns = self._columns()
        name = "query" if self._is_query else self._dialect.topic_name(self._name)
        schema = table_schema(self._dialect, name, columns)
        names = [each.name for each in columns]
        self._check(columns)
        sql, values = self._sql(columns)
        rows = self._database.query(sql, values)
        following = next(rows, None)
        try:
            while (row := following) is not None:
                following = next(rows, None)
                at = self._stand_at(dict(zip(names, row, strict=True)))
                is_whole = (
                    self._modes != [TIMESTAMP]
                    or following is None
                    or self._stand_at(dict(zip(names, following, strict=True))) != at
                )
                if is_whole:  # the next query asks for later times: no other row may have this one
                    self._stand = at
                self.is_midway = not is_whole or self._config["mode"] == "bulk"
                yield SourceRecord(
                    topic=self._topic,
                    value_schema=schema,
                    value=row_of(self._dialect, schema, row),
                    source_partition=self._partition,
                    source_offset=self._stand.offset(),
                )
        finally:
            self.is_midway = False

    def _columns(self) -> list[Column]:
        if self._is_query:
            return self._database.columns_of_query(self._name)
        found = self._database.columns(self._name)
        if not found:
            raise ConnectError(f"there is no table {self._name}")
        return found

    def _check(self, columns: Sequence[Column]) -> None:
        if INCREMENTING in self._modes and not self._number:
            keys = [each.name for each in columns if each.increments]
            if len(keys) != 1:
                raise ConnectError(f"{self._name}: incrementing.column.name is not set, and there is no such column")
            (self._number,) = keys
        wanted = [*(self._times if TIMESTAMP in self._modes else ()), *([self._number] if self._number else ())]
        by_name = {each.name: each for each in columns}
        for each in wanted:
            if each not in by_name:
                raise ConnectError(f"{self._name} has no column {each}")
            validates = self._config.get("validate.non.null", "true").lower() == "true" and not self._is_query
            if validates and not by_name[each].is_required and self._config["mode"] != "bulk":
                raise ConnectError(
                    f"Cannot make incremental queries using column {each} of {self._name}, which may be null: "
                    "validate.non.null=false allows it"
                )

    def _sql(self, columns: Sequence[Column]) -> tuple[str, list[Any]]:
        dialect, values = self._dialect, list[Any]()

        def bound(value: Any) -> str:
            values.append(value)
            return dialect.placeholder(len(values))

        table = f"({self._name}) AS kcli" if self._is_query else dialect.qualified(self._name)
        sql = f"SELECT {', '.join(map(dialect.selected, columns))} FROM {table}"  # noqa: S608 (names are quoted)
        number = dialect.quoted(self._number) if self._number else ""
        conditions: list[str] = []
        order: list[str] = []
        if TIMESTAMP in self._modes:
            at = dialect.time_of(self._times)
            delay_ms = config_int(self._config, "timestamp.delay.interval.ms", 0)
            begin = dialect.time_value(self._stand.time_ns or 0)
            conditions.append(f"{at} < {bound(dialect.time_value(time.time_ns() - delay_ms * NS_PER_MS))}")
            order.append(at)
            if INCREMENTING in self._modes:
                last = -1 if self._stand.number is None else self._stand.number
                same = f"({at} = {bound(begin)} AND {number} > {bound(last)})"
                conditions.append(f"({same} OR {at} > {bound(begin)})")
            else:
                conditions.append(f"{at} > {bound(begin)}")
        elif INCREMENTING in self._modes and self._stand.number is not None:
            conditions.append(f"{number} > {bound(self._stand.number)}")
        if INCREMENTING in self._modes:
            order.append(number)
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        ordered = f" ORDER BY {', '.join(order)}" if order else ""
        return f"{sql}{where}{ordered} {self._config.get('query.suffix', '')}".rstrip(), values

    def _stand_at(self, row: Mapping[str, Any]) -> _Stand:
        found: Any = None
        try:
            number = found = int(row[self._number]) if INCREMENTING in self._modes else self._stand.number
            if TIMESTAMP not in self._modes:
                return _Stand(number, self._stand.time_ns)
            found = next((row[each] for each in self._times if row[each] is not None), None)
            return _Stand(number, None if found is None else self._dialect.time_ns(found))
        except (TypeError, ValueError) as error:
            raise ConnectError(f"{self._name}: {found!r} is neither a number nor a time to go on from") from error
