"""Tiered storage under loads that are about waiting: the tail of a topic while the S3 server fails, and a topic with
10,000 segments in the store. Its figures are in the table of tests.bench.tier.

The tail is the end of the log, where producers append and consumers read; its topic is tiered, segments of it are
copied meanwhile, and another consumer reads from the store.
"""

from __future__ import annotations

import os
import random
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from statistics import median

from tests.bench.measure import BenchError
from tests.bench.report import ServeFigure
from tests.bench.serve import WORK, BrokerProcess, kcli
from tests.broker.running import Client
from tests.broker.tiering.test_fetch import fetch
from tests.log.batches import batch
from tests.tier.s3 import Fault, Proxy, pass_on, s3_error, sample_server

TOPIC = "tail"
TIMEOUT_S = 600.0
LAST_TIERED = -5
SEGMENTS, LOOKUPS, AHEAD = 10_000, 200, 1_000
VALUE_BYTES, SEGMENT_BYTES = 10_000, 1 << 20
CYCLES, CYCLE_S, WARM_CYCLES = 3_000, 0.005, 300
FAULTS: Mapping[str, Fault] = {
    "answers 503": lambda *_: [s3_error("503 Slow Down", "SlowDown")],
    "does not answer": lambda *_: [3.0],
    "is slow": lambda _, answer: [0.3, answer()],
}


def address_of(broker: BrokerProcess) -> tuple[str, int]:
    host, _, port = broker.bootstrap.rpartition(":")
    return host, int(port)


def use_endpoint(url: str) -> None:
    """Let the environment lead to an S3 server."""
    os.environ |= {"AWS_ENDPOINT_URL": url, "AWS_REGION": "us-east-1"}
    os.environ |= {"AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "bench"}


def produce(client: Client, data: bytes) -> int:
    """Append a batch to the topic; return its offset."""
    topics = [{"name": TOPIC, "partition_data": [{"index": 0, "records": data}]}]
    answer = client.call("produce", 9, transactional_id=None, acks=-1, timeout=10_000, topic_data=topics)
    (found,) = answer["responses"][0]["partition_responses"]
    if found["error_code"]:
        raise BenchError(f"{TOPIC}: error {found['error_code']}")
    offset: int = found["base_offset"]
    return offset


def wait_for_tier(client: Client, offset: int) -> None:
    until = time.monotonic() + TIMEOUT_S
    while client.list_offset(TOPIC, LAST_TIERED)[1] < offset:
        if time.monotonic() > until:
            raise BenchError(f"offset {offset:,} is not in the store after {TIMEOUT_S:,.0f} s")
        time.sleep(0.05)


def p99_ms(client: Client, cycles: int) -> float:
    """Append a batch and read it, over and over, at a steady rate. Returns the 99th percentile of what both take."""
    data, taken, at = bytes(batch(random.randbytes(VALUE_BYTES))), [], time.perf_counter()
    for _ in range(cycles):
        at += CYCLE_S
        time.sleep(max(0.0, at - time.perf_counter()))
        begun = time.perf_counter()
        fetch(client, {(TOPIC, 0): produce(client, data)}, partition_bytes=1 << 16)
        taken.append(time.perf_counter() - begun)
    return sorted(taken)[len(taken) * 99 // 100] * 1000


def reading(address: tuple[str, int], ended: threading.Event) -> None:
    """Read the topic from its begin, over and over, until the end."""
    with Client(address) as client:
        offset = 0
        while not ended.is_set():
            with suppress(TimeoutError, OSError):
                answer = fetch(client, {(TOPIC, 0): offset}, partition_bytes=1 << 18)
                read = answer["responses"][0]["partitions"][0]
                offset = 0 if read["error_code"] or not read["records"] else (offset + 20) % 500


def of_tail(settings: dict[str, str]) -> Iterator[ServeFigure]:
    """Yield the figures of the tail beside those with a sound server. settings: of the broker."""
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=WORK)))
        (home / "s3/bench").mkdir(parents=True)
        proxy = Proxy(stack.enter_context(sample_server(home / "s3")))
        use_endpoint(proxy.endpoint)
        more = {"remote.fetch.max.wait.ms": "2000"}
        words = [word for each in (settings | more).items() for word in ("-o", "=".join(each))]
        broker = stack.enter_context(kcli(home / "data", *words))
        client = stack.enter_context(Client(address_of(broker)))
        configs = {"remote.storage.enable": "true", "segment.bytes": str(SEGMENT_BYTES), "local.retention.bytes": "1"}
        client.create_topic(TOPIC, 1, configs)
        p99_ms(client, 1_000)
        wait_for_tier(client, 600)
        ended = threading.Event()
        thread = threading.Thread(target=reading, args=(address_of(broker), ended))
        thread.start()
        sound: list[float] = []
        found: dict[str, list[float]] = {name: [] for name in FAULTS}
        try:
            for name, fault in FAULTS.items():
                proxy.fault = pass_on
                p99_ms(client, WARM_CYCLES)
                sound.append(p99_ms(client, CYCLES))
                proxy.fault = fault
                p99_ms(client, WARM_CYCLES)
                found[name].append(p99_ms(client, CYCLES))
        finally:
            proxy.fault = pass_on
            ended.set()
            thread.join()
    for name, values in found.items():
        title = f"tail: p99 of produce and fetch, S3 {name} (beside S3 sound)"
        yield ServeFigure(title, median(values), median(sound), "ms", most_ratio=1.1)


