"""Producer snapshots that are missing before a clean start, as where somebody deleted all *.snapshot.

Kafka 4.3 then forgot an open transaction: the last stable offset went from 116 to 279, and read_committed consumers got
its records. Without the clean-shutdown marker it made the snapshots anew, and served all as before.
"""

import json
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from formats.producer_snapshot import ProducerSnapshot, build
from kcli.cli.options import Format
from tests.cli.run import kcli
from tests.conftest import GOLDEN
from tests.inspector.test_verify_causes import loud
from tests.log.batches import batch, marker

MARKER = ".kafka_cleanshutdown"
OPEN = "t-txn-0"
"""A partition with an open transaction, from offset 153 on."""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A log directory of real Kafka after a clean stop, with open transactions."""
    return Path(shutil.copytree(GOLDEN / "txn/data", tmp_path / "data it is", copy_function=shutil.copyfile))


def snapshots(directory: Path) -> list[Path]:
    return sorted(directory.rglob("*.snapshot"))


def forgotten(*arguments: str | Path) -> list[dict[str, Any]]:
    rows = map(json.loads, kcli("recover", "--format", Format.JSONL, *arguments).stdout.splitlines())
    return [row for row in rows if row["kind"].endswith("-forgotten")]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """The .log file of a partition without producer snapshots, in a log directory after a clean stop."""
    log = tmp_path / "p-0" / f"{0:020}.log"
    log.parent.mkdir()
    for suffix in (".index", ".timeindex"):  # without them a start reads all of the log
        log.with_suffix(suffix).touch()
    (tmp_path / MARKER).touch()
    return log


def test_an_open_transaction(home: Path) -> None:
    known = loud(home)
    for each in snapshots(home / OPEN):
        each.unlink()
    (finding,) = [each for each in loud(home) if each not in known]
    assert (finding.kind, finding.severity) == ("snapshot-missing", "error")
    assert Path(finding.path).parent.name == OPEN
    assert str(finding.found).startswith(f"none in {OPEN}: a clean start then does not read the log for producers")
    assert "an open transaction" in str(finding.found)
    assert [each for each in loud(home / OPEN) if each.kind == "snapshot-missing"] == [finding]
    assert finding.command is not None
    subprocess.run(["bash", "-c", finding.command], check=True)
    assert not (home / MARKER).exists()
    assert "snapshot-missing" not in {each.kind for each in loud(home)}


def test_all_snapshots_of_a_log_directory(home: Path) -> None:
    """It is told once."""
    for each in snapshots(home):
        each.unlink()
    (finding,) = [each for each in loud(home) if each.kind == "snapshot-missing"]
    assert finding.consequences == {"snapshot-missing": 2}
    assert str(finding.found).startswith("none in t-hang-0, t-txn-0, t-txn-1: ")
    assert "4 open transactions" in str(finding.found)


def test_one_snapshot_is_enough(home: Path) -> None:
    """Kafka reads the log from there on; that of a segment that is gone it deletes at the start."""
    known = loud(home)
    *_, last = snapshots(home / OPEN)
    for each in snapshots(home / OPEN):
        if each != last:
            each.unlink()
    assert loud(home) == known
    assert forgotten(home) == []


def test_recover_foretells_it_and_salvage_makes_the_snapshots(home: Path, tmp_path: Path) -> None:
    assert forgotten(home) == []
    for each in snapshots(home / OPEN):
        each.unlink()
    transaction, producers = forgotten(home)
    assert (transaction["partition"], transaction["producer_id"], transaction["first_offset"]) == (OPEN, 9, 153)
    assert (producers["kind"], producers["producers"]) == ("producers-forgotten", 1)
    ended = kcli("recover", home)
    assert ended.status == 1
    assert f"transaction-forgotten {OPEN}\n" in ended.stdout
    assert "kcli recover --salvage --out NEW" in ended.stdout
    assert forgotten("--unclean", home) == []
    assert kcli("recover", "--salvage", "--out", tmp_path / "salvaged", home).status == 0
    assert not (tmp_path / "salvaged" / MARKER).exists()
    assert snapshots(tmp_path / "salvaged" / OPEN)


LAST, OLDER = f"{156:020}.snapshot", f"{146:020}.snapshot"


@pytest.mark.parametrize("content", ["an older one's", "no producer's"])
def test_a_last_snapshot_without_the_open_transaction(home: Path, tmp_path: Path, content: str) -> None:
    """Kafka 4.3 loaded it. Without producers the last stable offset was the log end, 156; with those of the older one
    it was 77, where a transaction is open in it alone. The coordinator's abort gets no entry in the transaction
    index."""
    older = (home / OPEN / OLDER).read_bytes()
    assert forgotten(home) == []
    (home / OPEN / LAST).write_bytes(older if content == "an older one's" else build(ProducerSnapshot(())))
    assert [(row["file"], row["first_offset"]) for row in forgotten(home)] == [(LAST, 153)]
    ended = kcli("recover", home)
    assert ended.status == 1
    assert f"transaction-forgotten {OPEN}/{LAST}\n" in ended.stdout
    assert "has a transaction open from offset 153 on in the log, which the snapshot" in ended.stdout
    assert "kcli recover --salvage --out NEW" in ended.stdout
    assert forgotten("--unclean", home) == []
    assert kcli("recover", "--salvage", "--out", tmp_path / "salvaged", home).status == 0
    assert forgotten(tmp_path / "salvaged") == []


def test_a_snapshot_without_a_transaction_that_is_open_before_a_crash(home: Path) -> None:
    """Kafka recovers the last segment with the producers of the snapshot at its base offset. The last stable offset
    went from 6 to 16, where the next transaction begins."""
    (home / MARKER).unlink()
    directory = home / "t-hang-0"
    (base,) = [each for each in snapshots(directory) if each.with_suffix(".log").exists()]
    assert forgotten(home) == []
    base.write_bytes(build(ProducerSnapshot(())))
    assert [(row["file"], row["first_offset"]) for row in forgotten(home)] == [(base.name, 6)]


@pytest.mark.parametrize("age_h", [1, 25])
def test_an_idempotent_producer(log: Path, age_h: int) -> None:
    """Kafka forgets it after a day, in any case."""
    at = time.time_ns() // 1_000_000 - age_h * 3_600_000
    log.write_bytes(batch(b"v", producer=(7, 0), sequence=0, timestamp_ms=at, leader_epoch=0))
    found = [each for each in loud(log.parent) if each.kind == "snapshot-missing"]
    assert [each.severity for each in found] == ["warning"][: age_h == 1]
    assert [row["producers"] for row in forgotten("--clean", log.parent)] == [1][: age_h == 1]


def test_logs_without_producers(log: Path) -> None:
    old = time.time_ns() // 1_000_000 - 90_000_000
    ended = batch(b"v", producer=(7, 0), sequence=0, transactional=True, timestamp_ms=old, leader_epoch=0)
    ended += marker((7, 0), commit=True, timestamp_ms=old, base_offset=1, leader_epoch=0)
    for content in (b"", batch(b"v", leader_epoch=0), ended):
        log.write_bytes(content)
        assert [each for each in loud(log.parent) if each.kind == "snapshot-missing"] == []
        assert forgotten("--clean", log.parent) == []
