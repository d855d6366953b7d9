"""Real Kafka goes on with a log that kcli wrote to, and kcli with what Kafka then wrote."""

from __future__ import annotations

import os
import re
import shutil
import time
from pathlib import Path

from formats.file_name import FileKind
from formats.kernels.batches import BatchTable
from formats.kernels.columns import BatchRow
from formats.kernels.scan import scan
from kcli.log.config import LogConfig
from kcli.log.disk import Disk
from kcli.log.live.partition_log import Isolation, OpenOptions, PartitionLog
from kcli.log.live.validator import Origin
from kcli.log.log_directory import LogDirectory
from kcli.protocol.topic_partition import TopicPartition
from tests.conftest import GOLDEN, read_jsonl
from tests.interop.kit import kafka
from tests.log.batches import batch, marker

NODE = f"kcli-partition-log-{os.getpid()}"
TOPIC = "t-quiet"  # 4 records by Kafka
CONFIG = {"internal.segment.bytes": "9000", "index.interval.bytes": "400", "segment.index.bytes": "65536"}
NOW_MS = int(time.time() * 1000)  # Kafka expires producers after a day
COMMITTED, ABORTED, PLAIN = 9001, 9002, 9003
COMPLAINTS = re.compile(
    "Found invalid|[Cc]orrupt|Could not find offset index|orphaned index|Failed to load producer snapshot"
    "|Recovering unflushed|Deleting segments as part of log recovery|Error while loading"
)


def open_log(directory: Path) -> PartitionLog:
    log = PartitionLog(directory / f"{TOPIC}-0", Disk(), LogConfig(CONFIG), NOW_MS, OpenOptions(clean=True))
    log.update_high_watermark(log.log_end_offset)
    return log


def write(log: PartitionLog) -> list[int]:
    """Write plain, idempotent, committed and aborted batches over several segments. Returns the committed offsets."""
    committed = [each["offset"] for each in read_jsonl(GOLDEN / f"txn/expected/data/{TOPIC}.read_committed.jsonl.gz")]
    for i in range(60):
        values = [b"kcli %d %d " % (i, n) + bytes(100) for n in range(3)]
        for producer, transactional in ((COMMITTED, True), (ABORTED, True), (PLAIN, False)):
            data = batch(
                *values,
                producer=(producer, 0),
                sequence=3 * i,
                transactional=transactional,
                codec=i % 5,
                timestamp_ms=NOW_MS,
            )
            added = log.append_as_leader(data, 0, NOW_MS)
            committed += range(added.first_offset, added.last_offset + 1) if producer != ABORTED else []
        if i % 10 == 9:
            for producer in (COMMITTED, ABORTED):
                data = marker((producer, 0), commit=producer == COMMITTED, timestamp_ms=NOW_MS)
                log.append_as_leader(data, 0, NOW_MS, origin=Origin.COORDINATOR)
    return committed


def consumed(address: str, isolation: str) -> list[int]:
    printed = ["--property", "print.offset=true", "--property", "print.value=false"]
    reading = ["--topic", TOPIC, "--from-beginning", "--timeout-ms", "10000", "--isolation-level", isolation]
    return [
        int(each)
        for each in re.findall(r"Offset:(\d+)", kafka("consumer", "--bootstrap-server", address, *reading, *printed))
    ]


def rows_of(log: PartitionLog) -> list[BatchRow]:
    """Return the batches that a read of the log gives."""
    found: list[BatchRow] = []
    offset = log.log_start_offset
    while (region := log.read(offset, 1 << 20, Isolation.LOG_END).region) is not None:
        data = os.pread(region.fd, region.length, region.position)
        table = BatchTable()
        scan(data, 0, len(data), 0, table)
        found += [BatchRow._make(table.row(i)) for i in range(table.count)]
        offset = found[-1].last_offset + 1
    return found


def test_kafka_goes_on_with_our_log_and_we_with_kafkas(kafka_jars: Path, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    shutil.copytree(GOLDEN / "txn/data", logs)
    log = open_log(logs)
    committed = write(log)
    log.update_high_watermark(log.log_end_offset)
    assert len(log.base_offsets) >= 5
    log.close(NOW_MS)
    directory = LogDirectory(logs)
    for kind in (FileKind.RECOVERY_POINTS, FileKind.REPLICATION_OFFSETS):
        directory.write_offsets(Disk(), kind, directory.offsets(kind) | {TopicPartition(TOPIC, 0): log.log_end_offset})

    address = kafka("open", str(logs), NODE).strip()
    try:
        ends = kafka("get-offsets", "--bootstrap-server", address, "--topic", TOPIC).strip()
        records = [offset for row in rows_of(open_log(logs)) if not row.is_control for offset in offsets_of(row)]
        assert ends == f"{TOPIC}:0:{log.log_end_offset}"
        assert consumed(address, "read_uncommitted") == records
        assert consumed(address, "read_committed") == committed
        lines = "".join(f"from kafka {i}\n" for i in range(200))
        kafka("producer", "--bootstrap-server", address, "--topic", TOPIC, stdin=lines)
    finally:
        kafka("stop", NODE)
    lines_of_log = kafka("log", NODE).splitlines()
    complaints = [line for line in lines_of_log if f"{TOPIC}-0" in line and COMPLAINTS.search(line)]
    try:
        assert not complaints
        theirs = open_log(Path(kafka("dir", NODE).strip()))
        assert theirs.log_end_offset == log.log_end_offset + 200
        assert theirs.last_stable_offset == theirs.log_end_offset
        rows = rows_of(theirs)
        assert all(not row.faults for row in rows)
        assert [row.base_offset for row in rows[1:]] == [row.last_offset + 1 for row in rows[:-1]]
        again = batch(b"x", b"y", b"z", producer=(PLAIN, 0), sequence=3 * 59)
        assert theirs.append_as_leader(again, 0, NOW_MS).duplicate, "Kafka's snapshot knows our producer"
        theirs.close_handles()
    finally:
        kafka("rm", NODE)


def offsets_of(row: BatchRow) -> range:
    return range(row.base_offset, row.last_offset + 1)
