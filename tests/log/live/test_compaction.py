"""Compaction of an open log gives the same as that of a closed one, while appends, reads and truncations go on."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.log.config import CleanerConfig, LogConfig
from kcli.log.disk import Disk, DiskFile
from kcli.log.live.compaction import CompactionAborted, LiveCompaction
from kcli.log.live.partition_log import MAX_TIMESTAMP, Isolation, LogFailed, OpenOptions, PartitionLog
from kcli.log.live.segments import Removal
from kcli.log.recovery.run import Recovery
from kcli.log.segment_reader import Damage, read_segment
from tests.conftest import GOLDEN, examples
from tests.log.batches import NOW_MS, batch
from tests.log.cleaner.random_log import RandomLog
from tests.log.cleaner.test_crash import DeadDisk, config
from tests.log.cleaner.test_golden import (
    BROKER,
    CASES,
    ROUNDS,
    Record,
    cleaning_time,
    config_of,
    headers,
    offsets_of,
    records,
)
from tests.log.crash_disk import Crash

SMALL = LogConfig(
    {
        "cleanup.policy": "compact,delete",
        "internal.segment.bytes": "400",
        "index.interval.bytes": "100",
        "min.cleanable.dirty.ratio": "0",
        "retention.ms": "-1",
    }
)
BATCHES = 40


def compact(
    log: PartitionLog, broker: CleanerConfig, checkpoint: int | None, now_ms: int
) -> tuple[int | None, list[Removal]]:
    """Run passes while the log is dirty enough. Returns the checkpoint, and the files to remove."""
    removals = []
    while (compaction := log.begin_compaction(broker, checkpoint, now_ms)) is not None:
        while (group := compaction.clean_next()) is not None:
            removals += compaction.swap(group, now_ms)
        checkpoint = compaction.done().end_offset
    return checkpoint, removals


def filled(directory: Path, disk: Disk | None = None, keys: int = 3) -> PartitionLog:
    """Several segments with few keys, all replicated."""
    directory.mkdir()
    log = PartitionLog(directory, disk or Disk(), SMALL, NOW_MS)
    for i in range(BATCHES):
        log.append_as_leader(keyed(i % keys, i), 0, NOW_MS)
    log.update_high_watermark(log.log_end_offset)
    return log


def keyed(key: int, value: int) -> bytearray:
    """Return a batch of one record; `batch` gives every record the key b"key"."""
    from formats.record_batch import BatchHeader, RecordBatch, build_batch
    from formats.record_batch import Record as BuiltRecord

    header = BatchHeader(0, 0, -1, 2, 0, 0, 0, NOW_MS + value, NOW_MS + value, -1, -1, -1, 1)
    return bytearray(build_batch(RecordBatch(header, (BuiltRecord(0, 0, 0, b"k%d" % key, b"v%d" % value),))))


def offsets_read(log: PartitionLog) -> dict[int, int]:
    """Return, for each fetch offset, the base offset of the batch that a read gives, -1 for none."""
    found = {}
    for offset in range(log.log_start_offset, log.log_end_offset + 1):
        region = log.read(offset, 1, Isolation.LOG_END).region
        found[offset] = -1 if region is None else int.from_bytes(os.pread(region.fd, 8, region.position))
    return found


@pytest.mark.parametrize(("before", "name"), CASES, ids=[f"{before}-{name}" for before, name in CASES])
def test_an_open_log_is_cleaned_as_kafka_did(before: str, name: str, tmp_path: Path) -> None:
    after = ROUNDS[before]
    topic, _, partition = name.rpartition("-")
    key = topic, int(partition)
    rules = config_of(topic, GOLDEN / "compact" / after)
    now_ms = cleaning_time(after, name, rules.delete_retention_ms)
    directory, expected = tmp_path / name, GOLDEN / "compact" / after / name
    shutil.copytree(GOLDEN / "compact" / before / name, directory)
    for path in (directory, *directory.iterdir()):
        path.chmod(0o755 if path.is_dir() else 0o644)
    options = OpenOptions(
        log_start_offset=offsets_of(before, "log-start-offset-checkpoint").get(key, 0),
        high_watermark=offsets_of(before, "replication-offset-checkpoint")[key],
    )
    times = {path.name: path.stat().st_mtime_ns for path in directory.iterdir()}
    log = PartitionLog(directory, Disk(), rules, now_ms, options)
    for path in directory.iterdir():  # opening may trim the log; this must not keep legacy tombstones
        if path.name in times:
            os.utime(path, ns=(times[path.name], times[path.name]))
    removals = log.delete_old_segments(now_ms)
    cleaner_offsets = "cleaner-offset-checkpoint"
    known = (GOLDEN / "compact" / before / cleaner_offsets).exists()
    cleaned_before = offsets_of(before, cleaner_offsets).get(key) if known else None
    checkpoint, more = compact(log, CleanerConfig.of(BROKER), cleaned_before, now_ms)
    removals += [*more, *log.delete_old_segments(now_ms)]
    if checkpoint is not None:
        assert checkpoint == offsets_of(after, cleaner_offsets)[key]
    for removal in removals:
        assert removal.delay_ms == rules.file_delete_delay_ms
        removal.run()
    assert not [path.name for path in directory.iterdir() if path.suffix in {".deleted", ".cleaned", ".swap"}]
    logs = sorted(path.name for path in expected.glob("*.log"))
    assert [f"{base:020}.log" for base in log.base_offsets] == logs
    assert sorted(path.name for path in directory.glob("*.log")) == logs
    for each in logs:
        assert headers(directory / each) == headers(expected / each)
        assert records(directory / each) == records(expected / each)
    log.close(now_ms)


def test_every_offset_can_be_read_before_and_after(tmp_path: Path) -> None:
    log = filled(tmp_path / "p-0")
    before = offsets_read(log)
    assert before == {offset: offset if offset < BATCHES else -1 for offset in range(BATCHES + 1)}
    active = log.base_offsets[-1]
    _, removals = compact(log, CleanerConfig(), None, NOW_MS)
    assert removals
    after = offsets_read(log)
    left = sorted(set(after.values()) - {-1})
    assert left == [0, *range(active - 4, BATCHES)] or left == [*range(active - 3, BATCHES)]
    assert after == {offset: min((base for base in left if base >= offset), default=-1) for offset in before}
    assert log.offset_for_timestamp(MAX_TIMESTAMP) == (NOW_MS + BATCHES - 1, BATCHES - 1, 0)
    log.close(NOW_MS)
    again = PartitionLog(log.directory, Disk(), SMALL, NOW_MS)
    assert offsets_read(again) == after
    again.close(NOW_MS)


def test_what_is_being_read_stays_until_it_is_removed(tmp_path: Path) -> None:
    log = filled(tmp_path / "p-0")
    region = log.read(3, 1 << 20).region
    assert region is not None
    data = os.pread(region.fd, region.length, region.position)
    _, removals = compact(log, CleanerConfig(), None, NOW_MS)
    assert os.pread(region.fd, region.length, region.position) == data
    assert list(log.directory.glob("*.log.deleted"))
    for removal in removals:
        removal.run()
    assert not list(log.directory.glob("*.deleted"))
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.pread(region.fd, region.length, region.position)


def test_appends_go_on_in_another_thread(tmp_path: Path) -> None:
    log = filled(tmp_path / "p-0")
    compaction = log.begin_compaction(CleanerConfig(), None, NOW_MS)
    assert compaction is not None
    with ThreadPoolExecutor(1) as pool:
        while True:
            work = pool.submit(compaction.clean_next)
            while not work.done():
                log.append_as_leader(keyed(9, 9), 0, NOW_MS)
                log.update_high_watermark(log.log_end_offset)
            if (group := work.result()) is None:
                break
            log.append_as_leader(keyed(9, 9), 0, NOW_MS)
            compaction.swap(group, NOW_MS)
    end = log.log_end_offset
    assert compaction.done().end_offset == compaction.selection.first_uncleanable_offset
    assert offsets_read(log)[BATCHES] == BATCHES
    log.close_handles()
    again = PartitionLog(log.directory, Disk(), SMALL, NOW_MS, OpenOptions(clean=False))
    assert again.log_end_offset == end
    again.close(NOW_MS)


def test_what_there_is_to_clean(tmp_path: Path) -> None:
    log = filled(tmp_path / "p-0")
    bases = log.base_offsets
    log.update_high_watermark(bases[3] + 1)
    facts = log.cleanable(None, NOW_MS)
    assert (facts.first_dirty_offset, facts.first_uncleanable_offset) == (0, bases[3])
    assert (facts.clean_bytes, facts.ratio, facts.worth_it, facts.due_for_ms) == (0, 1.0, True, 0)
    assert facts.cleanable_bytes == sum((log.directory / f"{base:020}.log").stat().st_size for base in bases[:3])
    facts = log.cleanable(bases[2], NOW_MS)
    assert facts.first_dirty_offset == bases[2]
    assert 0.2 < facts.ratio < 0.5
    assert log.cleanable(10**6, NOW_MS).reset
    log.set_config(LogConfig({"cleanup.policy": "compact", "max.compaction.lag.ms": "1000"}))
    facts = log.cleanable(0, NOW_MS + 5000)
    assert (facts.worth_it, facts.due_for_ms) == (True, 4000)
    log.set_config(LogConfig({"cleanup.policy": "delete", "min.cleanable.dirty.ratio": "0"}))
    assert log.begin_compaction(CleanerConfig(), None, NOW_MS) is None
    log.close(NOW_MS)


def test_an_open_transaction_is_not_cleaned(tmp_path: Path) -> None:
    log = filled(tmp_path / "p-0")
    first = log.log_end_offset
    sent = batch(b"v", producer=(7, 0), sequence=0, transactional=True)
    log.append_as_leader(sent, 0, NOW_MS)
    for i in range(BATCHES):
        log.append_as_leader(keyed(i % 3, i), 0, NOW_MS)
    log.update_high_watermark(log.log_end_offset)
    facts = log.cleanable(None, NOW_MS)
    assert facts.first_uncleanable_offset == max(base for base in log.base_offsets if base <= first) or (
        facts.first_uncleanable_offset == min(base for base in log.base_offsets if base >= first)
    )
    assert (facts.bound, facts.bound_offset) == ("open transaction", first)
    log.close(NOW_MS)


def cut(log: PartitionLog) -> None:
    log.truncate_to(5, NOW_MS)


def cut_fully(log: PartitionLog) -> None:
    log.truncate_fully_and_start_at(100, NOW_MS)


def retire(log: PartitionLog) -> None:
    log.delete_records(log.base_offsets[2])
    for removal in log.delete_old_segments(NOW_MS):
        removal.run()


def move(log: PartitionLog) -> None:
    log.rename(log.directory.with_name("q-0"))


def close(log: PartitionLog) -> None:
    log.close(NOW_MS)


changes = pytest.mark.parametrize("change", [cut, cut_fully, retire, move, close])


@changes
def test_a_change_before_the_swap_aborts(tmp_path: Path, change: Callable[[PartitionLog], None]) -> None:
    log = filled(tmp_path / "p-0")
    compaction = log.begin_compaction(CleanerConfig(), None, NOW_MS)
    assert compaction is not None
    group = compaction.clean_next()
    assert group is not None
    change(log)
    with pytest.raises(CompactionAborted):
        compaction.swap(group, NOW_MS)
    with pytest.raises(CompactionAborted):
        compaction.clean_next()
    goes_on(log, usable=change is not close)


class MeddlingDisk(Disk):
    """Something happens when the cleaner writes."""

    meddle: Callable[[], None] | None = None

    def open(self, path: Path, *, create: bool = False, truncate: bool = False, read_only: bool = False) -> DiskFile:
        if path.name.endswith(".index.cleaned") and self.meddle is not None:
            meddle, self.meddle = self.meddle, None
            meddle()
        return super().open(path, create=create, truncate=truncate, read_only=read_only)


def one_group(compaction: LiveCompaction) -> None:
    group = compaction.clean_next()
    assert group is not None
    compaction.swap(group, NOW_MS)


@changes
def test_a_change_while_the_cleaner_works_aborts(tmp_path: Path, change: Callable[[PartitionLog], None]) -> None:
    disk = MeddlingDisk()
    log = filled(tmp_path / "p-0", disk)
    compaction = log.begin_compaction(CleanerConfig(), None, NOW_MS)
    assert compaction is not None
    disk.meddle = lambda: change(log)
    with pytest.raises(CompactionAborted):
        one_group(compaction)
    goes_on(log, usable=change is not close)


def goes_on(log: PartitionLog, *, usable: bool) -> None:
    """Check that the compaction has left no files, and that the log can be written, closed, opened and compacted."""
    assert not [path.name for path in log.directory.iterdir() if path.suffix in {".cleaned", ".swap"}]
    if usable:
        log.append_as_leader(keyed(0, 0), 0, NOW_MS)
        log.update_high_watermark(log.log_end_offset)
        log.close(NOW_MS)
    end = log.log_end_offset
    options = OpenOptions(log_start_offset=log.log_start_offset, high_watermark=end)
    again = PartitionLog(log.directory, Disk(), SMALL, NOW_MS, options)
    assert again.log_end_offset == end
    compact(again, CleanerConfig(), None, NOW_MS)
    again.close(NOW_MS)


def test_a_cut_behind_the_cleaned_part_does_not_abort(tmp_path: Path) -> None:
    log = filled(tmp_path / "p-0")
    compaction = log.begin_compaction(CleanerConfig(), None, NOW_MS)
    assert compaction is not None
    log.truncate_to(log.base_offsets[-1], NOW_MS)
    while (group := compaction.clean_next()) is not None:
        compaction.swap(group, NOW_MS)
    assert len(set(offsets_read(log).values()) - {-1}) == 3
    log.close(NOW_MS)


def test_after_a_failed_swap_nothing_is_appended(tmp_path: Path) -> None:
    class Full(Disk):
        def rename(self, source: Path, target: Path) -> None:
            if source.suffix == ".swap":
                raise OSError(28, "No space left on device", str(source))
            super().rename(source, target)

    log = filled(tmp_path / "p-0", Full())
    with pytest.raises(OSError, match="No space"):
        compact(log, CleanerConfig(), None, NOW_MS)
    with pytest.raises(LogFailed):
        log.append_as_leader(keyed(0, 0), 0, NOW_MS)
    log.close_handles()
    again = PartitionLog(log.directory, Disk(), SMALL, NOW_MS, OpenOptions(clean=False))
    assert again.log_end_offset == BATCHES
    again.close(NOW_MS)


def live_records(log: PartitionLog) -> list[Record]:
    """Return the records of all segments, without markers; see test_crash."""
    logs = [log.directory / f"{base:020}.log" for base in log.base_offsets]
    return [record for each in logs for record in records(each) if not record[-1]]


@examples(5, soak=500)
@given(st.integers(0, 2**32 - 1))
def test_compaction_of_an_open_log_dies(seed: int) -> None:
    """The machine fails at any operation of the cleaner; the next start finds all kept records, and no others."""
    random = Random(seed)
    made = RandomLog(seed, batches=30)
    rules = config(random.choice((1000, 1 << 20)))
    broker = CleanerConfig(dedupe_buffer_bytes=24 * random.choice((4, 1000)))
    with tempfile.TemporaryDirectory() as root:
        once, often = Path(root, "p-0"), Path(root, "q-0")
        made.write_to(once)
        shutil.copytree(once, often)
        log, before = opened(once, Disk(), rules, made.now_ms)
        disk = DeadDisk()
        log._disk = disk
        compact(log, broker, None, made.now_ms)
        left = live_records(log)
        log.close_handles()
        log, _ = opened(often, Disk(), rules, made.now_ms)
        log._disk = DeadDisk(random.randrange(1, disk.operations + 2), seed)
        with suppress(Crash):
            compact(log, broker, None, made.now_ms)
        log.close_handles()
        whole(often)
        if random.random() < 0.5:
            list(Recovery(often, made.now_ms, clean=False, threads=1).in_place("backup"))
        log, now = opened(often, Disk(), rules, made.now_ms)
        assert set(left) <= set(now) <= set(before)
        assert [record[0] for record in now] == sorted({record[0] for record in now})
        compact(log, broker, None, made.now_ms)
        assert live_records(log) == left
        log.close(made.now_ms)


def opened(directory: Path, disk: Disk, rules: LogConfig, now_ms: int) -> tuple[PartitionLog, Sequence[Record]]:
    """Return an open log, all of it replicated, and its records."""
    log = PartitionLog(directory, disk, rules, now_ms, OpenOptions(clean=False))
    log.update_high_watermark(log.log_end_offset)
    return log, live_records(log)


def whole(directory: Path) -> None:
    """Check that no log file is torn, whatever its name: a swapped log must be durable."""
    from kcli.log.source import FileSource

    for path in [*directory.glob("*.log"), *directory.glob("*.log.swap")]:
        source = FileSource(path)
        assert not [part for part in read_segment(source) if isinstance(part, Damage)]
        source.close()


def test_known_aborted_transactions_are_not_read_again(tmp_path: Path) -> None:
    log = filled(tmp_path / "p-0")
    view = log.cleaner_view(NOW_MS)
    assert [segment.known_aborted is None for segment in view.segments] == [True] * (len(view.segments) - 1) + [False]
    assert replace(view.segments[-1], known_aborted=None).aborted() == ()
    log.close(NOW_MS)
