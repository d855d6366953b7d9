"""A log for the cleaner, and how long Kafka's own takes for it: 400 MB, 3.6 million records, 200 thousand keys.

The records are made up batch by batch around random keys. Kafka gets the same files as the partitions of a compacted
topic, one after the other: the second is cleaned by a warm JVM, and the line that its cleaner logs has the time.
"""

from __future__ import annotations

import re
import shutil
import struct
import time
from pathlib import Path
from random import Random

from formats.kernels.crc import crc32c
from formats.producer_snapshot import ProducerSnapshot
from formats.producer_snapshot import build as build_snapshot
from tests.bench import logs
from tests.bench.measure import BenchError

RECORDS, KEYS, PER_BATCH, VALUE_BYTES = 3_600_000, 200_000, 145, 91
SEGMENT_BYTES = 100 << 20
TIME_MS = 1_700_000_000_000
NODE, TOPIC = "bench-compaction", "compaction"
SOURCE = logs.WORK / "compaction-0"
CONFIG = ("-o", "cleanup.policy=compact", "-o", "min.cleanable.dirty.ratio=0.01")
CLEANED = re.compile(rf"cleaned log {TOPIC}-\d .*?processed in ([\d.,]+) seconds", re.DOTALL)
WAIT_S = 180


def varint(value: int) -> bytes:
    """Return a number that is not negative as a zigzag varint."""
    value <<= 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def make() -> Path:
    """Make the partition's directory unless it exists, and return it."""
    if SOURCE.exists():
        return SOURCE
    print(f"making {RECORDS:,} records of {KEYS:,} keys ...", flush=True)
    partial = SOURCE.with_suffix(".part")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    random = Random(1)
    noise = random.randbytes(1 << 16)
    heads = [b"\0\0" + varint(i) for i in range(PER_BATCH)]
    offset, size, log = 0, SEGMENT_BYTES, None
    while offset < RECORDS:
        parts = []
        for head in heads:
            at = random.randrange(len(noise) - VALUE_BYTES)
            key = b"key-%07d" % random.randrange(KEYS)
            value = noise[at : at + VALUE_BYTES]
            body = head + varint(len(key)) + key + varint(VALUE_BYTES) + value + b"\0"
            parts += [varint(len(body)), body]
        batch = plain_batch(offset, PER_BATCH, b"".join(parts))
        if size + len(batch) > SEGMENT_BYTES:
            if log is not None:
                log.close()
            log, size = (partial / f"{offset:020}.log").open("wb"), 0
        assert log is not None
        log.write(batch)
        size += len(batch)
        offset += PER_BATCH
    assert log is not None
    log.close()
    last = b"\0\0\0" + varint(1) + b"k" + varint(1) + b"v\0"
    (partial / f"{offset:020}.log").write_bytes(plain_batch(offset, 1, varint(len(last)) + last))
    (partial / f"{offset + 1:020}.snapshot").write_bytes(build_snapshot(ProducerSnapshot(())))
    partial.rename(SOURCE)
    return SOURCE


def plain_batch(offset: int, count: int, records: bytes) -> bytes:
    """An uncompressed batch."""
    header = struct.pack(">hiqqqhii", 0, count - 1, TIME_MS, TIME_MS, -1, -1, -1, count)
    crc = crc32c(header + records)
    return struct.pack(">qiibI", offset, len(header) + len(records) + 9, 0, 2, crc) + header + records


def kafka_seconds() -> float:
    """Return the seconds that Kafka's warm cleaner takes. Raises BenchError where it does not finish."""
    source = make()
    logs._kafka("start", NODE, "log.cleaner.enable=false", "log.cleaner.dedupe.buffer.size=134217728")
    try:
        bootstrap = logs._kafka("bootstrap", NODE)
        create = ["--create", "--topic", TOPIC, "--partitions", "2"]
        configs = ["--config", "cleanup.policy=compact", "--config", "min.cleanable.dirty.ratio=0.01"]
        logs._kafka("topics", "--bootstrap-server", bootstrap, *create, *configs)
    finally:
        logs._kafka("stop", NODE)
    try:
        data = Path(logs._kafka("dir", NODE))
        for number in (0, 1):
            partition = data / f"{TOPIC}-{number}"
            for path in partition.glob("0*"):
                path.unlink()
            for path in source.iterdir():
                shutil.copyfile(path, partition / path.name)
        (data / ".kafka_cleanshutdown").unlink(missing_ok=True)
        logs._kafka("start", NODE, "log.cleaner.enable=true", "log.cleaner.backoff.ms=1000")
        try:
            return _wait()
        finally:
            logs._kafka("stop", NODE)
    finally:
        logs._kafka("rm", NODE)


def _wait() -> float:
    until = time.monotonic() + WAIT_S
    while time.monotonic() < until:
        found = CLEANED.findall(logs._kafka("log", NODE))
        if len(found) > 1:
            return float(found[1].replace(",", ""))
        time.sleep(1)
    raise BenchError("Kafka's cleaner did not end in time")
