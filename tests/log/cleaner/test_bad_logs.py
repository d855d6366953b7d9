"""Damaged logs: the cleaner cleans them as Kafka would, or gives up with a reason; it fails in no other way."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formats.kernels.crc import crc32c
from kcli.errors import KcliError
from kcli.log.cleaner.cleaner import PartitionCleaner
from kcli.log.cleaner.partition import read_log
from kcli.log.cleaner.why import explain_key
from kcli.log.config import CleanerConfig, LogConfig
from kcli.log.disk import Disk
from tests.conftest import GOLDEN

CASES = sorted(path for path in (GOLDEN / "corrupt/cases").iterdir() if path.is_dir())
CONFIG = LogConfig({"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"})
NOW_MS = 1_795_262_006_000
COMPACTED = GOLDEN / "compact/before"
SOURCES = [COMPACTED / name for name in ("c-txn-0", "c-zstd-0", "c-mixed-0", "c-idem-0")]


def with_active_segment(source: Path, target: Path) -> Path:
    """Copy the log and add an empty segment, so that all existing ones may be cleaned."""
    shutil.copytree(source, target)
    (target / f"{1 << 40:020}.log").write_bytes(b"")
    return target


def clean(directory: Path) -> None:
    log = read_log(directory, now_ms=NOW_MS, producer_expiration_ms=86_400_000)
    PartitionCleaner(log, CONFIG, CleanerConfig(), now_ms=NOW_MS, disk=Disk(), target=None).clean(None)
    explain_key(log, CONFIG, CleanerConfig(), b"key", checkpoint=None, now_ms=NOW_MS)


@pytest.mark.parametrize("case", CASES, ids=[path.name for path in CASES])
def test_damage(case: Path, tmp_path: Path) -> None:
    try:
        clean(with_active_segment(case, tmp_path / "case-0"))
    except KcliError as error:
        assert str(error)  # noqa: PT017 (either is right)


@settings(max_examples=60)
@given(st.sampled_from(SOURCES), st.data())
def test_bytes_changed_under_a_good_crc(source: Path, data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as root:
        target = with_active_segment(source, Path(root, "bad-0"))
        for each in (target, *target.iterdir()):
            each.chmod(0o755)
        path = data.draw(st.sampled_from(sorted(target.glob("*.log"))[:-1]))
        path.write_bytes(spoiled(bytearray(path.read_bytes()), data))
        try:
            clean(target)
        except KcliError as error:
            assert str(error)  # noqa: PT017 (either is right)


def spoiled(log: bytearray, data: st.DataObject) -> bytearray:
    """Return some batches with changed bytes and correct CRCs."""
    starts, at = [], 0
    while at < len(log):
        starts.append(at)
        at += 12 + int.from_bytes(log[at + 8 : at + 12])
    for start in data.draw(st.lists(st.sampled_from(starts), min_size=1, max_size=3, unique=True)):
        end = start + 12 + int.from_bytes(log[start + 8 : start + 12])
        for _ in range(data.draw(st.integers(1, 3))):
            log[data.draw(st.integers(start + 21, end - 1))] = data.draw(st.integers(0, 255))
        log[start + 17 : start + 21] = crc32c(log[start + 21 : end]).to_bytes(4)
    return log
