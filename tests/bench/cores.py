"""What one core of kcli serve does beside one core of Kafka: python -m tests.bench.cores.

Both brokers are held to the first core from their start on, and take each load in turn; the client is librdkafka's, by
confluent-kafka, on the second core: core_client.py. The first run of each load warms up and does not count.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median

from tests.bench import serve
from tests.bench.free_memory import use_free_memory
from tests.bench.measure import BenchError
from tests.bench.report import ServeFigure, machine, serve_table
from tests.interop import kit

RESULTS = Path(__file__).with_name("CORES.md")
BROKERS_CORE, CLIENTS_CORE = 0, 1
PARTITIONS = 6
LOADS = {"produce 100 B": ("small", 100), "produce 1 KB": ("wide", 1000)}
PRODUCED_BYTES = 600_000_000
LEAST_PRODUCED, LEAST_CONSUMED = 2.0, 1.5


def client(what: str, broker: serve.BrokerProcess, topic: str, size: int, count: int) -> dict[str, float]:
    """Run a client on its core. Returns the MB a second, the client's CPU in seconds, and the broker's, each a GB."""
    before = broker.cpu_s()
    command = [sys.executable, "-m", "tests.bench.core_client", what, broker.bootstrap, topic, str(size), str(count)]
    done = subprocess.run(["taskset", "-c", str(CLIENTS_CORE), *command], capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchError(f"{' '.join(command)}: {done.stderr[-500:]}")
    found: dict[str, float] = json.loads(done.stdout)
    return found | {"broker_cpu": (broker.cpu_s() - before) / (size * count / 1e9)}


def figures(brokers: Sequence[serve.BrokerProcess], runs: int, scale: float) -> Iterator[ServeFigure]:
    """Yield the table's lines."""
    for name, (topic, size) in LOADS.items():
        for broker in brokers:
            serve.create(broker, topic, PARTITIONS)
        count = round(PRODUCED_BYTES * scale / size)
        yield from _lines(name, LEAST_PRODUCED, brokers, "produce", topic, size, count, runs)
    yield from _lines("consume 1 KB", LEAST_CONSUMED, brokers, "consume", "wide", 1000, count, runs)


def _lines(
    name: str,
    goal: float,
    brokers: Sequence[serve.BrokerProcess],
    what: str,
    topic: str,
    size: int,
    count: int,
    runs: int,
) -> Iterator[ServeFigure]:
    found: list[list[dict[str, float]]] = [[] for _ in brokers]
    for _ in range(runs + 1):
        for broker, into in zip(brokers, found, strict=True):
            use_free_memory(serve.WORK)
            into.append(client(what, broker, topic, size, count))
    ours, theirs = ({key: median(each[key] for each in one[1:]) for key in one[0]} for one in found)
    yield ServeFigure(name, ours["mb_per_s"], theirs["mb_per_s"], "MB/s", least_ratio=goal)
    yield ServeFigure(f"{name}: broker CPU per GB", ours["broker_cpu"], theirs["broker_cpu"], "s")
    yield ServeFigure(f"{name}: client CPU per GB", ours["client_cpu"], theirs["client_cpu"], "s")


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.cores", description="Time a core of kcli's and Kafka's."
    )
    parser.add_argument("--runs", type=int, default=5, help="measured runs of each load (default: 5)")
    parser.add_argument("--scale", type=float, default=1.0, help="of the loads; below 1 nothing is written")
    options = parser.parse_args()
    serve.WORK.mkdir(parents=True, exist_ok=True)
    try:
        kit.set_up()
        os.sched_setaffinity(0, {BROKERS_CORE})  # the brokers inherit it
        data = tempfile.TemporaryDirectory(dir=serve.WORK)
        with data as new, serve.kcli(Path(new) / "new") as broker, serve.kafka() as opponent:
            rows = list(figures((broker, opponent), options.runs, options.scale))
    except (kit.KafkaUnavailableError, BenchError, subprocess.CalledProcessError, OSError) as failed:
        print(f"bench: {failed}", file=sys.stderr)
        return 1
    text = serve_table(rows)
    print(text)
    if options.scale == 1.0:
        RESULTS.write_text(
            f"# One core of kcli serve beside one of Kafka 4.3\n\n{options.runs} runs. {machine()}.\n\n{text}\n"
        )
    return 1 if any(row.reached is False for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
