"""A read-only broker names a file that it cannot read, and serves all partitions but the one that needs it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from kcli.log.log_directory import LogDirectory
from tests.broker.read_only_node import read_all, read_only_node, sound_batches
from tests.conftest import GOLDEN

PARTITION = "java-lz4-0"


def endless(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def circle(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
    path.symlink_to(path.name)


@pytest.mark.parametrize("damage", [endless, pipe, circle])
@pytest.mark.parametrize(
    "name",
    ["log-start-offset-checkpoint", "meta.properties", f"{PARTITION}/partition.metadata", f"{PARTITION}"],
)
def test_a_file_that_cannot_be_read(
    tmp_path: Path, name: str, damage: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    """Without the metadata log, the id of a topic is that in partition.metadata."""
    directory = tmp_path / "logs"
    shutil.copytree(GOLDEN / "codecs/data", directory)
    shutil.rmtree(directory / "__cluster_metadata-0")
    if name == PARTITION and damage is not circle:
        pytest.skip("a directory")
    damage(directory / name)
    with read_only_node(directory) as node, node.client() as client:
        for each in LogDirectory(directory).partitions():
            assert read_all(client, *each.partition) == sound_batches(each.path)
    assert str(directory / name) in caplog.text or not (directory / name).exists()
