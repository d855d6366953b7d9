"""Tiered storage of kcli serve beside Kafka with LocalTieredStorage: python -m tests.bench.tier.

    copying   closed segments of a topic, from the moment in which remote.log.copy.disable becomes false
    reading   the same topic from its first offset, once its segments are deleted locally, with Kafka's own tool
    S3        the same for kcli alone, with the S3 server of samples/, beside what one client downloads from it; with
              Fetches of 1 MB, as consumers have them by default, and of 16 MB; and responses to such Fetches, without
              the consumer, whose decoding takes most of a core
    waiting   the tail while the S3 server fails, and a topic with 10,000 segments: tests.bench.tier_latency

Both brokers are up and take each load in turn; the first run warms up and does not count. Broker CPU and memory are
those of its process.
"""

from __future__ import annotations

import argparse
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

from kcli.tier.opening import open_store
from tests.bench import serve
from tests.bench.free_memory import use_free_memory
from tests.bench.measure import BenchError
from tests.bench.report import ServeFigure, machine, serve_table
from tests.bench.serve import WORK, BrokerProcess, consume, kafka, kcli, produce, script
from tests.bench.tier_latency import address_of, all_figures, use_endpoint
from tests.broker.running import Client
from tests.interop import kit
from tests.tier.s3 import sample_server

RESULTS = Path(__file__).with_name("TIER.md")
SEGMENT_BYTES, RECORD_BYTES = 32 << 20, 1000
RECORDS = 700_000
SETTINGS = {
    "remote.log.storage.system.enable": "true",
    "remote.log.metadata.manager.listener.name": "PLAINTEXT",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "1",
    "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
    "remote.log.manager.task.interval.ms": "100",
    "log.retention.check.interval.ms": "100",
    "log.initial.task.delay.ms": "100",
}
LOCAL = {"remote.log.storage.manager.class.name": "org.apache.kafka.server.log.remote.storage.LocalTieredStorage"}
BUCKET = {"remote.log.storage.manager.class.name": "kcli.tier.ObjectStorage", "rsm.config.url": "s3://bench/tier"}
HELD = {"remote.storage.enable": "true", "segment.bytes": str(SEGMENT_BYTES), "remote.log.copy.disable": "true"}
FETCH_BYTES = (1 << 20, 16 << 20)
TIMEOUT_S = 300.0
BATCH_BEGIN, LAST_OFFSET_DELTA, LAST_OFFSET_DELTA_AT = struct.Struct(">qi"), struct.Struct(">i"), 23
"""Base offset and length of a batch, and the field with its last offset (KIP-98)."""
SIZE, ERROR = struct.Struct(">i"), struct.Struct(">h")
LAST_TIERED, EARLIEST_LOCAL = -5, -4


def words(settings: dict[str, str]) -> list[str]:
    """The settings as options of kcli serve."""
    return [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]


def wait_for(condition: Callable[[], bool], what: str) -> None:
    until = time.monotonic() + TIMEOUT_S
    while not condition():
        if time.monotonic() > until:
            raise BenchError(f"{what} is not there after {TIMEOUT_S:,.0f} s")
        time.sleep(0.02)


def copied(broker: BrokerProcess, topic: str, records: int) -> tuple[float, float]:
    """Let the broker copy a topic. Returns MB/s, and seconds of its CPU for a GB."""
    configs = [word for name, value in HELD.items() for word in ("--config", f"{name}={value}")]
    create = ["--create", "--topic", topic, "--partitions", "1", "--replication-factor", "1", *configs]
    script("topics", "--bootstrap-server", broker.bootstrap, *create)
    produce(broker, topic, records, RECORD_BYTES)
    with Client(address_of(broker)) as client:
        per_segment = SEGMENT_BYTES // (RECORD_BYTES + 12)
        closed = records - per_segment - per_segment // 10
        cpu_s, begun = broker.cpu_s(), time.perf_counter()
        client.alter_topic(topic, {"remote.log.copy.disable": "false"})
        wait_for(
            lambda: client.list_offset(topic, LAST_TIERED)[1] >= closed, f"offset {closed:,} in {broker.name}'s tier"
        )
        took_s, used_s = time.perf_counter() - begun, broker.cpu_s() - cpu_s
        size = client.list_offset(topic, LAST_TIERED)[1] * RECORD_BYTES
        client.alter_topic(topic, {"local.retention.bytes": "1"})
        wait_for(lambda: client.list_offset(topic, EARLIEST_LOCAL)[1] >= closed, f"{broker.name}'s local retention")
    return size / 1e6 / took_s, used_s / (size / 1e9)


