"""A database's connection, as the connectors use it: one of SQLite or of PostgreSQL, by connection.url."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from kcli.connect.connectors.jdbc.dialect import Change, Column, Dialect
from kcli.connect.data.errors import ConnectError
from kcli.errors import needing

SQLITE: Final = "jdbc:sqlite:"
POSTGRES: Final = "jdbc:postgresql:"
NOT_KNOWN: Final = f"it is not {SQLITE}PATH or {POSTGRES}//HOST:PORT/DATABASE, the databases that are known"


class Database(ABC):
    """A connection, which is opened when it is first needed, and again after `close`. All methods raise RetriableError
    if the database cannot do it now, and ConnectError with its reason."""

    dialect: Dialect

    @abstractmethod
    def tables(self, schemas: str, types: Sequence[str]) -> list[str]:
        """Return the names of all tables. schemas: a pattern of LIKE for their schemas, where the database has them.
        types: TABLE, VIEW and so on."""

    @abstractmethod
    def columns(self, table: str) -> list[Column]:
        """Return the columns of a table; [] if there is no such table."""

    @abstractmethod
    def columns_of_query(self, sql: str) -> list[Column]:
        """Return the columns of a query."""

    @abstractmethod
    def query(self, sql: str, values: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a query."""

    @abstractmethod
    def execute(self, sql: str) -> None:
        """Run a statement, in the transaction that the next commit ends."""

    @abstractmethod
    def write(self, change: Change, rows: Sequence[Sequence[Any]]) -> None:
        """Change a table by rows of values, in their order, in the transaction that the next commit ends."""

    @abstractmethod
    def commit(self) -> None:
        """Commit what was executed and written."""

    @abstractmethod
    def rollback(self) -> None:
        """Undo what was executed and written since the last commit."""

    @abstractmethod
    def close(self) -> None:
        """Close the connection, if there is one."""


def database_of(config: Mapping[str, str], *, is_made: bool = False) -> Database:
    """Return the database of a connector's configuration. is_made: whether SQLite's file is created if it is missing.
    Raises ConnectError, NotInstalled."""
    url = config["connection.url"]
    if url.startswith(SQLITE):
        from kcli.connect.connectors.jdbc.sqlite import Sqlite

        return Sqlite(url.removeprefix(SQLITE), is_made=is_made)
    if url.startswith(POSTGRES):
        with needing("postgres"):
            from kcli.connect.connectors.jdbc.postgres import Postgres

        return Postgres(config)
    raise ConnectError(f"connection.url={url!r}: {NOT_KNOWN}")
