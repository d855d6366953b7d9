"""The partition log against what Kafka wrote: its batches, appended again one by one, give its files."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

import pytest

from formats.checkpoint import parse_leader_epochs
from formats.kernels.batches import BatchTable
from formats.kernels.columns import BatchRow
from formats.kernels.crc import crc32c
from formats.kernels.scan import scan
from formats.producer_snapshot import ProducerEntry
from formats.producer_snapshot import parse as parse_snapshot
from formats.txn_index import parse as parse_txn_index
from kcli.log.config import LogConfig
from kcli.log.disk import Disk
from kcli.log.live.partition_log import OpenOptions, PartitionLog
from kcli.log.live.validator import Origin
from tests.conftest import GOLDEN

NOW_MS = 1_795_260_701_791
NOT_OF_THE_LOG = {"partition.metadata", "quorum-state"}


@dataclass(frozen=True)
class Stored:
    """A partition's directory that Kafka wrote: its batches, and its topic's configuration."""

    directory: Path
    config: dict[str, str]
    transaction_version: int

    def batches(self) -> Iterator[tuple[BatchRow, bytes]]:
        """Header and bytes of every batch, in order."""
        for path in sorted(self.directory.glob("*.log")):
            data = path.read_bytes()
            table = BatchTable()
            scan(data, 0, len(data), 0, table)
            for i in range(table.count):
                row = BatchRow._make(table.row(i))
                yield row, data[row.position : row.position + row.size]

    def restarts(self) -> set[int]:
        """Return the leader epochs that began in the middle of the log, when the broker was restarted."""
        found = parse_leader_epochs((self.directory / "leader-epoch-checkpoint").read_bytes())
        return {entry.start_offset for entry in found} - {0}


def stored_partitions() -> Iterator[Stored]:
    """All partitions of the sets `codecs` and `txn` with a topic configuration."""
    sets = (("codecs/data", "codecs/expected", 2), ("txn/data", "txn/expected/data", 2))
    for data, expected, version in (*sets, ("txn/data-tv0", "txn/expected/data-tv0", 0)):
        text = (GOLDEN / expected / "topics-describe.txt").read_text()
        for topic, configs in re.findall(r"^Topic: (\S+)\s.*Configs: (\S*)", text, re.MULTILINE):
            config = dict(item.split("=", 1) for item in configs.split(","))
            for directory in sorted((GOLDEN / data).glob(f"{topic}-*")):
                yield Stored(directory, config, version)


STORED = list(stored_partitions())
every_partition = pytest.mark.parametrize(
    "stored", STORED, ids=lambda stored: f"{stored.directory.parent.name}/{stored.directory.name}"
)


def open_log(directory: Path, config: dict[str, str], **options: int | bool) -> PartitionLog:
    directory.mkdir(exist_ok=True)
    opened = replace(OpenOptions(), **options)  # type: ignore[arg-type]
    return PartitionLog(directory, Disk(), LogConfig(config), NOW_MS, opened)


def as_sent(row: BatchRow, data: bytes) -> bytearray:
    """Return the batch as its producer sent it: without offset and leader epoch, with CreateTime."""
    sent = bytearray(bytes(8) + data[8:12] + b"\xff\xff\xff\xff" + data[16:])
    if row.is_append_time:
        struct.pack_into(">h", sent, 21, row.attributes & ~8)
        struct.pack_into(">I", sent, 17, crc32c(memoryview(sent)[21:]))
    return sent


def compare(written: Path, expected: Path) -> None:
    """Compare every file byte for byte, and snapshots by their entries, which have no order."""
    names = {path.name for path in expected.iterdir()} - NOT_OF_THE_LOG
    assert {path.name for path in written.iterdir()} == names
    for name in sorted(names):
        ours, theirs = (written / name).read_bytes(), (expected / name).read_bytes()
        if name.endswith(".snapshot"):
            assert sorted(parse_snapshot(ours).entries) == sorted(parse_snapshot(theirs).entries), name
        else:
            assert ours == theirs, name


@every_partition
def test_appending_as_leader_gives_the_files_of_kafka(stored: Stored, tmp_path: Path) -> None:
    log = open_log(tmp_path / "p-0", stored.config)
    restarts = stored.restarts()
    internal = stored.directory.name.startswith("__")
    for row, data in stored.batches():
        if row.base_offset in restarts:
            log.close(NOW_MS)
            log = open_log(tmp_path / "p-0", stored.config)
        origin = Origin.COORDINATOR if row.is_control or internal else Origin.CLIENT
        now_ms = row.max_timestamp if row.is_append_time else NOW_MS
        added = log.append_as_leader(
            as_sent(row, data),
            row.leader_epoch,
            now_ms,
            origin=origin,
            transaction_version=stored.transaction_version,
        )
        assert (added.first_offset, added.last_offset) == (row.base_offset, row.last_offset)
        assert not added.duplicate
    log.close(NOW_MS)
    compare(tmp_path / "p-0", stored.directory)


@every_partition
def test_appending_as_follower_gives_the_files_of_kafka(stored: Stored, tmp_path: Path) -> None:
    log = open_log(tmp_path / "p-0", stored.config)
    restarts = stored.restarts()
    for row, data in stored.batches():
        if row.base_offset in restarts:
            log.close(NOW_MS)
            log = open_log(tmp_path / "p-0", stored.config)
        added = log.append_as_follower(data, row.leader_epoch, NOW_MS)
        assert (added.first_offset, added.last_offset) == (row.base_offset, row.last_offset)
    log.close(NOW_MS)
    compare(tmp_path / "p-0", stored.directory)


@every_partition
def test_a_follower_that_gets_many_batches_at_once_ends_where_kafka_did(stored: Stored, tmp_path: Path) -> None:
    """The roll of segments depends on how batches arrive; the log's records and state do not."""
    draw = Random(3)
    batches = list(stored.batches())
    log = open_log(tmp_path / "p-0", stored.config)
    at = 0
    while at < len(batches):
        size, room = draw.randint(1, 6), int(stored.config.get("internal.segment.bytes", 1 << 30))
        data = b""
        for _, each in batches[at : at + size]:
            if data and len(data) + len(each) > room:
                break
            data += each
            at += 1
        log.append_as_follower(data + batches[0][1][:-1], 100, NOW_MS)
    written = b"".join(path.read_bytes() for path in sorted(log.directory.glob("*.log")))
    assert written == b"".join(data for _, data in batches)
    last = max(stored.directory.glob("*.snapshot"))
    entries = set(parse_snapshot(last.read_bytes()).entries)  # without producers that had expired at a restart
    assert entries <= set(map(ProducerEntry._make, log.producers.table.entries()))
    aborted = [
        each for path in sorted(stored.directory.glob("*.txnindex")) for each in parse_txn_index(path.read_bytes())
    ]
    found = log.aborted_transactions(0, log.log_end_offset)
    assert [each[1:4] for each in found] == [each[1:4] for each in aborted]
    log.close_handles()
