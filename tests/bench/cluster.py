"""Three nodes of kcli beside three of Kafka's, same properties, Kafka's defaults: python -m tests.bench.cluster.

    failover          from kill -9 of a partition's leader until a record sent after it is acknowledged (acks=all): the
                      median over kills of each node in turn, one of which is the active controller
    rolling restart   each node stopped in order and started again while a producer sends: records that fail
    produce           kafka-producer-perf-test, replication factor 3, acks=all, 1 KB; kcli's cluster before and after
                      Kafka's, the first run of each warms up
    memory            resident memory of the three nodes after that
    topics            1,000 with 3 partitions of 3 replicas each: made, all stopped and started, then left alone

Kafka's nodes have the options of its own start scripts. kcli's nodes are processes of their own (`kcli serve
--config`), for one line more those of a launcher (`kcli serve --nodes`).
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median

from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.bench.measure import BenchError
from tests.bench.report import ServeFigure, machine, serve_table
from tests.bench.serve import PRODUCED, TICKS, script
from tests.interop import kit
from tests.interop.clusters import Cluster, ClusterError, KcliCluster, LaunchedCluster
from tests.interop.real_cluster import AS_KAFKAS_SCRIPTS, RealCluster

RESULTS = Path(__file__).with_name("CLUSTER.md")
WORK = Path(__file__).with_name(".work") / "cluster"
KAFKA_DEFAULTS = {
    "log.index.size.max.bytes": "10485760",
    "offsets.topic.num.partitions": "50",
    "transaction.state.log.num.partitions": "50",
    "log.cleaner.dedupe.buffer.size": "134217728",
}
EVERY_S = 0.005
SENDS_S = 120.0
FAILS_AFTER_MS = 60_000
QUICK_CLIENT = {
    "enable.idempotence": True,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 100,
    "retry.backoff.ms": 20,
    "retry.backoff.max.ms": 100,
    "topic.metadata.refresh.fast.interval.ms": 20,
    "socket.connection.setup.timeout.ms": 1000,
    "message.timeout.ms": FAILS_AFTER_MS,
    "linger.ms": 0,
    "log_level": 0,
}
PARTITIONS = 3
IDLES_S = 30.0
RECORDS = 600_000
BATCH = 100
"""Topics in a request."""


def kafka_cluster(directory: Path) -> Cluster:
    """Of real Kafka."""
    return RealCluster(directory, KAFKA_DEFAULTS, java=AS_KAFKAS_SCRIPTS)


def kcli_cluster(directory: Path) -> Cluster:
    """Of kcli's nodes, one by one."""
    return KcliCluster(directory, KAFKA_DEFAULTS, warm=False)


def launched_cluster(directory: Path) -> Cluster:
    """Of `kcli serve --nodes`."""
    return LaunchedCluster(directory, KAFKA_DEFAULTS)


@contextmanager
def running(make: Callable[[Path], Cluster]) -> Iterator[Cluster]:
    """Yield a new cluster whose nodes all run; remove it afterwards."""
    with tempfile.TemporaryDirectory(dir=WORK, ignore_cleanup_errors=True) as directory:
        cluster = make(Path(directory))
        cluster.format()
        with cluster:
            cluster.start()
            cluster.wait_ready()
            yield cluster


