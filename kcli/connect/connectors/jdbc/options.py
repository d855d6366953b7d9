"""The options of the JDBC connectors, by the names of Confluent's and Aiven's plug-ins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kcli.connect.config import validators
from kcli.connect.config.config_def import (
    REQUIRED,
    ConfigDef,
    ConfigValue,
    Importance,
    Type,
    option,
)
from kcli.connect.connectors.jdbc.database import NOT_KNOWN, POSTGRES, SQLITE

HIGH, MEDIUM, LOW = Importance
MODES: Final = ("bulk", "timestamp", "incrementing", "timestamp+incrementing")
INSERT_MODES: Final = ("insert", "upsert", "update")
NUMERIC_MAPPINGS: Final = ("none", "precision_only", "best_fit", "best_fit_eager_double")
PK_MODES: Final = ("none", "kafka", "record_key", "record_value")

CONNECTION: Final = (
    option(
        "connection.url",
        Type.STRING,
        REQUIRED,
        "jdbc:sqlite:PATH or jdbc:postgresql://HOST:PORT/DATABASE.",
        HIGH,
        validators.non_empty,
    ),
    option("connection.user", Type.STRING, None, "PostgreSQL's user.", HIGH),
    option("connection.password", Type.PASSWORD, None, "The user's password.", HIGH),
    option(
        "quote.sql.identifiers",
        Type.STRING,
        "always",
        "always: names are quoted. never: PostgreSQL's are in lower case.",
        MEDIUM,
        validators.one_of("always", "never"),
    ),
    option("db.timezone", Type.STRING, "UTC", "The zone of times without one.", MEDIUM, validators.one_of("UTC")),
)

SINK: Final = ConfigDef(
    *CONNECTION,
    option("insert.mode", Type.STRING, "insert", "How rows are written.", HIGH, validators.one_of(*INSERT_MODES)),
    option("batch.size", Type.INT, 3000, "How many rows one statement writes.", MEDIUM, validators.at_least(0)),
    option("delete.enabled", Type.BOOLEAN, "false", "Whether a record without a value deletes the row of its key."),
    option("table.name.format", Type.STRING, "${topic}", "The table of a topic.", MEDIUM, validators.non_empty),
    option("pk.mode", Type.STRING, "none", "Where the primary key comes from.", HIGH, validators.one_of(*PK_MODES)),
    option("pk.fields", Type.LIST, "", "The columns of the primary key."),
    option("fields.whitelist", Type.LIST, "", "The fields of values that become columns; none for all."),
    option("auto.create", Type.BOOLEAN, "false", "Whether a table that is missing is created."),
    option("auto.evolve", Type.BOOLEAN, "false", "Whether a table gets the columns that it lacks."),
    option("max.retries", Type.INT, 10, "How often a busy database is tried again.", MEDIUM, validators.at_least(0)),
    option("retry.backoff.ms", Type.INT, 3000, "The time between two tries.", MEDIUM, validators.at_least(0)),
)
"""The options of the sink."""

SOURCE: Final = ConfigDef(
    *CONNECTION,
    option("mode", Type.STRING, REQUIRED, "How new rows are found.", HIGH, validators.one_of(*MODES)),
    option("incrementing.column.name", Type.STRING, "", "The column that grows with each new row."),
    option("timestamp.column.name", Type.LIST, "", "The columns with the time of a row's last change."),
    option("validate.non.null", Type.BOOLEAN, "true", "Whether these columns must be NOT NULL.", LOW),
    option("table.whitelist", Type.LIST, "", "The tables to read; none for all."),
    option("table.blacklist", Type.LIST, "", "Tables that are left out."),
    option("schema.pattern", Type.STRING, None, "A pattern of LIKE for the schemas of tables.", HIGH),
    option("table.types", Type.LIST, "TABLE", "The types of tables: TABLE, VIEW, PARTITIONED TABLE and so on.", LOW),
    option("query", Type.STRING, "", "A query to read in place of tables."),
    option("query.suffix", Type.STRING, "", "What stands at the end of each query.", LOW),
    option(
        "numeric.mapping",
        Type.STRING,
        "none",
        "What PostgreSQL's numeric becomes.",
        LOW,
        validators.if_set(validators.one_of_ignoring_case(*NUMERIC_MAPPINGS)),
    ),
    option("topic.prefix", Type.STRING, REQUIRED, "What stands before a table's name in that of its topic.", HIGH),
    option("poll.interval.ms", Type.INT, 5000, "How often a table is read.", HIGH),
    option("table.poll.interval.ms", Type.LONG, 60_000, "How often new tables are looked for.", LOW),
    option("batch.max.rows", Type.INT, 100, "How many rows are read at once.", LOW),
    option("timestamp.delay.interval.ms", Type.LONG, 0, "How old a change must be to be read.", HIGH),
    option("timestamp.initial", Type.LONG, None, "Where a table without an offset begins, in ms; -1 for now.", LOW),
)
"""The options of the source."""


def check_connection(properties: Mapping[str, str | None], values: Mapping[str, ConfigValue]) -> None:
    """Add errors to the values for a database that is not known, and for a login to one without users."""
    url = properties.get("connection.url") or ""
    if url and "${" not in url and not url.startswith((SQLITE, POSTGRES)) and "connection.url" in values:
        values["connection.url"].errors.append(f"connection.url: {NOT_KNOWN}")
    if url.startswith(SQLITE):
        for name in ("connection.user", "connection.password"):
            if properties.get(name) and name in values:
                values[name].errors.append(f"{name} is set, but SQLite has no users")
