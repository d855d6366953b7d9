"""Consume, process, produce, with unmodified clients, while the client's program, the broker, or both are killed.

Each input goes to the output in a transaction with its offset. In the end the output, read with read_committed, has
each input once, in order. A sample of kills runs here, 100 for each client in `make soak`.
"""

from __future__ import annotations

import signal
import subprocess
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from tests.broker.running import Client, ServedNode
from tests.broker.test_kill import free_port
from tests.conftest import examples
from tests.interop.clients import toolchains

KILLS, FEWER_KILLS = (examples(usual, soak=100).max_examples for usual in (3, 1))
PARTITIONS = 3
WAIT_S = 60.0
OPTIONS = (
    *("-o", "group.initial.rebalance.delay.ms=0"),
    *("-o", "group.min.session.timeout.ms=500"),
    *("-o", "group.consumer.min.session.timeout.ms=500"),
    *("-o", "group.consumer.session.timeout.ms=2000"),
    *("-o", "group.consumer.min.heartbeat.interval.ms=100"),
    *("-o", "group.consumer.heartbeat.interval.ms=300"),
    *("-o", "offsets.topic.num.partitions=3"),
    *("-o", "transaction.state.log.num.partitions=3"),
)
JAVA = partial(toolchains.java, "JavaExactlyOnce")
CLIENTS = [
    pytest.param(toolchains.python("exactly_once"), "", KILLS, id="kafka-python"),
    pytest.param(JAVA, "classic", KILLS, id="java", marks=pytest.mark.kafka),
    pytest.param(JAVA, "consumer", FEWER_KILLS, id="java, consumer protocol", marks=pytest.mark.kafka),
]
"""Programs, the group protocol for those that speak both, and the number of kills."""


class Feeder(threading.Thread):
    """Produces numbers to each partition of the input, in order, until it is stopped."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(daemon=True)
        self.sent = [0] * PARTITIONS
        self._stop_asked = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "max.in.flight.requests.per.connection": 1,
                "reconnect.backoff.max.ms": 100,
                "message.timeout.ms": 300_000,
                "log_level": 0,
            }
        )

    def run(self) -> None:
        while not self._stop_asked.wait(0.02):
            for number in range(PARTITIONS):
                self._producer.produce("input", f"{self.sent[number]}", partition=number)
                self.sent[number] += 1
            self._producer.poll(0)

    def finish(self) -> None:
        """All it has sent is there."""
        self._stop_asked.set()
        self.join()
        assert self._producer.flush(WAIT_S) == 0


class Loop:
    """A broker and a client that consumes, processes and produces; each is started again after its death."""

    def __init__(self, directory: Path, command: list[str], protocol: str, random: Random) -> None:
        self._directory, self._random = directory, random
        self.address = f"127.0.0.1:{free_port(random)}"
        self._command = [*command, self.address, *filter(None, [protocol])]
        self._errors = directory.with_name("errors")
        self.node = self._start_node()
        self.client: subprocess.Popen[bytes] | None = None

    def _start_node(self) -> ServedNode:
        return ServedNode(self._directory, *OPTIONS, listen=self.address)

    def run_client(self) -> None:
        """Start the client where it does not run: it may have ended by itself, with an error after which only a new one
        can go on."""
        if self.client is not None and self.client.poll() is None:
            return
        self._forget_client()
        with self._errors.open("a") as errors:
            self.client = subprocess.Popen(self._command, stdout=subprocess.DEVNULL, stderr=errors)

    def _forget_client(self) -> None:
        if self.client is not None:
            self.client.kill()
            self.client.wait()
            self.client = None

    def kill(self) -> None:
        """The client, the broker, or both."""
        what = self._random.choice(["client", "broker", "both"])
        if what != "broker":
            self._forget_client()
        if what != "client":
            self.node.signal(signal.SIGKILL)
            time.sleep(self._random.choice([0.0, 0.5]))
            self.node = self._start_node()

    def end(self) -> None:
        """Nothing runs any more."""
        self._forget_client()
        self.node.signal(signal.SIGKILL)

    def said(self) -> str:
        """What the client has complained of."""
        return self._errors.read_text()[-3000:]


def committed(bootstrap: str, expected: list[int], deadline: float) -> list[list[int]]:
    """Read the output's partitions until they have that many records."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "check",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    found: list[list[int]] = [[] for _ in range(PARTITIONS)]
    try:
        consumer.assign([TopicPartition("output", number, 0) for number in range(PARTITIONS)])
        ended: set[int] = set()
        while len(ended) < PARTITIONS and time.monotonic() < deadline:
            for message in consumer.consume(1000, 0.2):
                error, number = message.error(), message.partition()
                assert number is not None
                if error is None:
                    found[number].append(int(message.value() or b""))
                elif error.code() == KafkaError._PARTITION_EOF and len(found[number]) >= expected[number]:
                    ended.add(number)
    finally:
        consumer.close()
    return found


@pytest.mark.hypothesis
@pytest.mark.parametrize(("command", "protocol", "kills"), CLIENTS)
def test_every_input_is_processed_exactly_once(
    command: Callable[[], list[str]], protocol: str, kills: int, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    try:
        program = command()
    except toolchains.ToolchainMissing as missing:
        pytest.skip(f"{missing}")
    random = Random(request.node.name)  # another port than its neighbour's
    loop = Loop(tmp_path / "data", program, protocol, random)
    try:
        with Client(loop.node.address) as admin:
            for name in ("input", "output"):
                admin.create_topic(name, PARTITIONS)
        feeder = Feeder(loop.address)
        feeder.start()
        loop.run_client()
        for _ in range(kills):
            time.sleep(random.uniform(0.3, 3.0))
            loop.kill()
            loop.run_client()
        feeder.finish()
        deadline = time.monotonic() + WAIT_S
        while True:
            loop.run_client()
            found = committed(loop.address, feeder.sent, min(deadline, time.monotonic() + 10))
            if list(map(len, found)) >= feeder.sent or time.monotonic() > deadline:
                break
    finally:
        loop.end()
    assert found == [list(range(sent)) for sent in feeder.sent], loop.said()
