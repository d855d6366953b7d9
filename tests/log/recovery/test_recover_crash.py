"""Recovery in place that dies at any operation: the next recovery gives the result of an undisturbed one."""

import shutil
import tempfile
from pathlib import Path
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kcli.log.recovery.run import Recovery
from tests.conftest import GOLDEN, examples
from tests.log.crash_disk import Crash, CrashDisk
from tests.log.recovery.test_recover_golden import NOW_MS, topic_config

CASES = ("leftover-swap", "two-segments-first-corrupt", "zero-page-in-middle", "snapshot-bad-crc", "orphan-index")


def damaged(directory: Path, random: Random) -> None:
    """Return a log directory with damage of many kinds: golden cases, and a killed broker's logs with changed or
    missing bytes."""
    crashed = GOLDEN / "unclean/crashed"
    directory.mkdir()
    for name in ("meta.properties", "log-start-offset-checkpoint"):
        shutil.copyfile(crashed / name, directory / name)
    for partition in random.sample(sorted(crashed.glob("u-*")), 4):
        shutil.copytree(partition, directory / partition.name, copy_function=copy_without_slack)
    for case in random.sample(CASES, 2):
        shutil.copytree(GOLDEN / "corrupt/cases" / case, directory / f"{case}-0")
    for log in sorted(directory.glob("u-*/*.log")):
        if random.random() < 0.3:
            size = log.stat().st_size
            with log.open("r+b") as file:
                if random.random() < 0.5:
                    file.truncate(random.randrange(size + 1))
                else:
                    file.seek(random.randrange(size))
                    file.write(random.randbytes(random.randrange(1, 100)))
        if random.random() < 0.1:
            shutil.copyfile(log, log.with_name(f"{log.name}.swap"))
        if random.random() < 0.1:
            log.with_suffix(".index").unlink()


def copy_without_slack(source: str, target: str) -> None:
    """Copy a file. Of an index of 10 MB, which the killed broker preallocated, copy the entries and some of the
    zeros."""
    with Path(source).open("rb") as file:
        Path(target).write_bytes(file.read(4080 if "index" in Path(source).suffix else -1))


def content(directory: Path) -> dict[str, bytes]:
    """Return the content of every file except the lock, backups, and torn files with names that no start reads."""
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file() and path.suffix not in (".tar", ".tmp") and path.name != ".lock"
    }


def recover(directory: Path, disk: CrashDisk, *, salvage: bool = False) -> None:
    recovery = Recovery(directory, NOW_MS, config=topic_config, disk=disk, salvage=salvage, threads=1)
    list(recovery.in_place("backup"))


@examples(20, soak=500)
@given(st.integers(0, 2**32 - 1))
def test_recovery_dies(seed: int) -> None:
    random = Random(seed)
    with tempfile.TemporaryDirectory() as root:
        once, often = Path(root, "once"), Path(root, "often")
        damaged(once, random)
        shutil.copytree(once, often)
        calm = CrashDisk()
        recover(once, calm)
        for _ in range(random.randrange(1, 4)):
            try:
                recover(often, CrashDisk(random.randrange(1, calm.operations + 1), seed))
            except Crash:
                continue
        recover(often, CrashDisk())
        assert content(often) == content(once)
        before = content(often)
        recover(often, CrashDisk())
        assert content(often) == before


@examples(5, soak=100)
@example(330786833)  # the process dies between the swap file and the segment that it replaces
@given(st.integers(0, 2**32 - 1))
def test_salvage_dies(seed: int) -> None:
    """Salvage keeps the same sound batches, whenever it died."""
    random = Random(seed)
    with tempfile.TemporaryDirectory() as root:
        once, often = Path(root, "once"), Path(root, "often")
        damaged(once, random)
        shutil.copytree(once, often)
        calm = CrashDisk()
        recover(once, calm, salvage=True)
        with pytest.raises(Crash):
            recover(often, CrashDisk(random.randrange(1, calm.operations + 1), seed), salvage=True)
        recover(often, CrashDisk(), salvage=True)
        logs = [{name: data for name, data in content(each).items() if name.endswith(".log")} for each in (once, often)]
        assert logs[0] == logs[1]
