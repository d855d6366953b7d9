"""A writer that dies at any operation on the disk: no flushed record is lost, and none is invented."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from formats.checkpoint import EpochEntry, parse_leader_epochs
from kcli.log.config import LogConfig
from kcli.log.disk import Disk
from kcli.log.leader_epochs import FILE_NAME as LEADER_EPOCHS
from kcli.log.leader_epochs import LeaderEpochCache
from kcli.log.live.partition_log import Isolation, OpenOptions, PartitionLog
from kcli.log.live.segments import Removal
from kcli.log.live.validator import Origin
from tests.conftest import examples
from tests.log.batches import NOW_MS, batch, marker
from tests.log.crash_disk import Crash, CrashDisk

STEPS = 60
CONFIG = LogConfig(
    {
        "internal.segment.bytes": "1500",
        "index.interval.bytes": "200",
        "segment.index.bytes": "400",
        "retention.ms": "-1",
    }
)


@dataclass
class Writer:
    """A log with random writes, and its expected content after a crash.

    batches: (base offset, bytes) of all that were appended; the last one is perhaps not written. safe_offset: records
    below it are flushed, and no truncation to a lower offset had begun. recovery_point and log_start_offset: the
    checkpoints.
    """

    directory: Path
    random: Random
    batches: list[tuple[int, bytes]] = field(default_factory=list)
    safe_offset: int = 0
    recovery_point: int = 0
    log_start_offset: int = 0
    removals: list[Removal] = field(default_factory=list)
    opened: list[PartitionLog] = field(default_factory=list)

    def open(self, disk: Disk) -> None:
        self.log = PartitionLog(self.directory, disk, CONFIG, NOW_MS, self.options())
        self.opened = [self.log]
        self.removals = []
        self.open_transactions = {entry[1] for entry in self.log.producers.table.ongoing()}

    def close(self) -> None:
        while self.opened:
            self.opened.pop().close_handles()

    def options(self) -> OpenOptions:
        return OpenOptions(clean=False, recovery_point=self.recovery_point, log_start_offset=self.log_start_offset)

    def step(self) -> None:
        log, draw = self.log, self.random.random()
        if draw < 0.7:
            self.append()
        elif draw < 0.8:
            log.flush(NOW_MS)
        elif draw < 0.85:
            log.flush_due(NOW_MS)
        elif draw < 0.9 and log.log_end_offset:
            bases = [base for base, _ in self.batches if log.log_start_offset <= base < log.log_end_offset]
            offset = self.random.choice([*bases, log.log_end_offset])
            self.safe_offset = min(self.safe_offset, offset)
            self.removals += log.truncate_to(offset, NOW_MS)
            self.batches = [each for each in self.batches if each[0] < log.log_end_offset]
            self.open_transactions = {entry[1] for entry in log.producers.table.ongoing()}
        elif draw < 0.95:
            log.update_high_watermark(log.log_end_offset)
            log.delete_records(self.random.randint(log.log_start_offset, log.log_end_offset))
            self.removals += log.delete_old_segments(NOW_MS)
        elif self.removals:
            self.removals.pop(0).run()
        log.update_high_watermark(log.log_end_offset)
        self.safe_offset = self.recovery_point = log.recovery_point
        self.log_start_offset = log.log_start_offset

    def append(self) -> None:
        log, producer = self.log, self.random.randrange(4)
        values = [bytes(self.random.randrange(200)) for _ in range(self.random.randrange(1, 4))]
        epoch = self.random.randrange(3)
        if producer == 0:
            data = batch(*values)
        elif producer in self.open_transactions and self.random.random() < 0.4:
            data = marker((producer, 0), commit=self.random.random() < 0.5)
            self.open_transactions.discard(producer)
        else:
            known = log.producers.table.last_batches(producer)
            data = batch(*values, producer=(producer, 0), sequence=known[-1][0] + 1 if known else 0, transactional=True)
            self.open_transactions.add(producer)
        origin = Origin.COORDINATOR if data[22] & 32 else Origin.CLIENT
        epoch = max(epoch, log.latest_epoch or 0)
        sent = bytearray(data)
        sent[:8], sent[12:16] = log.log_end_offset.to_bytes(8), epoch.to_bytes(4)
        self.batches.append((log.log_end_offset, bytes(sent)))
        log.append_as_leader(data, epoch, NOW_MS, origin=origin)

    def check(self) -> None:
        """Check that the log after the crash has appended batches only, and all flushed ones.

        Of the batches that were not flushed, a segment may be lost whose successor is there: Kafka accepts the gap,
        too.
        """
        log = PartitionLog(self.directory, Disk(), CONFIG, NOW_MS, self.options())
        assert log.log_end_offset >= self.safe_offset
        found = batches_of(log)
        first = found[0][0] if found else log.log_end_offset
        flushed = [each for each in self.batches if first <= each[0] and end_of(each[1]) <= self.safe_offset]
        assert found[: len(flushed)] == flushed
        assert [each for each in self.batches if each in found] == found
        for base, data in found:
            region = log.read(max(base, log.log_start_offset), 1, Isolation.LOG_END).region
            assert region is not None
            assert os.pread(region.fd, region.length, region.position) == data
        entries = log.producers.table.entries()
        aborted = log.aborted_transactions(0, log.log_end_offset)
        log.close(NOW_MS)
        files = self.files()
        self.log_start_offset = log.log_start_offset
        clean = OpenOptions(log_start_offset=self.log_start_offset, recovery_point=log.log_end_offset)
        again = PartitionLog(self.directory, Disk(), CONFIG, NOW_MS, clean)
        assert (again.producers.table.entries(), again.aborted_transactions(0, again.log_end_offset)) == (
            entries,
            aborted,
        )
        again.close(NOW_MS)
        if found:  # otherwise Kafka's start drops the last epoch, which begins at the log end
            after = self.files()
            assert later(after.pop(LEADER_EPOCHS), again.log_start_offset) == later(
                files.pop(LEADER_EPOCHS), again.log_start_offset
            )
            assert after == files
        self.batches = found
        self.safe_offset = self.recovery_point = min(self.recovery_point, again.log_end_offset)

    def files(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in self.directory.iterdir()}


def later(data: bytes, log_start_offset: int) -> list[EpochEntry]:
    """Return the leader epochs from the log start on. A start knows the log start from a checkpoint, which may be
    older."""
    epochs = LeaderEpochCache(parse_leader_epochs(data))
    epochs.truncate_from_start(log_start_offset)
    return list(epochs.entries)


def batches_of(log: PartitionLog) -> list[tuple[int, bytes]]:
    """Return base offset and bytes of the batches from the log start on."""
    found: list[tuple[int, bytes]] = []
    offset = log.log_start_offset
    while (region := log.read(offset, 1, Isolation.LOG_END).region) is not None:
        data = os.pread(region.fd, region.length, region.position)
        found.append((int.from_bytes(data[:8]), data))
        offset = end_of(data)
    return found


def end_of(data: bytes) -> int:
    """The offset behind a batch."""
    return int.from_bytes(data[:8]) + int.from_bytes(data[23:27]) + 1


def operations(seed: int) -> int:
    """Return the number of disk operations of an undisturbed run."""
    with tempfile.TemporaryDirectory() as root:
        disk = CrashDisk()
        run(Writer(Path(root), Random(seed)), disk)
        return disk.operations


def run(writer: Writer, disk: Disk) -> None:
    writer.open(disk)
    for _ in range(STEPS):
        writer.step()
    writer.log.close(NOW_MS)


@examples(25, soak=500)
@given(st.integers(0, 2**32 - 1))
def test_a_writer_dies(seed: int) -> None:
    count = operations(seed)
    with tempfile.TemporaryDirectory() as root:
        writer = Writer(Path(root), Random(seed))
        for life in range(3):
            try:
                run(writer, CrashDisk(Random(seed + life).randrange(1, count + 1), seed))
            except Crash:
                writer.close()
            writer.check()
