"""`kcli connect run` as a process that is killed: a file becomes a topic becomes rows of SQLite, each line once."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from kcli.testing.kafka import Kafka
from tests.connect.engines import wait_until

LINES = 20_000


def count(path: Path) -> int:
    with suppress(sqlite3.OperationalError), closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as rows:
        found: int = rows.execute("SELECT COUNT(*) FROM lines").fetchone()[0]
        return found
    return 0


@contextmanager
def worker(directory: Path, *more: str) -> Iterator[subprocess.Popen[bytes]]:
    """A standalone worker with the configurations of a directory. more: of further connectors."""
    files = [str(directory / f"{name}.properties") for name in ("worker", "source", "sink", *more)]
    with (directory / "log").open("ab") as log:
        command = [sys.executable, "-m", "kcli", "connect", "run", *files]
        process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            yield process
        finally:
            process.kill()
            process.wait()


@pytest.fixture
def lines(kafka: Kafka, tmp_path: Path) -> list[str]:
    """The lines that are to become rows, the first half of which is there; and the configurations of the worker."""

    def configure(which: str, **options: str) -> None:
        lines = (f"{option.replace('_', '.')}={text}\n" for option, text in options.items())
        (tmp_path / f"{which}.properties").write_text("".join(lines))

    configure(
        "worker",
        bootstrap_servers=kafka.bootstrap_servers,
        listeners="http://127.0.0.1:0",
        offset_storage_file_filename=str(tmp_path / "offsets"),
        key_converter="org.apache.kafka.connect.storage.StringConverter",
        value_converter="org.apache.kafka.connect.json.JsonConverter",
    )
    configure(
        "source",
        name="in",
        connector_class="FileStreamSource",
        file=str(tmp_path / "in"),
        topic="lines",
        transforms="row",
        transforms_row_type="org.apache.kafka.connect.transforms.HoistField$Value",
        transforms_row_field="line",
    )
    configure(
        "sink",
        name="out",
        connector_class="io.aiven.connect.jdbc.JdbcSinkConnector",
        topics="lines",
        connection_url=f"jdbc:sqlite:{tmp_path / 'db'}",
        auto_create="true",
        insert_mode="upsert",
        pk_mode="record_value",
        pk_fields="line",
    )
    found = [f"line {number:05}\n" for number in range(LINES)]
    append(tmp_path, found[: LINES // 2])
    return found


def append(directory: Path, lines: Sequence[str]) -> None:
    with (directory / "in").open("a") as file:
        file.write("".join(lines))


def test_a_worker_is_killed(lines: Sequence[str], tmp_path: Path) -> None:
    with worker(tmp_path) as process:
        wait_until(lambda: count(tmp_path / "db") > 0, 180)
        process.send_signal(signal.SIGKILL)
        process.wait()
    append(tmp_path, lines[LINES // 2 :])
    with worker(tmp_path) as process:
        wait_until(lambda: count(tmp_path / "db") == LINES, 180)
        process.terminate()
        assert process.wait(60) == 0


def test_spark_is_killed(lines: Sequence[str], tmp_path: Path) -> None:
    """Another JVM takes its place, and no task fails."""
    with worker(tmp_path) as process:
        wait_until(lambda: count(tmp_path / "db") > 0, 180)
        os.kill(int(subprocess.check_output(["pgrep", "-P", str(process.pid), "java"])), signal.SIGKILL)
        append(tmp_path, lines[LINES // 2 :])
        wait_until(lambda: count(tmp_path / "db") == LINES, 180)
        process.terminate()
        assert process.wait(60) == 0
    assert "FAILED" not in (tmp_path / "log").read_text()
