"""A file, or a link to nothing, in the place of a partition's directory; another log directory that is not there.

Kafka 4.3.0 does not start in any of these cases: `Error while creating log`, with which its only log directory fails,
and `No meta.properties found`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from formats.file_name import FileKind
from kcli.log.log_directory import read_properties
from tests.cli.run import kcli
from tests.metadata_damage import copied
from tests.two_directories import MOVED, two_directories


def refused(*arguments: str | Path) -> list[str]:
    shown = kcli("recover", "--format", "jsonl", *arguments).stdout
    return [row["file"] for row in map(json.loads, shown.splitlines()) if row["kind"] == "refused"]


@pytest.mark.parametrize("is_link", [False, True])
def test_kafka_cannot_make_the_directory(tmp_path: Path, *, is_link: bool) -> None:
    directory = copied(tmp_path)
    place = directory / "mixed-0"
    shutil.rmtree(place)
    if is_link:
        place.symlink_to("/nonexistent/mixed-0")
    else:
        place.write_bytes(b"an archive")
    assert refused(directory) == ["mixed-0"]
    first = kcli("verify", directory).stdout.splitlines()[0]
    assert first.startswith("error")
    assert str(place) in first
    assert "Kafka does not start with it" in first
    log = max((directory / "java-gzip-0").glob("*.log"))
    os.truncate(log, log.stat().st_size - 10)
    shown = kcli("recover", directory).stdout
    assert f"; without mixed-0: kcli verify {directory} tells what to do before" in shown
    kcli("recover", "--salvage", "--out", tmp_path / "new", directory)
    assert not (tmp_path / "new" / "mixed-0").exists()
    assert refused(tmp_path / "new") == []


@pytest.mark.parametrize("exists", [False, True])
def test_another_log_directory_is_not_there(tmp_path: Path, *, exists: bool) -> None:
    """The next step restores the directory with the id that the metadata log has: with another id its partitions stay
    offline."""
    one, two, server = two_directories(tmp_path)
    before = read_properties(two / FileKind.META_PROPERTIES)
    shutil.rmtree(two)
    if exists:
        two.mkdir()
    assert refused("--config", server, one) == [str(two / FileKind.META_PROPERTIES)]
    shown = kcli("verify", "--config", server, one).stdout.splitlines()
    assert shown[0].startswith(f"error   meta-properties-missing  {two / FileKind.META_PROPERTIES}")
    assert all(name in shown[0] for name in MOVED)
    command = next(line for line in shown if "Next: " in line).split("Next: ")[1]
    subprocess.run(["bash", "-c", command], check=True)
    after = read_properties(two / FileKind.META_PROPERTIES)
    assert after["directory.id"] == before["directory.id"]
    assert refused("--config", server, one) == []
