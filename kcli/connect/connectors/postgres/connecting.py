"""Connections to PostgreSQL, by psycopg, and what their errors mean.

passing   the server is away, starts or stops, has no slot left for a connection; a deadlock, a lock that was not had;
          a table or column that another session has made meanwhile: RetriableError
lasting   anything else, such as a wrong password: ConnectError with the server's reason
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from kcli.connect.data.errors import ConnectError, RetriableError
from kcli.errors import needing

with needing("postgres"):
    import psycopg

Connection = psycopg.Connection[tuple[Any, ...]]
SESSION: Final = "SET TimeZone = 'UTC'; SET DateStyle = 'ISO'; SET IntervalStyle = 'iso_8601'; SET bytea_output = 'hex'"
"""How values are written as text, whatever the database has been configured to."""
DEFAULTS: Final = {
    "client_encoding": "UTF8",
    "connect_timeout": "10",
    "keepalives_idle": "30",
    "tcp_user_timeout": "30000",
}
"""libpq's parameters, where none are given: a server that is silent for half a minute is away."""
_PASSING: Final = re.compile("08|40|53|55P03|55006|57P0|42P07|42701|42P06|58")
_LASTING: Final = re.compile(
    r"FATAL:  (?!the database system|sorry, too many|remaining connection slots|terminating connection)"
    r"|invalid \S+ value|certificate|does not support SSL"
)


def connected(parameters: Mapping[str, str], **more: Any) -> Connection:
    """Return a connection whose session writes values as SESSION says. parameters: libpq's. more: further arguments of
    psycopg's connect. Raises RetriableError, ConnectError."""
    try:
        connection = psycopg.connect(**{**DEFAULTS, **parameters, **more, "autocommit": True})
        connection.execute(SESSION)
    except psycopg.Error as error:
        text = _text(error)
        is_lasting = isinstance(error, psycopg.ProgrammingError) or (error.sqlstate is None and _LASTING.search(text))
        raise (ConnectError if is_lasting else RetriableError)(text) from None
    return connection


@contextmanager
def errors_of(database: str) -> Iterator[None]:
    """A context in which psycopg's errors become RetriableError and ConnectError. database: its name, for the
    message."""
    try:
        yield
    except psycopg.Error as error:
        text = f"{database}: {_text(error)}"
        is_gone = isinstance(error, psycopg.OperationalError) and error.sqlstate is None
        raise (RetriableError if is_gone or is_passing(error.sqlstate or "") else ConnectError)(text) from error


def is_passing(sqlstate: str) -> bool:
    """Whether an error of this SQLSTATE may be over when the operation is tried again."""
    return _PASSING.match(sqlstate) is not None


def _text(error: psycopg.Error) -> str:
    """Return the text of an error as one line."""
    detail = error.diag.message_detail
    context = error.diag.context if (error.diag.context or "").startswith("COPY") else None
    lines = [*str(error).splitlines()[:1], *(each for each in (detail, context) if each)]
    if error.sqlstate is None:
        lines = str(error).splitlines()
    return "; ".join(dict.fromkeys(each.strip() for each in lines if each.strip()))
