"""Groups and transactions of kcli serve beside a warm Kafka, load by load in turn: python -m tests.bench.groups.

    commits, transactions   Kafka's own Java clients (GroupLoad.java); the first rounds warm both ends up
    joining, steady groups  members over plain sockets (members.py), group.initial.rebalance.delay.ms=0
    brokers of tests        pytest, in a process of its own; Kafka has none

Kafka runs as in serve.py. Broker CPU is that of its process while the load runs.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import zip_longest
from pathlib import Path
from statistics import median

from tests.bench.measure import BenchError
from tests.bench.members import Member, find_coordinator, join_group, leave_group, live
from tests.bench.report import ServeFigure, machine, serve_table
from tests.bench.serve import WORK, BrokerProcess, Measured, create, kafka, kcli
from tests.interop import kit

RESULTS = Path(__file__).with_name("GROUPS.md")
LOAD = Path(__file__).with_name("GroupLoad.java")
NO_DELAY = "group.initial.rebalance.delay.ms=0"
JVM = ("-Xms256m", "-Xmx256m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error")
WARM_UP_ROUNDS = 3
COMMITTERS, PRODUCERS = 16, 8
GROUPS, MEMBERS = 500, 4
RESTORES = 20


def load(broker: BrokerProcess, jars: Path, what: str, clients: int, round_s: float, runs: int) -> tuple[float, float]:
    """Run GroupLoad. Returns operations a second, the median of the measured rounds, and the broker's CPU for a
    thousand operations."""
    sizes = [str(clients), str(round_s), str(WARM_UP_ROUNDS + runs)]
    command = ["java", *JVM, "-cp", f"{jars}/*", str(LOAD), what, broker.bootstrap, what, *sizes]
    errors = WORK / "load.log"
    with errors.open("wb") as stderr, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr) as process:
        assert process.stdout is not None
        per_s, cpu_s = [], []
        for line in process.stdout:
            per_s.append(float(line))
            cpu_s.append(broker.cpu_s())
    if process.returncode or len(per_s) != WARM_UP_ROUNDS + runs:
        raise BenchError(f"GroupLoad {what}: {errors.read_text()[-1000:]}")
    measured = per_s[WARM_UP_ROUNDS:]
    cpu = cpu_s[-1] - cpu_s[WARM_UP_ROUNDS - 1]
    return median(measured), cpu / (sum(measured) * round_s / 1000)


def joining(address: tuple[str, int], count: int, runs: int) -> float:
    """Return the milliseconds that this number of members takes to join a group; twice as many runs come first as
    warm-up."""
    seconds = []
    for i in range(3 * runs):
        took, members = join_group(address, f"join-{count}-{i}", count)
        leave_group(members)
        seconds.append(took)
    return median(seconds[2 * runs :]) * 1000


def steady(broker: BrokerProcess, address: tuple[str, int], groups: int, seconds: float) -> tuple[float, float]:
    """Return the share of a core, in percent, that the broker uses for steady groups, and the requests a second that it
    answers."""
    members: list[Member] = []
    for i in range(groups):
        members += join_group(address, f"steady-{i}", MEMBERS)[1]
    at_begin: list[tuple[float, float]] = []
    answered = live(members, seconds, lambda: at_begin.append((time.perf_counter(), broker.cpu_s())))
    began, before = at_begin[0]
    took, cpu_s = time.perf_counter() - began, broker.cpu_s() - before
    for member in members:
        member.close()
    return cpu_s / took * 100, answered / took


def measure(broker: BrokerProcess, jars: Path, runs: int, scale: float, found: Measured) -> Iterator[None]:
    """Run all loads on one broker and put the figures into `found`. Yields between loads, so that the other broker has
    its turn."""
    host, _, port = broker.bootstrap.rpartition(":")
    address = host, int(port)
    round_s = max(0.5, 5 * scale)

    def tell(key: str, value: float, unit: str) -> None:
        found[key] = value
        print(f"  {broker.name} {key}: {value:,.2f} {unit}", flush=True)

    for topic in ("commits", "transactions", "bench"):
        create(broker, topic, 1)
    find_coordinator(address, "bench")
    yield
    tell("join_1", joining(address, 1, 20 * runs), "ms")
    yield
    tell("join_50", joining(address, 50, 3 * runs), "ms")
    yield
    per_s, cpu = load(broker, jars, "commits", COMMITTERS, round_s, runs)
    tell("commits", per_s, "/s")
    tell("commits_cpu", cpu * 1000, "us each")
    yield
    for producers in (1, PRODUCERS):
        per_s, cpu = load(broker, jars, "transactions", producers, round_s, runs)
        tell(f"transactions_{producers}", per_s, "records/s")
        tell(f"transactions_{producers}_cpu", cpu * 100, "ms a transaction")
        yield
    percent, per_s = steady(broker, address, round(GROUPS * min(1.0, scale)), max(3.0, 20 * scale))
    tell("steady_cpu", percent, "%")
    tell("steady_per_s", per_s, "requests/s")


def in_turn(*loads: Iterator[None]) -> None:
    """Run the loads of all brokers in turn, until the last load is done."""
    for _ in zip_longest(*loads):
        pass


TESTS = """
    import json, os, time
    import pytest

    def pytest_runtest_logreport(report):
        with open(os.environ["BENCH_TIMES"], "a") as file:
            file.write(json.dumps([report.nodeid.rpartition("::")[2], report.when, report.duration]) + "\\n")
    """
FRESH = """
    import pytest

    {mark}
    def test_fresh(kafka_broker):
        pass
    """
RESTORED = """
    import pytest

    RECORDS = [{{"key": str(i), "value": "v"}} for i in range(100)]
    SEED = {{"orders": {{"partitions": 3, "records": RECORDS}}, "paid": {{}}}}

    @pytest.mark.kafka_broker(process="{process}", seed=SEED)
    @pytest.mark.parametrize("i", range({count}))
    def test_restored(kafka, i):
        kafka.produce("orders", "one more")
    """


def of_tests(source: str) -> list[float]:
    """Seconds that pytest takes to set up and to tear down each test of a file, in a process of its own, and away from
    this project's configuration."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        (directory / "conftest.py").write_text(textwrap.dedent(TESTS))
        (directory / "test_it.py").write_text(textwrap.dedent(source))
        times = directory / "times"
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", name, name]
        environment["BENCH_TIMES"] = str(times)
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=name)
        if done.returncode:
            raise BenchError(f"pytest: {done.stdout[-2000:]}")
        seconds: dict[str, float] = {}
        for line in times.read_text().splitlines():
            test, when, took = json.loads(line)
            if when == "setup" or (when == "teardown" and "restored" in test):
                seconds[test] = seconds.get(test, 0.0) + took
    return list(seconds.values())


