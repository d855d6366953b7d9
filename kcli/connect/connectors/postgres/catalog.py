"""Tables as the database's catalog has them: names, columns, keys, types."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kcli.connect.connectors.postgres.connecting import Connection, errors_of
from kcli.connect.connectors.postgres.pgoutput import Relation, RelationColumn
from kcli.connect.connectors.postgres.types import PgType
from kcli.connect.data.errors import ConnectError

_TABLES: Final = """
SELECT c.oid::bigint, n.nspname, c.relname, c.relreplident::text FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = 'r' AND c.relpersistence = 'p' AND n.nspname NOT LIKE 'pg\\_%' AND n.nspname <> 'information_schema'
ORDER BY 2, 3"""
_COLUMNS: Final = """
SELECT a.attrelid::bigint, a.attname, a.attnotnull, a.atttypid::bigint, a.atttypmod,
coalesce(a.attnum = ANY(p.indkey), false), coalesce(a.attnum = ANY(r.indkey), false), a.attgenerated <> ''
FROM pg_attribute a LEFT JOIN pg_index p ON p.indrelid = a.attrelid AND p.indisprimary
LEFT JOIN pg_index r ON r.indrelid = a.attrelid AND r.indisreplident
WHERE a.attrelid = ANY(%s::bigint[]::oid[]) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attrelid, a.attnum"""
_TYPES: Final = """
SELECT oid::bigint, typname, typtype::text, typcategory::text, typelem::bigint, typbasetype::bigint, typtypmod,
ARRAY(SELECT enumlabel::text FROM pg_enum WHERE enumtypid = pg_type.oid ORDER BY enumsortorder)
FROM pg_type WHERE oid = %s::bigint::oid"""
_PUBLISHED: Final = "SELECT schemaname::text, tablename::text FROM pg_publication_tables WHERE pubname = %s"


@dataclass(frozen=True)
class Facts:
    """What the catalog knows of a table beyond its Relation. required: columns that are NOT NULL. keys: columns of the
    primary key, in their order within the table."""

    required: frozenset[str] = frozenset()
    keys: tuple[str, ...] = ()


class Catalog:
    """The catalog, read by a connection of its own. All methods raise RetriableError, ConnectError."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._types: dict[int, tuple[PgType, int] | None] = {}

    def tables(self) -> list[Relation]:
        """Return all tables that may be replicated."""
        with errors_of("the catalog"):
            found = self._connection.execute(_TABLES.encode()).fetchall()
            rows = self._connection.execute(_COLUMNS.encode(), ([each[0] for each in found],)).fetchall()
        columns: dict[int, list[RelationColumn]] = {}
        for oid, name, _, kind, modifier, is_key, is_identity, is_generated in rows:
            if not is_generated:
                columns.setdefault(oid, []).append(RelationColumn(name, is_key or is_identity, kind, modifier))
        return [Relation(oid, schema, name, how, tuple(columns.get(oid, ()))) for oid, schema, name, how in found]

    def facts(self, oid: int) -> Facts:
        """Return what is known of a table now; nothing if it is gone."""
        with errors_of("the catalog"):
            rows = self._connection.execute(_COLUMNS.encode(), ([oid],)).fetchall()
        return Facts(frozenset(row[1] for row in rows if row[2]), tuple(row[1] for row in rows if row[5]))

    def type(self, oid: int, modifier: int) -> tuple[PgType, int] | None:
        """Return a type and its modifier, those of its base for a domain; None if it is gone."""
        if oid not in self._types:
            self._types[oid] = self._read_type(oid)
        known = self._types[oid]
        return None if known is None else (known[0], known[1] if known[1] >= 0 else modifier)

    def forget_types(self) -> None:
        """Read types again: an enum may have got labels."""
        self._types.clear()

    def _read_type(self, oid: int) -> tuple[PgType, int] | None:
        with errors_of("the catalog"):
            row = self._connection.execute(_TYPES.encode(), (oid,)).fetchone()
        if row is None:
            return None
        _, name, kind, category, element_oid, base, modifier, labels = row
        if kind == "d":
            return self.type(base, modifier)
        if category == "A" and element_oid:
            element = self.type(element_oid, -1)
            return None if element is None else (PgType(name, element[0]), -1)
        return PgType(name, None, tuple(labels)), -1


def create_publication(connection: Connection, name: str, mode: str, tables: Sequence[Relation]) -> None:
    """Have the publication, as publication.autocreate.mode says. tables: those that are captured. Raises
    RetriableError, ConnectError."""
    with errors_of("the publication"):
        row = connection.execute("SELECT puballtables FROM pg_publication WHERE pubname = %s", (name,)).fetchone()
        if row is None and mode == "disabled":
            raise ConnectError(f"there is no publication {name}, and publication.autocreate.mode=disabled")
        if row is None and mode in ("all_tables", "no_tables"):
            every = " FOR ALL TABLES" if mode == "all_tables" else ""
            connection.execute(f"CREATE PUBLICATION {quoted(name)}{every}".encode())
        if mode == "filtered" and tables and (row is None or not row[0]):
            named = ", ".join(f"{quoted(each.schema)}.{quoted(each.name)}" for each in tables)
            if row is None:
                connection.execute(f"CREATE PUBLICATION {quoted(name)} FOR TABLE {named}".encode())
            elif {(each.schema, each.name) for each in tables} != {*connection.execute(_PUBLISHED, (name,))}:
                connection.execute(f"ALTER PUBLICATION {quoted(name)} SET TABLE {named}".encode())


def set_identities(connection: Connection, identities: Sequence[tuple[Relation, str]]) -> None:
    """Give tables the replica identity that they should have: DEFAULT, FULL, NOTHING or INDEX name. Raises
    RetriableError, ConnectError."""
    for table, identity in identities:
        wanted = {"DEFAULT": "d", "FULL": "f", "NOTHING": "n"}.get(identity.upper(), "i")
        if wanted != table.identity:
            how = f"USING INDEX {quoted(identity.removeprefix('INDEX').strip())}" if wanted == "i" else identity
            sql = f"ALTER TABLE {quoted(table.schema)}.{quoted(table.name)} REPLICA IDENTITY {how}"
            with errors_of("the replica identity"):
                connection.execute(sql.encode())


def quoted(name: str) -> str:
    """Return a name as SQL has it."""
    return '"' + name.replace('"', '""') + '"'
