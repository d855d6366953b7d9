"""Kills of a Connect worker, of Spark's JVM, executors and Python workers, of the broker and of a database, while
records go through connectors of each kind.

    python -m tests.connect.kills --kills 100
    python -m tests.connect.kills --kills 20 --master 'local-cluster[2,8,1024]'    with executors

Lines are appended to a file, and rows inserted into tables, all the time; sources make records of them, and sinks write
those to a file, tables, objects and documents. Each kill is a SIGKILL, some time after one of the places has got
records, or soon after another kill; what was killed is started again. At the end each number is in each place: exactly
once, but for the lines of FileStreamSink, which promises less, and for what the last open file of the S3 sink lacks. No
task may have failed. A failure prints the seed. PostgreSQL's connectors are left out where it is not installed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
from confluent_kafka import Consumer, KafkaException, TopicPartition
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

from kcli.connect.connectors.iceberg.sink import IcebergSink
from kcli.connect.connectors.jdbc.sink import JdbcSink
from kcli.connect.connectors.jdbc.source import JdbcSource
from kcli.connect.connectors.opensearch.sink import OpensearchSink
from kcli.connect.connectors.postgres.source import PostgresSource
from kcli.connect.connectors.s3.sink import S3Sink
from kcli.connect.rest_client import NoWorker, ask
from kcli.testing.kafka import Kafka
from tests.connect.capture import config_of
from tests.connect.engines import wait_until
from tests.connect.postgres import Database, Server, binaries
from tests.connect.search_server import Store, Stub
from tests.connect.test_s3 import Bucket
from tests.export.processes import below
from tests.interop.clusters import free_ports
from tests.pipelines.test_sink import consumed
from tests.tier.s3 import s3_server

WAIT_S = 300.0
LOOK_S = 0.1
WAITING_S = 0.5
CHECK_EVERY = 10
PARTITIONS = 2
EACH = 5
"""So many lines are appended at a time."""
FLUSH = 200
"""The records of an object."""
ALONE = 0.5
"""The share of kills that wait for records; others follow the kill before within a second."""
COMMANDS = {"java": b"SparkSubmit", "python": b"\0kcli.export.daemon\0", "executor": b"CoarseGrainedExecutorBackend"}
VICTIMS = ("python", "broker", "worker", "database", "executor", "java")
KINDS = ("file", "changes", "table", "mirror", "lines", "rows", "database", "objects", "iceberg", "search")
"""Sources, then sinks."""
OF_POSTGRES = frozenset({"changes", "database"})
LINE = re.compile(rb"line (\d{8})")
WHOLE_LINE = re.compile(rb'line (\d{8})"}}\n')
CONVERTERS = "org.apache.kafka.connect.converters"
STRING = "org.apache.kafka.connect.storage.StringConverter"
WORKER = {
    "group.id": "kills",
    **{f"{each}.storage.topic": f"connect-{each}" for each in ("config", "offset", "status")},
    **{f"{each}.storage.replication.factor": "1" for each in ("config", "offset", "status")},
    "offset.storage.partitions": "2",
    "exactly.once.source.support": "enabled",
    "consumer.isolation.level": "read_committed",
    "session.timeout.ms": "3000",
    "heartbeat.interval.ms": "500",
    "scheduled.rebalance.max.delay.ms": "0",
    "key.converter": STRING,
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
}


class Place(NamedTuple):
    """Where a connector writes. config: the connector's. numbers: returns the numbers that are there, as often as they
    are. size: returns something that grows with them. is_exact: whether each is there once. lacks_max: how many may be
    missing, as they are in a file that is open."""

    config: dict[str, str]
    numbers: Callable[[], list[int]]
    size: Callable[[], int]
    is_exact: bool = True
    lacks_max: int = 0


class Lines:
    """A thread that appends lines with the numbers from 0 on to a file, and inserts them as rows, each once. inserts:
    take such rows, or raise an error."""

    def __init__(self, file: Path, inserts: Collection[Callable[[list[str]], None]]) -> None:
        self.count = 0
        self._file, self._inserts = file, inserts
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._append, daemon=True)
        self._thread.start()

    def _append(self) -> None:
        while not self._stop.wait(LOOK_S):
            lines = [f"line {number:08}" for number in range(self.count, self.count + EACH)]
            self.count += EACH
            with self._file.open("a") as file:
                file.write("".join(f"{each}\n" for each in lines))
            for insert in self._inserts:
                self._insert(insert, lines)

    def _insert(self, insert: Callable[[list[str]], None], lines: list[str]) -> None:
        deadline = time.monotonic() + WAIT_S
        while True:
            try:
                insert(lines)
            except (sqlite3.OperationalError, psycopg.OperationalError):
                assert time.monotonic() < deadline, "no row is taken"
                time.sleep(LOOK_S)
            else:
                return

    def stop(self) -> None:
        """End the thread; return when all is there."""
        self._stop.set()
        self._thread.join(WAIT_S)
        assert not self._thread.is_alive()


class Worker:
    """The worker, which is started again when it has been killed."""

    def __init__(self, directory: Path, bootstrap: str, master: str) -> None:
        (port,) = free_ports(1)
        self.url, self.log = f"http://127.0.0.1:{port}", directory / "worker.log"
        file = directory / "worker.properties"
        options = {**WORKER, "bootstrap.servers": bootstrap, "listeners": self.url}
        file.write_text("".join(f"{name}={text}\n" for name, text in options.items()))
        self._command = [sys.executable, "-m", "kcli", "connect", "run", str(file), "--master", master]
        self._start()

    def _start(self) -> None:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)

    def create(self, name: str, config: dict[str, str]) -> None:
        """Create a connector, once the worker leads."""

        def is_created() -> bool:
            with suppress(NoWorker):
                ask(self.url, "PUT", f"/connectors/{name}/config", {"name": name, **config})
                return True
            return False

        wait_until(is_created, WAIT_S)

    def check(self) -> None:
        """Check that the worker runs, and that no connector and no task has failed."""
        assert self._process.poll() is None, "the worker has ended"
        with suppress(NoWorker):
            for name, found in ask(self.url, "GET", "/connectors?expand=status").items():
                status = found["status"]
                for each in (status["connector"], *status["tasks"]):
                    assert each["state"] != "FAILED", f"{name}: {each}"

    def kill(self, victim: str, draw: random.Random) -> None:
        """Kill the worker, or one of the processes of a kind as soon as there is one."""
        if victim == "worker":
            self._process.kill()
            self._process.wait()
            self._start()
            return
        deadline = time.monotonic() + WAIT_S
        while True:
            found = [pid for pid, command in below(self._process.pid) if COMMANDS[victim] in command]
            with suppress(ProcessLookupError, IndexError):
                os.kill(draw.choice(found), signal.SIGKILL)
                return
            assert time.monotonic() < deadline, f"no {victim}"
            self.check()
            time.sleep(0.02)

    def stop(self) -> None:
        """Have the worker end."""
        self._process.terminate()
        assert self._process.wait(60) == 0

    def close(self) -> None:
        """Kill the worker and what it has started."""
        for pid in (*(pid for pid, _ in below(self._process.pid)), self._process.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()


class Places:
    """The places of the connectors of some kinds."""

    def __init__(self, kinds: Collection[str], kafka: Kafka, directory: Path, stack: ExitStack) -> None:
        self._kafka, self._directory = kafka, directory
        self.lines, self._numbers = directory / "in", directory / "numbers.db"
        self.postgres = _postgres(stack) if OF_POSTGRES & {*kinds} else None
        self._source = None if self.postgres is None else self.postgres.new_database()
        self._target = None if self.postgres is None else self.postgres.new_database()
        self._stack = stack
        self.lines.touch()
        self.inserts: list[Callable[[list[str]], None]] = []
        self.all = {kind: getattr(self, f"_{kind}")() for kind in kinds}

    # sources

    def _file(self) -> Place:
        hoist = {"transforms": "h", "transforms.h.type": "org.apache.kafka.connect.transforms.HoistField$Value"}
        config = {"connector.class": "FileStreamSource", "file": str(self.lines), "topic": "lines"}
        return self._topic("lines", {**config, **hoist, "transforms.h.field": "line"})

    def _changes(self) -> Place:
        assert self._source is not None, "PostgreSQL runs"
        database = self._source
        database.run("CREATE TABLE t (line text PRIMARY KEY)")
        self.inserts.append(lambda lines: _insert(database, lines))
        return self._topic("p.public.t", {"connector.class": PostgresSource.CLASS, **config_of(database)})

    def _table(self) -> Place:
        with closing(sqlite3.connect(self._numbers)) as connection:
            connection.execute("CREATE TABLE numbers (id INTEGER PRIMARY KEY, line TEXT)")
        self.inserts.append(self._insert_numbers)
        config = {"connector.class": JdbcSource.CLASS, "connection.url": f"jdbc:sqlite:{self._numbers}"}
        config |= {"mode": "incrementing", "incrementing.column.name": "id", "topic.prefix": "db-"}
        return self._topic("db-numbers", {**config, "poll.interval.ms": "500"})

    def _insert_numbers(self, lines: list[str]) -> None:
        rows = [(int(each.removeprefix("line ")) + 1, each) for each in lines]
        with closing(sqlite3.connect(self._numbers)) as connection, connection:
            connection.executemany("INSERT OR IGNORE INTO numbers VALUES (?, ?)", rows)

    def _mirror(self) -> Place:
        bootstrap = self._kafka.bootstrap_servers
        config = {"connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector", "topics": "lines"}
        config |= {"source.cluster.alias": "m", "target.cluster.alias": "n", "replication.factor": "1"}
        config |= {f"{each}.cluster.bootstrap.servers": bootstrap for each in ("source", "target")}
        config |= {f"{each}.converter": f"{CONVERTERS}.ByteArrayConverter" for each in ("key", "value", "header")}
        config |= {"source.consumer.isolation.level": "read_committed", "offset-syncs.topic.replication.factor": "1"}
        return self._topic("m.lines", config)

    def _topic(self, topic: str, config: dict[str, str]) -> Place:
        self._kafka.create_topic(topic, partitions=PARTITIONS)
        consumer = Consumer({**self._kafka.client_config("confluent"), "group.id": "size", "log_level": 2})
        self._stack.callback(consumer.close)

        def size() -> int:
            places = [TopicPartition(topic, number) for number in range(PARTITIONS)]
            with suppress(KafkaException):
                return sum(consumer.get_watermark_offsets(each, 5.0)[1] for each in places)
            return 0

        def numbers() -> list[int]:
            return _numbers(each.value() for each in consumed(self._kafka, topic, PARTITIONS))

        return Place(config, numbers, size)

    # sinks

    def _lines(self) -> Place:
        path = self._directory / "out"
        path.touch()
        config = {"connector.class": "FileStreamSink", "file": str(path), "topics": "lines", "value.converter": STRING}
        return Place(
            config,
            lambda: [*map(int, WHOLE_LINE.findall(path.read_bytes()))],
            lambda: path.stat().st_size,
            is_exact=False,
        )

    def _rows(self) -> Place:
        path = self._directory / "rows.db"
        found = f"file:{path}?mode=ro"

        def run(what: str) -> list[tuple[Any, ...]]:
            with suppress(sqlite3.OperationalError), closing(sqlite3.connect(found, uri=True)) as connection:
                return connection.execute(f"SELECT {what} FROM lines").fetchall()
            return []

        return Place(
            self._upsert(f"jdbc:sqlite:{path}"),
            lambda: [int(each.removeprefix("line ")) for (each,) in run("line")],
            lambda: sum(count for (count,) in run("COUNT(*)")),
        )

    def _database(self) -> Place:
        assert self._target is not None, "PostgreSQL runs"
        database = self._target

        def run(what: str) -> list[tuple[Any, ...]]:
            with suppress(psycopg.Error):
                return database.run(f"SELECT {what} FROM lines")
            return []

        return Place(
            self._upsert(database.url),
            lambda: [int(each.removeprefix("line ")) for (each,) in run("line")],
            lambda: sum(count for (count,) in run("COUNT(*)")),
        )

    def _upsert(self, url: str) -> dict[str, str]:
        config = {"connector.class": JdbcSink.CLASS, "connection.url": url, "topics": "lines", "auto.create": "true"}
        config |= {"insert.mode": "upsert", "pk.mode": "record_value", "pk.fields": "line"}
        return {**config, "max.retries": "1000", "retry.backoff.ms": "200"}

    def _objects(self) -> Place:
        bucket = Bucket(self._stack.enter_context(s3_server()))
        config = {"connector.class": S3Sink.CLASS, **bucket.config, "topics": "lines", "flush.size": str(FLUSH)}
        return Place(
            {**config, "tasks.max": "2"},
            lambda: _numbers(line for data in bucket.objects().values() for line in data.splitlines()),
            lambda: len(bucket.objects()),
            lacks_max=PARTITIONS * (FLUSH - 1),
        )

    def _iceberg(self) -> Place:
        directory = self._directory / "iceberg"
        directory.mkdir()
        options = {"type": "sql", "uri": f"sqlite:///{directory}/catalog.db", "warehouse": f"file://{directory}"}

        def table() -> Any:
            with suppress(NoSuchTableError, NoSuchNamespaceError):
                return load_catalog("iceberg", **options).load_table("db.lines")
            return None

        def numbers() -> list[int]:
            found = table()
            lines = [] if found is None else found.scan().to_arrow()["line"].to_pylist()
            return [int(each.removeprefix("line ")) for each in lines]

        def size() -> int:
            found = table()
            return 0 if found is None else len(found.metadata.snapshots)

        config = {"connector.class": IcebergSink.CLASS, "topics": "lines", "iceberg.tables": "db.lines"}
        config |= {f"iceberg.catalog.{name}": text for name, text in options.items()}
        config |= {"iceberg.tables.auto-create-enabled": "true", "iceberg.control.commit.interval-ms": "1000"}
        return Place({**config, "tasks.max": "2"}, numbers, size)

    def _search(self) -> Place:
        stub, store = Stub(), Store()
        self._stack.callback(stub.close)
        stub.answer = store.answer
        config = {"connector.class": OpensearchSink.CLASS, "connection.url": stub.url, "topics": "lines"}
        config |= {"key.ignore": "true", "schema.ignore": "true", "max.retries": "1000", "retry.backoff.ms": "200"}
        return Place(
            config,
            lambda: _numbers(json.dumps(each).encode() for _, each in list(store.documents.values())),
            lambda: len(store.documents),
        )

    # what holds

    def check(self, count: int | None = None) -> None:
        """Check that no number is in a place twice that promises so, and that all numbers below `count` are in all."""
        for kind, place in self.all.items():
            found = Counter(place.numbers())
            if place.is_exact:
                twice = sorted(number for number, times in found.items() if times > 1)
                assert not twice, f"{kind}: {len(twice)} numbers as {twice[0]} are there twice"
            if count is not None:
                missing = sorted({*range(count)} - found.keys())
                assert len(missing) <= place.lacks_max, f"{kind}: {len(missing)} numbers as {missing[0]} are missing"
                assert len(found) + len(missing) == count, f"{kind}: it has numbers that nobody wrote"

    def are_complete(self, count: int) -> bool:
        """Return whether all places have all numbers below `count`."""
        return all(len({*each.numbers()}) >= count - each.lacks_max for each in self.all.values())


def _insert(database: Database, lines: list[str]) -> None:
    with database.connect() as connection, connection.transaction():
        for each in lines:
            connection.execute("INSERT INTO t VALUES (%s) ON CONFLICT DO NOTHING", (each,))


def _numbers(values: Iterator[bytes]) -> list[int]:
    return [int(found[1]) for each in values if (found := LINE.search(each))]


def _postgres(stack: ExitStack) -> Server:
    programs = binaries()
    assert programs is not None, "PostgreSQL is not installed"
    return stack.enter_context(Server.running(programs))


def run(
    kills: int,
    seed: int,
    kinds: Collection[str] = KINDS,
    master: str = "local[*]",
    note: Callable[[str], object] = lambda _: None,
) -> int:
    """Kill so many processes. kinds: of connectors. Return how many lines have gone through. Raises AssertionError."""
    draw = random.Random(seed)
    if binaries() is None:
        kinds = [each for each in kinds if each not in OF_POSTGRES]
    with (
        tempfile.TemporaryDirectory() as name,
        Kafka.started(process="child", config={"group.min.session.timeout.ms": "500"}) as kafka,
        ExitStack() as stack,
    ):
        places = Places(kinds, kafka, Path(name), stack)
        victims = [each for each in VICTIMS if each != "executor" or master.startswith("local-cluster")]
        victims = [each for each in victims if each != "database" or places.postgres is not None]
        worker = Worker(Path(name), kafka.bootstrap_servers, master)
        stack.callback(worker.close)
        killed: Counter[str] = Counter()
        try:
            for kind, place in places.all.items():
                worker.create(kind, place.config)
            lines = Lines(places.lines, places.inserts)
            for place in places.all.values():
                _wait(lambda place=place: place.size() > 0, worker, place.config["connector.class"])  # type: ignore[misc]
            for number in range(kills):
                if draw.random() < ALONE:
                    _wait_for_more(places.all[draw.choice([*places.all])], worker)
                time.sleep(draw.uniform(0, 1))
                victim = victims[number % len(victims)]
                if victim == "broker":
                    kafka.kill()
                    time.sleep(draw.uniform(0, 0.5))
                    kafka.start()
                elif victim == "database":
                    assert places.postgres is not None
                    places.postgres.kill()
                    time.sleep(draw.uniform(0, 0.5))
                    places.postgres.start()
                else:
                    worker.kill(victim, draw)
                killed[victim] += 1
                note(f"{number + 1} kills, the last of a {victim}; {lines.count:,} lines")
                worker.check()
                if number % CHECK_EVERY == CHECK_EVERY - 1:
                    places.check()
            lines.stop()
            try:
                _wait(lambda: places.are_complete(lines.count), worker, "all is everywhere")
            except AssertionError:
                places.check(lines.count)  # says what is missing where
                raise
            worker.check()
            worker.stop()
            places.check(lines.count)
        except BaseException:
            note(f"seed {seed}\n{worker.log.read_text()[-20_000:]}")
            raise
        note(", ".join(f"{count} of a {victim}" for victim, count in killed.items()))
        return lines.count


def _wait_for_more(place: Place, worker: Worker) -> None:
    before = place.size()
    _wait(lambda: place.size() > before, worker, f"more for {place.config['connector.class']}")


def _wait(is_true: Callable[[], bool], worker: Worker, what: str) -> None:
    deadline = time.monotonic() + WAIT_S
    while not is_true():
        worker.check()
        assert time.monotonic() < deadline, f"{what}: not in {WAIT_S:.0f} s"
        time.sleep(WAITING_S)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--kinds", default=",".join(KINDS), help="of connectors: file and others (default: all)")
    parser.add_argument("--master", default="local[*]", help="only local-cluster has executors to kill")
    given = parser.parse_args()
    count = run(given.kills, given.seed, given.kinds.split(","), given.master, print)
    print(f"{count:,} lines are in all places as it is promised")
