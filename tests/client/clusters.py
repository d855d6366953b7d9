"""Clusters that the client commands are tried on. A new one is one line in CLUSTERS."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

import pytest

from tests.cli.run import Ended, kcli
from tests.interop import kit


@contextmanager
def real_kafka() -> Iterator[str]:
    """Kafka 4.3, alone and empty; skips, with the reason, where it cannot run."""
    try:
        kit.set_up()
    except kit.KafkaUnavailableError as unavailable:
        pytest.skip(f"real Kafka: {unavailable}")
    name = f"client-{os.getpid()}"
    port = {"KAFKA_KIT_PORT": str(20_000 + os.getpid() % 10_000)}  # several workers may start one at the same time
    started = subprocess.run(
        [kit.SCRIPT, "start", name], capture_output=True, text=True, check=False, env=os.environ | port, timeout=120
    )
    try:
        assert started.returncode == 0, started.stderr
        yield started.stdout.split()[-1]
    finally:
        subprocess.run([kit.SCRIPT, "kill", name], capture_output=True, check=False)
        subprocess.run([kit.SCRIPT, "rm", name], check=True)


CLUSTERS = [pytest.param(real_kafka, id="kafka", marks=pytest.mark.kafka)]

_numbers = count()


class Cluster:
    """A running cluster, and kcli pointed at it."""

    def __init__(self, address: str) -> None:
        self.address = address

    def run(self, *arguments: str, text: str | bytes | None = None) -> Ended:
        """Run a client command; `text` is its standard input."""
        data = text.encode() if isinstance(text, str) else text
        return kcli(*arguments, input=data, env=os.environ | {"KCLI_BOOTSTRAP_SERVER": self.address})

    def topic(self, *options: str) -> str:
        """A new topic, made with these options of `kcli topics create`."""
        name = f"t{next(_numbers)}-{os.getpid()}"
        ended = self.run("topics", "create", name, *options)
        assert ended == ("", "", 0)
        return name


@pytest.fixture(scope="session", params=CLUSTERS)
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Each of the clusters."""
    with request.param() as address:
        yield Cluster(address)
