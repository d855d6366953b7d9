"""python -m tests.bench.pauses DIR [SECONDS]: how long the event loop is held up while logs are looked after.

200 partitions take batches of 16 KB as fast as the loop lets them, 100 under retention by size, 100 compacted, in
segments of 1 MB so that something is rolled, flushed, deleted, cleaned and swapped all the time. Printed: how late a
timer of 1 ms comes, less the time that the thread could have run and other processes had its processor.
"""

from __future__ import annotations

import asyncio
import gc
import random
import shutil
import sys
import time
from pathlib import Path
from uuid import UUID

import uvloop

from formats.record_batch import BatchHeader, Record, RecordBatch, build_batch
from kcli.broker.process.clock import Clock
from tests.broker.log_dirs import Node, make_node

PARTITIONS = 100
SEGMENT_BYTES = 1 << 20
KEYS = 5000
RECORDS, VALUE_BYTES = 16, 1000
SETTINGS = {
    "log_cleaner_backoff_ms": "200",
    "log_initial_task_delay_ms": "100",
    "log_retention_check_interval_ms": "300",
    "log_flush_offset_checkpoint_interval_ms": "500",
    "log_flush_start_offset_checkpoint_interval_ms": "500",
    "replica_high_watermark_checkpoint_interval_ms": "500",
}


def sample(chance: random.Random, now_ms: int) -> bytes:
    """A batch with keys out of many."""
    records = tuple(
        Record(0, i, i, b"key-%06d" % chance.randrange(KEYS), chance.randbytes(VALUE_BYTES)) for i in range(RECORDS)
    )
    times = now_ms, now_ms + RECORDS - 1
    return build_batch(RecordBatch(BatchHeader(0, 0, -1, 2, 0, 0, RECORDS - 1, *times, -1, -1, -1, RECORDS), records))


def queued_s() -> float:
    """Return how long this thread has waited for a processor so far, where the system has that figure."""
    try:
        return int(Path("/proc/thread-self/schedstat").read_bytes().split()[1]) / 1e9
    except FileNotFoundError:
        return 0.0


def make(directory: Path) -> Node:
    """The logs, not yet started."""
    shutil.rmtree(directory, ignore_errors=True)
    node = make_node([directory], None, None, **SETTINGS)
    node.logs.clock = Clock()
    return node


async def load(node: Node, seconds: float) -> tuple[int, list[float]]:
    """Append for this time. Returns the bytes, and the delays of the timer in seconds."""
    chance = random.Random(1)
    now_ms = node.logs.clock.now_ms()
    batches = [sample(chance, now_ms) for _ in range(64)]
    partitions = list(node.logs.partitions)
    late: list[float] = []

    async def watch() -> None:
        while True:
            began, waited = time.perf_counter(), queued_s()
            await asyncio.sleep(0.001)
            late.append(max(0.0, time.perf_counter() - began - 0.001 - (queued_s() - waited)))

    watcher = asyncio.create_task(watch())
    sent = 0
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        data = bytearray(chance.choice(batches))
        chance.choice(partitions).append_as_leader(data, now_ms)
        sent += len(data)
        await asyncio.sleep(0)
    watcher.cancel()
    return sent, sorted(late)


async def main(directory: Path, seconds: float) -> None:
    """Measure, and say what was found."""
    node = make(directory)
    await node.logs.start()
    node.create_topic("deleted", PARTITIONS)
    node.create_topic("compacted", PARTITIONS, UUID(int=9 << 64))
    for topic in ("deleted", "compacted"):
        node.configure("internal.segment.bytes", str(SEGMENT_BYTES), topic)
        node.configure("file.delete.delay.ms", "500", topic)
    node.configure("retention.bytes", str(3 * SEGMENT_BYTES), "deleted")
    node.configure("cleanup.policy", "compact", "compacted")
    assert all(each.log.log_end_offset == 0 for each in node.logs.partitions), "made now"
    gc.collect()
    gc.freeze()
    sent, late = await load(node, seconds)
    p99, p999 = late[len(late) * 99 // 100], late[len(late) * 999 // 1000]
    cleaned = len(node.logs.background.compactor.cleaned_in(node.dirs.data[0]))
    print(
        f"{sent / seconds / 1e6:.0f} MB/s into {2 * PARTITIONS} partitions, {cleaned} of them compacted; "
        f"event loop held up p99 {p99 * 1000:.1f}, p99.9 {p999 * 1000:.1f}, longest {late[-1] * 1000:.1f} ms"
    )
    await node.logs.stop()
    shutil.rmtree(directory)


if __name__ == "__main__":
    uvloop.run(main(Path(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 20))
