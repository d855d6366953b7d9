"""The logs that exports are measured on: built with kcli's own log, opened by real Kafka for the consumer's side.

Keys are 16 bytes, values letters as kafka-producer-perf-test has them, batches 16 KB and not compressed, a record each
millisecond, one partition, segments of 1 GiB with their indexes.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from formats.kernels.arrow.builder import BUILD_COLUMNS, BUILD_UNKNOWN_TIMESTAMP, BatchBuilder
from kcli.log.config import LogConfig
from kcli.log.disk import Disk
from kcli.log.live.partition_log import PartitionLog
from tests.bench.serve import BrokerProcess, create, script
from tests.interop import kit

WORK = Path(os.environ.get("KCLI_BENCH_DIR", Path(__file__).with_name(".work"))) / "export"
NODE = "kcli-export-bench-kafka"
KEY_BYTES, BATCH_BYTES = 16, 16_384
ROWS = 1 << 15
NOISE_BYTES = 64 << 20
START_MS = 1_790_000_000_000
HEADERS = pa.large_list(pa.struct([("key", pa.large_binary()), ("value", pa.large_binary())]))
UNKNOWN = {"base_timestamp": BUILD_UNKNOWN_TIMESTAMP, "leader_epoch": 0, "attributes": 0, "batch_id": 0}


@dataclass(frozen=True)
class Log:
    """A topic of one partition."""

    topic: str
    records: int
    value_bytes: int

    @property
    def path(self) -> Path:
        """The partition's directory."""
        return WORK / f"{self.topic}-0"


def make(log: Log) -> Log:
    """Build it, unless it is there already."""
    if log.path.exists():
        return log
    print(f"building {log.records:,} records of {log.value_bytes} B ...", flush=True)
    unfinished = WORK / "unfinished-0"
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    now_ms = START_MS + log.records
    partition = PartitionLog(unfinished, Disk(), LogConfig({"segment.bytes": str(1 << 30)}), now_ms)
    for batch in _batches(log):
        partition.append_as_leader(batch, 0, now_ms)
    partition.close(now_ms)
    unfinished.rename(log.path)
    return log


def _batches(log: Log) -> Iterator[bytearray]:
    builder = BatchBuilder(batch_bytes=BATCH_BYTES, full_bytes=1)
    random = np.random.default_rng(1)
    noise = random.integers(ord("A"), ord("Z") + 1, NOISE_BYTES, dtype=np.uint8).tobytes()
    for first in range(0, log.records, ROWS):
        rows = _rows(log, first, min(ROWS, log.records - first), noise, random)
        builder.start(*rows.__arrow_c_array__())
        while builder.run():  # only complete batches are possible, since none is compressed
            yield _taken(builder)
    builder.end()
    yield _taken(builder)


def _taken(builder: BatchBuilder) -> bytearray:
    batch = bytearray(builder.out)
    batch[:8] = bytes(8)  # producers know no offsets
    builder.out.clear()
    return batch


def _rows(log: Log, first: int, count: int, noise: bytes, random: np.random.Generator) -> pa.RecordBatch:
    at = int(random.integers(0, NOISE_BYTES - count * log.value_bytes))
    keys = b"".join(b"key-%012d" % key for key in random.integers(0, log.records, count).tolist())
    columns = {
        "offset": pa.array(np.arange(first, first + count)),
        "timestamp": pa.array(START_MS + np.arange(first, first + count)),
        "key": _bytes(keys, KEY_BYTES, count),
        "value": _bytes(noise[at : at + count * log.value_bytes], log.value_bytes, count),
        "headers": pa.nulls(count, HEADERS),
    }
    others = [pa.array(np.full(count, UNKNOWN.get(name, -1))) for name in BUILD_COLUMNS if name not in columns]
    return pa.RecordBatch.from_arrays([*columns.values(), *others], list(BUILD_COLUMNS))


def _bytes(data: bytes, size: int, count: int) -> pa.Array:
    starts = pa.py_buffer(np.arange(0, (count + 1) * size, size))
    return pa.Array.from_buffers(pa.large_binary(), count, [None, starts, pa.py_buffer(data)])


@contextmanager
def kafka_with(logs: list[Log]) -> Iterator[str]:
    """Real Kafka, with these logs for its topics. Yields its address. Raises BenchError."""
    script("kill", NODE, check=False)
    script("rm", NODE, check=False)
    try:
        bootstrap = script("start", NODE, "log.index.size.max.bytes=10485760").strip().splitlines()[-1]
        data = kit.kit_dir() / "nodes" / NODE / "data"
        broker = BrokerProcess("Kafka", bootstrap, int((data.parent / "pid").read_text()), data)
        for log in logs:
            create(broker, log.topic, 1)
        script("stop", NODE)
        for log in logs:
            partition = data / f"{log.topic}-0"
            for path in partition.glob("0*"):
                path.unlink()
            for path in log.path.glob("0*"):
                shutil.copyfile(path, partition / path.name)
        (data / ".kafka_cleanshutdown").unlink(missing_ok=True)
        yield script("start", NODE).strip().splitlines()[-1]
    finally:
        script("kill", NODE, check=False)
        script("rm", NODE, check=False)
