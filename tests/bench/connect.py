"""python -m tests.bench.connect [--records N] [--rows N] [--idle-s S]: kcli's Connect worker beside Kafka's.

Both are distributed workers on the same real Kafka, one after the other, which get the same connectors by their REST
API: lines of a file to a topic and back, also with a transform, and a topic mirrored. Each load runs once with a tenth
of its records, and then counts from the moment when a tenth of them is there: Java's JIT and Spark's Python workers are
warm by then. Kafka has no JDBC connector: beside kcli's, which takes Confluent's configuration, there is Debezium's, to
the same PostgreSQL, both with BATCH records at a time. The last figures are of ten connectors that have nothing to do:
all processes of the worker, once Spark's Python workers have ended. Each figure is printed to stderr as soon as it is
there; a worker that does not answer in CALL_S, and a load that does not end in WAIT_S, end the benchmark. The table
goes to tests/bench/CONNECT.md.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kcli.connect.rest_client import NoWorker, RefusedByWorker, ask
from kcli.errors import KcliError
from tests.bench.measure import BenchError
from tests.bench.report import ServeFigure, machine, serve_table
from tests.connect.postgres import Database, Server, binaries
from tests.connect.record import POM, properties
from tests.interop import kit
from tests.interop.clusters import free_ports

RESULTS = Path(__file__).with_name("CONNECT.md")
JDBC_POM = POM.with_name("connect-jdbc-pom.xml")
PLUGIN = "debezium-connector-jdbc-3.4.3.Final-plugin.tar.gz"
NODE = "connect-bench"
WARM = 0.1
WAIT_S = 600.0
CALL_S = 30.0
CHECK_S = 1.0
"""How often a worker is asked for the states of tasks: it has other work."""
BUSY = 409
LINE = 100
BATCH = 3000
"""Confluent's default."""
SETTLE_S = 90.0
"""After which time without work Spark's Python workers have ended."""
TICKS = os.sysconf("SC_CLK_TCK")
LOOK_S = 0.05
BYTES = {
    f"{each}.converter": "org.apache.kafka.connect.converters.ByteArrayConverter" for each in ("key", "value", "header")
}
STRINGS = {f"{each}.converter": "org.apache.kafka.connect.storage.StringConverter" for each in ("key", "value")}
HEADER = {
    "transforms": "h",
    "transforms.h.type": "org.apache.kafka.connect.transforms.InsertHeader",
    "transforms.h.header": "from",
    "transforms.h.value.literal": "bench",
}
ROW_SCHEMA = {
    "type": "struct",
    "fields": [{"type": "int64", "field": "id"}, {"type": "string", "field": "name"}, {"type": "double", "field": "x"}],
}
Config = dict[str, str]


class Worker:
    """A worker that runs. url: of its REST API. pid: of its first process, which has a session of its own."""

    def __init__(self, url: str, pid: int, directory: Path) -> None:
        self.url, self.pid, self.directory = url, pid, directory
        self._checked_s = 0.0

    def put(self, name: str, config: Config) -> None:
        """Create a connector."""
        self._change("PUT", f"/connectors/{name}/config", {"name": name, **config})

    def delete(self, name: str) -> None:
        """Delete a connector."""
        self._change("DELETE", f"/connectors/{name}")

    def _change(self, method: str, path: str, body: object = None) -> None:
        def is_done() -> bool:
            try:
                self._ask(method, path, body)
            except RefusedByWorker as error:
                if error.status != BUSY:  # a rebalance is underway
                    raise
                return False
            return True

        _wait(f"{method} {path}", is_done)

    def check(self, name: str) -> None:
        """Raise BenchError if a task has failed; at most every CHECK_S."""
        if time.monotonic() - self._checked_s < CHECK_S:
            return
        self._checked_s = time.monotonic()
        with suppress(RefusedByWorker):  # there is no status yet
            for each in self._ask("GET", f"/connectors/{name}/status")["tasks"]:
                if each["state"] == "FAILED":
                    raise BenchError(f"{name}: {each['trace'][:500]}")

    def _ask(self, method: str, path: str, body: object = None) -> Any:
        return ask(self.url, method, path, body, CALL_S)

    def usage(self) -> tuple[float, float]:
        """Return the seconds of CPU that its processes have taken, and the megabytes that they have."""
        seconds = size = 0.0
        for each in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                stat = (each / "stat").read_text().rpartition(")")[2].split()
                if int(stat[3]) != self.pid:  # the session
                    continue
                seconds += (int(stat[11]) + int(stat[12])) / TICKS
                rollup = (each / "smaps_rollup").read_text().split()
                size += int(rollup[rollup.index("Pss:") + 1]) / 1000
        return seconds, size


