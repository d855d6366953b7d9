"""Real Kafka for the tests of this directory; they are skipped, with the reason, where it cannot run."""

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.conftest import GOLDEN
from tests.interop import kit

KafkaDump = Callable[..., kit.Output]
FIRST_PORT, PORTS_PER_WORKER = 22_000, 500  # below those that Linux gives to clients


@pytest.fixture(scope="session", autouse=True)
def ports_of_our_own(worker_id: str) -> None:
    """Brokers that are started at the same time by several workers look for free ports in different places."""
    worker = int(worker_id.removeprefix("gw")) if worker_id.startswith("gw") else 0
    os.environ.setdefault("KAFKA_KIT_PORT", str(FIRST_PORT + worker * PORTS_PER_WORKER))


@pytest.fixture(scope="session")
def kafka_jars() -> Path:
    """The directory of Kafka's jars."""
    try:
        return kit.set_up()
    except kit.KafkaUnavailableError as unavailable:
        pytest.skip(f"real Kafka: {unavailable}")


@pytest.fixture(scope="session")
def kafka_dump(kafka_jars: Path) -> Iterator[KafkaDump]:
    """A function that runs the real kafka-dump-log: `kafka_dump(["--files", "x.log"], cwd=DIR)` gives its output.

    One JVM serves all calls in the same directory: call often, change the directory seldom. The tool makes an empty
    index where it misses one: let it work on a copy where that can happen."""
    server = kit.ToolServer(kafka_jars)

    def dump(args: Sequence[str], cwd: Path = GOLDEN) -> kit.Output:
        return server.run(kit.DUMP, args, cwd)

    yield dump
    server.close()
