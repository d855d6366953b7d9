"""python -m tests.bench.streams [--records N] [--restored-mb N]: kcli's runners beside Java's Kafka Streams.

All run the same programs on the same real Kafka, one after the other, exactly once and without caches; Kafka Streams
has a thread, RocksDB, and the whole JIT; Spark is local[*]. Throughput counts from the moment when a tenth of the input
is committed: by then the JIT is warm, the group has its members, and Spark its Python workers. The restore is of a
changelog that is produced beforehand, from the start of the process until its task runs, without the start of the
program on an empty one. The table goes to tests/bench/STREAMS.md.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic

from kcli.client.connection import Connection
from kcli.client.groups import Groups
from kcli.client.processing import group_offsets
from kcli.protocol.topic_partition import TopicPartition
from tests.bench.measure import BenchError
from tests.bench.report import ServeFigure, machine, serve_table
from tests.interop import kit
from tests.streams.applications import START_MS

RESULTS = Path(__file__).with_name("STREAMS.md")
SOURCE = Path(__file__).parents[1] / "streams" / "Applications.java"
GUARANTEE = "exactly_once_v2"
NODE = "streams-bench"
WARM = 0.1
KEYS = 10_000
WAIT_S = 900.0
INPUTS = {"count": ("a", "app-counts-repartition"), "stream_table_join": ("a",)}
TASKS = {"count": 2, "stream_table_join": 1}
WORDS = [f"word{number}" for number in range(KEYS)]


class Side:
    """One of the three: a command that runs a program, prints a line when it is running, and ends with its input."""

    def __init__(self, name: str, command: Callable[[str, str], list[str]]) -> None:
        self.name, self._command = name, command

    @contextmanager
    def running(self, program: str, bootstrap: str) -> Iterator[float]:
        """Run a program; yield after how many seconds it was running. Raises BenchError if it ends before that."""
        begun = time.perf_counter()
        command = self._command(program, bootstrap)
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                if process.stdout.readline() != "running\n":
                    raise BenchError(f"{self.name} does not run {program}")
                yield time.perf_counter() - begun
            finally:
                assert process.stdin is not None
                process.stdin.close()


def sides(state_dir: Path) -> list[Side]:
    """Return kcli's local runner, its Spark runner, and Kafka Streams."""
    jars, more = kit.set_up(), kit.kit_dir() / "extra"
    class_path = kit.java(jars, SOURCE, more_jars=more)[-2]
    java = ["java", "-Xmx1G", "-XX:+UseG1GC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", class_path]

    def of_java(program: str, bootstrap: str) -> list[str]:
        directory = tempfile.mkdtemp(dir=state_dir)
        return [*java, SOURCE.stem, program, bootstrap, directory, GUARANTEE]

    def of_kcli(program: str, bootstrap: str) -> list[str]:
        module = [sys.executable, "-m", "tests.bench.streams_side"]
        return [*module, program, bootstrap, str(TASKS[program]), GUARANTEE]

    def of_spark(program: str, bootstrap: str) -> list[str]:
        module = [sys.executable, "-m", "tests.bench.streams_spark_side"]
        return [*module, program, bootstrap, tempfile.mkdtemp(dir=state_dir)]

    return [Side("kcli", of_kcli), Side("kcli on Spark", of_spark), Side("Kafka Streams", of_java)]