@contextmanager
def kcli_s(bootstrap: str, directory: Path) -> Iterator[Worker]:
    """Run kcli's worker."""
    command = [sys.executable, "-m", "kcli", "connect", "run"]
    with _worker(command, {}, "kcli", bootstrap, directory) as worker:
        yield worker


@contextmanager
def kafka_s(bootstrap: str, directory: Path) -> Iterator[Worker]:
    """Run Kafka's worker, with the options of its own start scripts."""
    extra = kit.more_jars(POM, "connect-mirror-4.3.0.jar")
    command = [str(kit.SCRIPT), "run", "org.apache.kafka.connect.cli.ConnectDistributed"]
    environment = {"KAFKA_CLASSPATH": f"{extra}/*", "KAFKA_PERF": "1"}
    with _worker(command, environment, "kafka", bootstrap, directory, plugin__path=str(_debezium())) as worker:
        yield worker


def _debezium() -> Path:
    """Return the plugin path with Debezium's JDBC connector."""
    plugins = kit.more_jars(JDBC_POM, PLUGIN, "plugins")
    if not (plugins / "debezium-connector-jdbc").exists():
        with tarfile.open(plugins / PLUGIN) as archive:
            archive.extractall(plugins, filter="data")
    return plugins


@contextmanager
def _worker(
    command: list[str], environment: Mapping[str, str], name: str, bootstrap: str, directory: Path, **more: str
) -> Iterator[Worker]:
    (port,) = free_ports(1)
    own = {f"{each}__storage__topic": f"{name}-{each}" for each in ("config", "offset", "status")}
    own |= {"group__id": f"{name}-workers", "offset__flush__interval__ms": "60000"}
    file = directory / f"{name}.properties"
    file.write_text(properties(bootstrap, port, **own, **more))
    with (directory / f"{name}.log").open("w") as log:
        process = subprocess.Popen(
            [*command, str(file)],
            env={**os.environ, **environment},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            worker = Worker(f"http://127.0.0.1:{port}", process.pid, directory)
            _wait(f"{name}'s worker", lambda: _answers(worker.url))
            yield worker
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def _answers(url: str) -> bool:
    try:
        ask(url, "GET", "/connectors", timeout_s=CALL_S)
    except NoWorker:
        return False
    return True


def _wait(what: str, is_true: Callable[[], bool]) -> None:
    until = time.monotonic() + WAIT_S
    while not is_true():
        if time.monotonic() > until:
            raise BenchError(f"{what} takes longer than {WAIT_S:.0f} s")
        time.sleep(LOOK_S)


class Cluster:
    """The broker that both workers have."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "bench"})

    def create(self, topic: str) -> None:
        """Create a topic with one partition."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        for future in admin.create_topics([NewTopic(topic, 1, 1)]).values():
            future.result(CALL_S)

    def fill(self, topic: str, values: Iterator[bytes]) -> None:
        """Create a topic, and append records. Raises BenchError if the broker does not take them in time."""
        self.create(topic)
        until = time.monotonic() + WAIT_S
        producer: Any = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 20, "compression.type": "lz4"})
        for number, value in enumerate(values):
            while True:
                try:
                    producer.produce(topic, value, b"%d" % number)
                except BufferError:
                    producer.poll(0.1)
                    if time.monotonic() > until:
                        raise BenchError(f"{topic} takes no records") from None
                else:
                    break
        if producer.flush(WAIT_S):
            raise BenchError(f"{topic} does not take all records")

    def end(self, topic: str) -> int:
        """Return the offset at the end of a topic; 0 if it is not there."""
        try:
            return self._consumer.get_watermark_offsets(TopicPartition(topic, 0), 10.0)[1]
        except KafkaException:
            return 0


def line(number: int) -> bytes:
    """Return a line of the loads."""
    return f"line {number:012} ".encode().ljust(LINE - 1, b"x")


class Load:
    """Records that go through a connector. Its methods are given a name of their own for each run."""

    def __init__(self, title: str, unit: str = "records/s") -> None:
        self.title, self.unit = title, unit

    def prepare(self, cluster: Cluster, directory: Path, name: str, count: int) -> Config:
        """Make the input; return the connector's configuration."""
        raise NotImplementedError

    def done(self, cluster: Cluster, directory: Path, name: str) -> int:
        """Return how many records have come through."""
        raise NotImplementedError


