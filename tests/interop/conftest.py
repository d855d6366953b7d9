"""Real Kafka for the tests of this directory; they are skipped, with the reason, where it cannot run."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.conftest import GOLDEN
from tests.interop import kit

KafkaDump = Callable[..., kit.Output]


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
