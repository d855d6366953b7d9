"""kcli verify, recover and salvage on a log directory of which only an overlay's upper layer was saved: its whiteouts
(character devices 0/0) are no files of Kafka, and what had not changed is missing."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from pathlib import Path

import pytest

from formats.file_name import FileKind
from tests.cli.run import kcli
from tests.cli.test_recover_special_files import about, crashed, rows
from tests.inspector.test_verify_causes import PARTITION, directory, logs, loud

__all__ = ["directory"]  # a fixture


def whiteout(path: Path) -> Path:
    path.unlink(missing_ok=True)
    try:
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(0, 0))
    except PermissionError:
        pytest.skip("only root makes devices")
    return path


def test_an_upper_layer_alone_is_one_cause(directory: Path, tmp_path: Path) -> None:
    """The whiteouts, and what the lower layer has, are counted with it; salvage takes no whiteout for a file."""
    before = {row["partition"]: row["log_end_offset"] for row in rows(directory) if row["kind"] == "partition"}
    crashed(directory)
    for name in (f"{1:020}.snapshot", f"{2:020}.index", f"{2:020}.log"):
        whiteout(directory / PARTITION / name)
    lacking = [directory / FileKind.META_PROPERTIES, *directory.glob(f"*/{FileKind.PARTITION_METADATA}")]
    for path in lacking:
        path.unlink()
    first, *others = loud(directory)
    assert (first.kind, first.path, first.refuses_start) == ("copy-incomplete", str(directory), True)
    assert str(first.found).startswith("3 whiteouts of an overlay (the file was removed), such as ")
    assert "only the upper layer was copied" in str(first.found)
    assert first.consequences["file-type"] == 3
    assert not {each.kind for each in others} & {"file-type", "meta-properties-missing", "partition-metadata-missing"}
    ended = kcli("recover", "--salvage", "--out", tmp_path / "new", "--format", "jsonl", directory)
    assert ended.status == 0
    assert "unreadable" not in {json.loads(line)["kind"] for line in ended.stdout.splitlines()}
    after = {row["partition"]: row["log_end_offset"] for row in rows(tmp_path / "new") if row["kind"] == "partition"}
    assert after == before
    assert not [each for each in (tmp_path / "new").glob("*/*") if not each.is_file()]


def test_whiteouts_among_whole_files(directory: Path) -> None:
    """The command that verify gives leaves a sound directory."""
    crashed(directory)
    whiteout(directory / PARTITION / f"{1:020}.snapshot")
    (directory / PARTITION / f".wh.{2:020}.bak").write_bytes(b"")
    (finding,) = [each for each in loud(directory) if each.kind == "copy-incomplete"]
    assert (finding.severity, finding.refuses_start) == ("warning", False)
    assert finding.command is not None
    subprocess.run(finding.command, shell=True, check=True)
    assert not loud(directory)


def test_a_name_of_a_whiteout_that_kafka_reads(directory: Path) -> None:
    """Kafka finds no offset in `.wh.<offset>.log` (NumberFormatException)."""
    (directory / PARTITION / f".wh.{2:020}.log").write_bytes(b"")
    first = loud(directory)[0]
    assert (first.kind, first.refuses_start) == ("copy-incomplete", True)
    assert first.command is not None
    subprocess.run(first.command, shell=True, check=True)
    assert not loud(directory)


def test_a_whiteout_of_the_marker(directory: Path) -> None:
    """Kafka takes it for the marker of a clean stop."""
    whiteout(directory / FileKind.CLEAN_SHUTDOWN)
    (finding,) = [each for each in loud(directory) if each.kind == "copy-incomplete"]
    assert "Kafka takes .kafka_cleanshutdown for the marker of a clean stop" in str(finding.found)


def test_recover_foretells_the_latest_snapshot(directory: Path) -> None:
    """Kafka lists only regular files: it reads an earlier snapshot."""
    crashed(directory)
    before = rows(directory)
    whiteout(directory / PARTITION / f"{int(logs(directory)[-1].stem) + 1:020}.snapshot")
    found = rows(directory)
    assert about(found, "partition") == about(before, "partition")
    assert not about(found, "unreadable")
