"""Kills of the instances of an application, beside a run of the same program without kills.

    python -m tests.streams.kills --kills 100
    python -m tests.streams.kills --kills 20 --master 'local-cluster[2,1,1024]'    on Spark

Two instances of tests.streams.killed count and join what is produced all the time. Each kill is a SIGKILL of one of
them, while they process: some time after new records were committed; it is started again at once. At the end the
outputs, as consumers with read_committed read them, and the stores, as their changelogs tell them, equal those of a run
without kills: each key has the same values in the same order. On Spark the driver, its JVM, executors and Python
workers are killed, and the run without kills is the local runner's. A failure prints the seed.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from kcli.client.connection import Connection
from kcli.streams.local.changelog import of_cluster
from kcli.testing.kafka import Kafka
from tests.export.processes import below
from tests.streams.applications import START_MS, Input, by_key, consumed, produce, wait_until

PARTITIONS = 3
STORES = ("counts", "sums", "table", "both")
KEYS = "abcdefghij"
CONFIG = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
    "log.retention.ms": "-1",
}
NEW_RECORDS = 50
SETTLED_S = 3.0
"""How long a group needs until each instance has its share."""
KILL_AFTER_S = 0.5
END_S = 120.0
PAUSE_S = 0.3
SPARK_COMMANDS = {
    "java": b"SparkSubmit",
    "worker": b"\0kcli.export.daemon\0",
    "executor": b"CoarseGrainedExecutorBackend",
}
SPARK_VICTIMS = ("driver", "worker", "executor", "worker", "executor", "java")


class Instance:
    """A process of the program, which is started again when it has been killed."""

    def __init__(self, kafka: Kafka, application_id: str, instance_id: str, log: Path, *more: str) -> None:
        arguments = [kafka.bootstrap_servers, application_id, instance_id, *more]
        self._command = [sys.executable, "-m", "tests.streams.killed", *arguments]
        self._log = log
        self.start()

    def log(self) -> str:
        """What the process has said at last."""
        return self._log.read_text()[-4000:]

    def start(self) -> None:
        """Start the process."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)

    def kill(self) -> None:
        """Kill the process. It must not have ended before."""
        assert self._process.poll() is None, f"the instance ended by itself: {self.log()}"
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()


class SparkInstance(Instance):
    """The driver of the program on Spark, which is started again when it has ended."""

    def __init__(self, kafka: Kafka, application_id: str, directory: Path, master: str) -> None:
        super().__init__(kafka, application_id, str(directory / "checkpoint"), directory / "driver.log", master)

    def kill_one(self, victim: str, chance: random.Random) -> None:
        """Kill a process of a kind, as soon as there is one."""
        deadline = time.monotonic() + END_S
        while not self._has_killed(victim, chance):
            assert time.monotonic() < deadline, f"no {victim}: {self.log()}"
            self.revive()
            time.sleep(0.02)

    def revive(self) -> None:
        """Start the driver again if it has ended, as it does without its JVM."""
        if self._process.poll() is not None:
            self.start()

    def kill(self) -> None:
        """Kill the driver and what it has started."""
        for pid in (*(pid for pid, _ in below(self._process.pid)), self._process.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()

    def _has_killed(self, victim: str, chance: random.Random) -> bool:
        if victim == "driver":
            self._process.kill()
            self._process.wait()
            return True
        found = [pid for pid, command in below(self._process.pid) if SPARK_COMMANDS[victim] in command]
        with suppress(ProcessLookupError, IndexError):
            os.kill(chance.choice(found), signal.SIGKILL)
            return True
        return False


class Follower:
    """Counts the committed records of a topic."""

    def __init__(self, kafka: Kafka, topic: str) -> None:
        config = {"group.id": "follower", "isolation.level": "read_committed", "auto.offset.reset": "earliest"}
        self._consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, **config})
        self._consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
        self._count = 0

    def count(self) -> int:
        """Return how many records there were so far."""
        while messages := self._consumer.consume(500, 0.05):
            self._count += sum(message.error() is None for message in messages)
        return self._count

    def close(self) -> None:
        """End."""
        self._consumer.close()


def records(count: int, chance: random.Random, first: int) -> list[Input]:
    """Return records for the stream; numbers go on from `first`."""
    return [
        Input("a", chance.choice(KEYS), f"{chance.choice(KEYS)} {first + number}", START_MS + first + number)
        for number in range(count)
    ]


def stores(kafka: Kafka, application_id: str) -> dict[str, dict[bytes, bytes]]:
    """Return what each store has."""
    connection = Connection(kafka.bootstrap_servers)
    return {
        name: {row.key: row.value for row in of_cluster(connection, f"{application_id}-{name}-changelog")}
        for name in STORES
    }


def outputs(kafka: Kafka, application_id: str) -> dict[str, dict[bytes | None, list[bytes | None]]]:
    """Return the values of each key of both output topics, in their order."""
    return {
        topic: {
            key: [value for value, _ in rows]
            for key, rows in by_key(consumed(kafka.bootstrap_servers, f"{application_id}-{topic}", PARTITIONS)).items()
        }
        for topic in ("counts", "joined")
    }


