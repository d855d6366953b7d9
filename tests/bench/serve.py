"""kcli serve beside a warm Kafka, driven by Kafka's own tools: python -m tests.bench.serve.

Kafka runs with the options of its own start scripts (KAFKA_PERF=1) and its default configuration; both brokers are up
and take each load in turn, so that a machine which is now fast, now slow, is so to both. The first run of each load
warms up and does not count; nor does the first third of a producer's records, in which its JVM compiles on one of two
cores. Broker CPU is that of its process while the load runs.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TypeVar

from tests.bench.free_memory import use_free_memory
from tests.bench.measure import BenchError
from tests.bench.report import ServeFigure, machine, plot, serve_table
from tests.interop import kit

KCLI = str(Path(sys.executable).with_name("kcli"))
RESULTS = Path(__file__).with_name("SERVE.md")
PICTURE = Path(__file__).with_name("serve.svg")
WORK = Path(__file__).with_name(".work") / "serve"
NODE = "bench-serve"
KAFKA_DEFAULTS = (
    "log.index.size.max.bytes=10485760",
    "offsets.topic.num.partitions=50",
    "transaction.state.log.num.partitions=50",
    "log.cleaner.dedupe.buffer.size=134217728",
)
Outcome = TypeVar("Outcome")
TICKS = os.sysconf("SC_CLK_TCK")
PRODUCED = re.compile(
    r"([\d.]+) records/sec \(([\d.]+) MB/sec\), ([\d.]+) ms avg latency.*?([\d.]+) ms 99th, ([\d.]+) ms 99\.9th"
)
DEFAULT_FETCH_BYTES = 1 << 20
OFFERED_RECORDS = (10_000, 50_000, 100_000, 200_000, 300_000)
WARMUP_S, STEADY_S = 3, 4
ENVIRONMENT = dict(os.environ) | {"KAFKA_PERF": "1"}


@dataclass
class BrokerProcess:
    """A running broker."""

    name: str
    bootstrap: str
    pid: int
    data: Path

    def cpu_s(self) -> float:
        """CPU seconds that it has used."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def resident_mb(self) -> float:
        """Memory that it holds now."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        assert found, "Linux tells"
        return int(found[1]) / 1024


@contextmanager
def kcli(data: Path, *options: str, listen: Sequence[str] = ("--listen", "127.0.0.1:0")) -> Iterator[BrokerProcess]:
    """Start kcli serve with a new directory. listen: its address, unless the options have listeners."""
    log = (WORK / "kcli.log").open("ab")
    command = [KCLI, "serve", "--data-dir", str(data), *listen]
    process = subprocess.Popen([*command, *options], stdout=subprocess.PIPE, stderr=log, text=True)
    assert process.stdout is not None
    ready = process.stdout.readline()
    if not ready:
        raise BenchError(f"kcli serve did not come up: {(WORK / 'kcli.log').read_text()[-2000:]}")
    try:
        yield BrokerProcess("kcli", ready.split()[2], process.pid, data)
    finally:
        process.kill()
        process.wait()
        log.close()


@contextmanager
def kafka(*options: str, port: int | None = None) -> Iterator[BrokerProcess]:
    """Start a new Kafka. port: that of its listener PLAINTEXT, if it is free."""
    script("kill", NODE, check=False)
    script("rm", NODE, check=False)
    bootstrap = script("start", NODE, *KAFKA_DEFAULTS, *options, port=port).strip().splitlines()[-1]
    node = kit.kit_dir() / "nodes" / NODE
    try:
        yield BrokerProcess("Kafka", bootstrap, int((node / "pid").read_text()), node / "data")
    finally:
        script("kill", NODE, check=False)
        script("rm", NODE, check=False)


def script(*arguments: str, check: bool = True, port: int | None = None) -> str:
    """Run the kit's script. port: the first port to try. Raises BenchError."""
    environment = ENVIRONMENT if port is None else ENVIRONMENT | {"KAFKA_KIT_PORT": str(port)}
    done = subprocess.run([kit.SCRIPT, *arguments], capture_output=True, text=True, check=False, env=environment)
    if check and done.returncode:
        raise BenchError(f"kafka {' '.join(arguments)}: {done.stderr or done.stdout}")
    return done.stdout


# loads


@dataclass(frozen=True)
class Produced:
    """The figures of kafka-producer-perf-test, and the broker's CPU and memory meanwhile."""

    records_per_s: float
    mb_per_s: float
    mean_ms: float
    p99_ms: float
    p999_ms: float
    cpu_s_per_gb: float


