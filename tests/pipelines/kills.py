"""Kills of a Spark driver, its JVM, its executors, Python workers and the broker, while a topic is copied.

    python -m tests.pipelines.kills --kills 100

A program (tests.pipelines.copying) streams a topic to another one, exactly once, and exports it to an Iceberg and a
Delta table, whose small files it joins. Each kill is a SIGKILL, some time after one of the three has got rows; drivers
and brokers are started again. Checked now and then and at the end: each record is once in the other topic, as
confluent-kafka reads it with read_committed, and in both tables, as pyiceberg, deltalake and DuckDB read them. A
failure prints the seed.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from confluent_kafka import Producer

from kcli.testing.kafka import Kafka
from tests.export.processes import below
from tests.pipelines.copying import places
from tests.pipelines.test_sink import consumed

WAIT_S = 180.0
CHECK_EVERY = 10
COPIES = ("u", "iceberg", "delta")
COMMANDS = {"java": b"SparkSubmit", "worker": b".daemon", "executor": b"CoarseGrainedExecutorBackend"}
VICTIMS = ("worker", "broker", "java", "worker", "broker", "driver")
BROKER = {"replica.high.watermark.checkpoint.interval.ms": "300"}
"""Exports read up to the high watermarks that are on the disk."""
SPARE = "executor"
"""The victim that only a master with executors has."""


class Records:
    """A thread that produces records with the numbers from 0 on to both partitions of a topic."""

    def __init__(self, kafka: Kafka) -> None:
        self.acknowledged: set[int] = set()
        config = {**kafka.client_config("confluent"), "enable.idempotence": True, "linger.ms": 5}
        self._producer = Producer(config)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._produce, daemon=True)
        self._thread.start()

    def _produce(self) -> None:
        number = 0
        while not self._stop.wait(0.1):
            for _ in range(10):
                self._producer.produce("t", str(number), partition=number % 2, on_delivery=self._delivered)
                number += 1
            self._producer.poll(0)

    def _delivered(self, error: object, message: object) -> None:
        assert error is None, error
        self.acknowledged.add(int(message.value()))  # type: ignore[attr-defined]

    def stop(self) -> None:
        """End the thread; return when all records are acknowledged."""
        self._stop.set()
        self._thread.join(WAIT_S)
        assert self._producer.flush(WAIT_S) == 0


class Driver:
    """The program that copies. lines: how often it has said what; it may be started again."""

    def __init__(self, master: str, kafka: Kafka, work: Path) -> None:
        self._arguments = [master, kafka.bootstrap_servers, str(kafka.data_dir), str(work)]
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


def run(kills: int, seed: int, master: str = "local[2]", note: Callable[[str], object] = lambda _: None) -> int:
    """Kill so many processes. Return the number of records that were copied. Raises AssertionError."""
    draw = random.Random(seed)
    seed_topics = {"t": 2, "u": 2}
    with (
        tempfile.TemporaryDirectory() as directory,
        Kafka.started(process="child", config=BROKER, seed=seed_topics) as kafka,
    ):
        work = Path(directory)
        records = Records(kafka)
        driver = Driver(master, kafka, work)
        try:
            for i in range(kills):
                driver.wait_for(draw.choice(COPIES))
                time.sleep(draw.uniform(0, 1))
                victim = VICTIMS[i % len(VICTIMS)]
                if victim == "java" and master.startswith("local-cluster"):
                    victim = draw.choice((victim, SPARE))
                if victim == "broker":
                    kafka.kill()
                    time.sleep(draw.uniform(0, 0.5))
                    kafka.start()
                else:
                    driver.kill(victim, draw)
                count = len(records.acknowledged)
                note(f"{i + 1} kills, the last of a {victim}; {count:,} records; {driver.failures} failures")
                if i % CHECK_EVERY == CHECK_EVERY - 1:
                    check(kafka, work)
            driver.wait_for(*COPIES)
            records.stop()
            kafka.restart()  # its stop writes the high watermarks
            driver.finish()
            return check(kafka, work, records.acknowledged)
        except BaseException:
            note(f"seed {seed}\n{driver.log.read_text()}")
            raise
        finally:
            driver.close()


def check(kafka: Kafka, work: Path, acknowledged: set[int] | None = None) -> int:
    """Check that no record is twice anywhere; if these were acknowledged and everything is done, that each is there.
    Return how many records there are."""
    copied = [int(each.value()) for each in consumed(kafka, "u", 2)]
    assert len(copied) == len(set(copied)), "the topic has a record twice"
    tables = {word: place for word, place in places(work).items() if place.exists()}
    for word, place in tables.items():
        rows = place.read()
        keys = [*zip(rows["partition"].to_pylist(), rows["offset"].to_pylist(), strict=True)]
        assert len(keys) == len(set(keys)), f"the table {word} has a record twice"
    if acknowledged is not None:
        written = consumed(kafka, "t", 2)
        assert {int(each.value()) for each in written} == acknowledged == set(copied)
        everything = sorted((each.partition(), each.offset()) for each in written)
        for word, place in places(work).items():
            differing = sorted(set(place.offsets()) ^ set(everything))
            assert not differing, f"{len(differing)} records from {differing[0]} on: {word} and the topic differ"
    return len(copied)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--master", default="local[2]", help="local-cluster[1,1,1024] has executors to kill")
    given = parser.parse_args()
    print(
        f"{run(given.kills, given.seed, given.master, print):,} records, each of them once in the topic and both tables"
    )
