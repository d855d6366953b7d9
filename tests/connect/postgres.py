"""A PostgreSQL of a test's own, in a temporary directory; tests are skipped where it is not installed."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final, Self

import psycopg
import pytest

SETTINGS: Final = {
    "fsync": "off",
    "listen_addresses": "127.0.0.1",
    "max_replication_slots": "20",
    "max_wal_senders": "20",
    "shared_buffers": "16MB",
    "wal_level": "logical",
}
START_S: Final = 30.0


@cache
def binaries() -> Path | None:
    """Return the directory of PostgreSQL's programs; None if there are none."""
    found = shutil.which("pg_ctl")
    places = [Path(found).parent] if found else sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    return places[-1] if places else None


class Server:
    """A server. It can be killed, and started again on its directory."""

    def __init__(self, programs: Path) -> None:
        self._programs = programs
        self._directory = Path(tempfile.mkdtemp(prefix="kcli-postgres-"))
        self._user = pwd.getpwnam("postgres" if _is_there("postgres") else "nobody") if os.geteuid() == 0 else None
        if self._user is not None:
            os.chown(self._directory, self._user.pw_uid, self._user.pw_gid)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self._data = self._directory / "data"
        self._run("initdb", "-D", str(self._data), "-A", "trust", "-U", "kcli", "--no-sync", "-E", "UTF8", "--locale=C")
        settings = {**SETTINGS, "port": str(self.port), "unix_socket_directories": str(self._directory)}
        with (self._data / "postgresql.conf").open("a") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in settings.items())
        self._databases = 0

    def start(self) -> None:
        """Start the server; it takes connections then."""
        self._run("pg_ctl", "-D", str(self._data), "-l", str(self._directory / "log"), "-w", "-s", "start")

    def kill(self) -> None:
        """End all its processes at once; the next start recovers."""
        self._run("pg_ctl", "-D", str(self._data), "-m", "immediate", "-w", "-s", "stop")

    def remove(self) -> None:
        """Kill the server, and remove its directory."""
        self.kill()
        shutil.rmtree(self._directory)

    @classmethod
    @contextmanager
    def running(cls, programs: Path) -> Iterator[Self]:
        """A context with a server, which is removed at its end."""
        server = cls(programs)
        try:
            server.start()
            yield server
        finally:
            server.remove()

    def new_database(self) -> Database:
        """Return a database without tables."""
        self._databases += 1
        name = f"db{self._databases}"
        Database(self, "postgres").run(f"CREATE DATABASE {name}")
        return Database(self, name)

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [self._programs / program, *arguments],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            cwd=self._directory,
            check=False,
            user=self._user and self._user.pw_uid,
            group=self._user and self._user.pw_gid,
        )
        assert done.returncode == 0, done.stderr.decode()


class Database:
    """A database of a server."""

    def __init__(self, server: Server, name: str) -> None:
        self.server, self.name = server, name
        self.url = f"jdbc:postgresql://127.0.0.1:{server.port}/{name}?user=kcli"

    def connect(self) -> psycopg.Connection[tuple[Any, ...]]:
        """Return a connection that commits each statement."""
        deadline = time.monotonic() + START_S
        while True:
            try:
                return psycopg.connect(
                    host="127.0.0.1", port=self.server.port, user="kcli", dbname=self.name, autocommit=True
                )
            except psycopg.OperationalError:
                assert time.monotonic() < deadline, "PostgreSQL does not start"
                time.sleep(0.1)

    def run(self, sql: str, values: Sequence[Any] | None = None) -> list[tuple[Any, ...]]:
        """Run statements; return the rows of the last one."""
        with self.connect() as connection:
            cursor = connection.execute(sql.encode(), values)
            return cursor.fetchall() if cursor.description else []


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Server]:
    """A server for the tests of a process."""
    programs = binaries()
    if programs is None:
        pytest.skip("PostgreSQL is not installed: neither pg_ctl nor /usr/lib/postgresql")
    with Server.running(programs) as server:
        yield server


@pytest.fixture
def postgres(postgres_server: Server) -> Database:
    """A database without tables."""
    return postgres_server.new_database()


def _is_there(user: str) -> bool:
    try:
        pwd.getpwnam(user)
    except KeyError:
        return False
    return True
