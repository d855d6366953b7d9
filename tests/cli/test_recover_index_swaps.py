"""Swap files of indexes without a .log.swap file, beside the indexes that they would replace.

Real Kafka 4.3 renamed an empty .txnindex.swap over a sound .txnindex, and its read_committed consumers then got the
records of all aborted transactions of the segment.
"""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from kcli.inspector.verify import Verification
from tests.cli.run import kcli
from tests.conftest import SAMPLES


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SAMPLES / "good" / "t-txn-0", tmp_path / "t-txn-0"))


def swapped(partition: Path, suffix: str) -> Path:
    """Make an empty swap file of the first index with entries; return the index."""
    index = min(each for each in partition.glob(f"*{suffix}") if each.stat().st_size)
    index.with_name(f"{index.name}.swap").touch()
    return index


def test_a_txnindex(partition: Path) -> None:
    index = swapped(partition, ".txnindex")
    (finding,) = [each for each in Verification([partition]).findings() if each.severity != "info"]
    assert (finding.kind, finding.severity, finding.path) == ("swap-index", "warning", f"{index}.swap")
    ended = kcli("recover", "--clean", "--format", "jsonl", partition)
    assert ended.status == 1
    (row,) = [row for row in map(json.loads, ended.stdout.splitlines()) if row["kind"] == "passed-over"]
    count = index.stat().st_size // 34
    assert row["file"] == f"{index.name}.swap"
    assert f"read_committed consumers get the records of {count} aborted transaction" in row["reason"]
    assert finding.command is not None
    subprocess.run(["sh", "-c", finding.command], check=True)
    assert kcli("recover", "--clean", partition).status == 0


@pytest.mark.parametrize("suffix", [".txnindex", ".timeindex", ".index"])
def test_salvage_makes_the_indexes_anew(partition: Path, tmp_path: Path, suffix: str) -> None:
    index = swapped(partition, suffix)
    new = tmp_path / "new"
    assert kcli("recover", "--salvage", "--clean", "--out", new, partition).status == 0
    assert not list(new.glob("*.swap"))
    if suffix == ".txnindex":  # the others are sparse: an entry may name another batch
        assert (new / index.name).read_bytes() == index.read_bytes()
    assert (new / index.name).stat().st_size
    assert kcli("verify", new).status == 0


def test_all_of_a_segment_are_moved_at_once(partition: Path) -> None:
    index = swapped(partition, ".timeindex")
    index.with_suffix(".index.swap").write_bytes(bytes(8))
    (finding,) = [each for each in Verification([partition]).findings() if each.severity != "info"]
    assert finding.command is not None
    subprocess.run(["sh", "-c", finding.command], check=True)
    assert not list(partition.glob("*.swap"))
    assert index.stat().st_size
    assert not [each for each in Verification([partition]).findings() if each.severity != "info"]


def test_an_equal_index_does_no_harm(partition: Path) -> None:
    index = swapped(partition, ".txnindex")
    shutil.copyfile(index, f"{index}.swap")
    ended = kcli("recover", "--clean", "--format", "jsonl", partition)
    assert ended.status == 0
    assert "passed-over" not in ended.stdout


def test_a_start_after_a_crash_makes_them_anew_itself(partition: Path) -> None:
    index = swapped(partition, ".txnindex")
    rows = map(json.loads, kcli("recover", "--unclean", "--format", "jsonl", partition).stdout.splitlines())
    assert [row["kind"] for row in rows if row.get("file") == f"{index.name}.swap"] == ["swap-completed"]
