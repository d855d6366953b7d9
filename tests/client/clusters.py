"""Clusters that the client commands are tried on. A new one is one line in CLUSTERS."""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count

import pytest

from tests.broker.running import Client
from tests.cli.run import Ended, kcli
from tests.cli.warm import warm_kcli
from tests.interop import kit

_numbers = count()


@contextmanager
def real_kafka() -> Iterator[str]:
    """Yield Kafka 4.3 without topics; skip, with the reason, where it cannot run."""
    try:
        kit.set_up()
    except kit.KafkaUnavailableError as unavailable:
        pytest.skip(f"real Kafka: {unavailable}")
    name = f"client-{os.getpid()}-{next(_numbers)}"
    started = subprocess.run([kit.SCRIPT, "start", name], capture_output=True, text=True, check=False, timeout=120)
    try:
        assert started.returncode == 0, started.stderr
        yield started.stdout.split()[-1]
    finally:
        subprocess.run([kit.SCRIPT, "kill", name], capture_output=True, check=False)
        subprocess.run([kit.SCRIPT, "rm", name], check=True)


@contextmanager
def kcli_serve() -> Iterator[str]:
    """A node of kcli, alone and empty."""
    node = warm_kcli().start(["serve", "--listen", "127.0.0.1:0", "-o", "group.initial.rebalance.delay.ms=0"])
    try:
        assert node.stdout is not None
        yield node.stdout.readline().split()[2]
    finally:
        node.terminate()
        node.communicate()


KAFKA = pytest.param(real_kafka, id="kafka", marks=pytest.mark.kafka)
KCLI_SERVE = pytest.param(kcli_serve, id="kcli")
CLUSTERS = [KAFKA, KCLI_SERVE]
WITH_TRANSACTIONS = [KAFKA]


class Cluster:
    """A running cluster, and kcli with its address."""

    def __init__(self, address: str) -> None:
        self.address = address

    def run(self, *arguments: str, text: str | bytes | None = None) -> Ended:
        """Run a client command; `text` is its standard input."""
        data = text.encode() if isinstance(text, str) else text
        return kcli(*arguments, input=data, env=os.environ | {"KCLI_BOOTSTRAP_SERVER": self.address})

    def topic(self, *options: str) -> str:
        """Create a topic with these options of `kcli topics create`, and wait for its leaders."""
        name = f"t{next(_numbers)}-{os.getpid()}"
        ended = self.run("topics", "create", name, *options)
        assert ended == ("", "", 0)
        host, _, port = self.address.rpartition(":")
        with Client((host, int(port))) as client:
            client.wait_for_leaders(name)
        return name


_RUNNING = pytest.StashKey[dict[object, str]]()


@pytest.fixture(scope="session", params=CLUSTERS)
def cluster(request: pytest.FixtureRequest) -> Cluster:
    """Each of the clusters; one of each kind serves all test directories that use this fixture."""
    running = request.config.stash.setdefault(_RUNNING, {})
    if request.param not in running:
        stack = ExitStack()
        running[request.param] = stack.enter_context(request.param())
        request.config.add_cleanup(stack.close)
    return Cluster(running[request.param])


def numbers_topic(cluster: Cluster) -> str:
    """Create a topic: partition 0 has the values 0 to 9, partition 1 has 10 to 29, partition 2 none.

    The record 0 is of 2023-11-14T22:13:20Z, each other a minute after the one before.
    """
    topic = cluster.topic("--partitions", "3", "--config", "retention.ms=-1")
    rows = [
        {"value": str(number), "partition": int(number > 9), "timestamp": 1_700_000_000_000 + 60_000 * number}
        for number in range(30)
    ]
    lines = "\n".join(map(json.dumps, rows))
    assert cluster.run("produce", topic, "--format", "jsonl", "--partitioner", "input", text=lines).status == 0
    return topic