def produce(
    broker: BrokerProcess, topic: str, records: int, size: int, *properties: str, rate: int = -1, warmup: int = 0
) -> Produced:
    """Run kafka-producer-perf-test with acks=all. rate: records a second that are offered, -1 for all at once.
    warmup: so many of the records come before those that count."""
    before = broker.cpu_s()
    text = script(
        "producer-perf", "--topic", topic, "--num-records", str(records), *_payload(size), "--throughput", str(rate),
        *(["--warmup-records", str(warmup)] if warmup else []),
        "--command-property", f"bootstrap.servers={broker.bootstrap}", "acks=all", *properties,
    )  # fmt: skip
    found = PRODUCED.search(text.splitlines()[-1])
    if found is None:
        raise BenchError(f"producer-perf printed {text[-500:]}")
    per_s, mb_per_s, mean_ms, p99_ms, p999_ms = map(float, found.groups())
    return Produced(per_s, mb_per_s, mean_ms, p99_ms, p999_ms, (broker.cpu_s() - before) / (records * size / 1e9))


def steady(broker: BrokerProcess, rate: int) -> Produced:
    """Offer so many records a second, and measure when the client's JVM has warmed up."""
    return produce(broker, "small", rate * (WARMUP_S + STEADY_S), 100, rate=rate, warmup=rate * WARMUP_S)


