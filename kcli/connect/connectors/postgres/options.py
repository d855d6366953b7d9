"""The options of the PostgreSQL source, by the names of Debezium's connector."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from kcli.connect.config import config_def, validators
from kcli.connect.config.config_def import REQUIRED, ConfigDef, ConfigKey, Importance, Type, option
from kcli.connect.connectors.postgres.types import Modes
from kcli.java.linear_regex import PatternError
from kcli.java.regex import JavaRegex

HIGH, MEDIUM, LOW = Importance
SNAPSHOTS: Final = ("initial", "always", "initial_only", "never", "no_data")
DECIMALS: Final = ("precise", "double", "string")
TIMES: Final = ("adaptive", "adaptive_time_microseconds", "connect")
PUBLICATIONS: Final = ("all_tables", "filtered", "disabled", "no_tables")
PASSED: Final = ("sslmode", "sslcert", "sslkey", "sslpassword", "sslrootcert")
LISTS: Final = ("schema.include.list", "schema.exclude.list", "table.include.list", "table.exclude.list")
COLUMN_LISTS: Final = ("column.include.list", "column.exclude.list")
RUN: Final = "snapshot.run"
"""What tells one start of a connector with snapshot.mode=always from the next."""


def _fixed(name: str, value: str, documentation: str) -> ConfigKey:
    """Return an option of which one value is known."""
    return option(name, Type.STRING, value, documentation, LOW, validators.one_of_ignoring_case(value))


OPTIONS: Final = ConfigDef(
    option("database.hostname", Type.STRING, REQUIRED, "The server.", HIGH, validators.non_empty),
    option("database.port", Type.INT, 5432, "The server's port.", HIGH, validators.between(1, 65_535)),
    option("database.user", Type.STRING, REQUIRED, "The user, who may replicate.", HIGH),
    option("database.password", Type.PASSWORD, None, "The user's password.", HIGH),
    option("database.dbname", Type.STRING, REQUIRED, "The database.", HIGH, validators.non_empty),
    option("database.sslmode", Type.STRING, "prefer", "Whether the connection is encrypted, as libpq has it."),
    option("database.sslcert", Type.STRING, None, "The file with the client's certificate."),
    option("database.sslkey", Type.STRING, None, "The file with the client's key."),
    option("database.sslpassword", Type.PASSWORD, None, "The password of the client's key."),
    option("database.sslrootcert", Type.STRING, None, "The file with the authorities' certificates."),
    option("topic.prefix", Type.STRING, REQUIRED, "What the names of topics begin with.", HIGH, validators.non_empty),
    option("schema.include.list", Type.LIST, "", "Patterns of schemas that are captured."),
    option("schema.exclude.list", Type.LIST, "", "Patterns of schemas that are left out."),
    option("table.include.list", Type.LIST, "", "Patterns of tables, SCHEMA.TABLE, that are captured.", HIGH),
    option("table.exclude.list", Type.LIST, "", "Patterns of tables that are left out."),
    option("column.include.list", Type.LIST, "", "Patterns of columns, SCHEMA.TABLE.COLUMN, that values have."),
    option("column.exclude.list", Type.LIST, "", "Patterns of columns that values have not."),
    _fixed("plugin.name", "pgoutput", "The output plug-in of the server."),
    option(
        "slot.name", Type.STRING, "debezium", "The replication slot, which is created.", MEDIUM, validators.non_empty
    ),
    _fixed("slot.drop.on.stop", "false", "The slot stays, as a task is stopped after each of its turns."),
    option("publication.name", Type.STRING, "dbz_publication", "The publication.", MEDIUM, validators.non_empty),
    option(
        "publication.autocreate.mode",
        Type.STRING,
        "all_tables",
        "What the publication is created with: all tables, those that are captured (filtered), none.",
        MEDIUM,
        validators.one_of(*PUBLICATIONS),
    ),
    option("replica.identity.autoset.values", Type.LIST, "", "Replica identities to set: SCHEMA.TABLE:FULL and so on."),
    option("snapshot.mode", Type.STRING, "initial", "When rows are read.", MEDIUM, validators.one_of(*SNAPSHOTS)),
    option(
        "decimal.handling.mode", Type.STRING, "precise", "What numeric becomes.", MEDIUM, validators.one_of(*DECIMALS)
    ),
    option("time.precision.mode", Type.STRING, "adaptive", "What times become.", MEDIUM, validators.one_of(*TIMES)),
    _fixed("binary.handling.mode", "bytes", "What bytea becomes."),
    _fixed("interval.handling.mode", "numeric", "What interval becomes."),
    option("tombstones.on.delete", Type.BOOLEAN, "true", "Whether a tombstone follows a delete."),
    option("skipped.operations", Type.LIST, "t", "Operations without records: c, u, d, t; none for no such.", LOW),
    option("unavailable.value.placeholder", Type.STRING, Modes().placeholder, "Stands for a TOASTed value not sent."),
    option(
        "heartbeat.interval.ms",
        Type.INT,
        0,
        "How often a heartbeat is sent; 0 for never.",
        MEDIUM,
        validators.at_least(0),
    ),
    option(
        "topic.heartbeat.prefix", Type.STRING, "__debezium-heartbeat", "What the heartbeats' topic begins with.", LOW
    ),
    _fixed("provide.transaction.metadata", "false", "Whether transactions have records."),
    option("max.batch.size", Type.INT, 2048, "How many changes are given at once.", MEDIUM, validators.at_least(1)),
    option(
        "poll.interval.ms",
        Type.LONG,
        1000,
        "How long the task rests when there are no changes.",
        MEDIUM,
        validators.at_least(1),
    ),
    option(
        "status.update.interval.ms",
        Type.INT,
        10_000,
        "How often the server learns what is stored.",
        LOW,
        validators.at_least(1),
    ),
    _fixed("flush.lsn.source", "true", "Whether the server learns what is stored."),
)
"""The options of the connector."""
REFUSED: Final = (
    "database.initial.statements",
    "heartbeat.action.query",
    "message.key.columns",
    "signal.data.collection",
    "snapshot.include.collection.list",
    "snapshot.select.statement.overrides",
    "slot.stream.params",
    "converters",
    "post.processors",
)
"""Debezium's options that would be passed over."""


