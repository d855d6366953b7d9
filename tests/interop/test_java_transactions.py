"""Java's transactional producer on `kcli serve` and on real Kafka: each step has the same result.

The program is clients/java/JavaTransactions.java: commits, aborts, offsets of a group, read_committed consumers,
fencing by a younger instance and by an administrator, timeouts, records that are refused. Transaction version 2.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.broker.running import served_node
from tests.interop.clients import toolchains
from tests.interop.kit import SCRIPT

NODE = f"kcli-java-transactions-{os.getpid()}"
OPTIONS = (
    "offsets.topic.num.partitions=1",
    "transaction.state.log.num.partitions=1",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms=100",
)
TIMEOUT_S = 120.0


def kafka(*arguments: str) -> str:
    done = subprocess.run([SCRIPT, *arguments], capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.strip()


@contextmanager
def real_kafka() -> Iterator[str]:
    try:
        yield kafka("start", NODE, *OPTIONS)
    finally:
        if re.search(rf"^{NODE} .* running", kafka("ls"), re.MULTILINE):
            kafka("kill", NODE)
        kafka("rm", NODE)


def report(bootstrap: str) -> dict[str, Any]:
    program = [*toolchains.java("JavaTransactions"), bootstrap]
    done = subprocess.run(program, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr[-5000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.kafka
def test_javas_producer_hears_the_same_as_from_kafka(kafka_jars: Path, tmp_path: Path) -> None:
    with served_node(tmp_path / "data", *(word for option in OPTIONS for word in ("-o", option))) as node:
        ours = report(node.bootstrap)
    with real_kafka() as bootstrap:
        theirs = report(bootstrap)
    assert ours == theirs
    assert ours["version"] == 2
    assert ours["commits after it was fenced"] == ["ProducerFencedException"] * 3
    assert ours["fenced"][:2] == ["InvalidProducerEpochException"] * 2
    (values,) = (each[1] for place, each in ours["committed"].items() if place == "t-0")
    names = [value.partition(" ")[2] for value in values]
    assert names == ["committed-1", "committed-2", "committed-3", "stable", "young", "after refused"]
