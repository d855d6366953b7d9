"""A partition was being moved between two log directories, and its own directory is lost: verify names what the move
had copied. Real Kafka makes an empty directory, and then deletes the one with -future."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

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
    """A copy without --salvage keeps the name, with which Kafka deletes it."""
    future, config = moved(directory, tmp_path)
    choices: list[list[str | Path]] = [[], ["--out", tmp_path / "new"]]
    for options in choices:
        shown = kcli("recover", "--format", "jsonl", "--config", config, *options, future.parent).stdout.splitlines()
        (row,) = (each for each in map(json.loads, shown) if each["kind"] == "passed-over")
        assert row["file"] == future.name
        assert f"no log directory has {PARTITION}" in row["reason"]
        assert "has the offsets up to 297; before a start give this, or its copy" in row["reason"]
    assert (tmp_path / "new" / future.name).is_dir()


def of_future(config: Path, home: Path, *options: str | Path) -> list[tuple[str, str]]:
    """Kind and place of what a salvage says of directories with -future, but for their offsets."""
    shown = kcli("recover", "--salvage", "--format", "jsonl", "--config", config, *options, home).stdout.splitlines()
    found = [row for row in map(json.loads, shown) if UNIQUE in f"{row}" and row["kind"] != "partition"]
    return [(row["kind"], row["partition"] or row["file"]) for row in found]


def test_salvage_gives_it_the_name_of_the_partition(directory: Path, tmp_path: Path) -> None:
    future, config = moved(directory, tmp_path)
    before = {each.name: each.read_bytes() for each in future.glob("*.log")}
    new, home = tmp_path / "new", future.parent
    (home / "recovery-point-offset-checkpoint").write_text("0\n1\njava-none 0 298\n")
    assert of_future(config, home) == [("renamed", future.name)]
    assert future.is_dir()
    for where, options in ((new, ["--out", new]), (home, ["--in-place"])):
        assert of_future(config, home, *options) == [("renamed", future.name)]
        assert not (where / future.name).exists()
        assert {each.name: each.read_bytes() for each in (where / PARTITION).glob("*.log")} == before
        assert "java-none 0 298" in (where / "recovery-point-offset-checkpoint").read_text()


def test_salvage_leaves_it_where_another_may_be_the_right_one(directory: Path, tmp_path: Path) -> None:
    """Another -future of the partition, or a log directory that is not there."""
    future, config = moved(directory, tmp_path)
    (future.parent / "recovery-point-offset-checkpoint").write_text("0\n1\njava-none 0 298\n")
    second = shutil.copytree(future, directory / future.name.replace("46df", "0000"))
    assert ("renamed", future.name) not in of_future(config, future.parent)
    shutil.rmtree(second)
    config.write_text(f"log.dirs={directory},{future.parent},{tmp_path / 'third'}\nmetadata.log.dir={directory}\n")
    assert ("renamed", future.name) not in of_future(config, future.parent)


def test_recover_is_silent_about_a_move_that_goes_on(directory: Path, tmp_path: Path) -> None:
    future, config = moved(directory, tmp_path)
    shutil.copytree(future, directory / PARTITION)
    shown = kcli("recover", "--format", "jsonl", "--config", config, future.parent).stdout.splitlines()
    assert [each for each in map(json.loads, shown) if each["kind"] == "passed-over"] == []


def apart(directory: Path, tmp_path: Path) -> tuple[Path, Path]:
    """Move the partition to -future in another log directory, and the metadata log to a third one, which is not given.
    Returns the second log directory and the directory of the future log."""
    future, _ = moved(directory, tmp_path)
    (tmp_path / "metadata").mkdir()
    (directory / "__cluster_metadata-0").rename(tmp_path / "metadata" / "__cluster_metadata-0")
    return future.parent, future


def loud(*directories: Path) -> list[dict[str, Any]]:
    """The errors and warnings of verify, as it shows them."""
    shown = kcli("verify", "--format", "jsonl", "--severity", "warning", *directories).stdout.splitlines()
    return [json.loads(line) for line in shown]


def test_the_only_copy_is_an_error_without_a_metadata_log_too(directory: Path, tmp_path: Path) -> None:
    other, future = apart(directory, tmp_path)
    (other / "recovery-point-offset-checkpoint").write_text("0\n1\njava-none 0 300\n")
    (found,) = [each for each in loud(directory, other) if each["kind"] == "partition-missing"]
    assert (found["severity"], found["path"]) == ("error", str(future))
    assert (found["lost_first_offset"], found["lost_last_offset"]) == (298, 299)
    subprocess.run(["sh", "-c", found["command"]], check=True)
    assert (other / PARTITION).is_dir()
    assert [each for each in loud(directory, other) if each["kind"] == "partition-missing"] == []


def test_one_that_is_alone_in_the_only_directory_given_is_a_note(directory: Path, tmp_path: Path) -> None:
    other, future = apart(directory, tmp_path)
    (other / "recovery-point-offset-checkpoint").write_text("0\n1\njava-none 0 298\n")
    shown = map(json.loads, kcli("verify", "--format", "jsonl", other).stdout.splitlines())
    (note,) = [each for each in shown if each["path"] == str(future)]
    assert note["severity"] == "info"
    assert f"if none has {PARTITION}, this is its only copy" in note["action"]


@pytest.mark.parametrize("clean", [True, False])
def test_a_damaged_end_beside_a_sound_current_log_is_a_warning(directory: Path, tmp_path: Path, clean: bool) -> None:
    """Real Kafka serves the current log. After a crash it cuts the future log and copies the rest anew; after a clean
    stop it appends behind the damage, or stops the move."""
    other, future = apart(directory, tmp_path)
    (other / "recovery-point-offset-checkpoint").write_text("0\n1\njava-none 0 0\n")
    marker = other / ".kafka_cleanshutdown"
    marker.unlink(missing_ok=True)
    if clean:
        marker.write_text('{"version":0,"brokerEpoch":-1}')
    shutil.copytree(future, directory / PARTITION)
    log = max(future.glob("*.log"))
    os.truncate(log, log.stat().st_size - 5)
    found = [each for each in loud(directory, other) if str(future) in each["path"]]
    assert [each["kind"] for each in found if each["kind"] == "truncated"]
    assert {each["severity"] for each in found} == {"warning"}
    (cut,) = [each for each in found if each["kind"] == "truncated"]
    assert cut["action"].startswith(f"nothing is lost: Kafka serves {directory / PARTITION}")
    assert (cut["command"] is not None) is clean
    (directory / PARTITION).rename(tmp_path / "away")
    errors = {each["kind"] for each in loud(directory, other) if each["severity"] == "error"}
    assert {"truncated", "partition-missing"} <= errors