class Options:
    """A configuration, which has been validated. prefix: topic.prefix."""

    def __init__(self, config: Mapping[str, str]) -> None:
        given = {name: text for name, text in config.items() if text}
        get = given.get
        self.prefix, self.database = given["topic.prefix"], given["database.dbname"]
        self.slot = get("slot.name", "debezium")
        self.publication = get("publication.name", "dbz_publication")
        self.publication_mode = get("publication.autocreate.mode", "all_tables")
        self.snapshot = get("snapshot.mode", "initial")
        self.run = get(RUN)
        self.modes = Modes(
            get("decimal.handling.mode", "precise"),
            get("time.precision.mode", "adaptive"),
            get("unavailable.value.placeholder", Modes().placeholder),
        )
        self.tombstones = get("tombstones.on.delete", "true").lower() == "true"
        self.skipped = frozenset(words(get("skipped.operations", "t")))
        self.heartbeat_ms = int(get("heartbeat.interval.ms", "0"))
        self.heartbeat_prefix = get("topic.heartbeat.prefix", "__debezium-heartbeat")
        self.batch_max = int(get("max.batch.size", "2048"))
        self.poll_s = int(get("poll.interval.ms", "1000")) / 1000
        self.status_s = int(get("status.update.interval.ms", "10000")) / 1000
        self.identities = words(get("replica.identity.autoset.values", ""))
        self._patterns = {name: patterns_of(get(name, "")) for name in (*LISTS, *COLUMN_LISTS)}
        self.parameters = {
            "host": given["database.hostname"],
            "port": get("database.port", "5432"),
            "user": given["database.user"],
            "dbname": self.database,
            "application_name": "kcli connect",
        }
        if password := get("database.password"):
            self.parameters["password"] = password
        self.parameters |= {name: text for name in PASSED if (text := get(f"database.{name}"))}

    def captures(self, schema: str, table: str) -> bool:
        """Whether a table is captured."""
        return self._takes("schema", schema) and self._takes("table", f"{schema}.{table}")

    def shows(self, schema: str, table: str, column: str) -> bool:
        """Whether values have a column."""
        return self._takes("column", f"{schema}.{table}.{column}")

    def _takes(self, kind: str, name: str) -> bool:
        include, exclude = (self._patterns[f"{kind}.{each}.list"] for each in ("include", "exclude"))
        return (not include or any(each.matches(name) for each in include)) and not any(
            each.matches(name) for each in exclude
        )


def patterns_of(text: str) -> Sequence[JavaRegex]:
    """Return the patterns of a list, which match in any case. Raises PatternError."""
    return [JavaRegex(f"(?i){each}") for each in words(text)]


def pattern_error(text: str) -> str | None:
    """Return what is wrong with a list of patterns."""
    try:
        patterns_of(text)
    except PatternError as error:
        return str(error)
    return None


def words(text: str) -> list[str]:
    """Return the words of a list; none for `none`."""
    return [each for each in config_def.words(text) if each != "none"]
