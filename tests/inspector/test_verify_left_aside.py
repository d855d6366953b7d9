"""A start without the metadata log renames all partitions to -stray: with the metadata log back, that is one cause."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from formats.file_name import METADATA_DIRECTORY
from kcli.log.log_directory import LogDirectory
from tests.inspector.test_verify_causes import PARTITION, directory, loud

__all__ = ["directory"]  # a fixture


def aside(directory: Path, but: tuple[str, ...] = ()) -> list[str]:
    """Rename the partitions as such a start does. Return their names."""
    kept = (METADATA_DIRECTORY, *but)
    names = [each.path.name for each in LogDirectory(directory).partitions() if each.path.name not in kept]
    for number, name in enumerate(names):
        (directory / name).rename(directory / f"{name}.{number:032x}-stray")
    return names


@pytest.mark.parametrize(("but", "how"), [((), "without this"), ((PARTITION,), "with an older")])
def test_one_start_is_one_cause(directory: Path, but: tuple[str, ...], how: str) -> None:
    before = loud(directory)
    names = aside(directory, but)
    first, *others = loud(directory)
    assert (first.kind, first.path, first.consequences["partition-missing"]) == (
        "partition-missing",
        str(directory),
        len(names),
    )
    assert f"{len(names):,} of these have names with -stray" in str(first.found)
    assert f"a start {how} __cluster_metadata-0" in str(first.found)
    assert "partition-missing" not in {each.kind for each in others}
    assert first.command is not None
    subprocess.run(first.command, shell=True, check=True)
    assert loud(directory) == before


def test_the_checkpoints_are_those_of_the_strays(directory: Path) -> None:
    aside(directory)
    assert "checkpoint-exchanged" not in {each.kind for each in loud(directory)}


def test_damage_in_a_stray_that_is_to_get_its_name_back(directory: Path) -> None:
    """Its command works before and after the names are given back."""
    (directory / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":-1}')
    log = max((directory / PARTITION).glob("*.log"))
    os.truncate(log, log.stat().st_size - 5)
    aside(directory)
    first, *others = loud(directory)
    assert first.kind == "partition-missing"
    (torn,) = [each for each in others if each.kind == "truncated"]
    assert "once the directory has its name back" in torn.action
    assert torn.command == f"kcli recover --salvage --dry-run '{directory}'"
