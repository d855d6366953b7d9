"""Kills of a Spark driver, JVM, executors and Python workers, of the broker and the registry, while topics are copied.

    python -m tests.pipelines.kills --kills 100

A program (tests.pipelines.copying) streams a topic to another one, exactly once, and exports it to an Iceberg and a
Delta table, whose small files it joins; streams a second topic from a copy of the disk and on from the brokers, which
have deleted half of that; and exports a third one, whose values have ids of schemas of a registry. Each kill is a
SIGKILL, some time after one of the five has got rows, or soon after another kill; drivers, brokers and registries are
started again. Checked now and then and at the end: each record is once in the other topic, as confluent-kafka reads it
with read_committed, and in the tables, as pyiceberg, deltalake and DuckDB read them. A failure prints the seed.
"""

from __future__ import annotations

import argparse
import io
import os
import random
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from fastavro import parse_schema, schemaless_writer

from kcli.export.outcome import dead_letter_directory
from kcli.testing.kafka import Kafka
from tests.export.processes import below
from tests.pipelines.copying import places
from tests.pipelines.test_bootstrap import copied
from tests.pipelines.test_sink import consumed
from tests.registry.running import Process, register

WAIT_S = 600.0
CHECK_EVERY = 10
STREAMS, TABLES = ("u", "v"), ("iceberg", "delta", "avro")
SIGNS = (*STREAMS, *STREAMS, *TABLES)
"""A kill comes some time after one of these, chosen by chance, has got rows."""
ALONE = 0.25
"""The share of kills that wait for that; others follow the kill before within a second."""
COMMANDS = {"java": b"SparkSubmit", "worker": b"\0kcli.export.daemon\0", "executor": b"CoarseGrainedExecutorBackend"}
VICTIMS = (
    *("executor", "registry", "broker", "worker", "executor", "registry", "broker", "driver"),
    *("worker", "executor", "registry", "broker", "worker", "java"),
)
BROKER = {"replica.high.watermark.checkpoint.interval.ms": "300"}
"""Exports read up to the high watermarks that are on the disk."""
TOPICS = ("t", "h", "s")
HISTORY = 400
"""So many records for each kill are in h before it is copied."""
EVOLVES_EVERY = 10
"""After so many kills the values of s get a new schema."""


