"""kcli recover and verify on pipes and devices in place of files: what real Kafka 4.3 does when it starts with them."""

from __future__ import annotations

import json
import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kcli.inspector.verify import Verification
from tests.cli.run import kcli
from tests.conftest import SAMPLES
from tests.inspector.test_verify_causes import PARTITION, directory, logs

__all__ = ["directory"]  # a fixture


def pipe(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def device(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to(os.devnull)


def rows(directory: Path) -> list[dict[str, Any]]:
    ended = kcli("recover", "--unclean", "--format", "jsonl", directory)
    return [json.loads(line) for line in ended.stdout.splitlines()]


def crashed(directory: Path) -> Path:
    """Make it a log directory in which a start recovers the last segment of each partition."""
    (directory / ".kafka_cleanshutdown").unlink(missing_ok=True)
    return directory


def about(found: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [row for row in found if row["kind"] == kind and row["partition"] == PARTITION]


def found_by_verify(directory: Path, path: Path) -> str:
    (finding,) = [each for each in Verification([directory]).findings() if each.path == str(path)]
    assert finding.kind == "file-type"
    return str(finding.found)


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("make", [pipe, device])
def test_the_index_of_a_closed_segment(directory: Path, suffix: str, make: Callable[[Path], None]) -> None:
    """Kafka starts, and answers reads from it."""
    crashed(directory)
    before = about(rows(directory), "partition")
    path = logs(directory)[0].with_suffix(suffix)
    make(path)
    found = rows(directory)
    assert about(found, "partition") == before
    (passed,) = about(found, "passed-over")
    assert passed["file"] == path.name
    assert "Kafka takes it for an empty index" in passed["reason"]
    assert "Kafka takes it for an empty index" in found_by_verify(directory, path)


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_the_index_of_the_active_segment(directory: Path, suffix: str) -> None:
    crashed(directory)
    path = logs(directory)[-1].with_suffix(suffix)
    pipe(path)
    (refused,) = about(rows(directory), "refused")
    assert refused["file"] == path.name
    assert refused["reason"].startswith("a named pipe; Kafka does not start")
    assert "Kafka does not start" in found_by_verify(directory, path)


@pytest.mark.parametrize("name", ["leader-epoch-checkpoint", "partition.metadata"])
def test_a_pipe_that_a_start_reads(directory: Path, name: str) -> None:
    """Real Kafka is still starting after a minute."""
    path = directory / PARTITION / name
    pipe(path)
    assert "Kafka's start waits at it for ever" in found_by_verify(directory, path)
    snapshot = max((directory / PARTITION).glob("*.snapshot"))
    pipe(snapshot)
    assert "a start that is to write one of this name waits at it" in found_by_verify(directory, snapshot)


def test_a_log_that_is_no_file(directory: Path) -> None:
    """Kafka removes its indexes, and begins the log at the next segment."""
    crashed(directory)
    first, second = logs(directory)[:2]
    pipe(first)
    found = rows(directory)
    (end,) = about(found, "partition")
    assert end["log_start_offset"] == int(second.stem)
    assert {row["file"] for row in about(found, "index-removed")} == {f"{first.stem}.index", f"{first.stem}.timeindex"}
    assert "Kafka passes it over, and with it the segment" in found_by_verify(directory, first)


@pytest.mark.parametrize(("make", "is_refused"), [(device, False), (pipe, True)])
def test_the_only_log(tmp_path: Path, make: Callable[[Path], None], is_refused: bool) -> None:
    """Kafka creates a log of its name, and opens the device or the pipe."""
    directory = tmp_path / "java-none-0"
    directory.mkdir()
    make(directory / f"{0:020}.log")
    found = [
        json.loads(line) for line in kcli("recover", "--unclean", "--format", "jsonl", directory).stdout.splitlines()
    ]
    kinds = [row["kind"] for row in found]
    assert ("refused" in kinds) == is_refused
    ends = [(row["log_start_offset"], row["log_end_offset"]) for row in found if row["kind"] == "partition"]
    assert ends == ([] if is_refused else [(0, 0)])


def test_a_recovery_in_place_leaves_a_pipe_alone(tmp_path: Path) -> None:
    directory = tmp_path / "java-none-0"
    shutil.copytree(SAMPLES / "good/java-none-0", directory)
    path = min(directory.glob("*.index"))
    pipe(path)
    assert kcli("recover", "--unclean", "--in-place", directory).status == 2
    assert path.is_fifo()


def test_a_socket_cannot_be_opened(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crashed(directory)
    path = logs(directory)[0].with_suffix(".index")
    path.unlink()
    monkeypatch.chdir(path.parent)  # the path of a socket is at most 107 bytes long
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(path.name)
        assert "the log directory goes offline when it opens it" in found_by_verify(directory, path)


@pytest.mark.parametrize("make", [pipe, device])
def test_a_snapshot_that_is_not_the_latest(directory: Path, make: Callable[[Path], None]) -> None:
    """As a whiteout of an overlay is: Kafka lists only regular files."""
    before = about(rows(directory), "partition")
    assert list((directory / PARTITION).glob("*.snapshot"))
    path = directory / PARTITION / f"{1:020}.snapshot"
    make(path)
    found = rows(directory)
    assert about(found, "partition") == before
    (passed,) = about(found, "passed-over")
    assert passed["file"] == path.name
    assert "passes it over" in passed["reason"]