class Cluster:
    """The broker, on which each measurement begins with topics of its own."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap, self._connection = bootstrap, Connection(bootstrap, timeout_s=60.0)

    def empty(self, *topics: str) -> None:
        """Delete all topics and the group, and make these topics."""
        admin = self._connection.admin()
        known = [name for name in admin.list_topics().topics if not name.startswith("__")]
        for future in admin.delete_topics(known).values() if known else ():
            future.result()
        while set(known) & set(admin.list_topics().topics):
            time.sleep(0.1)
        for future in admin.delete_consumer_groups(["app"]).values():
            future.exception()
        for future in admin.create_topics([NewTopic(each, 1, 1) for each in topics]).values():
            future.result()

    def produce(self, topic: str, records: Iterator[tuple[bytes, bytes]]) -> None:
        """Append records."""
        producer: Any = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 20, "compression.type": "lz4"})
        for number, (key, value) in enumerate(records):
            while True:
                try:
                    producer.produce(topic, value, key, timestamp=START_MS + number // 1000)
                except BufferError:
                    producer.poll(0.1)
                else:
                    break
        producer.flush()

    def create_changelog(self, topic: str) -> None:
        """Make a changelog."""
        config = {"cleanup.policy": "compact", "message.timestamp.type": "CreateTime"}
        admin = self._connection.admin()
        for future in admin.create_topics([NewTopic(topic, 1, 1, config=config)]).values():
            future.result()

    def progress(self, topics: tuple[str, ...]) -> tuple[int, int]:
        """Return how many offsets the group has committed, and how many there are."""
        places = [TopicPartition(topic, 0) for topic in topics]
        committed = group_offsets(self._connection, "app", stable=False) or {}
        ends = Groups(self._connection).ends(places)
        return sum(committed.get(place, (0, ""))[0] for place in places), sum(ends.values())


def throughput(cluster: Cluster, side: Side, program: str, records: int) -> float:
    """Return how many input records a program processes in a second."""
    chance = random.Random(1)
    topics = INPUTS[program]
    cluster.empty("a", "b", "out")
    if program == "stream_table_join":
        cluster.produce("b", ((word.encode(), word.upper().encode()) for word in WORDS))
    cluster.produce("a", ((chance.choice(WORDS).encode(), chance.choice(WORDS).encode()) for _ in range(records)))
    with side.running(program, cluster.bootstrap):
        begun, first = 0.0, 0
        deadline = time.monotonic() + WAIT_S
        while True:
            done, _ = cluster.progress(topics[:1])
            now = time.perf_counter()
            if not begun and done >= WARM * records:
                begun, first = now, done
            committed, end = cluster.progress(topics)
            if done >= records and committed >= end - len(topics):
                return (records - first) / (time.perf_counter() - begun)
            if time.monotonic() > deadline:
                raise BenchError(f"{side.name} has not processed {program} in {WAIT_S:.0f} s")
            time.sleep(0.02)


def restore_s(cluster: Cluster, side: Side, megabytes: int) -> tuple[float, float]:
    """Return after how many seconds a program is running whose store is empty, and one whose changelog has so much."""
    cluster.empty("a", "b", "out")
    with side.running("stream_table_join", cluster.bootstrap) as empty_s:
        pass
    cluster.empty("a", "b", "out")
    cluster.create_changelog("app-table-changelog")
    count = megabytes * 10_000
    value = struct.Struct(">q")
    cluster.produce("app-table-changelog", ((b"key%013d" % number, value.pack(number) * 10) for number in range(count)))
    with side.running("stream_table_join", cluster.bootstrap) as full_s:
        return empty_s, full_s


def measure(records: int, megabytes: int) -> list[ServeFigure]:
    """Return the figures."""
    state = Path(tempfile.mkdtemp(prefix="streams-bench-"))
    bootstrap = kit.kafka("start", NODE, "log.retention.ms=-1", "group.initial.rebalance.delay.ms=0").split()[-1]
    try:
        cluster = Cluster(bootstrap)
        ours, on_spark, theirs = sides(state)
        figures = []
        for title, program in (("word count", "count"), ("stream-table join", "stream_table_join")):
            mine, sparks, other = (throughput(cluster, side, program, records) for side in (ours, on_spark, theirs))
            name = f"{title}, {records:,} records"
            figures.append(ServeFigure(f"{name}, local runner", mine, other, "records/s", least_ratio=0.5))
            figures.append(ServeFigure(f"{name}, Spark runner", sparks, other, "records/s", least_ratio=1.0))
        (start_s, full_s), (their_start_s, their_full_s) = (
            restore_s(cluster, side, megabytes) for side in (ours, theirs)
        )
        mine, other = megabytes / (full_s - start_s), megabytes / (their_full_s - their_start_s)
        name = f"restore of a changelog of {megabytes} MB"
        figures.append(ServeFigure(name, mine, other, "MB/s", least_ratio=3.0))
        figures.append(ServeFigure("start of a small topology", start_s, their_start_s, "s", most=0.6))
    finally:
        kit.kafka("stop", NODE)
        kit.kafka("rm", NODE)
        shutil.rmtree(state, ignore_errors=True)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--restored-mb", type=int, default=1000)
    given = parser.parse_args()
    table = serve_table(measure(given.records, given.restored_mb), "Kafka Streams")
    text = (
        "# Streams: kcli's runners beside Kafka Streams\n\nWritten by `python -m tests.bench.streams "
        f"--records {given.records} --restored-mb {given.restored_mb}`, which says how it is measured. {machine()}. "
        f"Load of the machine at the end: {os.getloadavg()[0]:.0f}.\n\n{table}\n"
    )
    RESULTS.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