class Values:
    """The values of the topic s: numbers in Avro, by schemas that get a further field now and then."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._fields: list[Any] = [{"name": "number", "type": "long"}]
        self._current: tuple[Any, bytes] = None, b""
        self.evolve()

    def evolve(self) -> None:
        """Register a schema with one more field, and use it from now on."""
        self._fields.append({"name": f"more{len(self._fields)}", "type": ["null", "string"], "default": None})
        schema = {"type": "record", "name": "s", "fields": self._fields}
        answer = register(self._url, "s-value", schema)
        deadline = time.monotonic() + WAIT_S
        while answer.status != 200:  # a registry that has started again, or whose broker has, may not lead yet
            assert time.monotonic() < deadline, answer
            time.sleep(0.5)
            answer = register(self._url, "s-value", schema)
        self._current = parse_schema(schema), struct.pack(">bI", 0, answer.json["id"])

    def of(self, number: int) -> bytes:
        """The value with a number."""
        schema, header = self._current
        value = io.BytesIO()
        schemaless_writer(value, schema, {"number": number})
        return header + value.getvalue()


class Records:
    """A thread that produces records with the numbers from 0 on to both partitions of the topics."""

    def __init__(self, kafka: Kafka, values: Values) -> None:
        self.acknowledged: dict[str, int] = dict.fromkeys(TOPICS, 0)
        self.count = 0
        self._values = values
        config = {**kafka.client_config("confluent"), "enable.idempotence": True, "linger.ms": 5}
        self._producer = Producer(config)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._produce, daemon=True)
        self._thread.start()

    def _produce(self) -> None:
        while not self._stop.wait(0.2):
            for _ in range(10):
                number, self.count = self.count, self.count + 1
                for topic in TOPICS:
                    value = self._values.of(number) if topic == "s" else str(number)
                    self._producer.produce(topic, value, partition=number % 2, on_delivery=self._delivered)
            self._producer.poll(0)

    def _delivered(self, error: object, message: object) -> None:
        assert error is None, error
        self.acknowledged[message.topic()] += 1  # type: ignore[attr-defined]

    def stop(self) -> None:
        """End the thread; return when all records are acknowledged."""
        self._stop.set()
        self._thread.join(WAIT_S)
        assert self._producer.flush(WAIT_S) == 0
        assert set(self.acknowledged.values()) == {self.count}


class Driver:
    """The program that copies. lines: how often it has said what; it may be started again."""

    def __init__(self, master: str, kafka: Kafka, disk: Path, registry: str, work: Path) -> None:
        self._arguments = [master, kafka.bootstrap_servers, str(kafka.data_dir), str(disk), registry, str(work)]
        self.log = work / "driver.log"
        self._changed = threading.Condition()
        self._said: set[str] = set()
        self.failures = 0
        self.start()

    def start(self) -> None:
        """Start the program."""
        command = [sys.executable, "-m", "tests.pipelines.copying", *self._arguments]
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            )
        self._reader = threading.Thread(target=self._read, args=(self.process,), daemon=True)
        self._reader.start()

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        assert process.stdin is not None
        with process.stdin, process.stdout:
            for line in process.stdout:
                with self.log.open("a") as log:
                    log.write(line)
                with self._changed:
                    if line.startswith("again"):
                        self.failures += 1
                    self._said.add(line.strip())
                    self._changed.notify_all()

    def wait_for(self, *words: str) -> None:
        """Wait until the program has said these words, from now on. A program that has ended is started again."""
        deadline = time.monotonic() + WAIT_S
        with self._changed:
            self._said.clear()
            while not self._said.issuperset(words):
                assert time.monotonic() < deadline, f"{self._said}, not {words}\n{self.log.read_text()[-4000:]}"
                self._changed.wait(0.2)
                self._start_again()

    def _start_again(self) -> None:
        if self.process.poll() is not None:
            self.start()

    def kill(self, victim: str, draw: random.Random) -> None:
        """Kill one of the processes of a kind, as soon as there is one."""
        deadline = time.monotonic() + WAIT_S
        while not self._has_killed(victim, draw):
            assert time.monotonic() < deadline, f"no {victim}"
            time.sleep(0.02)
            self._start_again()

    def _has_killed(self, victim: str, draw: random.Random) -> bool:
        if victim == "driver":
            self.process.kill()
            self.process.wait()
            return True
        found = [pid for pid, command in below(self.process.pid) if COMMANDS[victim] in command]
        with suppress(ProcessLookupError, IndexError):
            os.kill(draw.choice(found), signal.SIGKILL)
            return True
        return False

    def finish(self) -> None:
        """Have the program copy what is left, and end."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert self.process.wait(WAIT_S) == 0, self.log.read_text()[-4000:]
        self._reader.join(WAIT_S)
        assert "done" in self._said

    def close(self) -> None:
        """Kill the program and what it has started."""
        for pid in (*(pid for pid, _ in below(self.process.pid)), self.process.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()
        self._reader.join(WAIT_S)


def run(
    kills: int, seed: int, master: str = "local-cluster[2,1,1024]", note: Callable[[str], object] = lambda _: None
) -> int:
    """Kill so many processes. Return the number of records of each topic that were copied. Raises AssertionError."""
    draw = random.Random(seed)
    topics = dict.fromkeys((*TOPICS, "u", "v"), 2)
    with (
        tempfile.TemporaryDirectory() as directory,
        Kafka.started(process="child", config=BROKER, seed=topics) as kafka,
    ):
        work = Path(directory)
        history = range(-HISTORY * (kills + 1), 0)
        remember(kafka, work / "disk", history)
        registry = Process(kafka.bootstrap_servers)
        values = Values(registry.url)
        records = Records(kafka, values)
        driver = Driver(master, kafka, work / "disk", registry.url, work)
        killed: Counter[str] = Counter()
        try:
            for i in range(kills):
                if draw.random() < ALONE:
                    driver.wait_for(draw.choice(SIGNS))
                time.sleep(draw.uniform(0, 1))
                victim = VICTIMS[i % len(VICTIMS)]
                if victim == "executor" and not master.startswith("local-cluster"):
                    victim = "worker"
                if victim == "broker":
                    kafka.kill()
                    time.sleep(draw.uniform(0, 0.5))
                    kafka.start()
                elif victim == "registry":
                    registry.end(signal.SIGKILL)
                    time.sleep(draw.uniform(0, 2))
                    registry = Process(kafka.bootstrap_servers, port=int(registry.url.rpartition(":")[2]))
                else:
                    driver.kill(victim, draw)
                killed[victim] += 1
                note(f"{i + 1} kills, the last of a {victim}; {records.count:,} records; {driver.failures} failures")
                if i % CHECK_EVERY == CHECK_EVERY - 1:
                    check(kafka, work)
                if i % EVOLVES_EVERY == 1:
                    values.evolve()
            driver.wait_for(*STREAMS, *TABLES)
            records.stop()
            kafka.restart()  # its stop writes the high watermarks
            driver.finish()
            check(kafka, work)
            check_all(kafka, work, records.count, history)
        except BaseException:
            note(f"seed {seed}\n{driver.log.read_text()}")
            raise
        finally:
            driver.close()
            registry.end(signal.SIGKILL)
        note(", ".join(f"{count} of a {victim}" for victim, count in killed.items()))
        return records.count


def remember(kafka: Kafka, disk: Path, history: range) -> None:
    """Produce the history of h, copy the disk, and delete half of it at the broker."""
    kafka.produce("h", *({"value": str(number), "partition": number % 2} for number in history))
    copied(kafka, disk)
    before = [{"partition_index": number, "offset": len(history) // 4} for number in range(2)]
    kafka.call("DeleteRecords", topics=[{"name": "h", "partitions": before}], timeout=10_000)


def check(kafka: Kafka, work: Path) -> None:
    """Check that no record is twice anywhere."""
    for topic in ("u", "v"):
        numbers = [int(each.value()) for each in consumed(kafka, topic, 2)]
        assert len(numbers) == len(set(numbers)), f"the topic {topic} has a record twice"
    for word, place in places(work).items():
        if not place.exists():
            continue
        rows = place.read()  # one version: exports go on
        keys = [*zip(rows["partition"].to_pylist(), rows["offset"].to_pylist(), strict=True)]
        assert len(keys) == len(set(keys)), f"the table {word} has a record twice"


def check_all(kafka: Kafka, work: Path, count: int, history: range) -> None:
    """Check that the numbers up to `count`, and the history, are in each copy."""
    for topic, numbers in (("u", range(count)), ("v", range(history.start, count))):
        differing = {int(each.value()) for each in consumed(kafka, topic, 2)} ^ {*numbers}
        assert not differing, f"{len(differing)} records as {min(differing)}: {topic} and its source differ"
    for word, place in places(work).items():
        source = "s" if word == "avro" else "t"
        differing = {*place.offsets()} ^ {(each.partition(), each.offset()) for each in consumed(kafka, source, 2)}
        assert not differing, f"{len(differing)} records from {min(differing)} on: {word} and the topic differ"
    decoded = places(work)["avro"].read()["value"].to_pylist()
    assert {each["number"] for each in decoded} == {*range(count)}
    assert not dead_letter_directory(work / "avro").exists()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--master", default="local-cluster[2,1,1024]", help="only local-cluster has executors to kill")
    given = parser.parse_args()
    count = run(given.kills, given.seed, given.master, print)
    print(f"{count:,} records of each topic, each of them once in its copies")