def _payload(size: int) -> list[str]:
    """Random bytes do not compress: words do."""
    if size != TEXT_SIZE:
        return ["--record-size", str(size)]
    words = WORK / "words.txt"
    if not words.exists():
        import random

        draw = random.Random(1)
        vocabulary = ["".join(draw.choices("abcdefghijklmnop", k=draw.randint(3, 9))) for _ in range(2000)]
        lines = []
        for _ in range(5000):
            line = " ".join(draw.choices(vocabulary, k=TEXT_SIZE // 4))
            lines.append(line[:TEXT_SIZE])
        words.write_text("\n".join(lines))
    return ["--payload-file", str(words)]


TEXT_SIZE = 500
CONSUMED = 4
"""A consumer reads so many times the records that a producer sends, or its JVM would not be warm until the end."""


@dataclass(frozen=True)
class Consumed:
    """The figures of kafka-consumer-perf-test about fetching, and the broker's CPU and memory meanwhile."""

    mb_per_s: float
    cpu_s_per_gb: float


def consume(
    broker: BrokerProcess, topic: str, records: int, group: str, fetch_bytes: int = DEFAULT_FETCH_BYTES
) -> Consumed:
    """Run kafka-consumer-perf-test once. fetch_bytes: how much it fetches of a partition at a time."""
    before = broker.cpu_s()
    text = script(
        "consumer-perf", "--bootstrap-server", broker.bootstrap, "--topic", topic, "--messages", str(records),
        "--group", group, "--timeout", "60000", "--fetch-size", str(fetch_bytes),
    )  # fmt: skip
    fields = text.splitlines()[-1].split(",")
    return Consumed(float(fields[8]), (broker.cpu_s() - before) / (float(fields[2]) * (1 << 20) / 1e9))


def latency(broker: BrokerProcess, topic: str, messages: int) -> tuple[float, float]:
    """kafka-e2e-latency: mean and 99th percentile in ms."""
    text = script(
        "run", "org.apache.kafka.tools.EndToEndLatency", broker.bootstrap, topic, str(messages), "all", "100"
    )  # fmt: skip
    mean, p99 = re.search(r"Avg latency: ([\d.]+) ms", text), re.search(r"99th = (\d+)", text)
    if mean is None or p99 is None:
        raise BenchError(f"EndToEndLatency printed {text[-500:]}")
    return float(mean[1]), float(p99[1])


def hold(broker: BrokerProcess, idle: int, busy: int, seconds: float) -> tuple[int, float]:
    """Keep idle connections open, and send requests on busy ones. Returns requests a second, and the slowest response
    in ms."""
    host, _, port = broker.bootstrap.rpartition(":")
    request = struct.pack(">ihhih", 10, 18, 0, 1, -1)  # ApiVersions 0
    idle_ones = [socket.create_connection((host, int(port))) for _ in range(idle)]
    busy_ones = [socket.create_connection((host, int(port))) for _ in range(busy)]
    slowest, count, until = 0.0, 0, time.perf_counter() + seconds
    while time.perf_counter() < until:
        began = time.perf_counter()
        for each in busy_ones:
            each.sendall(request)
        for each in busy_ones:
            size = int.from_bytes(each.recv(4, socket.MSG_WAITALL))
            each.recv(size, socket.MSG_WAITALL)
        slowest = max(slowest, time.perf_counter() - began)
        count += busy
    for each in idle_ones:  # they are still there
        each.sendall(request)
        if not each.recv(4, socket.MSG_WAITALL):
            raise BenchError(f"{broker.name} dropped an idle connection")
    for each in (*idle_ones, *busy_ones):
        each.close()
    return round(count / seconds), slowest * 1000


def create(broker: BrokerProcess, topic: str, partitions: int) -> None:
    """Make a topic."""
    script(
        "topics", "--bootstrap-server", broker.bootstrap, "--create", "--topic", topic, "--partitions",
        str(partitions), "--replication-factor", "1",
    )  # fmt: skip


# figures

Measured = dict[str, float]


def measure(brokers: Sequence[BrokerProcess], runs: int, scale: float) -> list[Measured]:
    """Run all loads on the brokers in turn. Returns the medians of the runs, one dict for each broker."""
    found: list[Measured] = [{"idle_mb": broker.resident_mb()} for broker in brokers]
    for broker in brokers:
        for topic, partitions in (("small", 1), ("six", 6), ("text", 1), ("latency", 1)):
            create(broker, topic, partitions)

    def fresh(load: Callable[[BrokerProcess, int], Outcome], broker: BrokerProcess, run: int) -> Outcome:
        use_free_memory(WORK)
        return load(broker, run)

    def several(load: Callable[[BrokerProcess, int], Outcome]) -> list[list[Outcome]]:
        each = [[fresh(load, broker, run) for broker in brokers] for run in range(runs + 1)]
        return [list(of_one) for of_one in zip(*each[1:], strict=True)]  # the first ones warm up

    def produced(name: str, load: Callable[[BrokerProcess, int], Produced]) -> None:
        for broker, into, outcomes in zip(brokers, found, several(load), strict=True):
            into[f"{name}_per_s"] = median(one.records_per_s for one in outcomes)
            into[f"{name}_mb"] = median(one.mb_per_s for one in outcomes)
            into[f"{name}_cpu"] = median(one.cpu_s_per_gb for one in outcomes)
            print(f"  {broker.name} {name}: {into[f'{name}_per_s']:,.0f} records/s", flush=True)

    small, wide = round(3_000_000 * scale), round(1_000_000 * scale)
    zstd = "compression.type=zstd"
    produced("small", lambda broker, _: produce(broker, "small", small, 100, warmup=small // 3))
    produced("six", lambda broker, _: produce(broker, "six", wide, 1000, warmup=wide // 3))
    produced("zstd", lambda broker, _: produce(broker, "text", wide, TEXT_SIZE, zstd, warmup=wide // 3))
    read_by = several(lambda broker, run: consume(broker, "six", CONSUMED * wide, f"perf-{run}"))
    for into, read in zip(found, read_by, strict=True):
        into["consume_mb"] = median(one.mb_per_s for one in read)
        into["consume_cpu"] = median(one.cpu_s_per_gb for one in read)
    for into, times in zip(found, several(lambda broker, _: latency(broker, "latency", 5000)), strict=True):
        into["e2e_ms"] = median(mean for mean, _ in times)
        into["e2e_p99_ms"] = median(p99 for _, p99 in times)
    for broker, into in zip(brokers, found, strict=True):
        into["requests_per_s"], into["slowest_ms"] = hold(broker, 1000, 200, 3)
        into["loaded_mb"] = broker.resident_mb()
    for rate in OFFERED_RECORDS:
        each = [[steady(broker, rate) for broker in brokers] for _ in range(runs)]
        for into, taken in zip(found, zip(*each, strict=True), strict=True):
            into[f"offered_{rate}_per_s"] = median(one.records_per_s for one in taken)
            into[f"offered_{rate}_p99_ms"] = median(one.p99_ms for one in taken)
            into[f"offered_{rate}_p999_ms"] = median(one.p999_ms for one in taken)
    return found


def ready_seconds(runs: int) -> float:
    """Return the seconds from the command to the ready line, in a new directory."""
    seconds = []
    for _ in range(runs):
        began = time.perf_counter()
        with tempfile.TemporaryDirectory(dir=WORK) as data, kcli(Path(data) / "new"):
            seconds.append(time.perf_counter() - began)
    return median(seconds)


def restart_seconds(unflushed_bytes: int, *, with_kafka: bool) -> tuple[float, float | None]:
    """Return the seconds from a start to the ready line, after kill -9 with that many bytes not flushed."""
    records = unflushed_bytes // 1000
    with tempfile.TemporaryDirectory(dir=WORK) as data:
        with kcli(Path(data)) as broker:
            create(broker, "big", 4)
            produce(broker, "big", records, 1000)
            copy = WORK / "unflushed"
            shutil.rmtree(copy, ignore_errors=True)
        began = time.perf_counter()
        with kcli(Path(data)):
            ours = time.perf_counter() - began
    if not with_kafka:
        return ours, None
    with kafka() as broker:
        create(broker, "big", 4)
        produce(broker, "big", records, 1000)
        script("kill", NODE)
        began = time.perf_counter()
        script("start", NODE)
        return ours, time.perf_counter() - began


def figures(ours: Measured, theirs: Measured | None) -> Iterator[ServeFigure]:
    """The table's lines."""
    other = theirs or {}

    def more(name: str, key: str, unit: str, goal: float) -> ServeFigure:
        return ServeFigure(name, ours[key], other.get(key), unit, least_ratio=goal)

    def less(name: str, key: str, unit: str, goal: float) -> ServeFigure:
        return ServeFigure(name, ours[key], other.get(key), unit, most_ratio=goal)

    yield more("produce 100 B, 1 partition, acks=all", "small_per_s", "records/s", 1.4)
    yield more("produce 1 KB, 6 partitions, acks=all", "six_mb", "MB/s", 1.2)
    yield more("produce 500 B of text, zstd, acks=all", "zstd_per_s", "records/s", 1.15)
    yield more("consume 1 KB, 6 partitions", "consume_mb", "MB/s", 1.1)
    yield less("end to end, mean", "e2e_ms", "ms", 1.0)
    yield less("end to end, 99th percentile", "e2e_p99_ms", "ms", 0.6)
    yield less("broker CPU per GB produced, 100 B", "small_cpu", "s", 0.3)
    yield less("broker CPU per GB produced, 1 KB", "six_cpu", "s", 0.3)
    yield less("broker CPU per GB consumed", "consume_cpu", "s", 0.6)
    yield ServeFigure("memory idle", ours["idle_mb"], other.get("idle_mb"), "MB", most=90)
    yield ServeFigure("memory after the load", ours["loaded_mb"], other.get("loaded_mb"), "MB", most=200)
    held = "requests on 200 connections, beside 1,000 idle"
    yield more(held, "requests_per_s", "/s", 1.0)
    for rate in OFFERED_RECORDS:
        offered = f"{rate:,} records/s of 100 B offered"
        yield less(f"{offered}, 99th percentile", f"offered_{rate}_p99_ms", "ms", 1.0)
        yield less(f"{offered}, 99.9th", f"offered_{rate}_p999_ms", "ms", 1.0)


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.serve", description="Time kcli serve beside Kafka.")
    parser.add_argument("--runs", type=int, default=5, help="measured runs of each load (default: 5)")
    parser.add_argument("--scale", type=float, default=1.0, help="of the loads; below 1 nothing is written")
    parser.add_argument("--without-restart", action="store_true", help="skip the restart with 2 GB")
    options = parser.parse_args()
    WORK.mkdir(parents=True, exist_ok=True)
    try:
        kit.set_up()
    except kit.KafkaUnavailableError as unavailable:
        print(f"bench: the load comes from Kafka's own tools: {unavailable}", file=sys.stderr)
        return 1
    try:
        rows = [ServeFigure("ready in a new directory", ready_seconds(options.runs), None, "s", most=0.5)]
        with tempfile.TemporaryDirectory(dir=WORK) as data, kcli(Path(data) / "new") as broker, kafka() as opponent:
            ours, theirs = measure((broker, opponent), options.runs, options.scale)
        rows += figures(ours, theirs)
        if not options.without_restart:
            mine, its = restart_seconds(round(2e9 * options.scale), with_kafka=True)
            rows.append(ServeFigure("restart after kill -9, 2 GB not flushed", mine, its, "s", most_ratio=1.0))
    except (BenchError, subprocess.CalledProcessError) as failed:
        print(f"bench: {failed}", file=sys.stderr)
        return 1
    text = serve_table(rows)
    print(text)
    if options.scale == 1.0 and not options.without_restart:
        RESULTS.write_text(f"# kcli serve beside Kafka 4.3\n\n{options.runs} runs each. {machine()}.\n\n{text}\n")
        plot(PICTURE, OFFERED_RECORDS, ours, theirs)
    return 1 if any(row.reached is False for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