def create(cluster: Cluster, names: Sequence[str], partitions: int = PARTITIONS) -> None:
    """Create topics with three replicas and min.insync.replicas=2, and wait until all nodes know them and all replicas
    are in the ISR."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    for first in range(0, len(names), BATCH):
        topics = [
            NewTopic(name, partitions, 3, config={"min.insync.replicas": "2"}) for name in names[first : first + BATCH]
        ]
        for future in admin.create_topics(topics, request_timeout=60).values():
            future.result()
    cluster.wait_in_sync(SENDS_S, names)


# failover, rolling restart


@dataclass(eq=False)
class Sender(threading.Thread):
    """Sends a record to each partition every few ms, and notes when each was sent and acknowledged."""

    bootstrap: str
    topic: str
    acked: dict[int, list[tuple[float, float]]] = field(default_factory=lambda: {n: [] for n in range(PARTITIONS)})
    """By partition: the time when each record was sent, and the time when it was acknowledged."""
    failed: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(daemon=True)
        self.stopping = threading.Event()

    def run(self) -> None:
        producer = Producer(QUICK_CLIENT | {"bootstrap.servers": self.bootstrap})
        while not self.stopping.is_set():
            for number in range(PARTITIONS):
                sent = time.perf_counter()

                def told(error: KafkaError | None, _: Message, number: int = number, sent: float = sent) -> None:
                    if error is None:
                        self.acked[number].append((sent, time.perf_counter()))
                    else:
                        self.failed.append(str(error))

                producer.produce(self.topic, b"x" * 100, partition=number, on_delivery=told)
            producer.poll(EVERY_S)
        if producer.flush(SENDS_S):
            self.failed.append(f"{len(producer)} were never answered")

    def finish(self) -> None:
        """Wait for the last answer."""
        self.stopping.set()
        self.join()

    def first_ack_s(self, partition: int, since: float) -> float:
        """Return the seconds from `since` to the first acknowledgement of a record sent later. Raises BenchError."""
        deadline = time.perf_counter() + SENDS_S
        while time.perf_counter() < deadline:
            later = [acked for sent, acked in self.acked[partition][-2000:] if sent >= since]
            if later:
                return min(later) - since
            time.sleep(0.01)
        raise BenchError(f"partition {partition} takes no record within {SENDS_S:.0f} s")

    def longest_gap_s(self) -> float:
        """Between two acknowledgements of a partition."""
        gaps = [0.0]
        for each in self.acked.values():
            times = sorted(acked for _, acked in each)
            gaps += [after - before for before, after in pairwise(times)]
        return max(gaps)


def failover_s(cluster: Cluster, kills: int) -> list[float]:
    """Kill leaders, each node in turn, and return the seconds of each failover."""
    create(cluster, ["failover"])
    sender = Sender(cluster.bootstrap, "failover")
    sender.start()
    found = []
    for kill in range(kills):
        cluster.wait_ready()
        cluster.wait_in_sync()
        time.sleep(1)
        led = {each.leader: each.index for each in cluster.partitions() if each.topic == "failover"}
        victim = sorted(led)[kill % len(led)]
        pid = cluster.pid(victim)
        assert pid is not None, "all are ready"
        os.kill(pid, signal.SIGKILL)
        began = time.perf_counter()
        found.append(sender.first_ack_s(led[victim], began))
        print(f"  {cluster.name}: {found[-1]:.2f} s without node {victim}", flush=True)
        if not isinstance(cluster, LaunchedCluster):
            cluster.processes[victim].wait()
            cluster.start(victim)
    sender.finish()
    return found


def rolling_restart(cluster: Cluster) -> tuple[int, float, float]:
    """Return the number of failed records, the duration, and the longest time without an acknowledgement."""
    create(cluster, ["rolling"])
    sender = Sender(cluster.bootstrap, "rolling")
    sender.start()
    time.sleep(2)
    began = time.perf_counter()
    for node in cluster.ids:
        cluster.restart(node)
        cluster.wait_ready()
        cluster.wait_in_sync()
    seconds = time.perf_counter() - began
    time.sleep(1)
    sender.finish()
    return len(sender.failed), seconds, sender.longest_gap_s()


# produce


def produce(cluster: Cluster, topic: str, records: int) -> float:
    """Records a second of the second half, when the client's JVM is warm, as kafka-producer-perf-test says. What was
    written before reaches the disk first."""
    os.sync()
    text = script(
        "producer-perf", "--topic", topic, "--num-records", str(records), "--record-size", "1000", "--throughput", "-1",
        "--warmup-records", str(records // 2),
        "--command-property", f"bootstrap.servers={cluster.bootstrap}", "acks=all",
    )  # fmt: skip
    found = PRODUCED.search(text.splitlines()[-1])
    if found is None:
        raise BenchError(f"producer-perf printed {text[-500:]}")
    print(f"  {cluster.name}: {float(found[1]):,.0f} records/s", flush=True)
    return float(found[1])


# memory, CPU


def resident_mb(cluster: Cluster) -> float:
    """Return the resident memory of all nodes; memory that processes share is divided among them."""
    total = 0
    for node in cluster.ids:
        text = Path(f"/proc/{cluster.pid(node)}/smaps_rollup").read_text()
        found = re.search(r"^Pss:\s+(\d+) kB", text, re.MULTILINE)
        assert found is not None, "Linux tells"
        total += int(found[1])
    return total / 1024


def cpu_s(cluster: Cluster) -> list[float]:
    """CPU seconds of each node."""
    found = []
    for node in cluster.ids:
        fields = Path(f"/proc/{cluster.pid(node)}/stat").read_text().rpartition(")")[2].split()
        found.append((int(fields[11]) + int(fields[12])) / TICKS)
    return found


# many topics


def many_topics(cluster: Cluster, topics: int, idles_s: float) -> dict[str, float]:
    """Create many topics, restart all nodes, and measure the idle cluster."""
    names = [f"topic-{number:04}" for number in range(topics)]
    began = time.perf_counter()
    create(cluster, names)
    made = time.perf_counter()
    cluster.stop()
    stopped = time.perf_counter()
    cluster.start()
    cluster.wait_ready()
    cluster.wait_in_sync(SENDS_S, names)
    started = time.perf_counter()
    time.sleep(idles_s / 3)
    before = cpu_s(cluster)
    time.sleep(idles_s)
    idle = max(after - at for at, after in zip(before, cpu_s(cluster), strict=True)) / idles_s * 100
    found = {"made_s": made - began, "stopped_s": stopped - made, "started_s": started - stopped, "idle_percent": idle}
    print(f"  {cluster.name}: {found}", flush=True)
    return found | {"topics_mb": resident_mb(cluster)}


# figures

Measured = dict[str, float]


def measure(options: argparse.Namespace) -> tuple[Measured, Measured]:
    """All figures of kcli, and of Kafka."""
    ours: Measured = {}
    theirs: Measured = {}
    sides = [(ours, kcli_cluster)] + ([] if options.without_kafka else [(theirs, kafka_cluster)])
    wanted: set[str] = set(options.only or PARTS)
    for into, make in sides:
        if "failover" in wanted:
            with running(make) as cluster:
                into["failover_s"] = median(failover_s(cluster, options.kills))
        if "rolling" in wanted:
            with running(make) as cluster:
                into["failed"], into["rolling_s"], into["gap_s"] = rolling_restart(cluster)
        if "topics" in wanted:
            with running(make) as cluster:
                into.update(many_topics(cluster, round(1000 * options.scale), IDLES_S * options.scale))
    if "failover" in wanted:
        with running(launched_cluster) as cluster:
            ours["launched_failover_s"] = median(failover_s(cluster, options.kills))
    if "produce" in wanted:
        producing(sides, options)
    return ours, theirs


PARTS = ("failover", "rolling", "produce", "topics")


def producing(sides: Sequence[tuple[Measured, Callable[[Path], Cluster]]], options: argparse.Namespace) -> None:
    """Produce to one cluster, then to the other one, then to the first one again, so that a change of the machine's
    speed concerns both. Each has the machine for itself: an idle node of Kafka takes a fifth of a core."""
    rates: list[list[float]] = [[] for _ in sides]
    turns = [0] if len(sides) == 1 else [0, 1, 0]
    for side in turns:
        into, make = sides[side]
        share = options.runs if turns.count(side) == 1 else -(-options.runs // 2)
        with running(make) as cluster:
            create(cluster, ["perf"], 6)
            found = [produce(cluster, "perf", round(RECORDS * options.scale)) for _ in range(1 + share)]
            into["memory_mb"] = resident_mb(cluster)
        rates[side] += found[1:]
    for (into, _), each in zip(sides, rates, strict=True):
        into["produce_per_s"] = median(each)


def figures(ours: Measured, theirs: Mapping[str, float]) -> Iterator[ServeFigure]:
    """The table's lines, of what was measured."""

    def line(name: str, key: str, unit: str, **goal: float) -> Iterator[ServeFigure]:
        if key in ours:
            yield ServeFigure(name, ours[key], theirs.get(key), unit, **goal)

    yield from line("kill -9 of a leader to the next acknowledged write", "failover_s", "s", most_ratio=1.0)
    if "launched_failover_s" in ours:
        found = ours["launched_failover_s"]
        yield ServeFigure("the same under kcli serve --nodes", found, theirs.get("failover_s"), "s", most=1.0)
    yield from line("rolling restart: records that fail", "failed", "", most=0)
    yield from line("rolling restart: longest time without an acknowledgement", "gap_s", "s")
    yield from line("rolling restart of three nodes", "rolling_s", "s")
    yield from line("produce 1 KB, 6 partitions, 3 replicas, acks=all", "produce_per_s", "records/s", least_ratio=2.0)
    yield from line("memory of three nodes after that", "memory_mb", "MB", most_ratio=0.334)
    yield from line("1,000 topics, 3,000 partitions, 3 replicas: made", "made_s", "s", most=60)
    yield from line("all nodes stopped", "stopped_s", "s")
    yield from line("all nodes started until all is in sync", "started_s", "s", most=20)
    yield from line("idle CPU of the busiest node", "idle_percent", "%", most=5)
    yield from line("memory of three nodes with them", "topics_mb", "MB")


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.cluster", description="Time three kcli nodes beside three of Kafka's."
    )
    parser.add_argument("--runs", type=int, default=5, help="measured runs of produce (default: 5)")
    parser.add_argument("--kills", type=int, default=6, help="of a leader (default: 6)")
    parser.add_argument("--scale", type=float, default=1.0, help="of records and topics; below 1 nothing is written")
    parser.add_argument("--only", action="append", choices=PARTS, help="nothing else; may be repeated")
    parser.add_argument("--without-kafka", action="store_true", help="kcli alone")
    options = parser.parse_args()
    WORK.mkdir(parents=True, exist_ok=True)
    try:
        kit.set_up()
        rows = [*figures(*measure(options))]
    except kit.KafkaUnavailableError as unavailable:
        print(f"bench: the load comes from Kafka's own tools: {unavailable}", file=sys.stderr)
        return 1
    except (BenchError, ClusterError, subprocess.CalledProcessError) as failed:
        print(f"bench: {failed}", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(WORK, ignore_errors=True)
    text = serve_table(rows)
    print(text)
    if options.scale == 1.0 and not options.only and not options.without_kafka:
        about = f"{options.runs} runs of produce, {options.kills} kills. {machine()}."
        RESULTS.write_text(f"# Three nodes of kcli beside three of Kafka 4.3\n\n{about}\n\n{text}\n")
    return 1 if any(row.reached is False for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