def of_many_segments(settings: dict[str, str]) -> Iterator[ServeFigure]:
    """Yield the figures of a topic with SEGMENTS segments in a bucket. settings: of the broker."""
    words = [word for each in settings.items() for word in ("-o", "=".join(each))]
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=WORK)))
        (home / "s3/bench").mkdir(parents=True)
        server = stack.enter_context(sample_server(home / "s3"))
        use_endpoint(server)
        with kcli(home / "data", *words) as broker, Client(address_of(broker)) as client:
            configs = {
                "remote.storage.enable": "true",
                "internal.segment.bytes": "250",
                "local.retention.bytes": "1",
                "retention.ms": "-1",
                "file.delete.delay.ms": "1000",
            }
            client.create_topic(TOPIC, 1, configs)
            for number in range(SEGMENTS + 2):
                produce(client, bytes(batch(b"x" * 100, timestamp_ms=1_000_000 + number)))
                if number % AHEAD == AHEAD - 1:  # segments that are not copied, or not deleted yet, are open files
                    wait_for_tier(client, number - AHEAD)
            wait_for_tier(client, SEGMENTS - 1)
            time.sleep(1)  # the records of the last copies are flushed
        proxy = Proxy(server)
        use_endpoint(proxy.endpoint)
        begun = time.perf_counter()
        with kcli(home / "data", *words) as broker, Client(address_of(broker)) as client:
            if client.list_offset(TOPIC, 1_000_000)[1] != 0:
                raise BenchError("the first record is not found")
            start_s = time.perf_counter() - begun
            proxy.seen.clear()
            taken = []
            for _ in range(LOOKUPS):
                number, begun = random.randrange(SEGMENTS), time.perf_counter()
                if client.list_offset(TOPIC, 1_000_000 + number)[1] != number:
                    raise BenchError(f"record {number:,} is not found by its time")
                taken.append(time.perf_counter() - begun)
            listings = sum("list-type" in each for each in proxy.lines)
    yield ServeFigure("10,000 segments: start to the first look-up", start_s, None, "s", most=2.0)
    yield ServeFigure("10,000 segments: a look-up by time", median(taken) * 1000, None, "ms")
    yield ServeFigure("10,000 segments: listings of the bucket by 200 look-ups", listings, None, "", most=0)


def all_figures(settings: dict[str, str]) -> Iterator[ServeFigure]:
    """Yield the figures of both. settings: of a broker whose store is the bucket `bench`."""
    yield from of_tail(settings)
    yield from of_many_segments(settings)
