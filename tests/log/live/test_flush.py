"""Flushes beside appends, and leader epochs that are written with their first batch."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcli.log.live.partition_log import PartitionLog
from tests.log.batches import NOW_MS, batch
from tests.log.live.test_partition_log import open_log


@pytest.fixture
def log(tmp_path: Path) -> PartitionLog:
    return open_log(tmp_path / "p-0", {})


def test_a_flush_runs_beside_appends_and_deletions(log: PartitionLog) -> None:
    log.append_as_leader(batch(b"one"), 0, NOW_MS)
    log.roll(NOW_MS)
    log.append_as_leader(batch(b"two"), 0, NOW_MS)
    flush = log.begin_due_flush(NOW_MS)
    assert flush is not None
    log.append_as_leader(batch(b"three"), 0, NOW_MS)
    log.update_high_watermark(log.log_end_offset)
    log.delete_records(1)
    for removal in log.delete_old_segments(NOW_MS):
        removal.run()
    flush.run()
    log.end_flush(flush, NOW_MS)
    assert (log.recovery_point, log.begin_due_flush(NOW_MS)) == (1, None)


def test_a_flush_of_what_was_cut_meanwhile_vouches_for_nothing(log: PartitionLog) -> None:
    log.append_as_leader(batch(b"one"), 0, NOW_MS)
    log.append_as_leader(batch(b"two"), 0, NOW_MS)
    flush = log.begin_flush()
    assert flush is not None
    log.truncate_to(1, NOW_MS)
    log.append_as_leader(batch(b"other"), 0, NOW_MS)
    flush.run()
    log.end_flush(flush, NOW_MS)
    assert log.recovery_point == 0
    again = log.begin_flush()
    assert again is not None
    again.run()
    log.end_flush(again, NOW_MS)
    assert log.recovery_point == 2


def test_an_epoch_that_starts_is_known_at_once_and_written_with_its_first_batch(log: PartitionLog) -> None:
    log.start_epoch(4)
    assert log.offset_for_leader_epoch(4) == (4, 0)
    path = log.directory / "leader-epoch-checkpoint"
    assert path.read_bytes() == b""
    log.append_as_leader(batch(b"one"), 4, NOW_MS)
    assert path.read_text() == "0\n1\n4 0\n"
    log.start_epoch(5)
    log.close(NOW_MS)
    assert path.read_text() == "0\n2\n4 0\n5 1\n"


def test_a_flush_writes_the_leader_epochs_that_were_left_to_another_thread(log: PartitionLog) -> None:
    called: list[int] = []
    log.on_stale_epochs = lambda: called.append(log.log_end_offset)
    path = log.directory / "leader-epoch-checkpoint"
    log.append_as_leader(batch(b"one"), 4, NOW_MS)
    assert (called, path.read_bytes()) == ([0], b"")
    flush = log.begin_flush()
    assert flush is not None
    flush.run()
    assert path.read_text() == "0\n1\n4 0\n"
    log.append_as_leader(batch(b"two"), 5, NOW_MS)
    log.write_stale_epochs()
    assert path.read_text() == "0\n2\n4 0\n5 1\n"


def test_the_leader_epochs_of_a_deleted_log_are_left_out(log: PartitionLog) -> None:
    log.on_stale_epochs = lambda: None
    log.append_as_leader(batch(b"one"), 4, NOW_MS)
    log.directory.rename(log.directory.with_name("away"))
    log.write_stale_epochs()
