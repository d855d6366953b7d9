"""A .log file that was moved into another partition's directory, or appended to another partition's .log file.

Real Kafka 4.3 served the foreign records, and nothing was lost: all were still in the log directory.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from kcli.inspector.verify import Verification
from kcli.inspector.verify.findings import Finding
from tests.cli.run import kcli
from tests.metadata_damage import copied

LOG = "00000000000000000000.log"


def loud(home: Path) -> list[Finding]:
    return [each for each in Verification([home]).findings() if each.severity != "info"]


def paste(finding: Finding) -> None:
    assert finding.command is not None
    subprocess.run(["sh", "-c", finding.command], check=True)


def test_a_coordinators_log_moved_over_an_empty_one(tmp_path: Path) -> None:
    home = copied(tmp_path, "groups/data")
    own, other = home / "__transaction_state-1" / LOG, home / "__transaction_state-0" / LOG
    assert other.stat().st_size == 0
    data = own.read_bytes()
    own.replace(other)
    (finding,) = loud(home)
    assert (finding.kind, finding.severity, finding.path) == ("log-foreign", "error", str(other))
    assert "where no log is: it was moved, and nothing is lost" in str(finding.found)
    new = tmp_path / "new"
    assert kcli("recover", "--salvage", "--out", new, home).status == 0
    assert (new / "__transaction_state-1" / LOG).read_bytes() == data
    paste(finding)
    assert own.read_bytes() == data
    assert loud(home) == []
    assert kcli("recover", home).status == 0


@pytest.fixture
def appended(tmp_path: Path) -> tuple[Path, Path, int, Path]:
    """A log directory, a log to which another partition's segment was appended, its size before, and that segment."""
    home = copied(tmp_path, "codecs/data")
    log = max((home / "recompress-none-0").glob("*.log"))
    foreign = min(each for each in (home / "java-none-0").glob("*.log") if int(each.stem) > 150)
    size = log.stat().st_size
    with log.open("ab") as file:
        file.write(foreign.read_bytes())
    return home, log, size, foreign


def test_another_partitions_log_was_appended(appended: tuple[Path, Path, int, Path]) -> None:
    home, log, size, foreign = appended
    (finding,) = loud(home)
    assert (finding.kind, finding.severity, finding.position) == ("log-foreign", "error", size)
    assert finding.lost_first_offset is None
    assert f"the batches of {foreign.parent.name}/{foreign.name}, which were appended to this file" in str(
        finding.found
    )
    paste(finding)
    assert log.stat().st_size == size
    assert loud(home) == []


def test_salvage_leaves_appended_batches_out(appended: tuple[Path, Path, int, Path], tmp_path: Path) -> None:
    home, log, size, _ = appended
    new = tmp_path / "new"
    ended = kcli("recover", "--salvage", "--format", "jsonl", "--out", new, home)
    assert ended.status == 0
    rows = [json.loads(line) for line in ended.stdout.splitlines()]
    (row,) = [row for row in rows if row["kind"] in ("left-out", "restored", "gap")]
    assert (row["kind"], row["file"]) == ("left-out", log.name)
    assert (new / log.parent.name / log.name).stat().st_size == size
    assert kcli("verify", new).status == 0


def test_bytes_that_differ_are_a_gap(appended: tuple[Path, Path, int, Path]) -> None:
    home, log, size, _ = appended
    with log.open("r+b") as file:  # the partition leader epoch, which no CRC covers
        file.seek(size + 15)
        file.write(b"\1")
    assert "log-foreign" not in [each.kind for each in loud(home)]
    assert "offset-gap" in [each.kind for each in loud(home)]
