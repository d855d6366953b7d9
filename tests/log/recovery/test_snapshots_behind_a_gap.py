"""A producer whose last batches are lost with a segment goes on by its snapshots, which are newer than its batches."""

from __future__ import annotations

from pathlib import Path

import pytest

from formats.producer_snapshot import build, parse
from kcli.log.recovery.apply import apply_in_place
from kcli.log.recovery.loader import LoadOptions
from kcli.log.recovery.plan import plan
from tests.log.batches import NOW_MS, batch
from tests.log.crash_disk import CrashDisk
from tests.log.live.test_partition_log import open_log
from tests.log.live.test_partition_log_lifecycle import SMALL

OPTIONS = LoadOptions(NOW_MS, recovery_point=40, max_index_bytes=4096, index_interval_bytes=100)
VALUE = bytes(100)


@pytest.mark.parametrize("is_older", [False, True])
def test_a_snapshot_newer_than_the_batches_that_are_left(tmp_path: Path, *, is_older: bool) -> None:
    """Producer 7 has its last batch in the lost segment, producer 8 goes on behind it."""
    directory = tmp_path / "p-0"
    log = open_log(directory, SMALL)
    for number in range(20):
        producer = 7 if number < 8 else 8
        sequence = (number if number < 8 else number - 8) * 2
        log.append_as_leader(batch(VALUE, VALUE, producer=(producer, 0), sequence=sequence), 0, NOW_MS)
    log.close(0)
    lost = max(path for path in directory.glob("*.log") if int(path.stem) <= 15)
    lost.unlink()
    behind = {path: path.read_bytes() for path in directory.glob("*.snapshot") if int(path.stem) > int(lost.stem) + 1}
    if is_older:  # than the last batch of the producer that is left
        for path, data in behind.items():
            entries = [each._replace(last_offset=each.last_offset - 12) for each in parse(data).entries]
            path.write_bytes(build(type(parse(data))(tuple(entries))))
    done = plan(directory, OPTIONS, with_salvage=True)
    out = {each.file for each in done.saved.left_out}
    if is_older:
        assert out == {path.name for path in behind}
        return
    assert out == set()
    apply_in_place(done.view, CrashDisk())
    last = parse(max(directory.glob("*.snapshot")).read_bytes()).entries
    assert {each.producer_id: each.last_sequence for each in last} == {7: 15, 8: 23}