def fixtures(runs: int) -> Iterator[ServeFigure]:
    """The pytest plugin's brokers."""
    of_tests(FRESH.format(mark=""))  # bytecode, page cache
    fresh = [of_tests(FRESH.format(mark=""))[0] for _ in range(runs)]
    yield ServeFigure("a test's first broker, in its process", median(fresh), None, "s", most=0.3)
    mark = '@pytest.mark.kafka_broker(process="child")'
    child = [of_tests(FRESH.format(mark=mark))[0] for _ in range(runs)]
    yield ServeFigure("a test's first broker, in a child process", median(child), None, "s", most=0.3)
    goals: dict[str, float | None] = {"thread": 20.0, "child": None}
    for process, goal in goals.items():
        restored = [
            median(of_tests(RESTORED.format(process=process, count=RESTORES + 1))[1:]) * 1000 for _ in range(runs)
        ]
        where = "in its process" if process == "thread" else "in a child process"
        yield ServeFigure(f"put back between two tests, {where}", median(restored), None, "ms", most=goal)


def figures(ours: Measured, theirs: Measured) -> Iterator[ServeFigure]:
    """The table's lines of both."""

    def line(name: str, key: str, unit: str, **goal: float) -> ServeFigure:
        return ServeFigure(name, ours[key], theirs[key], unit, **goal)

    yield line(f"offset commits, {COMMITTERS} consumers", "commits", "/s", least_ratio=1.5)
    yield line("broker CPU for a commit", "commits_cpu", "us")
    yield line("1 member joins", "join_1", "ms", most_ratio=1.0)
    yield line("50 members join", "join_50", "ms", most_ratio=1.0)
    name = "transactions of 100 records"
    yield line(f"{name}, 1 producer", "transactions_1", "records/s", least_ratio=1.0)
    yield line(f"{name}, {PRODUCERS} producers", f"transactions_{PRODUCERS}", "records/s", least_ratio=1.0)
    yield line("broker CPU for a transaction, 1 producer", "transactions_1_cpu", "ms")
    yield line(f"{GROUPS} groups of {MEMBERS} members, CPU", "steady_cpu", "%", most=30)
    yield line("their heartbeats and commits", "steady_per_s", "/s")


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.groups", description="Time groups beside Kafka.")
    parser.add_argument("--runs", type=int, default=5, help="measured runs of each load (default: 5)")
    parser.add_argument("--scale", type=float, default=1.0, help="of the loads; below 1 nothing is written")
    parser.add_argument("--only", choices=("kcli", "kafka", "tests"), help="measure one of them, and write nothing")
    options = parser.parse_args()
    WORK.mkdir(parents=True, exist_ok=True)
    try:
        jars = kit.set_up()
    except kit.KafkaUnavailableError as unavailable:
        print(f"bench: the load comes from Kafka's own clients: {unavailable}", file=sys.stderr)
        return 1
    try:
        ours, theirs = Measured(), Measured()
        with ExitStack() as stack:
            loads = []
            if options.only in (None, "kcli"):
                data = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=WORK)))
                broker = stack.enter_context(kcli(data / "new", "-o", NO_DELAY))
                loads.append(measure(broker, jars, options.runs, options.scale, ours))
            if options.only in (None, "kafka"):
                broker = stack.enter_context(kafka(NO_DELAY))
                loads.append(measure(broker, jars, options.runs, options.scale, theirs))
            in_turn(*loads)
        rows = [*figures(ours, theirs)] if ours and theirs else []
        if options.only in (None, "tests"):
            rows += fixtures(options.runs)
    except (BenchError, OSError, subprocess.CalledProcessError) as failed:
        print(f"bench: {failed}", file=sys.stderr)
        return 1
    text = serve_table(rows)
    print(text)
    if options.scale >= 1.0 and options.only is None:
        heading = "# Groups and transactions of kcli serve beside Kafka 4.3"
        RESULTS.write_text(f"{heading}\n\n{options.runs} runs each. {machine()}.\n\n{text}\n")
    return 1 if any(row.reached is False for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