class FileSource(Load):
    """Lines of a file to a topic."""

    def prepare(self, cluster: Cluster, directory: Path, name: str, count: int) -> Config:
        """Write the file."""
        path = directory / f"{name}.in"
        with path.open("wb") as file:
            file.writelines(line(number) + b"\n" for number in range(count))
        cluster.create(name)
        kind = "org.apache.kafka.connect.file.FileStreamSourceConnector"
        return {"connector.class": kind, "file": str(path), "topic": name, **STRINGS}

    def done(self, cluster: Cluster, directory: Path, name: str) -> int:  # noqa: ARG002
        """Return the topic's end."""
        return cluster.end(name)


class FileSink(Load):
    """Records of a topic to lines of a file, perhaps with a transform."""

    def __init__(self, title: str, transforms: Mapping[str, str]) -> None:
        super().__init__(title)
        self._transforms = transforms

    def prepare(self, cluster: Cluster, directory: Path, name: str, count: int) -> Config:
        """Fill the topic."""
        cluster.fill(name, map(line, range(count)))
        kind = "org.apache.kafka.connect.file.FileStreamSinkConnector"
        config = {"connector.class": kind, "file": str(directory / f"{name}.out"), "topics": name}
        return {**config, **STRINGS, **self._transforms}

    def done(self, cluster: Cluster, directory: Path, name: str) -> int:  # noqa: ARG002
        """Return how many lines the file has."""
        path = directory / f"{name}.out"
        return path.stat().st_size // LINE if path.exists() else 0


class Mirror(Load):
    """A topic mirrored to the same cluster under another name."""

    def prepare(self, cluster: Cluster, directory: Path, name: str, count: int) -> Config:  # noqa: ARG002
        """Fill the topic, and create that of its mirror, as librdkafka keeps in mind that a topic was not there."""
        cluster.fill(name, map(line, range(count)))
        cluster.create(f"m.{name}")
        return {
            "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
            "source.cluster.alias": "m",
            "target.cluster.alias": "n",
            "source.cluster.bootstrap.servers": cluster.bootstrap,
            "target.cluster.bootstrap.servers": cluster.bootstrap,
            "topics": name,
            "replication.factor": "1",
            "offset-syncs.topic.replication.factor": "1",
            **BYTES,
        }

    def done(self, cluster: Cluster, directory: Path, name: str) -> int:  # noqa: ARG002
        """Return the end of the topic's mirror."""
        return cluster.end(f"m.{name}")


class JdbcSink(Load):
    """JSON with schemas to rows of PostgreSQL. database: where the rows go."""

    def __init__(self, database: Database) -> None:
        super().__init__("JDBC sink, PostgreSQL, upsert", "rows/s")
        self.database = database

    def prepare(self, cluster: Cluster, directory: Path, name: str, count: int) -> Config:  # noqa: ARG002
        """Fill the topic."""
        rows = ({"id": number, "name": f"name {number}", "x": number / 7} for number in range(count))
        cluster.fill(name, (json.dumps({"schema": ROW_SCHEMA, "payload": each}).encode() for each in rows))
        return {
            "topics": name,
            "batch.size": str(BATCH),
            "consumer.override.max.poll.records": str(BATCH),
            "insert.mode": "upsert",
            "key.converter": STRINGS["key.converter"],
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            **self.connector(_table(name)),
        }

    def connector(self, table: str) -> Config:
        """Return the configuration of Confluent's connector."""
        return {
            "connector.class": "io.confluent.connect.jdbc.JdbcSinkConnector",
            "connection.url": self.database.url,
            "table.name.format": table,
            "auto.create": "true",
            "pk.mode": "record_value",
            "pk.fields": "id",
        }

    def done(self, cluster: Cluster, directory: Path, name: str) -> int:  # noqa: ARG002
        """Return how many rows there are."""
        with suppress(psycopg.errors.UndefinedTable):
            found: int = self.database.run(f"SELECT COUNT(*) FROM {_table(name)}")[0][0]
            return found
        return 0


class DebeziumSink(JdbcSink):
    """The same by Debezium's connector."""

    def connector(self, table: str) -> Config:
        """Return its configuration."""
        return {
            "connector.class": "io.debezium.connector.jdbc.JdbcSinkConnector",
            "connection.url": f"{self.database.url}&reWriteBatchedInserts=true",
            "connection.username": "kcli",
            "connection.password": "none",
            "collection.name.format": table,
            "schema.evolution": "basic",
            "primary.key.mode": "record_value",
            "primary.key.fields": "id",
        }


def _table(name: str) -> str:
    return name.replace("-", "_")


LOADS = (
    FileSource("FileStream source"),
    FileSink("FileStream sink", {}),
    FileSink("FileStream sink with InsertHeader", HEADER),
    Mirror("MirrorSource"),
)


