"""Spark and a running Kafka: python -m tests.bench.pipelines.

    live source     kafka-log from the brokers in Spark's tasks, which write Parquet with pyarrow, beside the same from
                    the disk, and beside confluent-kafka's consumer with pyarrow
    df.write        the same with Spark's own Parquet writer, whose JVM makes a row of each record
    sink            kafka-log's rows from the disk to a topic; a floor for each core
    --epochs N      instead of these: the memory of a pipe's driver over N epochs (epochs.py)

All sides are processes that stay (export_sides.py) and take turns; the first runs do not count. Kafka runs with the
options of its own start scripts (KAFKA_PERF=1), and has the logs in its page cache, as Spark's workers have.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from tests.bench import epochs
from tests.bench.export import CORES, SMALL, WIDE, log_of, named
from tests.bench.export_logs import WORK, Log, kafka_with
from tests.bench.export_sides import Side, remove, warm
from tests.bench.measure import BenchError
from tests.bench.report import ServeFigure, machine, serve_table
from tests.interop import kit

RESULTS = Path(__file__).with_name("PIPELINES.md")
EPOCHS = Path(__file__).with_name("EPOCHS.md")
CODEC = "snappy"
SINK_PER_CORE = 200_000


def rates(sides: dict[str, Side], log: Log, runs: int) -> dict[str, float]:
    """Records a second of each side, the median of the runs."""
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(runs + 1):
        for name, side in sides.items():
            out = WORK / "out" / name
            remove(out)
            took = side(log, out)
            remove(out)
            if number:
                seconds[name].append(took)
    for name, each in seconds.items():
        print(f"  {named(log)}, {name}: {' '.join(f'{took:.2f}' for took in each)} s", flush=True)
    return {name: log.records / median(each) for name, each in seconds.items()}


def figures(address: str, logs: list[Log], runs: int) -> Iterator[ServeFigure]:
    """What is measured in turn."""
    started = {
        "live": ("tasks", f"local[{CORES}]@{address}"),
        "one core": ("tasks", f"local[1]@{address}"),
        "disk": ("tasks", f"local[{CORES}]"),
        "consumer": ("consumer", address),
        "df.write live": ("live", f"local[{CORES}]@{address}"),
        "df.write disk": ("spark", f"local[{CORES}]"),
        "sink": ("sink", f"local[1]@{address}"),
    }
    with ExitStack() as stack:
        sides = {name: stack.enter_context(warm(*side, CODEC)) for name, side in started.items()}
        for log in logs:
            per_s = rates(sides, log, runs)
            yield _line(log, per_s, "live source: consumer and pyarrow", "live", "consumer", 5)
            yield _line(log, per_s, "live source: disk source", "live", "disk", 0.6)
            yield _line(log, per_s, "live source, two cores: one core", "live", "one core", 1.6)
            yield _line(log, per_s, "df.write, live source: disk source", "df.write live", "df.write disk", 0.6)
            least = SINK_PER_CORE if log.value_bytes < 1024 else None
            yield ServeFigure(f"{named(log)}, sink, one core", per_s["sink"], None, "records/s", least=least)


def _line(log: Log, per_s: dict[str, float], what: str, side: str, other: str, least: float) -> ServeFigure:
    return ServeFigure(f"{named(log)}, {what}", per_s[side], per_s[other], "records/s", least_ratio=least)


def memory(count: int) -> int:
    """Measure the memory of a driver over so many epochs, print, write."""
    try:
        rows = list(epochs.figures(count, WORK))
    except (BenchError, OSError) as failed:
        print(f"bench: {failed}", file=sys.stderr)
        return 1
    text = serve_table(rows, "before")
    print(text)
    if count >= epochs.HOUR:
        told = f"Resident memory of `kcli pipe --follow`, medians of quarters of the run. {machine()}."
        EPOCHS.write_text(f"# The driver of a pipe over {count:,} epochs\n\n{told}\n\n{text}\n")
    return 1 if any(row.reached is False for row in rows) else 0


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.pipelines", description="Time Spark on a live Kafka.")
    parser.add_argument("--runs", type=int, default=3, help="measured runs of each (default: 3)")
    parser.add_argument("--scale", type=float, default=1.0, help="of the logs; only at 1 PIPELINES.md is written")
    parser.add_argument(
        "--epochs", type=int, help=f"the memory of a driver over so many; from {epochs.HOUR:,} on EPOCHS.md is written"
    )
    options = parser.parse_args()
    if options.epochs is not None:
        return memory(options.epochs)
    try:
        kit.set_up()
        (WORK / "out").mkdir(parents=True, exist_ok=True)
        logs = [log_of(records * options.scale, size) for records, size in (SMALL, WIDE)]
        with kafka_with(logs) as address:
            rows = list(figures(address, logs, options.runs))
    except (kit.KafkaUnavailableError, BenchError, OSError, subprocess.CalledProcessError) as failed:
        print(f"bench: {failed}", file=sys.stderr)
        return 1
    text = serve_table(rows, "beside it")
    print(text)
    if options.scale == 1.0:
        told = f"Medians of {options.runs} runs, {CODEC}, local[{CORES}], the sink local[1]. {machine()}."
        RESULTS.write_text(f"# Spark and a running Kafka, beside what each line names\n\n{told}\n\n{text}\n")
    return 1 if any(row.reached is False for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
