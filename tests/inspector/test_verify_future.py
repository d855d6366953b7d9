"""A partition was being moved between two log directories, and its own directory is lost: verify names what the move
had copied. Real Kafka makes an empty directory, and then deletes the one with -future."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

from tests.cli.run import kcli
from tests.inspector.test_verify_causes import PARTITION, directory

__all__ = ["directory"]  # a fixture
OTHER_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
UNIQUE = "46df2a905bd84feebb980f6155e0186a"


def moved(directory: Path, tmp_path: Path) -> tuple[Path, Path]:
    """Rename the partition to -future in another log directory of the node. Returns that directory, and a configuration
    of both."""
    other, config = tmp_path / "other", tmp_path / "server.properties"
    other.mkdir()
    lines = (directory / "meta.properties").read_text().splitlines()
    own = [each for each in lines if not each.startswith("directory.id")]
    (other / "meta.properties").write_text("\n".join([*own, f"directory.id={OTHER_ID}", ""]))
    future = (directory / PARTITION).rename(other / f"{PARTITION}.{UNIQUE}-future")
    config.write_text(f"log.dirs={directory},{other}\nmetadata.log.dir={directory}\n")
    return future, config


def test_verify_and_recover_name_the_directory_with_future(directory: Path, tmp_path: Path) -> None:
    future, config = moved(directory, tmp_path)
    shown = kcli("verify", "--format", "jsonl", "--config", config, directory).stdout.splitlines()
    (missing,) = (each for each in map(json.loads, shown) if each.get("kind") == "partition-missing")
    assert f"{future}, into which it was moved, has the offsets up to 297" in missing["found"]
    assert missing["lost_last_offset"] is None
    shown = kcli("recover", "--format", "jsonl", "--config", config, directory).stdout.splitlines()
    (row,) = (each for each in map(json.loads, shown) if each["kind"] == "partition-missing")
    assert (row["future"], row["future_end_offset"]) == (str(future), 298)
    assert f"deletes {future}" in kcli("recover", "--config", config, directory).stdout
    given = kcli("verify", "--format", "jsonl", directory, future.parent).stdout.splitlines()
    assert missing in [each for each in map(json.loads, given) if each.get("kind") == "partition-missing"]
    subprocess.run(["sh", "-c", missing["command"]], check=True)
    assert future.with_name(PARTITION).is_dir()


def test_one_of_another_topic_or_without_a_log_is_not_named(directory: Path, tmp_path: Path) -> None:
    future, config = moved(directory, tmp_path)
    metadata = future / "partition.metadata"
    text = metadata.read_text()
    metadata.write_text(f"version: 0\ntopic_id: {OTHER_ID}\n")
    assert "-future" not in kcli("recover", "--config", config, directory).stdout
    metadata.write_text(text)
    for log in future.glob("*.log"):
        log.unlink()
    assert "-future" not in kcli("recover", "--config", config, directory).stdout


def test_recover_tells_of_it_where_it_lies(directory: Path, tmp_path: Path) -> None:
    """A copy of that log directory keeps the name, with which Kafka deletes it."""
    future, config = moved(directory, tmp_path)
    choices: list[list[str | Path]] = [[], ["--salvage", "--out", tmp_path / "new"]]
    for options in choices:
        shown = kcli("recover", "--format", "jsonl", "--config", config, *options, future.parent).stdout.splitlines()
        (row,) = (each for each in map(json.loads, shown) if each["kind"] == "passed-over")
        assert row["file"] == future.name
        assert f"no log directory has {PARTITION}" in row["reason"]
        assert "has the offsets up to 297; before a start give this, or its copy" in row["reason"]


def test_recover_is_silent_about_a_move_that_goes_on(directory: Path, tmp_path: Path) -> None:
    future, config = moved(directory, tmp_path)
    shutil.copytree(future, directory / PARTITION)
    shown = kcli("recover", "--format", "jsonl", "--config", config, future.parent).stdout.splitlines()
    assert [each for each in map(json.loads, shown) if each["kind"] == "passed-over"] == []