def throughput(cluster: Cluster, worker: Worker, load: Load, name: str, count: int) -> float:
    """Return how many records a load has a second."""
    for part in ("warm", "run"):
        own, total = f"{name}-{part}", count if part == "run" else round(count * WARM)
        worker.put(own, load.prepare(cluster, worker.directory, own, total))
        begun, first = 0.0, 0
        until = time.monotonic() + WAIT_S
        while (done := load.done(cluster, worker.directory, own)) < total:
            if not begun and done >= WARM * total:
                begun, first = time.perf_counter(), done
            if time.monotonic() > until:
                raise BenchError(f"{load.title} takes longer than {WAIT_S:.0f} s: {done} of {total}")
            worker.check(own)
            time.sleep(LOOK_S)
        took = time.perf_counter() - begun if begun else 0.0
        worker.delete(own)
    if not begun:
        raise BenchError(f"{load.title}: {count} records are too few to measure")
    found = (count - first) / took
    print(f"{name}: {load.title}: {found:,.0f} {load.unit}", file=sys.stderr, flush=True)
    return found


def idle(cluster: Cluster, worker: Worker, side: str, seconds: float) -> tuple[float, float]:
    """Return the part of a core, in percent, and the megabytes that ten connectors without work take. side: a name that
    no other call has on this cluster."""
    for number in range(5):
        name = f"{side}-idle-{number}"
        for load, kind in ((LOADS[0], "source"), (LOADS[1], "sink")):
            own = f"{name}-{kind}"
            worker.put(own, load.prepare(cluster, worker.directory, own, 10))
            until = time.monotonic() + WAIT_S
            while load.done(cluster, worker.directory, own) < 10:
                if time.monotonic() > until:
                    raise BenchError(f"{own} takes longer than {WAIT_S:.0f} s")
                worker.check(own)
                time.sleep(LOOK_S)
    time.sleep(SETTLE_S if seconds >= 30 else seconds)
    before, _ = worker.usage()
    time.sleep(seconds)
    after, megabytes = worker.usage()
    return (after - before) / seconds * 100, megabytes


def measure(records: int, rows: int, idle_s: float) -> list[ServeFigure]:
    """Return the figures."""
    programs = binaries()
    if programs is None:
        raise BenchError("no PostgreSQL here")
    directory = Path(tempfile.mkdtemp(prefix="connect-bench-"))
    bootstrap = kit.kafka("start", NODE, "log.retention.ms=-1", "group.initial.rebalance.delay.ms=0").split()[-1]
    try:
        with Server.running(programs) as server:
            cluster, database = Cluster(bootstrap), server.new_database()
            sides = (("kcli", kcli_s, JdbcSink(database)), ("kafka", kafka_s, DebeziumSink(database)))
            found: dict[str, list[float]] = {}
            for name, side, jdbc in sides:
                counted = [*((load, records) for load in LOADS), (jdbc, rows)]
                with side(bootstrap, directory) as worker:
                    found[name] = [
                        throughput(cluster, worker, load, f"{name}-{number}", count)
                        for number, (load, count) in enumerate(counted)
                    ]
                with side(bootstrap, directory) as worker:
                    found[name] += idle(cluster, worker, name, idle_s)
    finally:
        kit.kafka("stop", NODE)
        kit.kafka("rm", NODE)
        shutil.rmtree(directory, ignore_errors=True)
    pairs = zip(found["kcli"], found["kafka"], strict=True)
    figures = [
        ServeFigure(f"{load.title}, {count:,} records", *next(pairs), load.unit, least_ratio=1.0)
        for load, count in counted
    ]
    figures.append(ServeFigure("ten idle connectors: CPU", *next(pairs), "% of a core", most=5))
    figures.append(ServeFigure("ten idle connectors: memory", *next(pairs), "MB", most=600))
    return figures


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--records", type=int, default=5_000_000)
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--idle-s", type=float, default=60.0)
    given = parser.parse_args()
    try:
        figures = measure(given.records, given.rows, given.idle_s)
    except (BenchError, KcliError, KafkaException, OSError, subprocess.SubprocessError) as failed:
        print(f"bench: {failed}", file=sys.stderr)
        return 1
    text = (
        "# Connect: kcli's worker beside Kafka's\n\nWritten by `python -m tests.bench.connect "
        f"--records {given.records} --rows {given.rows} --idle-s {given.idle_s:g}`, which says how it is measured. "
        f"{machine()}. Load of the machine at the end: {os.getloadavg()[0]:.0f}.\n\n{serve_table(figures, 'Kafka')}\n"
    )
    RESULTS.write_text(text)
    print(text)
    return 1 if any(each.reached is False for each in figures) else 0


if __name__ == "__main__":
    sys.exit(main())
