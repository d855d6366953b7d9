"""python -m tests.bench.engine append|prepare|open DIR: the log engine at work, one process for each figure.

append    1 GB in batches of 16 KB to a partition of its own, as a leader: checked, indexed, written; not flushed
prepare   a log directory of 2,000 clean partitions with a few batches each
open      open all of them
"""

import shutil
import sys
import time
from pathlib import Path

from kcli.log.config import LogConfig
from kcli.log.disk import Disk
from kcli.log.live.partition_log import OpenOptions, PartitionLog

APPEND_BYTES = 1_000_000_000
PARTITIONS = 2000
RECORDS, VALUE_BYTES = 16, 1000
NOW_MS = 1_795_260_701_791


def sample() -> bytes:
    """A batch of about 16 KB as a producer sends it."""
    from formats.record_batch import BatchHeader, Record, RecordBatch, build_batch

    records = tuple(Record(0, i, i, b"key-%d" % i, bytes(VALUE_BYTES)) for i in range(RECORDS))
    times = NOW_MS, NOW_MS + RECORDS - 1
    header = BatchHeader(0, 0, -1, 2, 0, 0, RECORDS - 1, *times, -1, -1, -1, RECORDS)
    return build_batch(RecordBatch(header, records))


def append(directory: Path) -> None:
    """Append 1 GB, and print the rate without the start of the process."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    log = PartitionLog(directory, Disk(), LogConfig(), NOW_MS)
    data = sample()
    count = APPEND_BYTES // len(data)
    started = time.process_time()
    for _ in range(count):
        log.append_as_leader(bytearray(data), 0, NOW_MS)
    seconds = time.process_time() - started
    print(f"{count * len(data) / seconds / 1e6:.0f} MB/s of processor time, {count:,} batches of {len(data):,} bytes")
    log.close_handles()
    shutil.rmtree(directory)


def prepare(directory: Path) -> None:
    """Make the partitions, unless they are there."""
    data = sample()
    for number in range(PARTITIONS):
        partition = directory / f"bench-{number}"
        if partition.exists():
            continue
        partition.mkdir(parents=True)
        log = PartitionLog(partition, Disk(), LogConfig(), NOW_MS)
        for _ in range(3):
            log.append_as_leader(bytearray(data), 0, NOW_MS)
        log.close(NOW_MS)


def open_all(directory: Path) -> None:
    """Open what `prepare` made."""
    config = LogConfig()
    end_offset = 3 * RECORDS
    for number in range(PARTITIONS):
        options = OpenOptions(recovery_point=end_offset, high_watermark=end_offset)
        log = PartitionLog(directory / f"bench-{number}", Disk(), config, NOW_MS, options)
        assert log.high_watermark == end_offset, "the partition is as it was made"


if __name__ == "__main__":
    {"append": append, "prepare": prepare, "open": open_all}[sys.argv[1]](Path(sys.argv[2]))