def run(kills: int, seed: int) -> None:
    """Kill instances, and compare. Raises AssertionError."""
    chance = random.Random(seed)
    with Kafka.started(process="child", config=CONFIG) as kafka, tempfile.TemporaryDirectory() as directory:
        topics = ["a", "b", *(f"{each}-{out}" for each in ("calm", "killed") for out in ("counts", "joined"))]
        kafka.seed(dict.fromkeys(topics, PARTITIONS))
        produce(kafka.bootstrap_servers, [Input("b", key, key.upper(), START_MS) for key in KEYS])
        calm = Instance(kafka, "calm", "only", Path(directory) / "calm")
        killed = [Instance(kafka, "killed", str(i), Path(directory) / f"killed-{i}") for i in range(2)]
        produced = 0
        follower = Follower(kafka, "killed-counts")
        for number in range(kills):
            seen, began = follower.count(), time.monotonic()
            due: float | None = None
            while due is None or time.monotonic() < due:
                assert time.monotonic() - began < END_S, "nothing is processed any more"
                produce(kafka.bootstrap_servers, records(20, chance, produced))
                produced += 20
                if due is None and follower.count() >= seen + NEW_RECORDS:
                    due = time.monotonic() + chance.uniform(0, KILL_AFTER_S)
            victim = chance.choice(killed)
            victim.kill()
            victim.start()
            print(f"kill {number + 1} of {kills}: {produced:,} records, {follower.count():,} counted", flush=True)
        follower.close()
        try:
            wait_until(lambda: counted(kafka, "calm") == produced, END_S)
            wait_until(lambda: counted(kafka, "killed") >= produced, END_S)
        finally:
            for instance in (calm, *killed):
                instance.kill()
        compare(kafka)


def run_spark(kills: int, seed: int, master: str) -> None:
    """Kill processes of Spark, and compare. Raises AssertionError."""
    chance = random.Random(seed)
    victims = [each for each in SPARK_VICTIMS if each != "executor" or master.startswith("local-cluster")]
    with Kafka.started(process="child", config=CONFIG) as kafka, tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        topics = ["a", "b", *(f"{each}-{out}" for each in ("calm", "killed") for out in ("counts", "joined"))]
        kafka.seed(dict.fromkeys(topics, PARTITIONS))
        produce(kafka.bootstrap_servers, [Input("b", key, key.upper(), START_MS) for key in KEYS])
        calm = Instance(kafka, "calm", "only", directory / "calm")
        killed = SparkInstance(kafka, "killed", directory, master)
        follower, produced = Follower(kafka, "killed-counts"), 0
        try:
            for number in range(kills):
                seen, began = follower.count(), time.monotonic()
                while follower.count() <= seen:
                    assert time.monotonic() - began < END_S, f"nothing is processed\n{killed.log()}"
                    produce(kafka.bootstrap_servers, records(20, chance, produced))
                    produced += 20
                    killed.revive()
                    time.sleep(PAUSE_S)
                time.sleep(chance.uniform(0, 1))
                killed.kill_one(victims[number % len(victims)], chance)
                print(f"kill {number + 1} of {kills}: {produced:,} records, {follower.count():,} counted", flush=True)
            deadline = time.monotonic() + END_S
            while counted(kafka, "killed") < produced:
                assert time.monotonic() < deadline, killed.log()
                killed.revive()
                time.sleep(0.5)
            wait_until(lambda: counted(kafka, "calm") == produced, END_S)
        finally:
            follower.close()
            killed.kill()
            calm.kill()
        compare(kafka)


def run_three(seed: int) -> float:
    """Kill one of three instances, and do not start it again. Return how many seconds it took until another one has
    committed results of its tasks. Raises AssertionError."""
    chance = random.Random(seed)
    with Kafka.started(process="child", config=CONFIG) as kafka, tempfile.TemporaryDirectory() as directory:
        topics = ["a", "b", *(f"{each}-{out}" for each in ("calm", "killed") for out in ("counts", "joined"))]
        kafka.seed(dict.fromkeys(topics, PARTITIONS))
        produce(kafka.bootstrap_servers, [Input("b", key, key.upper(), START_MS) for key in KEYS])
        calm = Instance(kafka, "calm", "only", Path(directory) / "calm")
        three = [Instance(kafka, "killed", str(i), Path(directory) / f"killed-{i}") for i in range(3)]
        try:
            produce(kafka.bootstrap_servers, records(300, chance, 0))
            wait_until(lambda: counted(kafka, "killed") == 300, END_S)
            time.sleep(SETTLED_S)
            three.pop(0).kill()
            began = time.monotonic()
            produce(kafka.bootstrap_servers, records(300, chance, 300))
            wait_until(lambda: counted(kafka, "killed") >= 600, END_S)
            took_s = time.monotonic() - began
            wait_until(lambda: counted(kafka, "calm") == 600, END_S)
        finally:
            for instance in (calm, *three):
                instance.kill()
        compare(kafka)
    return took_s


def counted(kafka: Kafka, application_id: str) -> int:
    """Return how many records have come through the join, the repartition topic and the count."""
    return sum(map(len, outputs(kafka, application_id)["counts"].values()))


def compare(kafka: Kafka) -> None:
    """Compare outputs and stores of the application that was killed with those of the other. Raises AssertionError."""
    wanted, found = outputs(kafka, "calm"), outputs(kafka, "killed")
    assert found["counts"] == wanted["counts"], "the counts differ"
    assert found["joined"] == wanted["joined"], "the joined tables differ"
    wanted_stores, found_stores = stores(kafka, "calm"), stores(kafka, "killed")
    assert all(wanted_stores.values()), "a store is empty"
    assert found_stores == wanted_stores, "the stores differ"


def main() -> None:
    """Run what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--master", default=None, help="run on Spark; only local-cluster has executors to kill")
    arguments = parser.parse_args()
    seed = random.randrange(2**32) if arguments.seed is None else arguments.seed
    began = time.monotonic()
    try:
        if arguments.master is None:
            run(arguments.kills, seed)
        else:
            run_spark(arguments.kills, seed, arguments.master)
    except BaseException:
        print(f"failed: --kills {arguments.kills} --seed {seed}", flush=True)
        raise
    print(f"{arguments.kills} kills in {time.monotonic() - began:.0f} s: outputs and stores are equal")


if __name__ == "__main__":
    main()
