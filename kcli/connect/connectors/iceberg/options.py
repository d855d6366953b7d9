"""The options of the Iceberg sink, by the names of Apache Iceberg's. Those that kcli does not have are refused, unless
they have their defaults."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from kcli.connect.config import validators
from kcli.connect.config.config_def import ConfigDef, ConfigKey, Importance, Type, words
from kcli.java.linear_regex import PatternError
from kcli.java.regex import JavaRegex
from kcli.pipelines.tables.appending import catalog_type, partition_field

HIGH, MEDIUM, LOW = Importance
CATALOG: Final = "iceberg.catalog."
TABLE: Final = "iceberg.table."
CREATE: Final = "iceberg.tables.auto-create-props."
WRITE: Final = "iceberg.tables.write-props."
OF_TABLE: Final = re.compile(r"iceberg\.table\.(.+)\.(commit-branch|id-columns|partition-by|route-regex)")
COMMAS: Final = re.compile(r",(?![^()]*\))")

OPTIONS: Final = ConfigDef(
    ConfigKey("iceberg.tables", Type.LIST, None, HIGH, "The tables, each NAMESPACE.NAME."),
    ConfigKey(
        "iceberg.tables.dynamic-enabled", Type.BOOLEAN, "false", MEDIUM, "Whether the route field names the table.",
    ),
    ConfigKey("iceberg.tables.route-field", Type.STRING, None, MEDIUM, "The field that chooses a record's tables."),
    ConfigKey("iceberg.tables.default-commit-branch", Type.STRING, "main", MEDIUM, "The branch of commits."),
    ConfigKey("iceberg.tables.default-id-columns", Type.STRING, None, MEDIUM, "The columns that identify a row."),
    ConfigKey("iceberg.tables.default-partition-by", Type.STRING, None, MEDIUM, "Partition fields of new tables."),
    ConfigKey("iceberg.tables.auto-create-enabled", Type.BOOLEAN, "false", MEDIUM, "Whether tables are created."),
    ConfigKey(
        "iceberg.tables.evolve-schema-enabled", Type.BOOLEAN, "false", MEDIUM, "Whether tables get columns they lack.",
    ),
    ConfigKey(
        "iceberg.tables.schema-force-optional", Type.BOOLEAN, "false", MEDIUM, "Whether all new columns take null.",
    ),
    ConfigKey("iceberg.catalog", Type.STRING, "iceberg", MEDIUM, "The catalog's name.", validators.non_empty),
    ConfigKey(
        "iceberg.control.commit.interval-ms", Type.INT, 300_000, MEDIUM, "The time between two commits.",
        validators.at_least(0),
    ),
    *(
        ConfigKey(name, kind, default, LOW, "Of no effect: kcli's tasks commit without a control topic.")
        for name, kind, default in (
            ("iceberg.control.topic", Type.STRING, "control-iceberg"),
            ("iceberg.control.group-id-prefix", Type.STRING, "cg-control"),
            ("iceberg.control.commit.timeout-ms", Type.INT, 30_000),
            ("iceberg.control.commit.threads", Type.INT, None),
            ("iceberg.coordinator.transactional.prefix", Type.STRING, ""),
        )
    ),
    *(
        ConfigKey(name, kind, default, LOW, "Not in kcli.", validators.only(default))
        for name, kind, default in (
            ("iceberg.tables.schema-case-insensitive", Type.BOOLEAN, False),
            ("iceberg.tables.cdc-field", Type.STRING, None),
            ("iceberg.tables.upsert-mode-enabled", Type.BOOLEAN, False),
            ("iceberg.hadoop-conf-dir", Type.STRING, None),
        )
    ),
)  # fmt: skip


@dataclass(frozen=True)
class TableOptions:
    """The options of a table. keys: the columns that identify a row. layout: its partition fields, for a new table.
    route: the route field's values for it; None for none."""

    branch: str
    keys: tuple[str, ...]
    layout: tuple[str, ...]
    route: JavaRegex | None


def table_options(config: Mapping[str, str], table: str) -> TableOptions:
    """Return the options of a table, by a configuration that has been validated."""

    def of(name: str, default: str = "") -> str:
        own = config.get(f"{TABLE}{table}.{name}")
        return own or config.get(f"iceberg.tables.default-{name}") or default

    route = config.get(f"{TABLE}{table}.route-regex")
    keys, layout = (tuple(each.strip() for each in COMMAS.split(of(name)) if each.strip()) for name in LISTS)
    return TableOptions(of("commit-branch", "main"), keys, layout, None if route is None else JavaRegex(route))


LISTS: Final = ("id-columns", "partition-by")


def below(config: Mapping[str, str | None], prefix: str) -> dict[str, str]:
    """Return the options with a prefix, without it."""
    return {name.removeprefix(prefix): text for name, text in config.items() if name.startswith(prefix) and text}


def wrong(config: Mapping[str, str | None]) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with several options together: an option, and the reason."""
    tables = words(config.get("iceberg.tables") or "")
    is_dynamic = (config.get("iceberg.tables.dynamic-enabled") or "").lower() == "true"
    if tables and is_dynamic:
        yield "iceberg.tables", "Cannot specify both static and dynamic table names"
    if not tables and not is_dynamic:
        yield "iceberg.tables", "Must specify static table names or use dynamic table names"
    if is_dynamic and not config.get("iceberg.tables.route-field"):
        yield "iceberg.tables.route-field", "Must specify a route field if using dynamic table names"
    for each in tables:
        if not re.fullmatch(r"[^.\s]+(\.[^.\s]+)+", each):
            yield "iceberg.tables", f"{each!r} is no table: NAMESPACE.NAME"
    try:
        catalog_type(below(config, CATALOG))
    except ValueError as error:
        yield "iceberg.catalog", f"{CATALOG}*: {error}"
    yield from _wrong_terms("iceberg.tables.default-partition-by", config.get("iceberg.tables.default-partition-by"))
    for name, text in config.items():
        found = OF_TABLE.fullmatch(name)
        if found and found[2] == "partition-by":
            yield from (("iceberg.tables", f"{name}: {reason}") for _, reason in _wrong_terms(name, text))
        if found and found[2] == "route-regex":
            try:
                JavaRegex(text or "")
            except PatternError as error:
                yield "iceberg.tables", f"{name}: {error}"


def _wrong_terms(name: str, text: str | None) -> Iterator[tuple[str, str]]:
    for term in COMMAS.split(text or ""):
        if term.strip():
            try:
                partition_field(term)
            except ValueError as error:
                yield name, str(error)
