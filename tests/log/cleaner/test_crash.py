"""A cleaner that dies at any operation: after Kafka's recovery nothing is lost or invented, and the next cleaning gives
the result of an undisturbed one."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from kcli.log.cleaner.log_cleaner import LogCleaner
from kcli.log.config import CleanerConfig, LogConfig
from kcli.log.disk import Disk
from kcli.log.recovery.run import Recovery
from tests.conftest import examples
from tests.log.cleaner.random_log import RandomLog
from tests.log.cleaner.test_golden import Record, records
from tests.log.crash_disk import Crash, CrashDisk


class DeadDisk(CrashDisk):
    """A disk on which no operation works after its death, not even the removal of files."""

    def dies(self) -> bool:
        super().dies()
        return self.operations >= self.dies_at > 0


def config(segment_bytes: int) -> LogConfig:
    """Return a configuration that cleans at any ratio, and under which nothing expires during the test."""
    return LogConfig(
        {
            "cleanup.policy": "compact",
            "min.cleanable.dirty.ratio": "0",
            "internal.segment.bytes": str(segment_bytes),
            "index.interval.bytes": "200",
        }
    )


def clean(directory: Path, now_ms: int, rules: LogConfig, broker: CleanerConfig, disk: Disk) -> None:
    cleaner = LogCleaner(directory, lambda _: rules, broker, now_ms=now_ms, disk=disk)
    assert [outcome.error for outcome in cleaner.in_place() if outcome.error] == []


def everything(directory: Path) -> list[Record]:
    """Return the records of the partition in the log's order, without markers, which depend on the number of
    cleanings."""
    logs = sorted((directory / "made-0").glob("*.log"))
    return [record for log in logs for record in records(log) if not record[-1]]


def recover(directory: Path, now_ms: int) -> None:
    list(Recovery(directory, now_ms, threads=1).in_place("backup"))


@examples(10, soak=500)
@given(st.integers(0, 2**32 - 1))
def test_cleaning_dies(seed: int) -> None:
    random = Random(seed)
    made = RandomLog(seed, batches=40)
    rules = config(random.choice((1000, 1 << 20)))
    keys = random.choice((4, 1000))  # a small map takes several passes
    broker = CleanerConfig(dedupe_buffer_bytes=24 * keys)
    with tempfile.TemporaryDirectory() as root:
        once, often = Path(root, "once"), Path(root, "often")
        once.mkdir()
        made.write_to(once / "made-0")
        for name in ("recovery-point-offset-checkpoint", "meta.properties"):
            (once / name).write_bytes(b"")
        shutil.copytree(once, often)
        before = everything(once)
        calm = CrashDisk()
        clean(once, made.now_ms, rules, broker, calm)
        left = everything(once)
        recover(once, made.now_ms)
        assert everything(once) == left
        for _ in range(random.randrange(1, 3)):
            try:
                clean(often, made.now_ms, rules, broker, DeadDisk(random.randrange(1, calm.operations + 1), seed))
            except Crash:
                recover(often, made.now_ms)
            now = everything(often)
            assert set(left) <= set(now) <= set(before)
            assert [record[0] for record in now] == sorted({record[0] for record in now})
        clean(often, made.now_ms, rules, broker, CrashDisk())
        assert everything(often) == left
