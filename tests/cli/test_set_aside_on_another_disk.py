"""The directory of a partition that lies, with -stray or -delete, in another log directory of the broker than that in
which the metadata log places the partition. Kafka 4.3.0 makes an empty directory there, and leaves the -stray one."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from kcli.inspector.verify import Finding, Verification
from kcli.log.log_directory import read_properties
from tests.cli.run import kcli
from tests.two_directories import MOVED, two_directories

NAME = MOVED[0]
UNIQUE = "0f3a5b7c9d1e4f60a2b4c6d8e0f1a3b5"
Directories = tuple[Path, Path, Path]


@pytest.fixture
def directories(tmp_path: Path) -> Directories:
    return two_directories(tmp_path)


def found(server: Path, *given: Path) -> list[Finding]:
    verification = Verification([*given], server=read_properties(server))
    return [each for each in verification.findings() if each.severity != "info"]


def recovered(server: Path, directory: Path, *options: str | Path) -> list[dict[str, object]]:
    ended = kcli("recover", "--config", server, "--format", "jsonl", *options, directory)
    assert not ended.stderr
    return [json.loads(line) for line in ended.stdout.splitlines()]


def set_aside(directories: Directories, suffix: str) -> Path:
    one, two, _ = directories
    return (two / NAME).rename(one / f"{NAME}.{UNIQUE}-{suffix}")


def logs(directory: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(directory.glob("*.log")))


@pytest.mark.parametrize("suffix", ["stray", "delete"])
@pytest.mark.parametrize("given", [[0, 1], [1, 0], [1]])
def test_the_missing_partition_names_it(directories: Directories, suffix: str, given: Sequence[int]) -> None:
    away = set_aside(directories, suffix)
    one, two, server = directories
    (finding,) = found(server, *((one, two)[each] for each in given))
    assert (finding.kind, finding.path, finding.severity) == ("partition-missing", str(two / NAME), "error")
    assert str(away) in str(finding.found)
    assert (finding.lost_first_offset, finding.lost_last_offset) == (None, None)
    assert ("deletes" in finding.action) == (suffix == "delete")
    subprocess.run(shlex.split(finding.command or ""), check=True)
    assert found(server, one, two) == []


@pytest.mark.parametrize("suffix", ["stray", "delete"])
def test_the_directory_alone_names_its_place(directories: Directories, suffix: str) -> None:
    away = set_aside(directories, suffix)
    one, two, server = directories
    (finding,) = found(server, one)
    assert (finding.kind, finding.path, finding.severity) == ("leftover-directory", str(away), "error")
    assert f"places in {two}" in str(finding.found)
    subprocess.run(shlex.split(finding.command or ""), check=True)
    assert found(server, one, two) == []


@pytest.mark.parametrize("suffix", ["stray", "delete"])
def test_a_start_does_not_serve_it(directories: Directories, suffix: str) -> None:
    away = set_aside(directories, suffix)
    _, two, server = directories
    (row,) = (each for each in recovered(server, two) if each["kind"] == "partition-missing")
    assert row["directory"] == f"../{away.parent.name}/{away.name}"


@pytest.mark.parametrize("suffix", ["stray", "delete"])
def test_salvage_puts_it_where_it_belongs(directories: Directories, suffix: str, tmp_path: Path) -> None:
    before = logs(directories[1] / NAME)
    away = set_aside(directories, suffix)
    one, two, server = directories
    rows = recovered(server, two, "--salvage", "--out", tmp_path / "new")
    assert [each["name"] for each in rows if each["kind"] == "renamed"] == [NAME]
    assert [each for each in rows if each["kind"] == "partition-missing"] == []
    assert logs(tmp_path / "new" / NAME) == before
    recovered(server, one, "--salvage", "--out", tmp_path / "other")
    assert logs(tmp_path / "other" / away.name) == before, "nothing is lost of the copy alone"


def test_salvage_in_place_moves_nothing_to_another_disk(directories: Directories) -> None:
    before = logs(directories[1] / NAME)
    away = set_aside(directories, "stray")
    _, two, server = directories
    rows = recovered(server, two, "--salvage", "--in-place")
    assert [each["partition"] for each in rows if each["kind"] == "partition-missing"] == [NAME]
    assert logs(away) == before
    assert not (two / NAME).exists()


def test_one_that_is_served_elsewhere_is_none_of_another_broker(directories: Directories) -> None:
    one, two, server = directories
    away = one / f"{NAME}.{UNIQUE}-stray"
    away.mkdir()
    for path in (two / NAME).iterdir():
        (away / path.name).write_bytes(path.read_bytes())
    (finding,) = found(server, one, two)
    assert (finding.kind, finding.severity) == ("leftover-directory", "warning")
    assert f"Kafka serves {two / NAME}" in str(finding.found)
