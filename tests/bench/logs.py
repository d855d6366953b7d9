"""The logs that are measured: written by real Kafka's own producer, or, where it cannot run, built with formats."""

import os
import random
import shutil
import struct
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from formats.compression import CODEC_NAMES
from formats.record_batch import BatchHeader, Record, RecordBatch, build_batch
from tests.interop import kit

WORK = Path(os.environ.get("KCLI_BENCH_DIR", Path(__file__).with_name(".work")))
SEGMENT = "00000000000000000000.log"
SEGMENT_BYTES = 1 << 30
NODE = "bench"
BATCH_BYTES = 16_384  # the Java producer's batch.size


@dataclass(frozen=True)
class Log:
    """A topic of one partition, of which the first segment is measured."""

    topic: str
    records: int
    value_bytes: int
    codec: str = "none"

    @property
    def path(self) -> Path:
        return WORK / f"{self.topic}-0" / SEGMENT


PLAIN = Log("none100", 2_000_000, 100)
COMPRESSED = [Log(codec, 2_000_000, 100, codec) for codec in CODEC_NAMES[1:]]
WIDE = Log("none1k", 1_000_000, 1024)
GIB = Log("none1g", 1_050_000, 1024)  # a topic of more than 1 GiB, so that its first segment is full


def make_with_kafka(logs: list[Log]) -> None:
    """Make the missing logs: a broker of the kit writes each topic once, and its files are linked into WORK.

    Logs built without Kafka are replaced. They can be told by the missing partition.metadata.
    """
    wanted = [log for log in logs if not log.path.with_name("partition.metadata").exists()]
    if not wanted:
        return
    data = Path(_kafka("dir", NODE))
    missing = [log for log in wanted if not (data / f"{log.topic}-0" / SEGMENT).exists()]
    if missing:
        _kafka("start", NODE, f"log.segment.bytes={SEGMENT_BYTES}", "log.index.size.max.bytes=10485760")
        try:
            for log in missing:
                _produce(log, _kafka("bootstrap", NODE))
        finally:
            _kafka("stop", NODE)
    for log in wanted:
        log.path.parent.mkdir(parents=True, exist_ok=True)
        for path in (data / f"{log.topic}-0").iterdir():
            _link(path, log.path.parent / path.name)


def _produce(log: Log, bootstrap: str) -> None:
    print(f"producing {log.records:,} records of {log.value_bytes} B, {log.codec} ...", flush=True)
    _kafka("topics", "--bootstrap-server", bootstrap, "--create", "--topic", log.topic, "--partitions", "1")
    load = ["--topic", log.topic, "--num-records", str(log.records), "--record-size", str(log.value_bytes)]
    producer = [f"bootstrap.servers={bootstrap}", f"compression.type={log.codec}", "acks=1"]
    _kafka("producer-perf", *load, "--throughput", "-1", "--producer-props", *producer)


def _kafka(*args: str) -> str:
    environment = os.environ | {"KAFKA_PERF": "1"}
    done = subprocess.run([kit.SCRIPT, *args], env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout.strip()


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def make_without_kafka(logs: list[Log]) -> None:
    """Build the missing logs with kcli, with the same counts, sizes and codecs."""
    for log in logs:
        if not log.path.exists():
            print(f"building {log.records:,} records of {log.value_bytes} B, {log.codec} ...", flush=True)
            log.path.parent.mkdir(parents=True, exist_ok=True)
            unfinished = log.path.with_suffix(".unfinished")
            with unfinished.open("wb") as segment:
                segment.writelines(_batches(log))
            unfinished.rename(log.path)


def _batches(log: Log) -> Iterator[bytes]:
    """Yield a few batches over and over: only the base offset differs, which no CRC covers."""
    count = BATCH_BYTES // log.value_bytes
    patterns = [_batch(log, count, seed) for seed in range(8)]
    size = 0
    for number in range(log.records // count):
        batch = patterns[number % len(patterns)]
        size += len(batch)
        if size > SEGMENT_BYTES:
            return
        yield struct.pack(">q", number * count) + batch[8:]


def _batch(log: Log, count: int, seed: int) -> bytes:
    letters = random.Random(seed)
    values = ["".join(letters.choices("ABCDEFGHIJKLMNOPQRSTUVWXYZ", k=log.value_bytes)).encode() for _ in range(count)]
    records = tuple(Record(0, 0, number, None, value) for number, value in enumerate(values))
    header = BatchHeader(
        base_offset=0,
        batch_length=0,
        partition_leader_epoch=0,
        magic=2,
        crc=0,
        attributes=CODEC_NAMES.index(log.codec),
        last_offset_delta=count - 1,
        base_timestamp=1_700_000_000_000,
        max_timestamp=1_700_000_000_000,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        record_count=count,
    )
    return build_batch(RecordBatch(header, records))
