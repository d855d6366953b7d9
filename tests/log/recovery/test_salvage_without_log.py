"""A partition that has lost its only log, or with which kcli fails, does not keep salvage from the others."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kcli.log.recovery import run
from kcli.log.recovery.loader import LoadOptions
from kcli.log.recovery.plan import PartitionPlan, plan
from kcli.log.recovery.run import Recovery
from tests.cli.run import kcli
from tests.conftest import GOLDEN
from tests.log.batches import NOW_MS

LOG = "00000000000000000000.log"


def copied(tmp_path: Path) -> Path:
    directory = tmp_path / "data"
    shutil.copytree(GOLDEN / "groups" / "data", directory)
    return directory


def overwritten(log: Path) -> None:
    shutil.copy(log.parent.parent / "other-0" / "00000000000000000074.log", log)


def put_aside(log: Path) -> None:
    """Do what `kcli verify` says about a copy of another partition's log."""
    overwritten(log)
    log.rename(f"{log}.copy")


@pytest.mark.parametrize("damage", [Path.unlink, overwritten, put_aside])
def test_a_partition_without_its_only_log_is_empty(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    directory = copied(tmp_path)
    damage(directory / "g-a-0" / LOG)
    shown = kcli("recover", "--salvage", "--out", tmp_path / "new", directory)
    assert "g-a-0" in shown.stdout
    assert (tmp_path / "new" / "g-a-0" / LOG).read_bytes() == b""
    for each in directory.glob("*-*/*.log"):
        if each.parent.name != "g-a-0":
            assert (tmp_path / "new" / each.relative_to(directory)).read_bytes() == each.read_bytes()


def test_a_bug_ends_one_partition_and_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = copied(tmp_path)

    def failing(path: Path, options: LoadOptions, **others: Any) -> PartitionPlan:
        if path.name == "g-a-0":
            raise ValueError("two lists differ")
        return plan(path, options, **others)

    monkeypatch.setattr(run, "plan", failing)
    recovery = Recovery(directory, NOW_MS, salvage=True)
    done = {each.name for each in recovery.write_to(tmp_path / "new")}
    assert {"g-a-1", "other-0"} <= done
    assert [each.path for each in recovery.unreadable] == [str(directory / "g-a-0")]
    assert "a bug to report" in recovery.unreadable[0].reason
    assert "ValueError at test_salvage_without_log.py" in recovery.unreadable[0].reason
    assert "two lists differ" in recovery.unreadable[0].reason