def measured(brokers: Sequence[BrokerProcess], runs: int, records: int) -> list[serve.Measured]:
    """Run the loads on the brokers in turn. Returns the medians, one dict for each broker."""
    found: list[dict[str, list[float]]] = [
        {"copy": [], "copy_cpu": [], "read": [], "read_cpu": [], "mb": []} for _ in brokers
    ]
    for run in range(runs + 1):
        for broker, into in zip(brokers, found, strict=True):
            use_free_memory(WORK)
            copy_mb, copy_cpu = copied(broker, f"tiered-{run}", records)
            read = consume(broker, f"tiered-{run}", records * 9 // 10, f"read-{run}")
            print(f"  {broker.name}: copied {copy_mb:,.0f} MB/s, read {read.mb_per_s:,.0f} MB/s", flush=True)
            script("topics", "--bootstrap-server", broker.bootstrap, "--delete", "--topic", f"tiered-{run}")
            if run:
                values = copy_mb, copy_cpu, read.mb_per_s, read.cpu_s_per_gb, broker.resident_mb()
                for name, value in zip(into, values, strict=True):
                    into[name].append(value)
    return [{name: median(values) for name, values in each.items()} for each in found]


@contextmanager
def s3_server(directory: Path) -> Iterator[None]:
    """Run the S3 server of samples/, with a bucket `bench`; the environment leads there."""
    (directory / "bench").mkdir(parents=True)
    with sample_server(directory) as url:
        use_endpoint(url)
        yield


def downloaded_mb_per_s() -> float:
    """Download the objects of segments, one after the other, as a client of the store does at its best."""
    store = open_store("s3://bench/tier")
    size, begun = 0, time.perf_counter()
    buffer = memoryview(bytearray(1 << 20))
    for each in store.list_objects():
        if each.name.endswith(".log"):
            source, position = store.open(each.name), 0
            while got := source.read_at(position, buffer):
                position += got
            source.close()
            size += position
    return size / 1e6 / (time.perf_counter() - begun)


def fetched_mb_per_s(broker: BrokerProcess, topic: str, below: int, fetch_bytes: int) -> float:
    """Fetch the offsets below `below`, one request after the other, and look at nothing but the headers of batches: the
    broker's part of a read, without the time of a consumer, which shares the cores."""
    offset, size, begun = 0, 0, time.perf_counter()
    with Client(address_of(broker)) as client:
        while offset < below:
            wanted = {"fetch_offset": offset, "partition_max_bytes": fetch_bytes}
            records = _fetched(client, topic, wanted)
            position = 0
            while position + LAST_OFFSET_DELTA_AT + LAST_OFFSET_DELTA.size <= len(records):
                base, length = BATCH_BEGIN.unpack_from(records, position)
                (delta,) = LAST_OFFSET_DELTA.unpack_from(records, position + LAST_OFFSET_DELTA_AT)
                offset, position = base + delta + 1, position + BATCH_BEGIN.size + length
            size += len(records)
    return size / 1e6 / (time.perf_counter() - begun)


def _fetched(client: Client, topic: str, wanted: dict[str, int]) -> memoryview:
    """Return the records of a Fetch of partition 0, version 11, not decoded."""
    partition = {"partition": 0, "current_leader_epoch": -1, "log_start_offset": -1, **wanted}
    whose = {"replica_id": -1, "rack_id": "", "isolation_level": 0, "session_id": 0, "session_epoch": -1}
    limits = {"max_wait": 5_000, "min_bytes": 1, "max_bytes": 1 << 30}
    topics = {"topics": [{"topic": topic, "partitions": [partition]}], "forgotten_topics_data": []}
    client.socket.sendall(client.frame("fetch", 11, whose | limits | topics))
    answer = memoryview(client.read_frame())
    # correlation id, throttle time, error, session, one topic, its name, one partition, its index
    position = 4 + 4 + 2 + 4 + 4 + 2 + len(topic) + 4 + 4
    (error,) = ERROR.unpack_from(answer, position)
    # error, high watermark, last stable offset, log start offset, no aborted transactions, preferred replica
    position += 2 + 8 + 8 + 8 + 4 + 4
    (length,) = SIZE.unpack_from(answer, position)
    if error or not length:
        raise BenchError(f"{topic}: no records from offset {wanted['fetch_offset']:,} on, error {error}")
    return answer[position + SIZE.size :][:length]


def of_bucket(runs: int, records: int) -> Iterator[ServeFigure]:
    """Yield the figures of a bucket: kcli's beside a plain download's."""
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=WORK)))
        stack.enter_context(s3_server(home / "s3"))
        broker = stack.enter_context(kcli(home / "data", *words(SETTINGS | BUCKET)))
        copied(broker, "tiered", records)
        reads: dict[int, list[float]] = {fetch_bytes: [] for fetch_bytes in FETCH_BYTES}
        fetches: dict[int, list[float]] = {fetch_bytes: [] for fetch_bytes in FETCH_BYTES}
        downloads = []
        for run in range(runs + 1):
            for fetch_bytes, rates in reads.items():
                group = f"read-{fetch_bytes}-{run}"
                rates.append(consume(broker, "tiered", records * 9 // 10, group, fetch_bytes).mb_per_s)
                fetches[fetch_bytes].append(fetched_mb_per_s(broker, "tiered", records * 9 // 10, fetch_bytes))
            downloads.append(downloaded_mb_per_s())
    download = median(downloads[1:])
    for fetch_bytes, rates in reads.items():
        name = f"S3: a consumer by {fetch_bytes >> 20} MB (beside a plain download)"
        yield ServeFigure(name, median(rates[1:]), download, "MB/s", least_ratio=0.7)
        name = f"S3: Fetch responses of {fetch_bytes >> 20} MB (beside a plain download)"
        yield ServeFigure(name, median(fetches[fetch_bytes][1:]), download, "MB/s", least_ratio=0.7)


def figures(ours: serve.Measured, theirs: serve.Measured) -> Iterator[ServeFigure]:
    """The table's lines."""
    yield ServeFigure("copying segments of 32 MB", ours["copy"], theirs["copy"], "MB/s", least_ratio=1.5)
    yield ServeFigure("broker CPU per GB copied", ours["copy_cpu"], theirs["copy_cpu"], "s", most_ratio=0.5)
    yield ServeFigure("reading from the tier, 1 KB", ours["read"], theirs["read"], "MB/s", least_ratio=1.0)
    yield ServeFigure("broker CPU per GB read", ours["read_cpu"], theirs["read_cpu"], "s")
    yield ServeFigure("memory after that", ours["mb"], theirs["mb"], "MB", most=200)


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.tier", description="Time tiered storage beside Kafka.")
    parser.add_argument("--runs", type=int, default=5, help="measured runs of each load (default: 5)")
    parser.add_argument("--scale", type=float, default=1.0, help="of the loads; below 1 nothing is written")
    options = parser.parse_args()
    WORK.mkdir(parents=True, exist_ok=True)
    try:
        kit.set_up()
    except kit.KafkaUnavailableError as unavailable:
        print(f"bench: the load comes from Kafka's own tools: {unavailable}", file=sys.stderr)
        return 1
    serve.ENVIRONMENT["KAFKA_CLASSPATH"] = f"{kit.kit_dir() / 'extra'}/*"
    records = round(RECORDS * options.scale)
    try:
        with ExitStack() as stack:
            home = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=WORK)))
            mine = SETTINGS | LOCAL | {"rsm.config.dir": str(home / "ours")}
            its = SETTINGS | LOCAL | {"rsm.config.dir": str(home / "theirs")}
            broker = stack.enter_context(kcli(home / "data", *words(mine)))
            opponent = stack.enter_context(kafka(*(f"{name}={value}" for name, value in its.items())))
            ours, theirs = measured((broker, opponent), options.runs, records)
        rows = [*figures(ours, theirs), *of_bucket(options.runs, records), *all_figures(SETTINGS | BUCKET)]
    except (BenchError, OSError, subprocess.CalledProcessError) as failed:
        print(f"bench: {failed}", file=sys.stderr)
        return 1
    text = serve_table(rows)
    print(text)
    if options.scale == 1.0:
        head = f"# Tiered storage of kcli serve beside Kafka 4.3 with LocalTieredStorage\n\n{options.runs} runs each."
        RESULTS.write_text(f"{head} {machine()}.\n\n{text}\n")
    return 1 if any(row.reached is False for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
